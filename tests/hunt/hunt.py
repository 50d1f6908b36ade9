#!/usr/bin/env python3
"""hunt.py - jobs of hunt_main.c, drawn by a seed: lanes, ranks, what each thread does, knobs, ranks
that are killed or stopped, hosts that are namespaces whose cables are pulled.

    TOW_TEST_BUILD=build python3 tests/hunt/hunt.py --seed 1 --count 20     # jobs of seeds 1 to 20
    ... --hosts 3 --rails 2     # each job on three hosts of two rails
    ... --kills                 # in each job some rank is killed
    ... --only shm              # jobs of one lane
    ... --beside DIR            # every second rank has the library that is there
    ... --sides 4 --seconds 10

A job that goes wrong prints its seed, its command and what its ranks said. The exit status is 1
then. The whole of a job follows from its seed but for the order in which its threads run.
"""
import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launchers"))
import hosts  # pylint: disable=wrong-import-position

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
PROGRAM = os.environ.get("HUNT_PROGRAM", os.path.join(BUILD, "tests/hunt/hunt"))
PRELUDE = os.environ.get("HUNT_PRELUDE", "").split()  # before the program: env NAME=VALUE, gdb ...

# What a job's environment may be; "" is the default.
KNOBS = {
    "TOW_BACKGROUND": ["", "", "0"],
    "TOW_POLLER": ["", "", "epoll"],
    "TOW_EAGER_MAX_BYTES": ["", "", "0", "256", "65536"],
    "TOW_CREDIT_BYTES": ["", "", "64KiB"],
    "TOW_SPIN_NS": ["", "0", "1000"],
    "TOW_GATHER_NS": ["", "", "0", "20000"],
    "TOW_ZEROCOPY": ["", "", "always", "never"],
    "TOW_PREMAP_MEMORY_BYTES": ["64MiB", "256MiB", "256MiB"],
    "TOW_EXHAUST": ["", "", "copy"],
    "TOW_BULK_STREAMS": ["", "1", "4"],
    "TOW_BULK_CHUNK_BYTES": ["", "", "64KiB"],
    "TOW_SOCKET_BUFFER_BYTES": ["", "", "64KiB"],
    "TOW_CHECKSUM_ALL": ["", "", "1"],
    "TOW_LATE_CACHE_BYTES": ["", "", "0"],
    "TOW_COLL_SEGMENT_BYTES": ["", "", "4096", "65536"],
    "TOW_COLL_DEPTH": ["", "", "1"],
    "TOW_COMBINE": ["", "", "1"],
    "TOW_REPRODUCIBLE": ["", "", "1"],
    "TOW_SHM_PEER_WRITES": ["", "", "0"],
    "TOW_SHM_POLLED_PEERS": ["", "", "0", "1"],
    "TOW_SPAN_SAMPLE": ["", "", "1"],
    "TOW_VERDICT_INTERVAL_NS": ["", "", "0", "1s"],
    "TOW_ALLOCLOG": ["", "", "1"],
    "HUNT_DEVICE": ["", "fake", "fake"],
}

LANES = ["shm", "shm", "tcp", "tcp", "tcp", "ofi:tcp", "ofi:shm", "tow"]


class Job:
    """What is run, as the seed has it."""

    def __init__(self, seed, arguments):
        self.seed = seed
        self.draw = draw = random.Random(seed)
        self.lane = draw.choice([lane for lane in LANES if lane.startswith(arguments.only)
                                 and (not arguments.hosts or lane in ("tcp", "tow", "ofi:tcp"))
                                 # A killed peer may hang libfabric's shm itself (docs/ofi.md).
                                 and not (arguments.kills and lane == "ofi:shm")])
        self.ranks = draw.choice([2, 2, 3, 3, 4, 5])
        sides = arguments.sides or draw.choice([1, 2, 3, 4, 6, 8, 10])
        self.acts = arguments.acts or "".join(draw.choice("mmmccbrrrgppdafqtk")
                                              for _ in range(sides))
        if not arguments.acts and draw.random() < 0.3:
            self.acts += "s"
        self.seconds = arguments.seconds
        self.env = {}
        for name, values in KNOBS.items():
            value = draw.choice(values) if draw.random() < arguments.knobs else ""
            if value:
                self.env[name] = value
        if "d" in self.acts and "HUNT_DEVICE" not in self.env:
            self.env["HUNT_DEVICE"] = "fake"
        if self.lane.startswith("ofi"):
            self.env["TOW_LANES"] = "ofi"
            self.env["TOW_OFI_PROVIDER"] = self.lane[4:]
            self.env["FI_OFI_RXM_MSG_RX_SIZE"] = "512"
        elif self.lane == "tcp":
            self.env["TOW_LANES"] = "tcp"
        elif self.lane == "shm":
            self.env["TOW_LANES"] = "shm"
        if self.lane in ("tcp", "tow"):
            if draw.random() < 0.2:
                self.env["TOW_JOB_KEY"] = "0123456789abcdef0123456789abcdef"
                self.env["TOW_ENCRYPT"] = "1"
        if draw.random() < 0.15:
            self.env["HUNT_ALARM_US"] = draw.choice(["200", "2000"])
        if draw.random() < 0.15:  # a pool in which now and then nothing is free
            self.env.update({"HUNT_TIGHT": "1", "TOW_PREMAP_MEMORY_BYTES": "24MiB",
                             "TOW_EXHAUST": draw.choice(["wait", "fail", "copy", "grow"])})
            self.acts = "".join(act for act in self.acts if act not in "cgbsp") or "mra"
        self.beside = arguments.beside
        self.stops = not arguments.kills and draw.random() < 0.2
        self.kills, self.limit = arguments.kills, arguments.limit
        self.pulls = arguments.hosts and draw.random() < 0.6
        self.victim = draw.randrange(self.ranks)
        self.kill_s = draw.random() * self.seconds

    def text(self):
        words = " ".join(f"{name}={value}" for name, value in sorted(self.env.items()))
        more = (" stops" if self.stops else "") + (" pulls" if self.pulls else "")
        return f"seed {self.seed}: {self.lane} {self.ranks} ranks {self.acts}{more} {words}"


def environment(extra):
    """The job's, and of this process's what belongs to no other job."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TOW_", "HUNT_", "TWT_"))}
    return {**kept, "TOW_FLIGHT_DIR": "none", "TOW_LOG_LEVEL": "1", **extra}


def held_port():
    """A port for the store, as a socket: nobody else gets it as long as that is there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def start(job, network, port):
    """Starts the ranks, with a store at this port; each with the file that it writes to."""
    program = [PROGRAM, str(job.seed), str(job.seconds), job.acts] + (["dying"] * job.kills)
    where = [job.draw.randrange(len(network.pids)) if network else 0 for _ in range(job.ranks)]
    store = f"{network.address(where[0]) if network else '127.0.0.1'}:{port}"
    started = []
    for rank in range(job.ranks):
        env = environment({**job.env, "TOW_RANK": str(rank), "TOW_WORLD_SIZE": str(job.ranks),
                           "TOW_STORE": store, "TOW_JOB": f"hunt{os.getpid()}-{job.seed}"})
        if job.beside and (rank + job.seed) % 2:
            env["LD_LIBRARY_PATH"] = job.beside
        words = [*(network.within(where[rank]) if network else []), *PRELUDE, *program]
        said = tempfile.TemporaryFile(mode="w+", errors="replace")
        started.append((subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=said,
                                         stderr=subprocess.STDOUT), said))
    return started


def stop(job, ranks):
    """Stops a rank for a while, as a debugger or a busy machine does."""
    rank = ranks[job.draw.randrange(len(ranks))][0]
    if rank.poll() is None:
        rank.send_signal(signal.SIGSTOP)
        time.sleep(job.draw.random() ** 3 * 2)
        rank.send_signal(signal.SIGCONT)


def disturb(job, ranks, network, began):
    """Kills the rank that is to die, and pulls cables and plugs them in again."""
    out, playing = None, None
    while any(rank.poll() is None for rank, _ in ranks):
        now = time.monotonic() - began
        if playing is None and os.fstat(ranks[0][1].fileno()).st_size > 0:
            playing = now
        if job.kills and playing is not None and now > playing + job.kill_s:
            ranks[job.victim][0].kill()
        if job.stops and playing is not None and now < playing + job.seconds:
            stop(job, ranks)
        if network and job.pulls and playing is not None and now < playing + job.seconds:
            if out is not None:
                network.plug(*out)
            out = out is None and (job.draw.randrange(len(network.pids)),
                                   job.draw.randrange(network.rails)) or None
            if out is not None:
                network.pull(*out)
            time.sleep(job.draw.random() * 1.5)
        elif out is not None:
            network.plug(*out)
            out = None
        if now > job.limit:
            break
        time.sleep(0.05)
    if out is not None:
        network.plug(*out)


def play(job, network=None):
    """Runs a job; what is wrong with it, or "", how long it took, and what it said."""
    began = time.monotonic()
    with held_port() as held:
        ranks = start(job, network, held.getsockname()[1])
        disturb(job, ranks, network, began)
    took, late, texts = time.monotonic() - began, "", []
    for number, (rank, said) in enumerate(ranks):
        if rank.poll() is None:
            late = f"not ended in {job.limit} s\n"
            rank.kill()
        rank.wait()
        said.seek(0)
        texts.append("".join(f"[{number}] {line}" for line in said))
        said.close()
    status = max(abs(rank.returncode) for number, (rank, _) in enumerate(ranks)
                 if not (job.kills and number == job.victim))
    said = "".join(texts)
    return late + judge(job, said, status), took, said


def judge(job, said, status):
    """What is wrong with what the ranks said."""
    ends = [line for line in said.splitlines() if " leased " in line]
    want = job.ranks - (1 if job.kills else 0)
    if len(ends) < want or status != 0:
        return f"status {status}, {len(ends)} of {want} ranks ended\n" + said
    if any(not line.endswith("leased 0") for line in ends) and not job.kills:
        return "leases are left\n" + said
    if "ERROR: AddressSanitizer" in said or "runtime error" in said:
        return said
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--sides", type=int, default=0)
    parser.add_argument("--acts", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--knobs", type=float, default=0.5)
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--slow", type=float, default=12, help="more seconds than asked are said")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--beside", default="",
                        help="folder with another libtowline, for every second rank")
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--rails", type=int, default=1)
    arguments = parser.parse_args()
    bad, network = 0, None
    if arguments.hosts:
        hosts.own_namespace()
        network = hosts.Network(arguments.hosts, rails=arguments.rails)
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        job = Job(seed, arguments)
        wrong, took, said = play(job, network)
        if wrong:
            bad += 1
            print(f"WRONG {job.text()}\n{wrong}", flush=True)
        elif took > arguments.seconds + arguments.slow:
            print(f"slow {took:.1f} s: {job.text()}\n{said}", flush=True)
    print(f"{arguments.count} jobs from seed {arguments.seed}: {bad} wrong")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
