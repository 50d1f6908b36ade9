"""jax_program.py PART IMPLEMENTATION ADDRESS [ARGUMENTS...] - an ordinary program of JAX, run as
one of the ranks of a job by test_jax.py, which compares what it leaves with gloo's.

    collectives OUT SEED [TYPE...]   every collective over types and sizes, and a training; into
                           OUT-rank.npz
    scatter ROUNDS         psum_scatter in a loop, each result against what it must be (jax #40830)
    late SECONDS           one rank comes late to a psum (jax #40831)
    asked                  one rank comes late, while another asks towstat
    dead                   the last rank dies within a loop of psums
    sub                    a mesh of some of the processes
    time ROUNDS            medians of psum, as lines "time MIB SECONDS"
"""
import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RANK, SIZE = (int(os.environ.get(f"TOW_{name}", other))
              for name, other in (("RANK", 0), ("WORLD_SIZE", 1)))
TYPES = ["float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64", "bool", "complex64", "complex128"]
COUNTS = [1, 7, 1000, 65536, 400000]


def begin(implementation, address):
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", implementation)
    jax.distributed.initialize(address, SIZE, RANK)
    return Mesh(np.array(jax.devices()), ("x",))


def values(rng, name, shape):
    """Small whole numbers, of which every sum is exact in every type."""
    whole = rng.integers(0, 8, shape)
    if name == "bool":
        return whole % 2 == 1
    if name.startswith("complex"):
        return (whole + 1j * rng.integers(0, 8, shape)).astype(name)
    return whole.astype(jnp.dtype(name))


def spread(mesh, rows):
    """An array of a row for each rank; this process has its own."""
    return jax.make_array_from_callback(rows.shape, NamedSharding(mesh, P("x")),
                                        lambda index: rows[index])


def on_each(mesh, function, out=P("x")):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out,
                                 check_vma=False))


def mine(array):
    return np.asarray(array.addressable_data(0))


def operations(name):
    """By name: what each rank does with its row, of shape (1, SIZE * count)."""
    ring = [(r, (r + 1) % SIZE) for r in range(SIZE)]
    line = [(r, r + 1) for r in range(SIZE - 1)]
    found = {
        "all_gather": lambda x: jax.lax.all_gather(x[0], "x", tiled=True)[None],
        "all_to_all": lambda x: jax.lax.all_to_all(x, "x", 1, 1, tiled=True),
        "ppermute": lambda x: jax.lax.ppermute(x, "x", ring),
        "ppermute_line": lambda x: jax.lax.ppermute(x, "x", line),
    }
    if name != "bool":
        found["psum"] = lambda x: jax.lax.psum(x, "x")
        found["psum_scatter"] = lambda x: jax.lax.psum_scatter(x[0], "x", tiled=True)[None]
    if not name.startswith("complex") and name != "bool":
        found["pmax"] = lambda x: jax.lax.pmax(x, "x")
        found["pmin"] = lambda x: jax.lax.pmin(x, "x")
    return found


def train(mesh, rng):
    """Twenty steps of a small network, data parallel; its losses and its weights."""
    weights = [rng.normal(size=s).astype("float32") * 0.3 for s in ((16, 32), (32, 4))]
    data = spread(mesh, rng.normal(size=(SIZE, 8, 16)).astype("float32"))
    target = spread(mesh, rng.normal(size=(SIZE, 8, 4)).astype("float32"))

    def loss_of(w, x, y):
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)

    def step(w, x, y):
        loss, slopes = jax.value_and_grad(loss_of)(w, x[0], y[0])
        slopes = jax.tree.map(lambda g: jax.lax.pmean(g, "x"), slopes)
        return [a - 0.1 * g for a, g in zip(w, slopes)], jax.lax.pmean(loss, "x")

    run = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P("x"), P("x")),
                                out_specs=(P(), P()), check_vma=False))
    losses = []
    for _ in range(20):
        weights, loss = run(weights, data, target)
        losses.append(float(mine(loss)))
    return np.array(losses), [mine(w) for w in weights]


def collectives(mesh, out, seed, *names):
    results = {}
    for name in names or TYPES:
        for count in COUNTS:
            if count not in (7, 1000) and name not in ("float32", "int8"):
                continue  # each shape is compiled anew
            rng = np.random.default_rng([int(seed), TYPES.index(name), count])
            rows = spread(mesh, values(rng, name, (SIZE, SIZE * count)))
            for what, function in operations(name).items():
                got = mine(on_each(mesh, function)(rows))
                results[f"{what}-{name}-{count}"] = np.frombuffer(got.tobytes(), "uint8")
    losses, weights = train(mesh, np.random.default_rng(int(seed)))
    assert losses[-1] < losses[0], losses
    results["losses"] = losses
    for i, w in enumerate(weights):
        results[f"weights-{i}"] = w
    np.savez(f"{out}-{RANK}.npz", **results)
    print(f"{len(results)} results")


def scatter(mesh, rounds):
    count = 50000
    run = on_each(mesh, lambda x: jax.lax.psum_scatter(x[0], "x", tiled=True)[None])
    wrong = 0
    for i in range(int(rounds)):
        rows = np.random.default_rng(i).integers(0, 1000, (SIZE, SIZE * count)).astype("float32")
        got = mine(run(spread(mesh, rows)))[0]
        wrong += not np.array_equal(got, rows.sum(0)[RANK * count:(RANK + 1) * count])
    print(f"{wrong} of {rounds} wrong")


def late(mesh, seconds):
    run = on_each(mesh, lambda x: jax.lax.psum(x, "x"))
    rows = spread(mesh, np.arange(SIZE, dtype="float32")[:, None] + 1)
    jax.block_until_ready(run(rows))
    if RANK == SIZE - 1:
        time.sleep(float(seconds))
    assert mine(run(rows))[0, 0] == SIZE * (SIZE + 1) / 2
    print("came late, and was awaited")


def asked(mesh):
    """The last rank comes when the first has asked towstat who is waited for, and in what."""
    run = on_each(mesh, lambda x: jax.lax.psum(x, "x"))
    rows = spread(mesh, np.ones((SIZE, 1000), "float32"))
    jax.block_until_ready(run(rows))
    there = os.environ["TWT_ASKED"]

    def ask():
        for words in ("list", "verdict", "why", "get coll"):
            print(subprocess.run([os.environ["TWT_TOWSTAT"], *words.split()], check=False,
                                 text=True, timeout=60, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT).stdout, flush=True)
        with open(there, "w"):
            pass

    if RANK == 0:
        threading.Timer(3, ask).start()
    while RANK == SIZE - 1 and not os.path.exists(there):
        time.sleep(0.1)
    assert mine(run(rows))[0, 0] == SIZE


def dead(mesh):
    run = on_each(mesh, lambda x: jax.lax.psum(x, "x"))
    rows = spread(mesh, np.ones((SIZE, 1000), "float32"))
    jax.block_until_ready(run(rows))
    if RANK == SIZE - 1:
        print(f"killed at {time.monotonic()}", flush=True)
        os.kill(os.getpid(), 9)
    for _ in range(100):
        jax.block_until_ready(run(rows))
    print("nobody was missed")


def sub(_):
    some = Mesh(np.array(jax.devices()[:SIZE - 1]), ("x",))
    if RANK < SIZE - 1:
        rows = spread(some, np.ones((SIZE - 1, 10), "float32"))
        jax.block_until_ready(on_each(some, lambda x: jax.lax.psum(x, "x"))(rows))
        print("that was no error")
    else:
        time.sleep(30)


def measure(mesh, rounds):
    run = on_each(mesh, lambda x: jax.lax.psum(x, "x"))
    for mib in (1, 16):
        rows = spread(mesh, np.ones((SIZE, mib << 18), "float32"))
        jax.block_until_ready(run(rows))
        took = []
        for _ in range(int(rounds)):
            start = time.perf_counter()
            jax.block_until_ready(run(rows))
            took.append(time.perf_counter() - start)
        if RANK == 0:
            print(f"time {mib} {np.median(took):.6f}")


PARTS = {"collectives": collectives, "scatter": scatter, "late": late, "asked": asked,
         "dead": dead, "sub": sub, "time": measure}

if __name__ == "__main__":
    PARTS[sys.argv[1]](begin(sys.argv[2], sys.argv[3]), *sys.argv[4:])
