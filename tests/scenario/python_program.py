"""What test_python.c runs: each part holds the package towline to one thing that it promises.

    python_program.py PART [ARGUMENT...]

`ranks` and `exchange` are started by towrun, as ranks of a job.
"""
import copy
import gc
import os
import pickle
import random
import re
import select
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

import numpy
import towline
from towline import tables

lib, ffi = towline.lib, towline.ffi
SMALL = {"premap_memory_bytes": 16 << 20}


def raises(kind, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as wrong:
        assert re.search(words, str(wrong)), f"{wrong!r} does not say {words!r}"
        return wrong
    raise AssertionError(f"{call} did not raise {kind}")


def abi(compiler, include, generated):
    """Every struct, constant and function is as a C compiler has it from the same headers."""
    typedefs, structs, _ = ffi.list_types()
    lines, found = [], []
    for name in structs:
        kind = ffi.typeof("struct " + name)
        if not kind.fields:
            continue
        lines.append(f"\tP(sizeof(struct {name}));")
        found.append((name, ffi.sizeof(kind)))
        for member, field in kind.fields:
            lines.append(f"\tP(offsetof(struct {name}, {member}));")
            lines.append(f"\tP(sizeof(((struct {name} *)0)->{member}));")
            found += [(f"{name}.{member}", field.offset), (member, ffi.sizeof(field.type))]
    constants = [name for name in dir(lib) if name.startswith("TOW_")]
    for name in constants:
        lines.append(f"\tP({name});")
        found.append((name, getattr(lib, name) % (1 << 64)))
    assert len(found) > 300, len(found)
    source = ("#include <stddef.h>\n#include <stdio.h>\n#include <towline/towline.h>\n"
              "#define P(x) printf(\"%llu\\n\", (unsigned long long)(x))\nint main(void)\n{\n"
              + "\n".join(lines) + "\n\treturn 0;\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        program = folder + "/abi"
        subprocess.run([*compiler.split(), "-x", "c", "-", "-I", include, "-I", generated, "-o",
                        program], input=source, text=True, check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for (name, ours), theirs in zip(found, said.split(), strict=True):
        assert ours == int(theirs), f"{name}: {ours} here, {theirs} in C"
    headers = ""
    for name in os.listdir(include + "/towline"):
        if name.endswith(".h"):
            with open(f"{include}/towline/{name}", encoding="utf-8") as header:
                headers += re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    functions = set(re.findall(r"\b(tow_\w+)\(", headers))
    assert len(functions) > 90
    for name in sorted(functions):
        assert callable(getattr(lib, name)), name
    for name in ("malloc_attach", "malloc_detach", "malloc_placed"):  # of the preload alone
        assert not hasattr(lib, "towline_" + name)
    for line in re.findall(r"#define (TOW_\w+)[ \t]+\(?-?\d", headers):
        assert line in constants, line


def memory():
    """Arrays of the pool: where they lie, DLPack, how long they live, what is refused."""
    runtime = towline.Runtime(**SMALL)

    def used():
        return runtime.stats("/v1/pool")["allocated_bytes"]

    before = used()
    array = runtime.empty((3, 1000), numpy.float64)
    array[:] = 7
    assert array.shape == (3, 1000) and array.dtype == numpy.float64 and used() > before
    shared = numpy.from_dlpack(array)
    assert shared.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    slice_of = array[1:2, ::3]
    del array, shared
    gc.collect()
    assert used() > before and (slice_of == 7).all()
    del slice_of
    gc.collect()
    assert used() == before, "the last array has freed the memory"
    piece = runtime.allocate(4096, 4096)
    assert piece.address % 4096 == 0 and numpy.from_dlpack(piece).nbytes == 4096
    assert runtime.empty(0).shape == (0,) and runtime.zeros((2, 2), numpy.int8).sum() == 0
    raises(TypeError, "no objects", runtime.empty, 3, object)
    raises(towline.NoRoomError, "(?i)pool|room|bytes", runtime.allocate, 1 << 40)
    raises(towline.InvalidError, "align", runtime.allocate, 8, 3)
    raises(ValueError, "strides", towline.span, numpy.zeros((4, 4))[:, 1:])
    raises(TypeError, "datetime64", towline.span, numpy.zeros(3, "M8[s]"))
    frozen = numpy.zeros(3)
    frozen.flags.writeable = False
    raises(ValueError, "written", towline.span, frozen, write=True)
    raises(TypeError, "result", towline.span, [1, 2], write=True)
    raises(ValueError, "whole number", towline.span, numpy.zeros(3, "u1"), type=lib.TOW_F32)
    assert towline.span(b"abc").count == 3 and towline.span(piece).count == 4096
    kept = runtime.zeros(1000)
    runtime.close()
    runtime.close()
    kept += 1
    assert kept.sum() == 1000, "memory outlives the runtime"
    raises(towline.AbortedError, "TOW_ECLOSED.*was closed", runtime.counters)


def knobs_and_tables():
    """Options by name, rows of the library's lists, documents."""
    names = towline.knob_names()
    assert "premap_memory_bytes" in names and set(names) <= {r["name"] for r in tables.knobs()}
    raises(ValueError, "premap_bytes.*premap_memory_bytes", towline.Runtime, premap_bytes=1)
    raises(TypeError, "whole number", towline.Runtime, premap_memory_bytes="much")
    raises(TypeError, "a text", towline.Runtime, job=3)
    wrong = raises(towline.InvalidError, "numa", towline.Runtime, numa="nowhere", **SMALL)
    assert isinstance(wrong, ValueError) and wrong.name == "TOW_EINVAL"
    assert wrong.status == lib.TOW_EINVAL and "nowhere" in wrong.message
    for same in (copy.copy(wrong), pickle.loads(pickle.dumps(wrong))):
        assert type(same) is type(wrong) and str(same) == str(wrong)
    rows = {row["name"]: row for row in tables.statuses()}
    assert rows["TOW_EPEER"]["value"] == lib.TOW_EPEER and len(tables.reasons()) > 10
    assert {"tcp", "shm"} <= {row["name"] for row in tables.lanes()}
    fourth = {"job": "snake", "rank": 3, "world_size": 4, "store": "127.0.0.1:1"}
    with towline.Runtime(**fourth, **SMALL) as runtime:
        counters = runtime.counters()
        assert set(counters) == {row["name"] for row in tables.counters()}
        assert runtime.job()["rank"] == 3 and "snake" in runtime.stats_socket
        assert "towline_sends_total" in runtime.document("/metrics")
        raises(towline.InvalidError, "/v1/nothing", runtime.stats, "/v1/nothing")
        assert all(row["name"] for row in runtime.interfaces())
        with runtime.step(5), runtime.span("part"):
            raises(towline.Error, "TOW_EBUSY.*5", runtime.step(6).__enter__)
        with towline.Runtime(shared=True, job="other", **SMALL) as one, \
                towline.Runtime(shared=True) as two:
            assert one.pointer == two.pointer != runtime.pointer
            raises(towline.InvalidError, "job", towline.Runtime, shared=True, job="third")


def wheel(folder):
    """The wheel is the package and what the headers declare; the archive makes the same one."""
    def build(where, kind, out):
        os.mkdir(out)
        code = f"import wheel; print(wheel.build_{kind}({out!r}))"
        said = subprocess.run([sys.executable, "-c", code], cwd=where, check=True, text=True,
                              capture_output=True, env={**os.environ, "PYTHONPATH": where})
        return f"{out}/{said.stdout.strip()}"

    with tempfile.TemporaryDirectory() as made:
        first = build(folder, "wheel", made + "/first")
        archive = build(folder, "sdist", made + "/archive")
        with tarfile.open(archive) as packed:
            packed.extractall(made)
        name = os.path.basename(archive)[:-len(".tar.gz")]
        second = build(f"{made}/{name}", "wheel", made + "/second")
        with open(first, "rb") as one, open(second, "rb") as two:
            assert one.read() == two.read()
        with zipfile.ZipFile(first) as packed:
            packed.extractall(made + "/site")
        code = ("import importlib.metadata, towline; print(towline.__file__, towline.version()); "
                "print(*importlib.metadata.entry_points(group='torch.distributed.backends'))")
        said = subprocess.run([sys.executable, "-c", code], check=True, text=True, cwd=made,
                              capture_output=True, env={**os.environ, "PYTHONPATH": made + "/site"})
        assert made + "/site" in said.stdout and "towline.torch:register" in said.stdout
        assert os.path.exists(made + "/site/towline/declarations.txt")
        code = "import towline"
        said = subprocess.run([sys.executable, "-c", code], text=True, cwd=made, check=False,
                              capture_output=True, env={**os.environ, "TOWLINE_LIBRARY": "/no.so",
                                                        "PYTHONPATH": made + "/site"})
        assert "ImportError: towline: cannot load the library: " in said.stderr
        assert "/no.so" in said.stderr and "TOWLINE_LIBRARY" in said.stderr


def values(kind, rank, count, rng):
    made = numpy.random.Generator(numpy.random.PCG64(rng.randrange(1 << 32) + rank))
    kind = numpy.dtype(kind)
    if kind.kind == "b":
        return made.integers(0, 2, count).astype(kind)
    if kind.kind == "c":
        return (made.integers(-8, 8, count) + 1j * made.integers(-8, 8, count)).astype(kind)
    return made.integers(0 if kind.kind == "u" else -8, 8, count).astype(kind)


REDUCES = {"sum": numpy.add, "prod": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum}


def check_reductions(group, place, seed, kind, count):
    rng = random.Random(f"{seed}{kind}{count}")
    all_of = [values(kind, rank, count, copy.deepcopy(rng)) for rank in range(group.size)]
    for op, function in REDUCES.items():
        if numpy.dtype(kind).kind == "c" and op in ("min", "max"):
            continue
        wanted = all_of[0]
        for other in all_of[1:]:
            wanted = function(wanted, other).astype(kind)
        x, out = place(count, kind), place(count, kind)
        x[:] = all_of[group.rank]
        group.all_reduce(x, out, op).wait()
        assert (out == wanted).all(), (kind, op, out, wanted)
        group.all_reduce(x, op=op, name="python_program").wait()
        assert (x == wanted).all()
        x[:] = all_of[group.rank]
        out[:] = 0
        group.reduce(x, out if group.rank == 1 else None, 1, op).wait()
        assert group.rank != 1 or (out == wanted).all()


def check_moves(group, place, seed, kind, count):
    n, me = group.size, group.rank
    rng = random.Random(f"{seed}{kind}{count}moves")
    all_of = [values(kind, rank, count * n, copy.deepcopy(rng)) for rank in range(n)]
    part = [[all_of[r][p * count:(p + 1) * count] for p in range(n)] for r in range(n)]

    def filled(values_of):
        made = place(len(values_of), kind)
        made[:] = values_of
        return made

    x, mine = filled(all_of[me]), filled(part[me][0])
    out, small = place(count * n, kind), place(count, kind)
    group.all_gather(mine, out).wait()
    assert (out == numpy.concatenate([part[r][0] for r in range(n)])).all()
    group.all_to_all(x, out).wait()
    assert (out == numpy.concatenate([part[r][me] for r in range(n)])).all()
    group.gather(mine, out if me == n - 1 else None, n - 1).wait()
    assert me != n - 1 or (out == numpy.concatenate([part[r][0] for r in range(n)])).all()
    group.scatter(x if me == 0 else None, small, 0).wait()
    assert (small == part[0][me]).all()
    small[:] = part[me][0]
    group.broadcast(small, n - 1).wait()
    assert (small == part[n - 1][0]).all()
    group.permute(mine, small, [(r, (r + 1) % n) for r in range(n - 1)]).wait()
    assert (small == (part[me - 1][0] if me > 0 else 0)).all()
    group.send_receive(mine, (me + 1) % n, small, (me - 1) % n).wait()
    assert (small == part[me - 1][0]).all()
    if numpy.dtype(kind).kind != "b":
        wanted = part[0][me]
        for r in range(1, n):
            wanted = (wanted + part[r][me]).astype(kind)
        group.reduce_scatter(x, small).wait()
        assert (small == wanted).all()
    counts = [count * r // n for r in range(n)]
    gathered = place(sum(counts), kind)
    group.all_gather_v(mine[:counts[me]], gathered, counts).wait()
    assert (gathered == numpy.concatenate([part[r][0][:counts[r]] for r in range(n)])).all()
    sends = [count * (1 + (me + p) % 2) // 2 for p in range(n)]
    group.all_to_all_v(x, sends, out, sends, send_offsets=[p * count for p in range(n)]).wait()
    came = numpy.concatenate([part[r][me][:sends[r]] for r in range(n)])
    assert (out[:len(came)] == came).all()


def collectives(runtime, group, seed):
    """All of them, over types and lengths, from the pool and from numpy's own memory."""
    for kind in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16"):
        check_reductions(group, runtime.zeros, seed, kind, 100)
    for place in (runtime.zeros, numpy.zeros):
        for kind, count in (("f4", 0), ("f4", 30000), ("i1", 3), ("?", 10), ("c16", 500)):
            check_moves(group, place, seed, kind, count)
        check_reductions(group, place, seed, "f4", 40000)
    x = numpy.ones(5, "f4")
    group.all_reduce(x, scale=0.5).wait()
    assert (x == group.size / 2).all()
    x[:] = group.rank
    group.all_reduce(x, op="avg").wait()
    assert (x == (group.size - 1) / 2).all()
    halves = numpy.full(6, 0x3F80, "u2")  # 1 as bf16
    group.all_reduce(towline.span(halves, type=lib.TOW_BF16)).wait()
    assert (halves.view("u2") == {2: 0x4000, 3: 0x4040}[group.size]).all()
    group.barrier().wait()


def drives(runtime, group, seed):
    """However an operation is awaited: wait, done, progress, a queue and its descriptor."""
    arrays = [runtime.zeros(1000 + i) for i in range(40)]
    for array in arrays:
        array[:] = 1
    group.all_reduce(arrays[0]).wait(30)
    operation = group.all_reduce(arrays[1])
    while not operation.done():
        pass
    operation = group.all_reduce(arrays[2], timeout=30)
    while lib.tow_op_result(operation.pointer, towline.operation.sized("struct tow_result")) \
            == lib.TOW_AGAIN:
        runtime.progress()
    assert operation.result().error is None and operation.result().bytes == 1002 * 4
    with group.batch():
        several = [group.all_reduce(array) for array in arrays[3:10]]
    towline.wait_all(several, 30)
    queue = towline.Queue(runtime, 64)
    for i in range(10, 40):
        operation = group.all_reduce(arrays[i], queue=queue, user=i)
    raises(towline.InvalidError, "queue", operation.wait)
    came = []
    while len(came) < 30:
        assert select.select([queue], [], [], 30)[0]
        for result in queue.take():
            assert result.error is None
            came.append(result.user)
    assert sorted(came) == list(range(10, 40)) and operation.done() and queue.take() == []
    operation.cancel()
    for array in arrays:
        assert (array == group.size).all()
    for _ in range(100):  # handles that nobody keeps, with memory that nobody else keeps
        group.all_reduce(numpy.ones(50000, "f4"))
    group.barrier().wait(30)
    queue.close()


def failures(runtime, group, seed):
    """What ranks disagree about, deadlines, an abort: as exceptions with both sides' names."""
    group.barrier().wait(30)
    sub = group.create(range(group.size))
    x = numpy.zeros(3 + sub.rank % 2, "f4")
    wrong = raises(towline.MismatchError, "rank .*sum of [34] f32.*rank .*sum of [34] f32.*step",
                   lambda: sub.all_reduce(x, name="step").wait(30))
    assert wrong.name == "TOW_EMISMATCH" and str(wrong).count("TOW_EMISMATCH") == 1
    sub.close()
    sub = group.create(range(group.size))
    if sub.rank == 0:
        late = sub.all_reduce(numpy.zeros(3))
        raises(towline.DeadlineError, "TOW_ETIMEDOUT", late.wait, 0.01)
        raises(towline.InvalidError, "in flight", late.result)
        sub.abort("the user has pressed ctrl-c")
        raises(towline.AbortedError, "ctrl-c", late.wait, 30)
        assert late.done() and late.result().error.name == "TOW_EABORTED"
    else:
        raises(towline.AbortedError, "rank 0.*ctrl-c", sub.get, "never", 30)
        raises(towline.AbortedError, "rank 0.*ctrl-c", sub.barrier)
    sub.close()
    sub = group.create(range(group.size))
    if sub.rank != 0:
        wrong = raises(towline.DeadlineError, "rank 0", sub.barrier(timeout=0.3).wait, 30)
        assert isinstance(wrong, TimeoutError) and wrong.name == "TOW_EDEADLINE"
    group.group_barrier(30)
    sub.close()
    raises(ValueError, "do not fit", group.all_reduce, numpy.zeros(3), numpy.zeros(2))
    raises(ValueError, "different types", group.all_reduce, numpy.zeros(3), numpy.zeros(3, "f4"))
    raises(ValueError, "no operator", group.all_reduce, numpy.zeros(3), op="mean")
    odd = numpy.zeros(2 * group.size + 1)
    raises(ValueError, "not the same for each", group.all_to_all, odd, odd)
    raises(ValueError, "not lie within", group.all_gather_v, numpy.zeros(3), numpy.zeros(3),
           [2] * group.size)
    raises(ValueError, "no time", group.barrier().wait, -1)
    raises(towline.InvalidError, "scale|factor", group.all_reduce, numpy.zeros(3, "i4"), scale=2.0)


def groups(runtime, group, seed):
    """Splits, creations by members alone, values in the store, ranks and sizes."""
    n, me = group.size, group.rank
    half = group.split(me % 2, -me)
    assert half.size == len(range(me % 2, n, 2)) and half.rank == half.size - 1 - me // 2
    x = numpy.full(9, me)
    half.all_reduce(x).wait(30)
    assert (x == sum(range(me % 2, n, 2))).all()
    assert group.split(None if me == 0 else 1) is None or me != 0
    if me != 0:
        alone = [group.create(range(n - 1, 0, -1), f"number {i}") for i in range(3)]
        for some in alone:
            assert some.rank == n - 1 - me
            some.barrier().wait(30)
            some.close()
    raises(towline.InvalidError, "is 99", group.create, [me, 99])
    if me == 0:
        group.set("word", b"every rank sees this")
    assert group.get("word") == b"every rank sees this" and group.get("word", room=5) == b"every"
    assert "://" in group.address(me)
    group.connect((me + 1) % n, 30).wait(30)
    half.close()


def messages(runtime, group, seed):
    """Sends and receives by rank: any rank, any tag, cut, refused, to oneself, by a queue."""
    n, me = group.size, group.rank
    after, before = (me + 1) % n, (me - 1) % n
    for place, count in ((runtime.zeros, 5), (numpy.zeros, 300_000)):
        out, mine = place(count, "f4"), place(count, "f4")
        mine[:] = me
        receive = group.recv(out, before, 17)
        group.send(mine, after, 17).wait(30)
        result = receive.wait(30)
        assert (out == before).all()
        assert (result.rank, result.tag, result.bytes) == (before, 17, 4 * count)
    assert group.probe(me, 3) is None
    kept = group.send(b"to myself", me, 3)
    while (found := group.probe(mask=0)) is None:
        pass
    assert (found.rank, found.tag, found.bytes) == (me, 3, 9)
    word = bytearray(4)
    result = group.recv(word, mask=0, truncate=True).wait(30)
    assert (bytes(word), result.bytes, result.rank) == (b"to m", 4, me)
    kept.wait(30)
    group.send(b"too long", me, 5).wait(30)
    raises(towline.InvalidError, "TOW_ETRUNCATED", group.recv(word, me, 5).wait, 30)
    raises(towline.DeadlineError, "TOW_EDEADLINE", group.recv(word, before, 6, timeout=0.05).wait)
    raises(towline.InvalidError, "rank|99", group.send, b"", 99)
    sub = group.create(range(n - 1, -1, -1))
    assert sub.id != group.id == 0
    queue = towline.Queue(runtime)
    words = [bytearray(1) for _ in range(2)]
    group.recv(words[0], before, 8, queue=queue, user=1)
    sub.recv(words[1], n - 1 - before, 8, queue=queue, user=2)
    sub.send(b"s", n - 1 - after, 8, timeout=30)
    group.send(b"g", after, 8, timeout=30)
    came = {}
    while len(came) < 2:
        assert select.select([queue], [], [], 30)[0]
        came.update({result.user: result.rank for result in queue.take()})
    assert words == [b"g", b"s"] and came == {1: before, 2: n - 1 - before}
    queue.close()
    group.group_barrier(30)
    sub.close()


def waits(runtime, group, seed):
    """A rank comes late, while the first one asks towstat who is waited for, and where."""
    n, me = group.size, group.rank
    assert group.label == ""
    raises(towline.InvalidError, "0x0a", setattr, group, "label", "a\nb")
    sub = group.create(range(n), "by its name")
    assert sub.label == "by its name"
    sub.label = "data parallel"
    assert sub.label == "data parallel" and group.label == ""
    sub.barrier().wait(30)
    text = []

    def ask():
        for question in ("verdict", "why", "get coll", "list"):
            text.append(subprocess.run([os.environ["TWT_TOWSTAT"], *question.split()], check=False,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       universal_newlines=True, timeout=60).stdout)
        group.set("asked", b"yes")

    if me == n - 1:
        group.get("asked", 60)
    elif me == 0:
        timer = threading.Timer(2, ask)
        timer.start()
    sub.all_reduce(numpy.ones(3), name="grads").wait(90)
    if me != 0:
        return
    timer.join()
    verdict, why, coll, listed = text
    says = (f'rank {n - 1} has not entered collective 2 of group 1 "data parallel" '
            r'\(all-reduce "grads"\), in which rank \d has waited for ')
    assert re.search(says, verdict), verdict
    waits_in = 'all_reduce "grads" number 2 in data parallel: for [^\n]*\n *'
    assert re.search(waits_in + says, why), why
    assert 'group 1 "data parallel": rank 0 of ' in coll, coll
    assert listed.count(" python_program.py ") == n, listed
    sub.label = ""
    assert sub.label == ""


class Folder:
    """A store of files, as an exchange of the caller's."""

    def __init__(self, path):
        self.path = path

    def put(self, key, value):
        name = f"{self.path}/{key.replace('/', '-')}"
        with open(name + ".new", "wb") as made:
            made.write(value)
        os.rename(name + ".new", name)

    def get(self, key, timeout):
        name = f"{self.path}/{key.replace('/', '-')}"
        waited = threading.Event()
        for _ in range(int(timeout * 100)):
            if os.path.exists(name):
                with open(name, "rb") as made:
                    return made.read()
            waited.wait(0.01)
        raise TimeoutError(f"{key} never came")


class Broken(Folder):
    def put(self, key, value):
        raise OSError("the disk is full")


def exchange(path):
    """A group by the caller's own store, and the caller's exception where that fails."""
    rank, size = (int(os.environ.pop("TOW_" + name)) for name in ("RANK", "WORLD_SIZE"))
    os.environ.pop("TOW_STORE")
    with towline.Runtime(**SMALL) as runtime:
        with towline.Group.open(runtime, rank=rank, world_size=size, timeout=30,
                                exchange=Folder(path)) as group:
            x = numpy.full(3, rank + 1)
            group.all_reduce(x).wait(30)
            assert (x == size * (size + 1) // 2).all()
            group.group_barrier(30)
    if rank == 0:
        with towline.Runtime(**SMALL) as runtime:
            wrong = raises(towline.Error, "put", towline.Group.open, runtime, rank=0,
                           world_size=size, timeout=5, exchange=Broken(path))
            assert isinstance(wrong.__cause__, OSError) and "disk" in str(wrong.__cause__)


def threads(runtime, group, seed):
    """Twenty-four threads wait at once, each in a group of its own."""
    made = [group.create(range(group.size), f"thread {i}") for i in range(24)]
    wrong = []

    def work(sub, number):
        try:
            for turn in range(20):
                x = numpy.full(1000 * (1 + number % 5), number + turn)
                sub.all_reduce(x).wait(60)
                assert (x == (number + turn) * sub.size).all()
        except BaseException as error:  # told in the main thread
            wrong.append(error)

    running = [threading.Thread(target=work, args=(sub, i)) for i, sub in enumerate(made)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong
    group.barrier().wait(30)
    for sub in made:
        sub.close()


def ranks(lane, seed, *parts):
    """Parts that a job of several ranks plays, over one lane."""
    runtime = towline.Runtime(max_ops=4096, **SMALL)
    group = towline.Group.open(runtime, address=lane or None, timeout=30)
    for part in parts:
        {"collectives": collectives, "drives": drives, "failures": failures, "groups": groups,
         "messages": messages, "threads": threads, "waits": waits}[part](runtime, group, seed)
        group.group_barrier(30)
    group.close()
    runtime.close()


def main():
    name = sys.argv[1]
    {"abi": abi, "memory": memory, "tables": knobs_and_tables, "wheel": wheel,
     "exchange": exchange, "ranks": ranks}[name](*sys.argv[2:])
    print(f"{name}: fine")


main()
