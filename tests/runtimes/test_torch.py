"""test_torch.py - torch.distributed over Towline, which it finds by the entry point of our wheel:
torch_program.py plays ordinary programs over it and over gloo, and compares them.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import ranks

PYTHON = ranks.python_of("torch")
PROGRAM = os.path.join(ranks.SOURCE, "tests/runtimes/torch_program.py")
PLUGIN = os.path.join(ranks.SOURCE, "plugins/torch")
SEED = ranks.seed()
# pip has compiled nothing, and torch is long to compile.
COMMON = {**ranks.compiled_once("torch"), "OMP_NUM_THREADS": "1", "TOW_LOG_LEVEL": "1",
          "TOWLINE_LIBRARY": ranks.built("libtowline.so"), "TORCH_CPP_LOG_LEVEL": "ERROR"}


def start(size, parts, environment, command=(PYTHON, PROGRAM)):
    """Starts the ranks with the variables of torch's env:// alone."""
    port = str(ranks.free_port())
    env = {**os.environ, **COMMON, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
           "WORLD_SIZE": str(size), **environment}
    name = "RANK"
    if "TWT_WORLD_SIZE" in env:  # no launcher
        env["TWT_PORT"], name = port, "TWT_RANK"
        for variable in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"):
            env.pop(variable, None)
    return [subprocess.Popen([*command, str(SEED), *parts], env={**env, name: str(rank)},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(size)]


def play(what, size, parts, environment=None, spared=(), **options):
    """Plays parts, and ends the test unless every rank says of each that it is fine."""
    running = start(size, parts, environment or {}, **options)
    texts = []
    for one in running:
        try:
            texts.append(one.communicate(timeout=400)[0])
        except subprocess.TimeoutExpired:
            for other in running:
                other.kill()
            ranks.expect(False, f"{what}: {' '.join(parts)} did not end", one.communicate()[0])
    for rank, (one, text) in enumerate(zip(running, texts)):
        if rank in spared:
            continue
        ranks.expect(one.returncode == 0, f"{what}: rank {rank} of {size}: {one.returncode}", text)
    said = re.findall(r"(\d+) calls gave what gloo gives, (\d+)", texts[0])
    print(f"{what}: {size} ranks: {' '.join(parts)}" + (f" {said[0]}" if said else ""), flush=True)
    return texts


def analyze(flights):
    """PyTorch's own analyzer reads what towstat makes of the files: it names the rank that stayed
    out of the last all_reduce, and the messages that never came, and stops at none."""
    with tempfile.TemporaryDirectory() as out:
        made = subprocess.run(
            [ranks.built("tools/towstat/towstat"), "verdict", "--from", flights, "--fr-trace", out],
            capture_output=True, text=True, check=False)
        ranks.expect(made.returncode == 0 and "3 of 3 ranks" in made.stdout and
                     "left out" not in made.stdout, "towstat --fr-trace",
                     made.stdout + made.stderr)
        read = subprocess.run(
            [PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace", out],
            env={**os.environ, **COMMON}, capture_output=True, text=True, check=False)
    said = read.stdout + read.stderr
    for wanted in (r"sequence number: 4\n(.*\n)*?collective: nccl:all_reduce\nmissing ranks: \{2\}",
                   r"collective: nccl:recv 1<-0\n", r"collective: nccl:recv 1<-\?\n"):
        ranks.expect(read.returncode == 0 and re.search(wanted, said), f"fr_trace: {wanted}", said)
    ranks.expect("send 0->1" not in said, "fr_trace: a message that was received", said)
    print("fr_trace: fine", flush=True)


@contextlib.contextmanager
def wheel_folder():
    """Where the wheel is unpacked; what is compiled of it goes with it."""
    with tempfile.TemporaryDirectory() as site:
        yield site
    shutil.rmtree(COMMON["PYTHONPYCACHEPREFIX"] + site, ignore_errors=True)


def main():
    with wheel_folder() as site:
        code = f"import wheel; print(wheel.build_wheel({site!r}))"
        made = subprocess.run([PYTHON, "-c", code], cwd=PLUGIN, check=True, text=True,
                              capture_output=True, env={**os.environ, **COMMON,
                                                        "PYTHONPATH": PLUGIN}).stdout.strip()
        with zipfile.ZipFile(f"{site}/{made}") as packed:
            packed.extractall(site)
        by_entry = {"PYTHONPATH": site}
        for size in (2, 4):
            play("all", size, ["results", "uneven", "objects", "works", "arguments", "messages",
                               "groups", "splits", "threads", "loader", "deadlines", "ddp",
                               "fsdp"], by_entry)
            play("process groups", size, ["pool", "again", "mixed"], by_entry)
        # What gloo's shared memory was taken back for: threads (above), and hosts that were
        # guessed from LOCAL_WORLD_SIZE. (The third is another machine's instructions.)
        for nonsense in ("1", "64"):
            play(f"LOCAL_WORLD_SIZE={nonsense}", 2, ["hosts"],
                 {**by_entry, "LOCAL_WORLD_SIZE": nonsense})
        play("over tcp", 2, ["results", "works", "messages", "ddp"],
             {**by_entry, "TOW_LANES": "tcp"})
        with tempfile.TemporaryDirectory() as stats:
            play("no launcher", 2, ["named"], {
                **by_entry, "TWT_WORLD_SIZE": "2", "TOW_STATS_DIR": stats,
                "TOW_FLIGHT_DIR": stats, "TWT_TOWSTAT": ranks.built("tools/towstat/towstat")})
        with tempfile.TemporaryDirectory() as flights:
            play("recorded", 3, ["recorded"], {
                **by_entry, "TOW_FLIGHT_DIR": flights, "TOW_LANES": "tcp"})
            analyze(flights)
        play("checked by c10d's wrapper", 2, ["works", "splits", "checked"],
             {**by_entry, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
        play("placed by the preload", 2, ["placed"], {
            **by_entry, "LD_PRELOAD": ranks.built("plugins/malloc/libtowline-malloc.so"),
            "TOW_PREMAP_MEMORY_BYTES": "128MiB"})
        for lanes in ("shm", "tcp"):
            for text in play(f"a rank is killed, {lanes}", 4, ["killed"],
                             {**by_entry, "TOW_LANES": lanes}, spared=(1,)):
                print("".join(re.findall(r"named after .*\n", text)), end="")
        for size in (2, 4):
            with tempfile.TemporaryDirectory() as stats:
                print(play("asked by towstat", size, ["late"], {
                    **by_entry, "TOW_STATS_DIR": stats, "TWT_ASKED": f"{stats}/asked",
                    "TWT_TOWSTAT": ranks.built("tools/towstat/towstat")})[0], end="")
        play("by import alone", 2, ["works"], {"PYTHONPATH": PLUGIN}, command=(
            PYTHON, "-c", "import runpy, sys, towline.torch\n"
            f"sys.argv[0] = {PROGRAM!r}\nrunpy.run_path({PROGRAM!r})"))
        done = subprocess.run(
            [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend",
             "c10d", "--rdzv-endpoint", "localhost:0", PROGRAM, str(SEED), "works", "again"],
            env={**os.environ, **COMMON, **by_entry}, capture_output=True, text=True, timeout=400,
            check=False)
        ranks.expect(done.returncode == 0 and done.stdout.count("again: fine") == 2, "torchrun",
                     done.stdout + done.stderr)
        print("torchrun: fine")


main()
sys.exit(0)
