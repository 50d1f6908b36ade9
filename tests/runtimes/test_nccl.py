"""test_nccl.py - NCCL itself over plugins/nccl, on a real GPU: PyTorch's collectives, NVIDIA's
nccl-tests, NCCL's calls of the profiler, verdicts about its jobs, and ranks that go.

    test_nccl.py               everything
    test_nccl.py PART...       results, often, tests, verdicts, ends; times (which are not judged);
                               record: events of NCCL's for test_nccl_recorded, in TWT_RECORDED

All ranks share the first GPU: NCCL_HOSTID tells NCCL that each is a host of its own, so that all
bytes go by the network. Needs a python3 whose torch sees a GPU, else the test is skipped.
TOW_TEST_NCCL_TESTS: a folder with nccl-tests, built with MPI=1; without it they are left out.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import ranks

PROGRAM = os.path.join(ranks.SOURCE, "tests/runtimes/nccl_program.py")
PLUGIN = ranks.built("plugins/nccl/libnccl-net-towline.so")
TOWSTAT = ranks.built("tools/towstat/towstat")
TESTS = os.environ.get("TOW_TEST_NCCL_TESTS")
SEED = ranks.seed()
LANES = ("shm", "tcp", "ofi://tcp")
SOCKETS = {"NCCL_NET": "Socket"}
COMMON = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET",
          "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def over(lane, **more):
    # NCCL 2.28 and 2.29 forget a plugin's name when its last communicator goes (docs/nccl.md).
    return {"NCCL_NET_PLUGIN": PLUGIN, "NCCL_NET": "Towline", "TOW_NCCL_LANE": lane,
            "NCCL_NET_PLUGIN_REF_COUNT": "1", **more}


def python_with_gpu():
    python = shutil.which("python3")
    asked = subprocess.run([python, "-c", "import torch, torch.distributed as d\n"
                            "assert torch.cuda.is_available() and d.is_nccl_available()\n"
                            "print(torch.__version__, torch.cuda.nccl.version(),"
                            " torch.cuda.get_device_name())"],
                           capture_output=True, text=True, check=False)
    if asked.returncode:
        ranks.skip("there is no python3 here whose torch sees a GPU")
    print(asked.stdout.strip(), flush=True)
    return python


class Job:
    """Ranks of nccl_program.py, what each prints in a file of its own."""

    def __init__(self, size, arguments, environment):
        self.folder = tempfile.mkdtemp()
        port = str(ranks.free_port())
        self.ranks = []
        for rank in range(size):
            env = {**os.environ, **COMMON, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "WORLD_SIZE": str(size), "RANK": str(rank), "NCCL_HOSTID": f"host{rank}",
                   "TOW_STATS_DIR": self.folder, **environment}
            with open(f"{self.folder}/rank{rank}", "wb") as out:
                self.ranks.append(subprocess.Popen(
                    [PYTHON, PROGRAM, str(SEED), *map(str, arguments)], env=env, stdout=out,
                    stderr=subprocess.STDOUT))

    def text(self, rank):
        with open(f"{self.folder}/rank{rank}", encoding="utf-8", errors="replace") as said:
            return said.read()

    def texts(self):
        return "".join(f"--- rank {rank}\n{self.text(rank)[-3000:]}"
                       for rank in range(len(self.ranks)))

    def expect(self, truth, what):
        if not truth:
            self.end()
            ranks.expect(False, what, self.texts())

    def finish(self, what, limit_s):
        until = time.monotonic() + limit_s
        for rank, one in enumerate(self.ranks):
            try:
                one.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                self.expect(False, f"{what}: rank {rank} did not end")
            self.expect(one.returncode == 0, f"{what}: rank {rank} ended with {one.returncode}")

    def await_line(self, words, limit_s, rank=0):
        until = time.monotonic() + limit_s
        while not re.search(words, self.text(rank)):
            self.expect(time.monotonic() < until and self.ranks[rank].poll() is None,
                        f"rank {rank} says {words!r}")
            time.sleep(0.05)
        return re.search(words, self.text(rank))

    def ask(self, *arguments):
        env = {**os.environ, "TOW_STATS_DIR": self.folder}
        return subprocess.run([TOWSTAT, *arguments], env=env, capture_output=True, text=True,
                              timeout=60, check=False)

    def end(self):
        for one in self.ranks:
            if one.poll() is None:
                one.kill()
        for one in self.ranks:
            one.wait()


@contextlib.contextmanager
def job(size, arguments, environment):
    made = Job(size, arguments, environment)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(made.folder, ignore_errors=True)


def play(part, size, what, environment):
    with job(size, [part], environment) as running:
        running.finish(f"{part} over {what}", 240)
        running.expect("Using network Towline" in running.text(0), "Towline carries them")
        said = [re.search(r"(\d+) results are right", running.text(rank)) for rank in range(size)]
        running.expect(all(said), "each rank has compared")
        print(f"{part} over {what}, {size} ranks: {said[0][0]}", flush=True)


def results():
    for lane in LANES:
        for size in (2, 4) if lane == "shm" else (2,):
            play("results", size, lane, over(lane))
    preload = {"LD_PRELOAD": ranks.built("plugins/malloc/libtowline-malloc.so"),
               "TOW_PREMAP_MEMORY_BYTES": "512MiB"}
    play("results", 2, "shm with the malloc preload", over("shm", **preload))


def often():
    for lane in LANES:
        play("often", 2, lane, over(lane))
    play("often", 3, "shm, profiled", profiled())


def profiled(**more):
    return over("shm", NCCL_PROFILER_PLUGIN=PLUGIN, TOW_JOB="nccl", **more)


def verdicts():
    """The profiler sees a job whose bytes NCCL's own sockets carry, and one of this plugin's."""
    sockets = {**SOCKETS, "NCCL_PROFILER_PLUGIN": PLUGIN, "TOW_JOB": "nccl"}
    for name, environment in (("sockets", sockets), ("plugin", profiled())):
        with job(2, ["train", 0], environment) as running:
            running.await_line("step 100 ", 60)
            time.sleep(2)
            print(f"{name}, nobody late:", running.ask("verdict", "nccl").stdout, flush=True)
            said = running.ask("get", "coll", "nccl").stdout
            running.expect(re.search(r"all-reduce +\d{2}", said),
                           f"the collectives are seen: {said}")
        with job(2, ["train", 12], environment) as running:
            running.await_line("step 100 ", 60)
            time.sleep(2)
            said = running.ask("verdict", "nccl").stdout
            print(f"{name}, rank 1 late:", said, flush=True)
            running.expect(re.search(r"rank 1: late", said), f"the late rank is named: {said}")
        with job(2, ["stop"], environment) as running:
            running.await_line("away at", 60, rank=1)
            time.sleep(5)
            said = running.ask("verdict", "nccl").stdout
            print(f"{name}, rank 1 stays away:", said, flush=True)
            running.expect(re.search(r"stuck", said) and re.search(r"rank 1", said),
                           f"the rank that stays away is named: {said}")


def ends():
    for lane in LANES[:2]:
        with job(2, ["gone"], over(lane)) as running:
            killed = float(running.await_line(r"killed at ([\d.]+)", 60, rank=1)[1])
            until = time.monotonic() + 20
            while time.monotonic() < until and not re.search(
                    r"WARN.*(Towline|towline|peer|lost|gone)", running.text(0)):
                time.sleep(0.02)
            took = time.monotonic() - killed
            said = re.findall(r".*WARN.*|.*failed at.*", running.text(0))
            print(f"{lane}, a rank is killed, {took:.2f} s:", *said[-4:], sep="\n  ", flush=True)
            running.expect(said and took < 2, "the other says so within 2 s")


def nccl_tests():
    """NVIDIA's programs check every result themselves."""
    if not TESTS:
        print("nccl-tests: left out, TOW_TEST_NCCL_TESTS names no folder", flush=True)
        return
    names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall",
             "gather", "scatter", "sendrecv", "hypercube"]
    for lane in LANES:
        for name in names if lane == "shm" else names[:6]:
            said = one_nccl_test(name, over(lane), ["-b", "8", "-e", "32M", "-f", "8", "-n", "3",
                                                    "-w", "1", "-d", "all" if lane == "shm" and
                                                    name == "all_reduce" else "float"])
            print(f"nccl-tests over {lane}: {name}: right", said, flush=True)


def one_nccl_test(name, environment, options, limit_s=100):
    command = ["mpiexec.hydra"]
    for rank in range(2):
        command += [":"] * (rank > 0) + ["-n", "1", "-env", "NCCL_HOSTID", f"host{rank}",
                                         f"{TESTS}/{name}_perf", "-g", "1", *options]
    env = {**os.environ, **COMMON, "NCCL_TESTS_DEVICE": "0", "NCCL_DEBUG": "WARN", **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit_s,
                          check=False)
    text = done.stdout + done.stderr
    ranks.expect(done.returncode == 0 and re.search(r"Out of bounds values : 0 OK", text),
                 f"{name} of nccl-tests", text)
    return re.search(r"Avg bus bandwidth\s*: \S+", text)[0]


def times():
    """The same program and nccl-tests' latencies, in turns over either network; not judged."""
    for turn in range(3):
        for name, environment in (("sockets", SOCKETS), ("tcp", over("tcp")), ("shm", over("shm"))):
            with job(2, ["times"], environment) as running:
                running.finish(f"times over {name}", 120)
                said = re.findall(r"time (\d+) ([\d.]+)", running.text(0))
                print(f"{turn} {name}:", *(f"{int(b)} B {us} us;" for b, us in said), flush=True)


def record():
    recorder = ranks.built("tests/libnccl_recorder.so")
    for name, late_ms in (("healthy", 0), ("late", 12)):
        with job(2, ["train", late_ms], over("shm", NCCL_PROFILER_PLUGIN=recorder,
                                             TWT_RECORD=f"{os.environ['TWT_RECORDED']}/{name}",
                                             NCCL_MAX_NCHANNELS="2")) as running:
            running.await_line("step 100 ", 60)
            print(f"recorded: {name}", flush=True)


PYTHON = python_with_gpu()
for part in sys.argv[1:] or ("results", "often", "tests", "verdicts", "ends"):
    {"results": results, "often": often, "tests": nccl_tests, "verdicts": verdicts, "ends": ends,
     "times": times, "record": record}[part]()
