"""bench.py - what collectives and a step of DDP cost over Towline and over gloo, in one process.

    torchrun --nproc-per-node 2 plugins/torch/bench.py [ROUNDS]

Rounds of the two alternate, so that what else the machine does meets both. Each figure is the
median of all, in ms, at rank 0. "in the pool" is towline.torch.empty; the preload of docs/malloc.md
puts all tensors there. Of DDP's step the part that it spends on communication is what remains of a
step when one without synchronisation is taken away.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
import towline.torch
from torch import nn

LAYERS, WIDTH = 6, 1024  # 24 MiB of gradients
BUCKET_MIB = 8


def once(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def all_reduces(groups, size, rounds):
    tensors = {name: torch.ones(size // 4) for name in groups}
    tensors["in the pool"] = towline.torch.empty(size // 4).fill_(1)
    took = {name: [] for name in tensors}
    for _ in range(rounds):
        for name, tensor in tensors.items():
            group = groups.get(name, groups["towline"])
            for turn in range(8):
                tensor.fill_(1)
                dist.barrier(group=groups["towline"])
                spent = once(lambda: dist.all_reduce(tensor, group=group))
                if turn > 1:
                    took[name].append(spent)
    return took


def steps(groups, rounds):
    given = torch.randn(16, WIDTH)
    took = {}
    models = {}
    for name, group in groups.items():
        torch.manual_seed(1)
        net = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
        models[name] = nn.parallel.DistributedDataParallel(
            net, process_group=group, bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True)

    def step(model):
        model(given).square().mean().backward()

    for _ in range(rounds):
        for name, model in models.items():
            for turn in range(6):
                dist.barrier(group=groups["towline"])
                spent = once(lambda: step(model))
                dist.barrier(group=groups["towline"])
                with model.no_sync():
                    alone = once(lambda: step(model))
                if turn > 1:
                    took.setdefault(name + ", step", []).append(spent)
                    took.setdefault(name + ", without sync", []).append(alone)
    return took


def report(what, took):
    if dist.get_rank() != 0:
        return
    for name, all_of in took.items():
        low, *_, high = statistics.quantiles(all_of, n=10)
        print(f"{what:20} {name:24} {statistics.median(all_of):8.3f} ms  "
              f"(10 %: {low:.3f}, 90 %: {high:.3f}; {len(all_of)})", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(1)
    dist.init_process_group("towline")
    groups = {"gloo": dist.new_group(backend="gloo"), "towline": dist.group.WORLD}
    for size in (1 << 20, 16 << 20):
        report(f"all_reduce {size >> 20} MiB", all_reduces(groups, size, rounds))
    took = steps(groups, rounds)
    report("DDP, 24 MiB", took)
    if dist.get_rank() == 0:
        for name in groups:
            spent = (statistics.median(took[name + ", step"])
                     - statistics.median(took[name + ", without sync"]))
            print(f"{'DDP, 24 MiB':20} {name + ', communication':24} {spent:8.3f} ms")
    counters = towline.torch.runtime().counters()
    if dist.get_rank() == 0:
        print({name: counters[name] for name in ("fallback_copies", "placed_allocs")})
    dist.destroy_process_group()


main()
