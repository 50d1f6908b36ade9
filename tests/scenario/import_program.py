"""import_program.py PART TOW-IMPORT MEMREG-BENCH SEED - what test_import holds tow-import to.

    logs       an artefact of each format, made here, becomes the log that was reckoned by hand
    refusals   what makes no sense is refused: status 2, and the file with its line or byte
    replays    tow-size takes each log, and names a size that holds its peak
    random     artefacts with bytes and lines changed, by seed: never a traceback, and no status
               but 0, 1 and 2; of those that end well the log is one that fits together
"""
import contextlib
import gzip
import io
import json
import os
import pickle
import random
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback

PART, PROGRAM, BENCH, SEED = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
HEAD = "kind\tid\tbytes\talign\tthread\ttag\n"

HLO = """\
HloModule step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[256]{0})->(f32[256]{0}, bf16[64]{0})}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b), metadata={op_name="body=%nobody )("}
}

%body (p: (s32[], f32[256])) -> (s32[], f32[256]) {
  %p = (s32[], f32[256]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[256]{0} get-tuple-element(%p), index=1
  %moved = f32[256]{0} collective-permute(%x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  %y = f32[256]{0} negate(%moved)
  ROOT %t = (s32[], /*index=1*/ f32[256]{0}) tuple(%i, %y)
}

%condition (p.1: (s32[], f32[256])) -> pred[] {
  %p.1 = (s32[], f32[256]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  %three = s32[] constant(3)
  ROOT %less = pred[] compare(%i.1, %three), direction=LT
}

ENTRY %main (w: f32[256]) -> (f32[256], bf16[64]) {
  %w = f32[256]{0} parameter(0)
  %zero = s32[] constant(0)
  %g = f32[256]{0} negate(%w)
  %ar = f32[256]{0} all-reduce-start(%g), replica_groups={{0,1}}, to_apply=%sum
  %small = bf16[32]{0} convert(%zero)
  %ag = (bf16[32]{0}, bf16[64]{0}) all-gather-start(bf16[32]{0} %small), dimensions={0}
  %ar.done = f32[256]{0} all-reduce-done(%ar)
  %ag.done = bf16[64]{0} all-gather-done(%ag)
  %copy = f32[256]{0} copy(%ar.done)
  %in = (s32[], f32[256]{0}) tuple(%zero, %copy)
  %loop = (s32[], f32[256]{0}) while(%in), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"3"}}
  %out = f32[256]{0} get-tuple-element(%loop), index=1
  ROOT %result = (f32[256]{0}, bf16[64]{0}) tuple(%out, %ag.done)
}
"""
# The loop's buffer is the output that aliases the parameter: it is the caller's, 1. Blocks of the
# step: 2 g, 3 its sum, 4 small, 5 gathered (to the end), 6 and 7 what the loop's body receives.
HLO_LOG = """\
alloc 1 1024; alloc 2 1024; alloc 3 1024; alloc 4 64; alloc 5 128; free 2; free 4; free 3
alloc 6 1024; free 6; alloc 7 1024; free 7; free 5; step; free 1"""
# Types: half bytes packed by E(4) or not, complex, a tile's rounding, a variadic sum, messages.
TYPES = """\
HloModule types, is_scheduled=true

ENTRY %main (a: s4[10]) -> s4[10] {
  %a = s4[10]{0:E(4)} parameter(0)
  %b = u4[10]{0} parameter(1)
  %c = f8e4m3fn[3,5]{1,0:T(8,128)} parameter(2)
  %d = c64[3]{0} parameter(3)
  %e = pred[7]{0} parameter(4)
  %f = bf16[2,3]{0,1:T(2,128)(2,1)S(1)} parameter(5)
  %v = (s4[10]{0:E(4)}, u4[10]{0}, f8e4m3fn[3,5]{1,0}, c64[3]{0}, pred[7]{0}, bf16[2,3]{1,0}) \
all-reduce(%a, %b, %c, %d, %e, %f), to_apply=%sum
  %k = token[] after-all()
  %s = (pred[7]{0}, u32[], token[]) send(%e, %k), channel_id=4
  %r = (f64[2]{0}, u32[], token[]) recv(%k), channel_id=5
  %rd = (f64[2]{0}, token[]) recv-done(%r), channel_id=5
  %sd = token[] send-done(%s), channel_id=4
  %got = f64[2]{0} get-tuple-element(%rd), index=0
  ROOT %root = s4[10]{0:E(4)} get-tuple-element(%v), index=0
}
"""
TYPES_LOG = """\
alloc 1 5; alloc 2 10; alloc 3 1024; alloc 4 24; alloc 5 7; alloc 6 1024
alloc 7 5; alloc 8 10; alloc 9 15; alloc 10 24; alloc 11 7; alloc 12 12
free 8; free 9; free 10; free 11; free 12; alloc 13 16; free 13; free 7; step
free 1; free 2; free 3; free 4; free 5; free 6"""
# The sum lies where its operand lay: one block.
PLACES = """\
BufferAssignment:
allocation 0: size 1024, parameter 0, shape |f32[256]| at ShapeIndex {}:
 value: <1 w @0> (size=1024,offset=0): f32[256]{0}
allocation 1: size 2304, preallocated-temp:
 value: <2 g @0> (size=1024,offset=0): f32[256]{0}
 value: <3 ar @0> (size=1024,offset=0): f32[256]{0}
 value: <4 small @0> (size=256,offset=1024): bf16[32]{0}
 value: <5 ag{1} @0> (size=256,offset=1280): bf16[64]{0}
"""
PLACED_LOG = """\
alloc 1 1024; alloc 2 1024; alloc 3 256; alloc 4 256; free 3; free 2
alloc 5 1024; free 5; alloc 6 1024; free 6; free 4; step; free 1"""
NCCL = """\
node:7:9 [0] NCCL INFO Bootstrap : Using eth0
node:7:9 [0] NCCL INFO init.cc:491 Cuda Host Alloc Size 4096 pointer 0x7f01
node:7:9 [0] NCCL INFO Mem Realloc old size 0, new size 256 pointer 0x55
[2026-01-02 03:04:05] node:7:8 [0] NCCL INFO channel.cc:43 Cuda CallocAsync Size 608 pointer \
0x7f02 memType 2
node:7:9 [0] NCCL INFO CUMEM Host Alloc Size 2097152 pointer 0x7f03 handle 0x1 numa 0 dev 0 \
granularity 2097152
node:7:9 [0] NCCL TRACE CuMem Alloc Size 2097152 pointer 0x7f04 handle 1
node:7:9 [0] NCCL INFO transport/p2p.cc:123 Cuda Alloc Size 10 pointer 0x7f04
node:7:9 [0] NCCL TRACE Cuda Free pointer 0x7f04
node:7:9 [0] NCCL TRACE CuMem Free Size 2097152 pointer 0x7f04 handle 0x1
node:7:9 [0] NCCL INFO transport/net_ib.cc:9 Ib Alloc Size 100 pointer 0x7f04
node:7:9 [0] NCCL INFO init.cc:1 Cuda Alloc Size 0 pointer (nil)
"""
NCCL_LOG = """\
alloc 1 4096 0 1; alloc 2 608 1 2; alloc 3 2097152 0 1; alloc 4 2097152 0 2; free 4
alloc 5 100 0 1"""
MTRACE = """\
= Start
@ ./a b:(main+0x1d)[0x4005fd] + 0x1c0a460 0x64
@ ./a:[0x4006] + 0x1c0a500 0xc8
@ ./a:[0x4006] < 0x1c0a460
@ ./a:[0x4006] > 0x1c0a600 0x12c
@ ./a:[0x4006] - 0x1c0a500
@ ./a:[0x4006] + 0x1c0a500 0
@ ./a:[0x4006] - 0x99
@ ./a:[0x4006] + 0x1c0a460 0x1
= End
"""
MTRACE_LOG = "alloc 1 100; alloc 2 200; free 1; alloc 3 300; free 2; alloc 4 1"
LTRACE = """\
[pid 5] a->malloc(100)                           = 0x5500
[pid 6] malloc(7 <unfinished ...>
[pid 5] a->calloc(4, 10)                         = 0x5600
[pid 6] <... malloc resumed> )                   = 0x5700
[pid 5] puts("free(0x1) = 0")                    = 3
[pid 5] realloc(0x5500, 200)                     = 0x5800
[pid 5] free(nil)                                = <void>
[pid 6] free(0x5600)                             = <void>
[pid 5] realloc(0x5800, 1000000)                 = 0
[pid 6] malloc(1 <unfinished ...>
+++ exited (status 0) +++
"""
LTRACE_LOG = """\
alloc 1 100 0; alloc 2 40 0; alloc 3 7 1; free 1 0; alloc 4 200 0; free 2 1"""
PLAIN = "# mine\nalloc 0x10 4096\nalloc 32 100 8\nfree 0x10\nfree 32 8\nalloc 0x10 1\n"
PLAIN_LOG = "alloc 1 4096; alloc 2 100; free 1; free 2; alloc 3 1"


def memory(at, address, count, total, kind=0, number=-1):
    return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 9, "ts": at, "args": {
        "Addr": address, "Bytes": count, "Total Allocated": total, "Device Type": kind,
        "Device Id": number}}


# 300 bytes were there; the block 7 of 100 of them is freed, so 200 are before and stay.
TORCH = json.dumps({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "name": "aten::empty", "ts": 1, "dur": 2}, memory(3.5, 8, 50, 350),
    memory(5, 7, -100, 250), memory(4, 9, 1000, 40, 1, 0), memory(6, 8, -50, 200)]}).encode()
TORCH_LOG = "alloc 1 100 0 1; alloc 2 50 0 1; alloc 3 1000 0 2; free 1; free 2"
SNAPSHOT = {"segments": [{"device": 0, "address": 4096, "total_size": 2048, "blocks": [
    {"size": 512, "requested_size": 500, "state": "active_allocated"},
    {"size": 512, "state": "inactive"}, {"size": 1024, "state": "active_allocated"}]}],
    "device_traces": [[
        {"action": "segment_alloc", "addr": 4096, "size": 2048, "stream": 0, "time_us": 1},
        {"action": "free_requested", "addr": 4608, "size": 300, "stream": 0, "time_us": 2},
        {"action": "free_completed", "addr": 4608, "size": 300, "stream": 0, "time_us": 3},
        {"action": "alloc", "addr": 5120, "size": 1000, "stream": 7, "time_us": 4}]]}
# 300 freed, 500 alive and never allocated in it: both from before; 1000 of the trace.
SNAPSHOT_LOG = "alloc 1 300 0 1; alloc 2 500 0 1; free 1; alloc 3 1000 1 1"


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def pb(*fields):
    """A message: (number, an int, a text, or a message)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def named(field, names):
    return [(field, pb((1, number), (2, pb((1, number), (2, name)))))
            for number, name in enumerate(names, 1)]


def xevent(name, offset_ps, address, count, allocator=5):
    return (4, pb((1, name), (2, offset_ps), (4, pb((1, 1), (3, address))),
                  (4, pb((1, 2), (4, count))), (4, pb((1, 3), (7, allocator)))))


STATS = ["addr", "allocation_bytes", "allocator_name", "size", "gpu_host_bfc"]
HOST_PLANE = pb(
    (2, "/host:CPU"),
    (3, pb((1, 3), (3, 10), xevent(1, 500, 64, 100), xevent(2, 9000, 64, 100))),
    (3, pb((1, 4), (3, 10), xevent(2, 100, 32, 70), xevent(1, 600, 96, 1000))),
    *named(4, ["MemoryAllocation", "MemoryDeallocation"]), *named(5, STATS))
XSPACE = pb((1, HOST_PLANE), (4, "node"))
XSPACE_LOG = "alloc 1 70 0 1; free 1 0; alloc 2 100 1 1; alloc 3 1000 0 1; free 2 1"
# The first step ends at 1,001,000 ps: one of three came before, and one says no size.
LATE = pb(
    (1, pb((2, "/host:CPU"), (3, pb((1, 3), (3, 0), *[
        (4, pb((1, 1), (2, at), *([(4, pb((1, 4), (4, size)))] if size else [])))
        for at, size in ((1000, 5000), (2000000, 700), (3000000, 0))])),
           *named(4, ["tpu::System::MapDmaBuffer"]), *named(5, STATS))),
    (1, pb((2, "/device:TPU:0"), (3, pb((2, "Steps"), (3, 1), (4, pb((1, 1), (2, 0),
                                                                      (3, 1000000))))),
           *named(4, ["1"]))))

FORMATS = {
    "hlo": (HLO.encode(), HLO_LOG), "types": (TYPES.encode(), TYPES_LOG),
    "nccl": (NCCL.encode(), NCCL_LOG), "mtrace": (MTRACE.encode(), MTRACE_LOG),
    "ltrace": (LTRACE.encode(), LTRACE_LOG), "plain": (PLAIN.encode(), PLAIN_LOG),
    "torch": (TORCH, TORCH_LOG), "packed": (gzip.compress(TORCH), TORCH_LOG),
    "snapshot": (pickle.dumps(SNAPSHOT), SNAPSHOT_LOG), "xspace": (XSPACE, XSPACE_LOG),
    "late": (LATE, "alloc 1 700"),
}


def expect(truth, what, text=""):
    if not truth:
        print(f"FAILED: {what}\n{text[-4000:]}")
        sys.exit(1)


def started(*words):
    """The program as users start it."""
    return told(subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=60, check=False))


def run(*words):
    """The program in a process of its own, without the start of one more Python."""
    with open("said.log", "wb") as log, open("said.words", "wb") as said:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            sys.argv[0] = PROGRAM
            os.dup2(log.fileno(), 1)
            os.dup2(said.fileno(), 2)
            try:
                status = LOADED["main"](list(words))
            except SystemExit as end:
                status = end.code
            except BaseException:  # as Python itself would say it
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open("said.log", "rb") as log, open("said.words", "rb") as said:
        return told(subprocess.CompletedProcess(words, status, log.read(), said.read()))


def told(done):
    done.log, done.said = done.stdout.decode(), done.stderr.decode()
    return done


def put(name, data):
    with open(name, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return name


def events_of(log):
    """A log as the tables above write it; columns that are not told there are left out."""
    expect(log.startswith(HEAD), "the log begins with its header", log)
    rows = []
    for line in log[len(HEAD):].splitlines():
        if not line.startswith("#"):
            kind, *rest = line.split("\t")
            rows.append([kind, *(rest if kind != "alloc" else rest[:2] + rest[3:])])
    return rows


def same(log, wanted, name):
    rows = events_of(log)
    asked = [row.split() for row in re.split(r"[;\n]\s*", wanted)]
    for row, ask in zip(rows, asked):
        if row[0] == "free":
            row = row[:2] + row[4:]
        expect(row[:len(ask)] == ask, f"{name}: {ask} is wanted, and it is {row}", log)
    expect(len(rows) == len(asked), f"{name}: {len(asked)} events are wanted", log)


def logs():
    for name, (data, wanted) in FORMATS.items():
        done = run(put(name, data))
        expect(done.returncode == 0, f"{name} is read", done.said)
        same(done.log, wanted, name)
        expect(done.said.count("\n") == 1, f"{name}: one paragraph is said", done.said)
    expect("\n# before 200\n" in run("torch").log, "200 bytes were there", run("torch").log)
    more_logs()
    settings()


def more_logs():
    done = run("hlo", "--steps", "2", "-o", "two.log")
    with open("two.log", encoding="ascii") as file:
        two = file.read()
    expect(done.log == "" and two.count("step\n") == 2 and two.count("alloc") == 13,
           "two steps are the caller's block and six of each", two)
    put("places", PLACES)
    same(run("hlo", "places").log, PLACED_LOG, "places")
    # What the body receives goes back into the loop's buffer: no block of its own.
    put("carried", HLO.replace("tuple(%i, %y)", "tuple(%i, %moved)"))
    same(run("carried").log, "alloc 1 1024; alloc 2 1024; alloc 3 1024; alloc 4 64; alloc 5 128; "
         "free 2; free 4; free 3; free 5; step; free 1", "carried")
    # The second line about one block is the caller's; the third is another block.
    twice = "n:1:1 [0] NCCL INFO a.cc:1 Cuda Alloc Size 10 pointer 0x9\n"
    put("third", "n:1:1 [0] NCCL TRACE CuMem Alloc Size 16 pointer 0x9 handle 1\n" + twice * 2)
    same(run("third").log, "alloc 1 16; free 1; alloc 2 10", "third")
    same(run("nccl", "--only", "host").log, "alloc 1 4096; alloc 2 2097152; alloc 3 100", "host")
    same(run("torch", "--only", "cuda:0").log, "alloc 1 1000", "cuda:0")
    same(run("--lenient", put("twice", "alloc 1 5\nalloc 1 7\nfree 1\nfree 1\n")).log,
         "alloc 1 5; free 1; alloc 2 7; free 2", "lenient")
    late = run("late").said
    expect("2 buffers were registered behind the first step, 1 of them without a size: add at "
           "least 700 bytes" in late and "lower bound" in late, "the late ones are told", late)
    for name, text in (("mtrace", "1 free of blocks that were allocated before it began (the first "
                        "at mtrace:8)"), ("ltrace", "1 calls that had not returned"),
                       ("hlo", "3 collectives")):
        expect(text in run(name).said, f"{name} says: {text}", run(name).said)


def settings():
    """4 GiB for the copier and 2 for the sockets unless told otherwise."""
    same(run("--jax-transfer", "pulls=1").log, "alloc 1 4294967296 0 1; alloc 2 2147483648 0 2",
         "transfer")
    done = run("--jax-transfer", "transfer_size=1MiB", "max_num_parallel_copies=4",
               "transport_addresses=0", "largest_array=3MiB", "pulls=1")
    same(done.log, "alloc 1 8388608", "transfer")
    expect("3 chunks of transfer_size, for 8 slots: max_num_parallel_copies=2" in done.said,
           "fewer would do", done.said)


REFUSED = {
    "twice": ("alloc 1 5\nalloc 1 7\n", "twice:2: 0x1 is allocated already"),
    "double": ("alloc 1 5\nfree 1\nfree 1\n", "double:3: 0x1 is freed twice"),
    "huge": ("alloc 1 1099511627777\n", "huge:1: a block of 1099511627777 bytes"),
    "cut": (MTRACE[:MTRACE.index("0x64")], "cut:2: the bytes are missing"),
    "long": ("alloc 1 5\n" + "x" * 5000, "long:2: a line of more than 4096"),
    "ours": (HEAD + "alloc\t1\t5\n", "ours:1: it is a log of Towline's already"),
    "empty": ("", "empty: the file is empty"),
    "noise": ("\x01\x02\x03", "no format that is known"),
    "nocut": (NCCL[:NCCL.index("r 0x7f01")], "nocut:2: an allocation without size and pointer"),
    "pids": (NCCL + "node:8:9 [1] NCCL INFO a.cc:1 Cuda Host Alloc Size 5 pointer 0x1\n",
             "pids:12: the log is of several processes"),
    "module": (HLO[:HLO.index("ROOT %result")], "does not end; was the file cut?"),
    "type": (HLO.replace("bf16[64]{0} all-gather-done", "q7[64]{0} all-gather-done"),
             "type:33: 'q7' is no type"),
    "before": (HLO.replace("copy(%ar.done)", "copy(%nobody)"), "before:34: there is no 'nobody'"),
    "vast": (HLO.replace("f32[256]{0} negate(%w)", "f32[999999999,999999999] negate(%w)"),
             "vast:28: an array of [999999999,999999999]"),
    "json": (TORCH[:-30], "json: it is no JSON"),
    "deep": (b'{"traceEvents":' + b"[" * 200000, "deep: it is no JSON"),
    "args": (b'{"traceEvents":[{"name":"[memory]","ts":1,"args":{"Addr":"x"}}]}',
             "args: event 0: 'Addr' is no whole number"),
    "unpacked": (gzip.compress(TORCH)[:-20], "unpacked: it cannot be read to its end"),
    "space": (XSPACE[:-9], "bytes are announced and"),
    "calls": (pickle.dumps(os.system), "it names posix.system"),
    "half": (pickle.dumps(SNAPSHOT)[:-40], "it is no whole pickle"),
    # 2^32 names for one number: pickle wants 64 GiB for them.
    "memo": (b"\x80\x04K\x01r\xff\xff\xff\xff.", "it is no whole pickle (MemoryError"),
    "list": (pickle.dumps([1]), "list: it is no dictionary"),
    "size": (pickle.dumps({"device_traces": [[{"action": "alloc", "addr": 1, "size": "x"}]]}),
             "device_traces 0, event 0: 'size' is no whole number"),
}
# Each tuple holds the one before twice: 2^40 buffers from 40 lines.
DOUBLED = ("HloModule m, is_scheduled=true\n\nENTRY %main () -> f32[] {\n"
           "  %t0 = f32[8]{0} constant(0)\n" + "".join(
               f"  %t{i} = (f32[8]{{0}}, f32[8]{{0}}) tuple(%t{i - 1}, %t{i - 1})\n"
               for i in range(1, 41)) + "  ROOT %r = f32[8]{0} all-reduce(%t0)\n}\n")


class Sly:
    """What a stranger's pickle would have done to whoever loads it."""

    def __reduce__(self):
        return os.system, ("touch sly-was-here",)


def refusals():
    cases = dict(REFUSED, doubled=(DOUBLED, "a tuple of"), itself=(
        HLO.replace("body=%body", "body=%main"), "deeper than"), sly=(
            pickle.dumps({"segments": Sly()}), "nothing of it was run"))
    for name, (data, text) in cases.items():
        done = run(put(name, data))
        expect(done.returncode == 2 and text in done.said and done.log == "",
               f"{name} is refused with: {text} (status {done.returncode})", done.said)
        expect("Traceback" not in done.said and done.said.count("\n") == 1, name, done.said)
    expect(not os.path.exists("sly-was-here"), "nothing was run")
    for name, data, text in (("none", HLO.replace("all-", "no-").replace("collective-", "no-"),
                              "no collective"), ("void", '{"traceEvents": []}', "[memory]"),
                             ("quiet", "n:1:1 [0] NCCL INFO hello\n", "no allocation")):
        done = run(put(name, data))
        expect(done.returncode == 1 and text in done.said and done.log == "", name, done.said)
    # Time is of the order of the bytes: a square of these would be hours.
    for text in ('"', "/*", "(", '\\"', "branch_computations={", '"known_trip_count":{"n":"1'):
        put("long", HLO.replace("replica_groups=", text * (1 << 20) + ", replica_groups="))
        done = run("long")
        expect(done.returncode in (0, 2) and "Traceback" not in done.said, text, done.said)
    many = pb((1, pb((2, "/host:CPU"), (3, pb((1, 3), *[xevent(1, i, i, 8) for i in range(20000)])),
                     *named(4, ["MemoryAllocation"]), *named(5, STATS))))
    expect("20000 blocks" in run(put("many", many)).said, "many events of one line are read")
    done = started(put("started", "alloc 1 5\nalloc 1 7\n"))
    expect(done.returncode == 2 and "Traceback" not in done.said, "as users start it", done.said)
    for words in ([], ["absent"], ["--steps", "0", "hlo"], ["--jax-transfer", "pulls=x"],
                  ["--jax-transfer", "transfer_size=1024GiB"], ["--jax-transfer", "what=1"],
                  ["--format", "xprof", put("hlo", HLO)], ["hlo", put("plain", PLAIN)],
                  ["hlo", "-o", "no/such/folder"]):
        done = run(*words)
        expect(done.returncode == 2 and "Traceback" not in done.said, f"{words}", done.said)


def replays():
    for name, (data, _) in FORMATS.items():
        put(name, data)
        done = started(name, "-o", name + ".log")
        peak = int(re.search(r"at the peak .*?(\d+) bytes", done.said)[1])
        sized = subprocess.run([BENCH, "--quick", "--replay", name + ".log", "--arena", "pagerun",
                                "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=120, check=False)
        expect(sized.returncode in (0, 3), f"{name} is sized", sized.stderr.decode())
        size = json.loads(sized.stdout)["premap_memory_bytes"]
        expect(size >= peak, f"{name}: {size} bytes hold its peak of {peak}")
        print(f"{name}: peak {peak}, premap_memory_bytes {size}")


def changed(rng, data):
    """The bytes with a few things wrong."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:at + rng.randrange(1, 40)]
        elif kind == 3:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randrange(1, 60)]
        elif kind == 4:
            data[at:at] = rng.choice([b"-1", b"99999999999999999999", b"(", b"}", b"\xff" * 9,
                                      b"\0", b"0x", b"{", b"=", b"\n", b"nan", b"while(%w)"])
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        if not data:
            return b""
    return bytes(data)


def fits_together(log):
    live = set()
    for kind, *row in events_of(log):
        if kind == "alloc":
            expect(row[0] not in live and 0 < int(row[1]) <= 1 << 40, "a block is new", log)
            live.add(row[0])
        elif kind == "free":
            expect(row[0] in live, "a block that is freed lives", log)
            live.remove(row[0])


def random_ones():
    """Within this process: hundreds of them in the time of a few starts."""
    made = [data for data, _ in FORMATS.values()] + [PLACES.encode()]
    rounds = int(os.environ.get("TOW_TEST_ROUNDS", "700"))
    counts = {0: 0, 1: 0, 2: 0}
    for number in range(rounds):
        seed = SEED + number
        rng = random.Random(seed)
        data = changed(rng, rng.choice(made))
        words = [put("random", data)] + rng.choice([[], [], ["--lenient"], ["--steps", "3"]])
        if rng.randrange(4) == 0:
            words += ["--format", rng.choice(["hlo", "xprof", "torch", "nccl", "malloc"])]
        out, said = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                status = LOADED["main"](words)
        except BaseException:  # whatever it is, the seed is wanted
            status = traceback.format_exc()
        expect(status in counts, f"seed {seed}: {words}", f"{status}")
        expect((out.getvalue() != "") == (status == 0), f"seed {seed}: a log, or none",
               said.getvalue())
        counts[status] += 1
        if status == 0:
            fits_together(out.getvalue())
    print(f"seed {SEED}: {rounds} artefacts, by status: {counts}")
    expect(counts[0] > rounds // 20 and counts[2] > rounds // 20, "some are read, some refused")


PARTS = {"logs": logs, "refusals": refusals, "replays": replays, "random": random_ones}
PROGRAM, BENCH = os.path.abspath(PROGRAM), os.path.abspath(BENCH)
LOADED = runpy.run_path(PROGRAM, run_name="tow_import")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    PARTS[PART]()
    os.chdir("/")
