"""nccl_program.py - what test_nccl.py runs as ranks: PyTorch over NCCL, all ranks on one GPU.

    nccl_program.py SEED PART [ARGUMENT]

    results          every collective, held against what each rank computes by itself
    train LATE_MS    steps of a training, before which the last rank idles for so long; until killed
    stop             the same, and the last rank stays away from the collective after the 20th
    gone             the same, and the last rank kills itself after the 20th; the others say when
    often            graphs that are captured and replayed, workers of a loader that fork, a
                     collective that is aborted while another rank stays away, all of it once more
    times            medians of all-reduce by size
"""
import hashlib
import os
import random
import signal
import statistics
import sys
import time

import torch
import torch.distributed as dist

RANK, SIZE = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
DEVICE = torch.device("cuda", 0)
MOVED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
         torch.int32, torch.int64, torch.bool]
SUMMED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64]
OPS = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul,
       dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
compared = 0


def values(dtype, count, rank, key):
    """Small whole numbers, so that the order of sums does not matter. The same at every rank."""
    random_of = torch.Generator().manual_seed(int.from_bytes(
        hashlib.sha256(f"{SEED} {dtype} {count} {rank} {key}".encode()).digest()[:7], "big"))
    low, high = (0, 2) if dtype in (torch.bool, torch.uint8) else (-2, 3)
    return torch.randint(low, high, (count,), generator=random_of).to(dtype).to(DEVICE)


def of_all(dtype, count, key):
    return [values(dtype, count, rank, key) for rank in range(SIZE)]


def same(what, got, right):
    global compared
    compared += 1
    assert torch.equal(got, right), f"{what}: wrong at {(got != right).nonzero()[:4].tolist()}"


def reductions(dtype, count):
    for number, (op, plain) in enumerate(OPS.items()):
        inputs = of_all(dtype, count, number)
        right = inputs[0]
        for other in inputs[1:]:
            right = plain(right, other)
        what = f"{dtype} x {count}, op {number}"
        got = inputs[RANK].clone()
        dist.all_reduce(got, op)
        same(f"all_reduce of {what}", got, right)
        root = (count + number) % SIZE
        got = inputs[RANK].clone()
        dist.reduce(got, root, op)
        if root == RANK:
            same(f"reduce of {what}", got, right)
        parts = of_all(dtype, count * SIZE, number)
        got = torch.empty(count, dtype=dtype, device=DEVICE)
        dist.reduce_scatter_tensor(got, parts[RANK], op)
        mine = [part[RANK * count:(RANK + 1) * count] for part in parts]
        right = mine[0]
        for other in mine[1:]:
            right = plain(right, other)
        same(f"reduce_scatter of {what}", got, right)


def moves(dtype, count):
    what = f"{dtype} x {count}"
    inputs = of_all(dtype, count, "moves")
    got = torch.empty(count * SIZE, dtype=dtype, device=DEVICE)
    dist.all_gather_into_tensor(got, inputs[RANK])
    same(f"all_gather of {what}", got, torch.cat(inputs))
    for root in range(SIZE):
        got = inputs[RANK].clone()
        dist.broadcast(got, root)
        same(f"broadcast of {what} from {root}", got, inputs[root])
        lists = [torch.empty_like(got) for _ in range(SIZE)] if root == RANK else None
        dist.gather(inputs[RANK], lists, root)
        if root == RANK:
            same(f"gather of {what}", torch.cat(lists), torch.cat(inputs))
        dist.scatter(got, inputs if root == RANK else None, root)
        same(f"scatter of {what}", got, inputs[RANK])
    parts = of_all(dtype, count * SIZE, "all to all")
    got = torch.empty(count * SIZE, dtype=dtype, device=DEVICE)
    dist.all_to_all_single(got, parts[RANK])
    same(f"all_to_all of {what}", got,
         torch.cat([part[RANK * count:(RANK + 1) * count] for part in parts]))
    got = torch.empty(count, dtype=dtype, device=DEVICE)
    for request in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, inputs[RANK], (RANK + 1) % SIZE),
            dist.P2POp(dist.irecv, got, (RANK - 1) % SIZE)]):
        request.wait()
    same(f"a ring of {what}", got, inputs[RANK - 1])


def groups():
    """Communicators beside each other, and many operations under way at once."""
    made = [dist.new_group([first, first + 1]) for first in range(SIZE - 1)]
    for turn in range(3):
        for first, group in enumerate(made):
            if RANK in (first, first + 1):
                got = torch.full((1000 + turn,), float(RANK + 1), device=DEVICE)
                dist.all_reduce(got, group=group)
                same(f"all_reduce in group {first}", got, torch.full_like(got, 2 * first + 3))
    tensors = [torch.full((1 + 977 * i,), float(RANK + i), device=DEVICE) for i in range(40)]
    for work in [dist.all_reduce(t, async_op=True) for t in tensors]:
        work.wait()
    for i, tensor in enumerate(tensors):
        same(f"the {i}th of 40 at once", tensor,
             torch.full_like(tensor, sum(rank + i for rank in range(SIZE))))


def results():
    pick = random.Random(SEED)
    counts = [1, 3, 1000, pick.randint(4096, 9000), 65537, pick.randint(1 << 19, 1 << 20)]
    for count in counts:
        for dtype in MOVED:
            moves(dtype, count)
        for dtype in SUMMED:
            reductions(dtype, count)
    groups()
    torch.cuda.synchronize()
    print(f"{compared} results are right", flush=True)
    dist.destroy_process_group()


def replayed():
    """A collective inside of a graph: the network is driven by what the graph calls."""
    tensor = torch.ones(300000, device=DEVICE)
    total = torch.zeros_like(tensor)
    graph = torch.cuda.CUDAGraph()
    dist.all_reduce(tensor.clone())
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        reduced = tensor * (RANK + 1)
        dist.all_reduce(reduced)
        total += reduced
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    same("20 replays", total, torch.full_like(total, 20.0 * SIZE * (SIZE + 1) / 2))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4096,), float(index))


def loaded():
    """Its workers are forked from a process that has communicators."""
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True)
    total = torch.zeros(4096, device=DEVICE)
    for batch in loader:
        part = batch.to(DEVICE, non_blocking=True).sum(0) * (RANK + 1)
        dist.all_reduce(part)
        total += part
    same("batches of a loader", total, torch.full_like(total, 2016.0 * SIZE * (SIZE + 1) / 2))


def aborted():
    """The last rank stays away; the others abort what they have begun, and all begin again."""
    group = dist.new_group(range(SIZE))
    tensor = torch.ones(1 << 20, device=DEVICE)
    dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    if RANK != SIZE - 1:
        dist.all_reduce(tensor, group=group, async_op=True)
    time.sleep(1)
    start = time.monotonic()
    # pylint: disable-next=protected-access
    dist.distributed_c10d._abort_process_group(group)
    torch.cuda.synchronize()
    print(f"aborted within {time.monotonic() - start:.2f} s", flush=True)


def often():
    for turn in range(3):
        if turn:
            dist.init_process_group("nccl", device_id=DEVICE)
        groups()
        replayed()
        loaded()
        aborted()
        groups()
        dist.barrier()
        dist.destroy_process_group()
    print(f"{compared} results are right", flush=True)


def train(late_ms, last=None):
    """The gradients of a small model. last: what the last rank does after the 20th step."""
    weights = torch.randn(1024, 1024, device=DEVICE)
    gradients = torch.ones(1 << 20, device=DEVICE)
    step = 0
    while True:
        weights = torch.tanh(weights @ weights)
        torch.cuda.synchronize()
        time.sleep(0.004)
        if RANK == SIZE - 1:
            time.sleep(late_ms / 1e3)
            if last and step == 20:
                last()
        dist.all_reduce(gradients, dist.ReduceOp.AVG)
        torch.cuda.synchronize()
        step += 1
        if step in (1, 100):
            print(f"step {step} at {time.monotonic():.2f}", flush=True)


def stay_away():
    print(f"away at {time.monotonic():.2f}", flush=True)
    time.sleep(300)


def kill_oneself():
    print(f"killed at {time.monotonic():.2f}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def gone():
    try:
        train(0, kill_oneself)
    except Exception as wrong:  # whatever PyTorch makes of it
        print(f"failed at {time.monotonic():.2f}: {wrong}", flush=True)
        os._exit(1)


def times():
    for bytes_ in (8, 65536, 1 << 20, 16 << 20):
        tensor = torch.ones(max(bytes_ // 4, 1), device=DEVICE)
        took = []
        for _ in range(30):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.perf_counter()
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
            took.append(time.perf_counter() - start)
        print(f"time {bytes_} {statistics.median(took[5:]) * 1e6:.1f}", flush=True)
    dist.destroy_process_group()


SEED = int(sys.argv[1])
torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl", device_id=DEVICE)
part, *arguments = sys.argv[2:]
{"results": results, "train": lambda: train(float(arguments[0])), "gone": gone,
 "often": often, "stop": lambda: train(0, stay_away), "times": times}[part]()
