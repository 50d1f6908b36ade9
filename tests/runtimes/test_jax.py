"""test_jax.py - JAX as it is, over plugins/mpi, beside JAX over gloo (docs/mpi.md).

    test_jax.py           everything
    test_jax.py times     medians of psum by gloo, by Towline, and by it with the malloc preload,
                          side by side; not judged (docs/performance.md)
"""
import os
import re
import subprocess
import sys
import tempfile

import ranks

PROGRAM = os.path.join(ranks.SOURCE, "tests/runtimes/jax_program.py")


def environment_of_jax():
    return {**ranks.compiled_once("jax"), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1",
            "MPITRAMPOLINE_LIB": ranks.built("plugins/mpi/libmpiwrapper-towline.so")}


def run(size, part, implementation, *arguments, environment=None, limit_s=600, python=None):
    env = dict(environment_of_jax(), **(environment or {}))
    command = [python or PYTHON, PROGRAM, part, implementation, f"127.0.0.1:{ranks.free_port()}",
               *map(str, arguments)]
    return ranks.run(size, command, env, limit_s)


def compare(size, seed, environment, *names):
    """Every result is gloo's, bit by bit; a training's may differ by the order of its sums."""
    numpy_compare = (
        "import sys, numpy as np\n"
        "a, b = (np.load(f) for f in sys.argv[1:])\n"
        "assert a.files == b.files\n"
        "bad = [k for k in a.files if not (np.allclose(a[k], b[k], rtol=1e-5)"
        " if k.startswith(('losses', 'weights')) else np.array_equal(a[k], b[k]))]\n"
        "print(f'{len(a.files)} results compared'); assert not bad, bad\n")
    with tempfile.TemporaryDirectory() as folder:
        for which in ("gloo", "mpi"):
            done = run(size, "collectives", which, f"{folder}/{which}", seed, *names,
                       environment=environment if which == "mpi" else None)
            ranks.expect(done.returncode == 0, f"{which} on {size} ranks ends well", done.text)
        for rank in range(size):
            done = ranks.run(1, [PYTHON, "-c", numpy_compare, f"{folder}/gloo-{rank}.npz",
                                 f"{folder}/mpi-{rank}.npz"])
            ranks.expect(done.returncode == 0, f"rank {rank} of {size} has gloo's results",
                         done.text)
    print(f"{size} ranks, {environment}: {done.text.split(']')[1].strip()}", flush=True)


def preload():
    return {"LD_PRELOAD": ranks.built("plugins/malloc/libtowline-malloc.so"),
            "TOW_PREMAP_MEMORY_BYTES": "512MiB"}


def everything():
    seed = ranks.seed()
    compare(2, seed, {"TOW_LANES": "shm"})
    compare(2, seed + 1, {"TOW_LANES": "tcp"})
    compare(4, seed + 2, preload(), "float32", "bfloat16", "complex64", "bool")
    for size in (2, 4):
        done = run(size, "scatter", "mpi", 150)
        ranks.expect(done.text.count(" 0 of 150 wrong") == size, "psum_scatter is right each time",
                     done.text)
        print(f"psum_scatter, {size} ranks: none of 150 wrong", flush=True)
    # In jaxlib 0.12.0.dev gloo gives up after 30 s, whatever it is told (jax #40831).
    done = run(2, "late", "mpi", 40)
    ranks.expect(done.text.count("was awaited") == 2, "a rank may come 40 s late", done.text)
    print("a psum to which a rank comes after 40 s goes well", flush=True)
    asked()
    failures()


def asked():
    """What towstat says of a live job, by no name."""
    with tempfile.TemporaryDirectory() as stats:
        done = run(3, "asked", "mpi", environment={
            "TOW_STATS_DIR": stats, "TWT_ASKED": f"{stats}/asked",
            "TWT_TOWSTAT": ranks.built("tools/towstat/towstat")})
    ranks.expect(done.returncode == 0, "the late rank is awaited", done.text)
    holds = (r'rank 2 has not entered collective 2 of group \d+ "split 1 of MPI_COMM_WORLD, '
             r'color \d+" \(all-reduce "MPI_I?[Aa]llreduce"\), in which rank \d has waited for ')
    for wanted, times in ((holds, 3), (r" live .* jax_program.py ", 3),
                          (r"all_reduce \"MPI_I?[Aa]llreduce\" number 2 in split 1 of MPI_COMM", 2),
                          (r'group 0 "MPI_COMM_WORLD": rank \d of 3', 3)):
        ranks.expect(len(re.findall(wanted, done.text)) >= times, f"{wanted} is said", done.text)
    print(re.search(r"stuck: (.|\n)*?mend", done.text)[0], flush=True)


def failures():
    # Behind a shell, so that towrun lets the others go on; each says who has gone.
    for lanes in ("shm", "tcp"):
        done = run(3, "dead", "mpi", python=os.path.join(ranks.SOURCE, "tests/runtimes/after.sh"),
                   environment={"TOW_TEST_RUNTIME_PYTHON": PYTHON, "TOW_LANES": lanes})
        named = []
        for rank in (0, 1):
            named += [when for when, line in done.lines if re.search(
                rf"MPI_I?[Aa]llreduce, rank {rank} of 3 of split 1 of MPI_COMM_WORLD.*"
                "rank 2 has gone", line)][:1]
            ranks.expect(len(named) == rank + 1,
                         f"rank {rank} names the rank that has gone, and where", done.text)
        ranks.expect("nobody was missed" not in done.text, "nobody goes on", done.text)
        killed = float(re.search(r"killed at ([\d.]+)", done.text)[1])
        print(f"a rank is killed, {lanes}: the others have named it after",
              " and ".join(f"{when - killed:.2f} s" for when in named), flush=True)
    done = run(3, "sub", "mpi", environment={"TOW_COLL_TIMEOUT_NS": "5s"})
    ranks.expect("MPI_Comm_split" in done.text, "the call is named", done.text)
    ranks.expect("a mesh of some of the processes" in done.text, "its cause is named", done.text)
    ranks.expect("that was no error" not in done.text, "it does not work", done.text)
    lonely = {name: value for name, value in os.environ.items() if not name.startswith("TOW_")}
    lonely.update(environment_of_jax())
    done = subprocess.run([PYTHON, PROGRAM, "late", "mpi", f"127.0.0.1:{ranks.free_port()}", "0"],
                          env=lonely, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
                          check=False)
    text = done.stdout.decode(errors="replace")
    ranks.expect(done.returncode == 1 and "no launcher says which rank" in text,
                 "a process of JAX without a launcher is refused", text)
    print("failures: a dead rank, a mesh of some, no launcher: each named", flush=True)


def times():
    for name, which, environment in (("gloo", "gloo", {}), ("towline", "mpi", {}),
                                     ("towline, malloc", "mpi", preload())):
        environment = dict(environment, TOW_LANES="shm")
        done = run(2, "time", which, 60, environment=environment)
        ranks.expect(done.returncode == 0, f"{name} ends well", done.text)
        print(name, *[line.split("] ")[1] for line in done.text.splitlines() if "] time " in line],
              sep="; ", flush=True)


PYTHON = ranks.python_of("jax")
if len(sys.argv) > 1:
    times()
else:
    everything()
