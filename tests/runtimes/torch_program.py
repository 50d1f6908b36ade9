"""torch_program.py - what test_torch.py runs as ranks: ordinary programs of PyTorch, over Towline
and over gloo in one process, and what each must give.

    torch_program.py SEED PART...
"""
import datetime
import faulthandler
import gc
import glob
import os
import random
import re
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

# Without a launcher's variables the test says it by its own.
LAUNCHED = "TWT_RANK" not in os.environ
RANK, SIZE = (int(os.environ[name if LAUNCHED else f"TWT_{name}"])
              for name in ("RANK", "WORLD_SIZE"))
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16,
            torch.uint32, torch.uint64]
EIGHTS = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
OTHERS = [torch.bool, torch.complex32, torch.float8_e4m3fnuz]
ALL = FLOATS + INTEGERS + EIGHTS + COMPLEX + OTHERS
OPS = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
       "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
seed = 0
made = 0


def values(dtype, count, rank, key):
    """Small whole numbers, so that the order of sums does not matter. The same at every rank."""
    rng = random.Random(f"{seed} {dtype} {count} {rank} {key}")
    if dtype == torch.bool:
        return torch.tensor([rng.random() < 0.5 for _ in range(count)], dtype=dtype)
    low = 0 if dtype in INTEGERS and not dtype.is_signed else -2
    if dtype.is_complex:
        parts = [complex(rng.randint(low, 2), rng.randint(low, 2)) for _ in range(count)]
        return torch.tensor(parts, dtype=torch.complex128).to(dtype)
    return torch.tensor([rng.randint(low, 3) for _ in range(count)], dtype=torch.float64).to(dtype)


def bits(tensor):
    flat = tensor.contiguous().flatten()
    return flat.view(torch.uint8) if flat.numel() else flat


def same(one, other, what):
    ones, others = ([t] if torch.is_tensor(t) else list(t) for t in (one, other))
    assert len(ones) == len(others), what
    for a, b in zip(ones, others):
        assert a.dtype == b.dtype and torch.equal(bits(a), bits(b)), f"{what}: {a} is not {b}"


def raises(kind, words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as wrong:
        for word in words.split("|"):
            assert word in str(wrong), f"{type(wrong)} {wrong!s} does not say {word!r}"
        return wrong
    raise AssertionError(f"nothing was raised, wanted {words!r}")


class Both:
    """Plays a call on both backends, and compares them with each other and with what is right."""

    def __init__(self, ours, gloo):
        self.ours, self.gloo = ours, gloo
        self.compared = self.refused = 0

    def play(self, what, call, right):
        got = call(self.ours)
        if right is not None:
            same(got, right, f"{what} over towline")
        try:
            same(got, call(self.gloo), f"{what}: towline and gloo")
            self.compared += 1
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as wrong:
            # What gloo cannot do it refuses at all ranks alike.
            assert "closed" not in str(wrong) and "imed out" not in str(wrong), wrong
            self.refused += 1


def reduction(op, parts, dtype):
    """What the operator gives; in f32 for the short floats, rounded once, as it is documented."""
    if dtype == torch.bool:
        name = {"SUM": "BOR", "PRODUCT": "BAND", "MIN": "BAND", "MAX": "BOR"}.get(op, op)
        wide = [part.to(torch.uint8) for part in parts]
        result = wide[0]
        for part in wide[1:]:
            result = OPS[name](result, part)
        return result.to(dtype)
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32,
            torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32,
            torch.uint16: torch.int64, torch.uint32: torch.int64,
            torch.uint64: torch.int64}.get(dtype, dtype)
    result = parts[0].to(wide)
    for part in parts[1:]:
        result = OPS[op](result, part.to(wide))
    return result.to(dtype)


def suits(op, dtype):
    if op in ("BAND", "BOR", "BXOR"):
        return dtype in INTEGERS or dtype == torch.bool
    # Of complex numbers c10d itself reduces sums alone, as pairs of real ones.
    return dtype not in (torch.complex32, torch.float8_e4m3fnuz) and not (
        dtype.is_complex and op != "SUM")


def reductions(both, dtype, op, count):
    what = f"{op} of {count} {dtype}"
    inputs = [values(dtype, count * SIZE, rank, op) for rank in range(SIZE)]
    mine, reduce_op = inputs[RANK], getattr(dist.ReduceOp, op)
    whole = reduction(op, inputs, dtype)
    # gloo adds bools up to 2 in one byte; ours is OR.
    odd = dtype == torch.bool and op in ("SUM", "PRODUCT")

    def all_reduce(group):
        x = mine.clone()
        dist.all_reduce(x, reduce_op, group=group)
        return x

    def reduce(group):
        x = mine.clone()
        dist.reduce(x, SIZE - 1, reduce_op, group=group)
        return x if RANK == SIZE - 1 else torch.empty(0, dtype=dtype)

    def scatter_single(group):
        x = torch.zeros(count, dtype=dtype)
        dist.reduce_scatter_tensor(x, mine.clone(), reduce_op, group=group)
        return x

    def scatter(group):
        x = torch.zeros(count, dtype=dtype)
        parts = [part.clone() for part in mine.split(count)] if count else [mine.clone()] * SIZE
        dist.reduce_scatter(x, parts, reduce_op, group=group)
        return x

    part = whole[RANK * count:(RANK + 1) * count]
    root = whole if RANK == SIZE - 1 else torch.empty(0, dtype=dtype)
    for name, call, right in (("all_reduce", all_reduce, whole), ("reduce", reduce, root),
                              ("reduce_scatter_tensor", scatter_single, part),
                              ("reduce_scatter", scatter, part)):
        if odd:
            same(call(both.ours), right, f"{name} {what}")
        else:
            both.play(f"{name} {what}", call, right)


def moves(both, dtype, count):
    inputs = [values(dtype, count * SIZE, rank, "move") for rank in range(SIZE)]
    mine, what = inputs[RANK], f"of {count} {dtype}"
    parts = [list(given.split(count)) if count else [given] * SIZE for given in inputs]

    def zeros(size=count):
        return torch.zeros(size).to(dtype)

    def broadcast(group):
        x = mine.clone()
        dist.broadcast(x, SIZE - 1, group=group)
        return x

    def all_gather(group):
        out = [zeros() for _ in range(SIZE)]
        dist.all_gather(out, parts[RANK][0].clone(), group=group)
        return out

    def all_gather_into(group):
        out = zeros(count * SIZE)
        dist.all_gather_into_tensor(out, parts[RANK][0].clone(), group=group)
        return out

    def gather(group):
        out = [zeros() for _ in range(SIZE)] if RANK == 1 else None
        dist.gather(parts[RANK][0].clone(), out, 1, group=group)
        return out or []

    def scatter(group):
        out = zeros()
        dist.scatter(out, [p.clone() for p in parts[0]] if RANK == 0 else None, 0, group=group)
        return out

    def all_to_all(group):
        out = [zeros() for _ in range(SIZE)]
        dist.all_to_all(out, [part.clone() for part in parts[RANK]], group=group)
        return out

    def all_to_all_single(group):
        out = zeros(count * SIZE)
        dist.all_to_all_single(out, mine.clone(), group=group)
        return out

    sends = [(RANK + p) % 3 for p in range(SIZE)]
    takes = [(p + RANK) % 3 for p in range(SIZE)]

    def all_to_all_splits(group):
        out = zeros(2 * sum(takes)).view(-1, 2)
        given = values(dtype, 2 * sum(sends), RANK, "split").view(-1, 2)
        dist.all_to_all_single(out, given, takes, sends, group=group)
        return out

    def split(rank):
        counts = [(rank + p) % 3 for p in range(SIZE)]
        return values(dtype, 2 * sum(counts), rank, "split").split([2 * c for c in counts])[RANK]

    first = [row[0] for row in parts]
    for name, call, right in (
            ("broadcast", broadcast, inputs[SIZE - 1]), ("all_gather", all_gather, first),
            ("all_gather_into_tensor", all_gather_into, torch.cat(first)),
            ("gather", gather, first if RANK == 1 else []), ("scatter", scatter, parts[0][RANK]),
            ("all_to_all", all_to_all, [row[RANK] for row in parts]),
            ("all_to_all_single", all_to_all_single, torch.cat([row[RANK] for row in parts])),
            ("all_to_all_single by splits", all_to_all_splits,
             torch.cat([split(rank) for rank in range(SIZE)]))):
        both.play(f"{name} {what}", call, right)


def results(ours, gloo):
    """Every collective over every type and operator, against gloo and against what is right."""
    both = Both(ours, gloo)
    for dtype in ALL:
        moves(both, dtype, 5)
        for op in OPS:
            if suits(op, dtype):
                reductions(both, dtype, op, 7)
    for count in (0, 1, 3000, 70001):
        moves(both, torch.float32, count)
        reductions(both, torch.float32, "SUM", count)
    print(f"{both.compared} calls gave what gloo gives, {both.refused} gloo does not do")
    assert both.compared > 200
    x = torch.full((6,), float(RANK + 1))
    dist.all_reduce(x, dist.ReduceOp.AVG, group=ours)
    same(x, torch.full((6,), (SIZE + 1) / 2), "AVG")
    x = torch.full((6,), float(RANK + 1))
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5), group=ours)
    same(x, torch.full((6,), SIZE * (SIZE + 1) / 4), "PREMUL_SUM")
    channels = torch.randn(2, 3, 4, 5, generator=torch.manual_seed(RANK)).to(
        memory_format=torch.channels_last)
    right = sum(torch.randn(2, 3, 4, 5, generator=torch.manual_seed(r)) for r in range(SIZE))
    dist.all_reduce(channels, group=ours)
    assert torch.allclose(channels, right) and not channels.is_contiguous()


def uneven(ours, gloo):
    """Parts of several lengths, tensors that lie behind each other, coalesced forms."""
    whole = torch.zeros(sum(range(1, SIZE + 1)))
    parts = list(whole.split(list(range(1, SIZE + 1))))
    dist.all_gather(parts, torch.full((RANK + 1,), float(RANK)), group=ours)
    same(whole, torch.cat([torch.full((r + 1,), float(r)) for r in range(SIZE)]), "lies flat")
    out = torch.zeros(RANK + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(r + RANK)) for r in range(SIZE)],
                        group=ours)
    same(out, torch.full((RANK + 1,), float(SIZE * RANK + sum(range(SIZE)))), "uneven")
    tensors = [torch.full((i + 1,), float(RANK)) for i in range(20)]
    with dist.distributed_c10d._coalescing_manager(group=ours):
        for tensor in tensors:
            dist.all_reduce(tensor, group=ours)
    same(tensors, [torch.full((i + 1,), float(sum(range(SIZE)))) for i in range(20)], "coalesced")
    outs = [torch.zeros(SIZE * (i + 1)) for i in range(3)]
    with dist.distributed_c10d._coalescing_manager(group=ours, async_ops=True) as manager:
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((i + 1,), float(RANK)), group=ours)
    manager.wait()
    for i, out in enumerate(outs):
        same(out, torch.cat([torch.full((i + 1,), float(r)) for r in range(SIZE)]), "coalesced")
    outs = [torch.zeros(i + 1) for i in range(3)]
    with dist.distributed_c10d._coalescing_manager(group=ours):
        for i, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, torch.ones(SIZE * (i + 1)), group=ours)
    same(outs, [torch.full((i + 1,), float(SIZE)) for i in range(3)], "coalesced")
    tensors = [torch.full((4,), float(RANK)), torch.full((2,), float(RANK))]
    backend = ours._get_backend(torch.device("cpu"))
    device = torch.device("cpu")
    with dist.distributed_c10d._coalescing_manager(group=ours, device=device, async_ops=True) as m:
        backend.allreduce([tensors[0]], dist.distributed_c10d.AllreduceOptions())
        backend.barrier(dist.distributed_c10d.BarrierOptions())
        backend.allreduce([tensors[1]], dist.distributed_c10d.AllreduceOptions())
    m.wait()
    same(tensors, [torch.full((4,), float(sum(range(SIZE)))),
                   torch.full((2,), float(sum(range(SIZE))))], "begun and ended")


def objects(ours, gloo):
    """Python's objects, which c10d sends as bytes."""
    out = [None] * SIZE
    dist.all_gather_object(out, {"rank": RANK, "text": "x" * RANK}, group=ours)
    assert out == [{"rank": r, "text": "x" * r} for r in range(SIZE)]
    things = [RANK, "of", RANK] if RANK == 0 else [None] * 3
    dist.broadcast_object_list(things, 0, group=ours)
    assert things == [0, "of", 0]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(SIZE)] if RANK == 0 else None, 0,
                             group=ours)
    assert mine == [f"for {RANK}"]
    dist.gather_object(RANK, out if RANK == 0 else None, 0, group=ours)
    assert RANK != 0 or out == list(range(SIZE))


def works(ours, gloo):
    """What a work answers, futures, callbacks, many in flight, works that nobody keeps."""
    x = torch.full((1000,), float(RANK))
    total = float(sum(range(SIZE)))
    work = dist.all_reduce(x, group=ours, async_op=True)
    while not work.is_completed():
        time.sleep(0)
    assert work.is_success() and work.wait() and work.exception() is None
    same(work.result(), [torch.full((1000,), total)], "result")
    told = threading.Event()
    seen = []
    y = torch.full((3,), float(RANK))
    future = dist.all_reduce(y, group=ours, async_op=True).get_future()
    future.then(lambda f: (seen.append(f.value()[0].clone()), told.set()))
    assert told.wait(60)
    same(seen, [torch.full((3,), total)], "a callback")
    same(future.wait(), [torch.full((3,), total)], "a future")
    # A callback waits for another work.
    first, second = torch.ones(3), torch.ones(5)
    one = dist.all_reduce(first, group=ours, async_op=True)
    told.clear()

    def callback(_):
        dist.all_reduce(second, group=ours, async_op=True).wait()
        told.set()

    one.get_future().then(callback)
    one.wait()
    assert told.wait(60)
    same(second, torch.full((5,), float(SIZE)), "in a callback")
    many = [torch.full((i + 1,), float(RANK + i)) for i in range(300)]
    running = [dist.all_reduce(tensor, group=ours, async_op=True) for tensor in many]
    for work in reversed(running):
        assert work.wait(datetime.timedelta(seconds=60))
    same(many, [torch.full((i + 1,), total + SIZE * i) for i in range(300)], "in flight")
    for _ in range(100):  # neither the work nor the tensor is kept
        dist.all_reduce(torch.ones(30000), group=ours, async_op=True)
    last = [dist.all_reduce(torch.ones(200_000), group=ours, async_op=True) for _ in range(20)]
    dist.barrier(group=ours)
    assert all(work.is_completed() for work in last), "a barrier waits for what was before"
    # gloo's works answer as before.
    work = dist.all_reduce(torch.ones(5), group=gloo, async_op=True)
    work.wait()
    assert work.is_completed()


def messages(ours, gloo):
    """Sends and receives: of every type, of any source, in batches, in groups of their own."""
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for dtype in ALL:
        x = torch.zeros(6).to(dtype)
        work = dist.isend(values(dtype, 6, RANK, "send"), after, group=ours, tag=7)
        assert dist.recv(x, before, group=ours, tag=7) == before
        work.wait()
        same(x, values(dtype, 6, before, "send"), f"recv of {dtype}")
    for count in (0, 1, 100_000, 3_000_000):
        tags = [dist.irecv(torch.zeros(count), before, group=ours, tag=t) for t in (1, 2)]
        outs = [torch.zeros(count), torch.zeros(count)]
        tags += [dist.irecv(out, before, group=ours, tag=t) for t, out in zip((4, 3), outs)]
        for tag in (1, 2, 3, 4):
            tags.append(dist.isend(torch.full((count,), float(tag)), after, group=ours, tag=tag))
        for work in tags:
            work.wait()
        assert (outs[0] == 4).all() and (outs[1] == 3).all()
    if RANK == 0:
        seen = []
        for _ in range(SIZE - 1):
            x = torch.zeros(1)
            seen.append(dist.recv(x, group=ours))
            assert x.item() == seen[-1]
        assert sorted(seen) == list(range(1, SIZE))
        work = dist.irecv(x, group=ours, tag=9)
        dist.barrier(group=ours)
        while not work.is_completed():
            time.sleep(0)
        assert work.source_rank() == SIZE - 1
    else:
        dist.send(torch.full((1,), float(RANK)), 0, group=ours)
        dist.barrier(group=ours)
        if RANK == SIZE - 1:
            dist.send(torch.zeros(1), 0, group=ours, tag=9)
    outs = [torch.zeros(1000) for _ in range(SIZE)]
    ops = [dist.P2POp(dist.isend, torch.full((1000,), float(RANK)), p, ours)
           for p in range(SIZE) if p != RANK]
    ops += [dist.P2POp(dist.irecv, outs[p], p, ours) for p in range(SIZE) if p != RANK]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for p, out in enumerate(outs):
        assert p == RANK or (out == p).all()
    # In a batch, too, a message of another length is an error.
    wrong = [dist.P2POp(dist.isend, torch.zeros(3), after, ours),
             dist.P2POp(dist.irecv, torch.zeros(5), before, ours)]
    for work in dist.batch_isend_irecv(wrong):
        raises(ValueError, "12 bytes|20", work.wait)
    # A send that nobody keeps, of a tensor that nobody keeps.
    dist.isend(torch.full((2_000_000,), 5.0), after, group=ours, tag=12)
    gc.collect()
    junk = [torch.full((2_000_000,), 6.0) for _ in range(3)]
    x = torch.zeros(2_000_000)
    dist.barrier(group=ours)
    dist.recv(x, before, group=ours, tag=12)
    assert (x == 5).all() and len(junk) == 3
    dist.barrier(group=ours)
    # A message of one group is none of another's.
    other = dist.new_group(list(range(SIZE)))
    one = dist.irecv(outs[0], before, group=ours, tag=5)
    two = dist.irecv(outs[1], before, group=other, tag=5)
    dist.send(torch.full((1000,), 2.0), after, group=other, tag=5)
    two.wait()
    dist.send(torch.full((1000,), 1.0), after, group=ours, tag=5)
    one.wait()
    assert (outs[0] == 1).all() and (outs[1] == 2).all()
    if RANK == 0:
        dist.send_object_list([{"a": 1}, "b"], 1, group=ours)
        dist.send(torch.zeros(3), 1, group=ours)
        dist.send(torch.zeros(9), 1, group=ours)
    elif RANK == 1:
        things = [None, None]
        dist.recv_object_list(things, 0, group=ours)
        assert things == [{"a": 1}, "b"]
        raises(ValueError, "12 bytes|20", dist.recv, torch.zeros(5), 0, group=ours)
        raises(dist.DistBackendError, "TOW_ETRUNCATED|recv of process group", dist.recv,
               torch.zeros(5), 0, group=ours)
    told = threading.Event()
    x = torch.zeros(4)
    work = dist.irecv(x, before, group=ours, tag=11)
    work.get_future().then(lambda f: told.set())
    dist.send(torch.ones(4), after, group=ours, tag=11)
    assert told.wait(60) and (x == 1).all()
    mine = dist.new_group([RANK], use_local_synchronization=True)
    dist.barrier(group=ours)
    short = dist.new_group(list(range(SIZE)), timeout=datetime.timedelta(seconds=0.5))
    raises(dist.DistBackendError, "TOW_EDEADLINE|recv of process group", dist.recv, x, before,
           group=short)
    del mine
    dist.barrier(group=ours)


def groups(ours, gloo):
    """Groups made by their members alone, twelve of them one after another, and by all ranks."""
    built = []
    for turn in range(12):
        # Each rank is in one of them: c10d 2.15 names groups by how many a rank has made.
        other = RANK ^ (turn % SIZE)
        ranks = sorted({RANK, other}) if turn % 3 else list(range(SIZE))
        built.append((ranks, dist.new_group(ranks, use_local_synchronization=True)))
    for turn in range(4):
        ranks = [r for r in range(SIZE) if r != turn % SIZE]
        built.append((ranks, dist.new_group(ranks)))
    for number, (ranks, group) in enumerate(built):
        if RANK in ranks:
            x = torch.full((9,), float(RANK + number))
            dist.all_reduce(x, group=group)
            right = float(sum(ranks) + number * len(ranks))
            same(x, torch.full((9,), right), f"group {ranks}")
            dist.broadcast(x, ranks[-1], group=group)
    dist.barrier(group=ours)
    dist.destroy_process_group(built[0][1])
    dist.barrier(group=ours)


def splits(ours, gloo):
    """Parts of a group by split_group, in an order of their own, and of a part; groups that their
    members alone ask for."""
    halves = [list(range(SIZE // 2))[::-1], list(range(SIZE // 2, SIZE))[::-1]]
    mine = next(half for half in halves if RANK in half)
    part = dist.split_group(split_ranks=halves, group_desc="half")
    assert part.rank() == mine.index(RANK) and part.size() == len(mine)
    assert part.group_desc == "half" and dist.get_process_group_ranks(part) == mine
    x = torch.full((1000,), float(RANK))
    dist.all_reduce(x, group=part)
    same(x, torch.full((1000,), float(sum(mine))), "a part")
    parts = torch.zeros(len(mine))
    dist.all_gather_into_tensor(parts, torch.full((1,), float(RANK)), group=part)
    same(parts, torch.tensor([float(rank) for rank in mine]), "its order")
    one = dist.split_group(part, split_ranks=[[rank] for rank in range(part.size())])
    y = torch.full((3,), 7.0)
    dist.all_reduce(y, group=one)
    same(y, torch.full((3,), 7.0), "a part of a part")
    dist.destroy_process_group(one)
    if part.rank() == 0 and part.size() > 1:
        raises(ValueError, "rank 0 is in no part|use_local_synchronization", dist.split_group, part,
               split_ranks=[[1]])
    dist.all_reduce(x, group=part)
    late = dist.split_group(split_ranks=[list(range(SIZE))],
                            timeout=datetime.timedelta(seconds=0.5))
    if RANK == 0:
        wrong = raises(dist.DistBackendError, "TOW_EDEADLINE", dist.all_reduce, torch.ones(3),
                       group=late)
        assert re.search(r"\branks? 1\b", str(wrong)), wrong  # alone, or with others
    dist.barrier(group=ours)
    dist.destroy_process_group(part)
    if RANK in (0, SIZE - 1):  # nobody else calls it
        pair = dist.new_group([0, SIZE - 1], use_local_synchronization=True)
        x = torch.full((9,), float(RANK + 1))
        dist.all_reduce(x, group=pair)
        same(x, torch.full((9,), float(SIZE + 1)), "asked for by its members alone")
    dist.barrier(group=ours)


def threads(ours, gloo):
    """Twenty-four threads at once: each with a group of its own, then all with futures."""
    built = [dist.new_group(list(range(SIZE))) for _ in range(24)]
    wrong = []

    def work(group, number):
        try:
            for turn in range(15):
                x = torch.full((500 * (1 + number % 4),), float(RANK + number + turn))
                running = dist.all_reduce(x, group=group, async_op=number % 2 == 0)
                if running is not None:
                    running.wait()
                right = float(sum(range(SIZE)) + SIZE * (number + turn))
                same(x, torch.full_like(x, right), f"thread {number}")
        except BaseException as error:  # told in the main thread
            wrong.append(error)

    running = [threading.Thread(target=work, args=(group, i)) for i, group in enumerate(built)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong
    dist.barrier(group=ours)


def arguments(ours, gloo):
    """What is refused, and with which words; nothing of it has started anything."""
    sparse = torch.eye(3).to_sparse()
    raises(ValueError, "all_reduce|sparse", dist.all_reduce, sparse, group=ours)
    raises(ValueError, "strides (1, 4)|contiguous", dist.all_reduce, torch.zeros(4, 4).t(),
           group=ours)
    raises(ValueError, "conjugation", ours._get_backend(torch.device("cpu")).broadcast,
           [torch.zeros(3, dtype=torch.complex64).conj()], dist.distributed_c10d.BroadcastOptions())
    raises(TypeError, "float8_e4m3fnuz|only moved", dist.all_reduce,
           torch.zeros(3, dtype=torch.float8_e4m3fnuz), group=ours)
    raises(ValueError, "all_gather|tensors for", ours._get_backend(torch.device("cpu")).allgather,
           [[torch.zeros(3)]], [torch.zeros(3)], dist.distributed_c10d.AllgatherOptions())
    raises(ValueError, "all_gather_single|7 elements", dist.all_gather_into_tensor, torch.zeros(7),
           torch.zeros(3), group=ours)
    raises(ValueError, "all_gather_single|not contiguous", dist.all_gather_into_tensor,
           torch.zeros(3, 2 * SIZE).t(), torch.zeros(2, 3), group=ours)
    raises(ValueError, "splits|rows", dist.all_to_all_single, torch.zeros(6), torch.zeros(6),
           [1] * SIZE, [9] * SIZE, group=ours)
    raises(RuntimeError, "TOW_EINVAL|bool", dist.all_reduce, torch.zeros(3, dtype=torch.bool),
           dist.ReduceOp.AVG, group=ours)
    options = dist.distributed_c10d.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    raises(RuntimeError, "TOW_EINVAL", ours._get_backend(torch.device("cpu")).allreduce,
           [torch.zeros(3, dtype=torch.complex64)], options)
    raises(ValueError, "PREMUL_SUM by 0", dist.all_reduce, torch.zeros(3),
           dist._make_nccl_premul_sum(0.0), group=ours)
    x = torch.ones(3)
    dist.all_reduce(x, group=ours)
    same(x, torch.full((3,), float(SIZE)), "after the refusals")


def deadlines(ours, gloo):
    """Who has not come, and who disagrees: in exceptions, futures, and on both sides."""
    late = dist.new_group(list(range(SIZE)), timeout=datetime.timedelta(seconds=1))
    if RANK != 0:
        wrong = raises(dist.DistBackendError, "TOW_EDEADLINE|rank 0|all_reduce", dist.all_reduce,
                       torch.ones(3), group=late)
        assert isinstance(wrong, TimeoutError)
        raises(dist.DistBackendError, "TOW_EPEER|rank 0", dist.barrier, group=late)
    dist.barrier(group=ours)
    apart = dist.new_group(list(range(SIZE)))
    x = torch.ones(3 + RANK % 2)
    work = dist.all_reduce(x, group=apart, async_op=True)
    future = work.get_future()
    raises(dist.DistBackendError, "TOW_EMISMATCH|sum of 3 f32|sum of 4 f32|pg:", work.wait)
    raises(RuntimeError, "TOW_EMISMATCH", future.wait)
    assert work.is_completed() and not work.is_success()
    assert "TOW_EMISMATCH" in str(work.exception())
    slow = dist.new_group(list(range(SIZE)))
    if RANK == 0:
        work = dist.all_reduce(torch.ones(3), group=slow, async_op=True)
        raises(TimeoutError, "TOW_ETIMEDOUT|all_reduce of process group", work.wait,
               datetime.timedelta(seconds=0.05))
        assert not work.is_completed()
        dist.barrier(group=ours)
        work.wait()
    else:
        dist.barrier(group=ours)
        dist.all_reduce(torch.ones(3), group=slow)
    if RANK == SIZE - 1:
        options = dist.distributed_c10d.AllreduceOptions()
        options.reduceOp, options.timeout = dist.ReduceOp.SUM, datetime.timedelta(seconds=0.3)
        once = dist.new_group([RANK, 0])._get_backend(torch.device("cpu"))
        raises(dist.DistBackendError, "TOW_EDEADLINE", once.allreduce([torch.ones(3)],
                                                                      options).wait)
    else:
        dist.new_group([SIZE - 1, 0])
    slow._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=0.3))
    if RANK == SIZE - 1:
        raises(dist.DistBackendError, "TOW_EDEADLINE", dist.barrier, group=slow)
    dist.barrier(group=ours)
    gone = dist.new_group(list(range(SIZE)))
    if RANK == 0:
        work = dist.all_reduce(torch.ones(3), group=gone, async_op=True)
        gone.abort()
        raises(dist.DistBackendError, "TOW_EABORTED|aborted by the program", work.wait)
    else:
        start = gone._get_backend(torch.device("cpu"))
        while True:
            try:
                # The n-th of rank 0 is the n-th here, but it does not wait for these any more.
                dist.barrier(group=gone, async_op=True)
                time.sleep(0.01)
            except dist.DistBackendError as wrong:
                assert "rank 0" in str(wrong), wrong
                break
        start.abort()
    dist.barrier(group=ours)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                    nn.Linear(128, 10))

    def forward(self, x):
        return self.layers(x)


def trained(wrap):
    torch.manual_seed(seed % (1 << 31))
    model = wrap(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9)
    torch.manual_seed(seed % 1000 + RANK)
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(32, 64)),
                                           torch.randint(0, 10, (32,)))
        loss.backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def loader(ours, gloo):
    """Workers of a DataLoader are forked while works are in flight, and have nothing of them."""
    data = torch.utils.data.DataLoader(torch.arange(40.0), batch_size=5, num_workers=2)
    for turn in range(2):
        work = dist.all_reduce(torch.ones(100_000), group=ours, async_op=True)
        total = torch.zeros(1)
        for batch in data:
            x = batch.clone()
            dist.all_reduce(x, group=ours)
            total += x.sum()
        work.wait()
        assert total.item() == SIZE * 780, turn


def ddp(ours, gloo):
    """Distributed data parallel: the same weights as over gloo, bit by bit with two ranks."""
    wrap = nn.parallel.DistributedDataParallel
    for options in ({"bucket_cap_mb": 0.1}, {"bucket_cap_mb": 0.1, "static_graph": True},
                    {"find_unused_parameters": True, "gradient_as_bucket_view": True}):
        one, other = (trained(lambda net, g=g: wrap(net, process_group=g, **options))
                      for g in (ours, gloo))
        for a, b in zip(one, other):
            assert torch.equal(a, b) if SIZE == 2 else torch.allclose(a, b, atol=1e-6)
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    def compressed(net):
        model = wrap(net, process_group=ours)
        model.register_comm_hook(ours, bf16_compress_hook)
        return model

    for a, b in zip(trained(compressed), other):
        assert torch.allclose(a, b, atol=0.02)


class ByHand(nn.Module):
    """What DDP does, in two lines: gradients are averaged when they are there."""

    def __init__(self, net, group):
        super().__init__()
        self.net, self.group = net, group
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(self.average)

    def average(self, p):
        dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=self.group)

    def forward(self, x):
        return self.net(x)


def checked(ours, gloo):
    """DDP under c10d's wrapper, TORCH_DISTRIBUTED_DEBUG=DETAIL, against averages by hand. Not over
    gloo, with which c10d 2.15 crashes there: it takes the wrapper for gloo's own group."""
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL
    wrapped = trained(lambda net: nn.parallel.DistributedDataParallel(net, process_group=ours))
    for a, b in zip(wrapped, trained(lambda net: ByHand(net, ours))):
        assert torch.allclose(a, b, atol=1e-6), (a - b).abs().max()


def fsdp(ours, gloo):
    """Fully sharded data parallel, both of torch's: the same weights as over gloo."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def sharded(group):
        mesh = DeviceMesh.from_group(group, "cpu")

        def wrap(net):
            for layer in net.layers:
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, mesh=mesh)
            return fully_shard(net, mesh=mesh)

        return [p.to_local() for p in trained(wrap)]

    for a, b in zip(sharded(ours), sharded(gloo)):
        assert torch.equal(a, b) if SIZE == 2 else torch.allclose(a, b, atol=1e-6)


def hosts(ours, gloo):
    """LOCAL_WORLD_SIZE says nonsense, and nobody believes it: ranks of one host use shm."""
    import towline.torch
    x = torch.ones(100000)
    dist.all_reduce(x, group=ours)
    same(x, torch.full((100000,), float(SIZE)), "LOCAL_WORLD_SIZE")
    peers = towline.torch.runtime().stats("/v1/peers")
    assert "shm" in str(peers), peers


def pool(ours, gloo):
    """Tensors of the pool, and what the runtime counts: nothing is copied."""
    import towline.torch
    runtime = towline.torch.runtime()
    x = towline.torch.empty(1000, 300)
    y = towline.torch.empty(8, dtype=torch.bfloat16)
    assert x.shape == (1000, 300) and y.dtype == torch.bfloat16
    allocated = ours._get_backend(torch.device("cpu")).allocate_tensor(10, dtype=torch.int32)
    assert allocated.shape == (10,)
    dist.barrier(group=ours)
    before = runtime.counters()["fallback_copies"]
    x.fill_(1)
    dist.all_reduce(x, group=ours)
    assert (x == SIZE).all() and runtime.counters()["fallback_copies"] == before
    del runtime
    return x


def placed(ours, gloo):
    """The preload of plugins/malloc puts torch's own tensors into the pool."""
    import towline.torch
    dist.barrier(group=ours)
    runtime = towline.torch.runtime()
    before = runtime.counters()
    x = torch.ones(1 << 20)
    dist.all_reduce(x, group=ours)
    after = runtime.counters()
    assert after["placed_allocs"] > 0 and after["fallback_copies"] == before["fallback_copies"]
    same(x, torch.full((1 << 20,), float(SIZE)), "placed")


def again(ours, gloo):
    """The process groups end, and begin anew in the same process and by the same store."""
    kept = pool(ours, gloo)
    for turn in range(2):
        dist.destroy_process_group()
        dist.init_process_group("towline")
        x = torch.full((3,), float(turn))
        dist.all_reduce(x)
        same(x, torch.full((3,), float(turn * SIZE)), "anew")
    kept += 1
    assert (kept == SIZE + 1).all(), "memory of the pool outlives its runtime"


def mixed(ours, gloo):
    """The group of all ranks is gloo's, and groups of some ranks are ours."""
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    some = list(range(SIZE - 1, -1, -1)) if SIZE == 2 else [0, SIZE - 1]
    group = dist.new_group(sorted(some), backend="towline")
    if RANK in some:
        x = torch.full((3,), float(RANK))
        dist.all_reduce(x, group=group)
        same(x, torch.full((3,), float(sum(some))), "some of ours")
    group = dist.new_group(backend="towline")
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    other = dist.new_group([0, 1], backend="cpu:towline")
    if RANK < 2:
        dist.all_reduce(x, group=other)
        same(x, torch.full((3,), 2.0 * SIZE), "a group of a group of all")
    dist.barrier()


def towstat(*words):
    """What it says, by no name: there is one job in TOW_STATS_DIR."""
    return subprocess.run([os.environ["TWT_TOWSTAT"], *words], check=False, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def late(ours, gloo):
    """The last rank comes late, while the first asks towstat which group and operation wait."""
    group = dist.new_group(list(range(SIZE)), group_desc="mesh_dp")
    x = torch.ones(100_000)  # of small ones a trace has some alone
    dist.all_reduce(x, group=group)
    asked, said = os.environ["TWT_ASKED"], {}

    def ask():
        said["trace"] = towstat("get", "/v1/slack", f"torchrun-{os.environ['MASTER_PORT']}.0")
        for words in ("verdict", "why", "list", "get coll"):
            said[words] = towstat(*words.split())
        with open(asked, "w"):
            pass

    timer = threading.Timer(4, ask)
    if RANK == 0:
        timer.start()
    while RANK == SIZE - 1 and not os.path.exists(asked):
        time.sleep(0.1)
    if RANK == SIZE - 1 and SIZE > 2:
        dist.send(x, 1, group=group, tag=5)
    elif RANK == 1 and SIZE > 2:
        dist.recv(x, SIZE - 1, group=group, tag=5)
    dist.all_reduce(x, group=group)
    if RANK != 0:
        return
    timer.join()
    holds = (rf'rank {SIZE - 1} has not entered collective 2 of group \d+ "mesh_dp" '
             r'\(all-reduce "all_reduce"\), in which rank \d has waited for ')
    for words, wanted in (
            ("verdict", holds),
            ("why", r'  all_reduce "all_reduce" number 2 in mesh_dp: for [^\n]*\n *' + holds),
            ("why", rf"  recv of tag 0x5 with rank {SIZE - 1} in mesh_dp: " if SIZE > 2 else ""),
            ("get coll", r'group 0 "default_pg": rank 0 of '),
            ("get coll", r'group \d+ "mesh_dp": rank 0 of .* 1 in flight'),
            ("trace", "all_reduce of mesh_dp"),
            *(("list", rf"torchrun-{os.environ['MASTER_PORT']}\.{rank} +live .* torch_program.py ")
              for rank in range(SIZE))):
        assert re.search(wanted, said[words]), f"{words} does not say {wanted!r}: {said[words]}"
    print(said["verdict"], flush=True)


def named(ours, gloo):
    """No launcher: the job is called after the port of c10d's store, at each rank, and the ranks
    are c10d's, for towstat, in the stats, and in the names of flight files."""
    import towline.torch
    job, flights = f"torch-{os.environ['TWT_PORT']}", os.environ["TOW_FLIGHT_DIR"]
    info = towline.torch.runtime().stats("/v1/info")
    assert (info["job"], info["rank"]) == (job, RANK), info
    late = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if RANK == 0:
        wrong = raises(dist.DistBackendError, "TOW_EDEADLINE", dist.all_reduce, torch.ones(3),
                       group=late)
        assert re.search(r"\branks? 1\b", str(wrong)), wrong  # alone, or with others
        until = time.monotonic() + 60
        while not glob.glob(f"{flights}/flight.{job}.0.*.json"):  # a thread writes it
            assert time.monotonic() < until, os.listdir(flights)
            time.sleep(0.05)
        said = towstat("list")
        for rank in range(SIZE):
            assert re.search(rf"{job}\.{rank} +live .* torch_program.py ", said), said
    dist.barrier(group=ours)


def recorded(ours, gloo):
    """Messages that end, one that never comes, and a collective that the last rank stays out of:
    flight recorders write that down. (test_torch.py shows it to PyTorch's analyzer.)"""
    flights = os.environ["TOW_FLIGHT_DIR"]
    late = dist.new_group(timeout=datetime.timedelta(seconds=2))
    for turn in range(3):
        dist.all_reduce(torch.full((1000,), 1.0 + turn), group=ours)
        dist.all_reduce(torch.ones(10), group=late)
    large = torch.full((1 << 16,), float(RANK))
    if RANK == 0:
        dist.send(large, 1, group=ours)
    elif RANK == 1:
        dist.recv(large, 0, group=ours)
        dist.irecv(torch.zeros(5), 0, group=ours, tag=7)
        dist.irecv(torch.zeros(6), group=ours, tag=8)  # of anybody
    if RANK < SIZE - 1:
        raises(dist.DistBackendError, "TOW_EDEADLINE", dist.all_reduce, torch.ones(3), group=late)
    until = time.monotonic() + 60
    while len({name.split(".")[-3] for name in glob.glob(f"{flights}/flight.*.json")}) < SIZE:
        assert time.monotonic() < until, os.listdir(flights)
        time.sleep(0.05)
    print(f"recorded: {flights}", flush=True)
    gloo.barrier().wait()
    os._exit(0)  # with a receive that never ends


def killed(ours, gloo):
    """A rank is killed: the others name it. (test_torch.py looks at what they print.)"""
    dist.barrier(group=ours)
    if RANK == 1:
        os.kill(os.getpid(), 9)
    began = time.monotonic()
    raises(dist.DistBackendError,
           'TOW_EPEER|rank 1|all_reduce of process group 0 "default_pg"', dist.all_reduce,
           torch.ones(1000), group=ours)
    print(f"named after {time.monotonic() - began:.2f} s", flush=True)
    os._exit(0)


def main():
    global seed
    seed = int(sys.argv[1])
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(300, exit=True)
    if LAUNCHED:
        dist.init_process_group("towline")
    else:
        dist.init_process_group("towline", f"tcp://127.0.0.1:{os.environ['TWT_PORT']}", rank=RANK,
                                world_size=SIZE)
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    for name in sys.argv[2:]:
        globals()[name](ours, gloo)
        print(f"{name}: fine", flush=True)
    dist.destroy_process_group()


main()
