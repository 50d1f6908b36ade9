"""jobs.py - starts the ranks of lab_job, tells them of the fault's phases, reads how long their
steps take, and asks Towline about them. What a job is comes as a Spec; faultlab.py has the rest.

Environment: TOW_TEST_BUILD, TOW_TEST_SOURCE (meson sets them).
"""
import dataclasses
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
PROGRAM = os.path.join(BUILD, "tests/faultlab/lab_job")
WIRE = os.path.join(BUILD, "tests/faultlab/lab_wire")
TOWSTAT = os.path.join(BUILD, "tools/towstat/towstat")

BEFORE, FAULT, MENDED = range(3)

# The page, as lab.h has it.
KEPT = 4096
HEAD_BYTES = 64
RANK_BYTES = 16 + 4 * KEPT
PAGE_BYTES = HEAD_BYTES + 8 * RANK_BYTES
PHASE_SHIFT = 30

# A step that a fault has stopped takes so long at least; no step of a healthy job does.
HUNG_S = 2.5


class Skip(Exception):
    """What is to be planted cannot be planted here; the text says why."""


@dataclasses.dataclass
class Spec:
    """A job: what each rank is told, on which lane, and who is told something else."""
    size: int
    lane: str  # shm, tcp: loopback; net: each rank on a host of its own
    options: dict
    env: dict = dataclasses.field(default_factory=dict)
    env_of: dict = dataclasses.field(default_factory=dict)
    absent: tuple = ()  # ranks that are never started
    rails: int = 1
    cores: bool = False  # each rank on one core
    rules: tuple = ()  # of the network, from the start


class Network:
    """Hosts that are namespaces, and the switch between them (lab_wire.c)."""

    def __init__(self, hosts, rails):
        self.process = subprocess.Popen([WIRE, "hosts", str(hosts), str(rails)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        said = self.process.stdout.readline().split()
        if not said or said[0] != "hosts":
            self.process.wait(10)
            raise Skip("no network of its own: " + self.process.stderr.read().strip())
        self.pids = said[1:]

    def rule(self, source, target, rail=-1, delay_us=0, loss_ppm=0, kbit=0, mtu=0, cut=0,
             nosyn=0):
        """What becomes of packets from one host to another from now on; -1: of all."""
        self.process.stdin.write(f"{source} {target} {rail} {delay_us} {loss_ppm} {kbit} {mtu} "
                                 f"{cut} {nosyn}\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Job:
    """A job that runs. Close it, whatever happened."""

    count = 0

    def __init__(self, spec):
        Job.count += 1
        self.spec = spec
        self.name = f"lab{os.getpid()}x{Job.count}"
        self.folder = tempfile.TemporaryDirectory(prefix="tow-lab-")
        os.chmod(self.folder.name, 0o700)
        self.network = None
        self.port = None
        self.ranks = {}
        self.page = None
        self.phase_began = time.monotonic()
        self.waited_before = {}
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        path = os.path.join(self.folder.name, "page")
        with open(path, "wb") as f:
            f.truncate(PAGE_BYTES)
        with open(path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), PAGE_BYTES)
        store = "10.88.0.1:29400"
        if self.spec.lane == "net":
            self.network = Network(self.spec.size, self.spec.rails)
            for rule in self.spec.rules:
                self.network.rule(**rule)
        else:
            # A port that stays this job's: another socket with SO_REUSEADDR is bound beside it,
            # and does not listen.
            self.port = socket.socket()
            self.port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.port.bind(("127.0.0.1", 0))
            store = "127.0.0.1:%d" % self.port.getsockname()[1]
        for rank in range(self.spec.size):
            if rank not in self.spec.absent:
                self._start_rank(rank, path, store)

    def _start_rank(self, rank, page, store):
        spec = self.spec
        env = {k: v for k, v in os.environ.items() if not k.startswith("TOW_")}
        env.update({"TOW_RANK": str(rank), "TOW_WORLD_SIZE": str(spec.size), "TOW_STORE": store,
                    "TOW_JOB": self.name, "TOW_STATS_DIR": self.folder.name,
                    "TOW_HUGE_PAGES": "0", "TOW_PREMAP_MEMORY_BYTES": "32MiB",
                    "TOW_MAX_OPS": "1024", "TOW_LANES": "shm" if spec.lane == "shm" else "tcp",
                    "TOW_VERDICT_INTERVAL_NS": "1s"})
        env.update(spec.env)
        env.update(spec.env_of.get(rank, {}))
        command = [PROGRAM, f"page={page}"] + [f"{k}={v}" for k, v in spec.options.items()]
        if self.network:
            command = [WIRE, "join", self.network.pids[rank]] + command

        def pin():
            if spec.cores:
                cpus = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cpus[rank % len(cpus)]})

        with open(f"{self.folder.name}/out.{rank}", "wb") as out:
            self.ranks[rank] = subprocess.Popen(command, env=env, stdout=out, stderr=out,
                                                stdin=subprocess.DEVNULL, preexec_fn=pin)

    # --- what it does ---

    def set_phase(self, phase):
        self.page[0:4] = struct.pack("<I", phase)
        self.phase_began = time.monotonic()
        self.waited_before = {rank: self.cpu_waited_ns(rank) for rank in self.ranks}

    def counted(self, rank):
        return struct.unpack_from("<QQ", self.page, HEAD_BYTES + rank * RANK_BYTES)

    def steps_us(self, rank, phase):
        """Steps that a rank began in a phase, those of the start left out."""
        at = HEAD_BYTES + rank * RANK_BYTES
        count = min(self.counted(rank)[0], KEPT)
        words = struct.unpack_from(f"<{count}I", self.page, at + 16)
        return [w & ((1 << PHASE_SHIFT) - 1) for w in words[3:] if w >> PHASE_SHIFT == phase]

    def step_ms(self, phase):
        """Of all ranks the mean of a phase's steps, so that rare and long ones count; a step that
        is under way for long counts as well. None: there was none."""
        means = []
        for rank in range(self.spec.size):
            steps = self.steps_us(rank, phase)
            if phase == FAULT and steps and self.counted(rank)[0] > KEPT:
                steps = steps[-KEPT // 2:]
            if steps:
                means.append(sum(steps) / len(steps) / 1000)
        return sorted(means)[len(means) // 2] if means else None

    def is_hung(self):
        """No rank has ended a step for so long: where that is near, it is waited for."""
        while True:
            newest = max(self.counted(rank)[1] for rank in range(self.spec.size))
            age_s = time.monotonic() - newest / 1e9
            if newest == 0 or age_s < HUNG_S / 2 or age_s > HUNG_S:
                return newest != 0 and age_s > HUNG_S
            time.sleep(0.05)

    def wait_steps(self, steps, seconds):
        """Until each rank that has steps has so many; False: not in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(self.alive(r) for r in self.ranks) and self.reached(steps):
                return True
            time.sleep(0.02)
        return False

    def reached(self, steps):
        counts = [self.counted(rank)[0] for rank in self.ranks]
        shape = self.spec.options.get("shape")
        if shape in ("rpc", "flow"):
            counts = counts[1:]
        return min(counts) >= steps

    def alive(self, rank):
        return rank in self.ranks and self.ranks[rank].poll() is None

    def pid(self, rank):
        return self.ranks[rank].pid

    def cpu_waited_ns(self, rank):
        """For how long a rank's threads have wanted a CPU and had none, all of them together."""
        waited = 0
        try:
            for task in os.listdir(f"/proc/{self.pid(rank)}/task"):
                with open(f"/proc/{self.pid(rank)}/task/{task}/schedstat", encoding="utf-8") as f:
                    waited += int(f.read().split()[1])
        except (OSError, ValueError, IndexError):
            pass
        return waited

    def starved(self, rank):
        """The share of the phase for which it has wanted a CPU and had none."""
        waited = self.cpu_waited_ns(rank) - self.waited_before.get(rank, 0)
        return waited / 1e9 / (time.monotonic() - self.phase_began)

    def output(self, rank):
        try:
            with open(f"{self.folder.name}/out.{rank}", encoding="utf-8", errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    # --- what Towline says ---

    def towstat(self, *arguments, limit_s=12):
        env = dict(os.environ, TOW_STATS_DIR=self.folder.name)
        try:
            done = subprocess.run([TOWSTAT, *arguments], env=env, capture_output=True, text=True,
                                  timeout=limit_s, check=False)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return None, ""

    def ask(self, rank, *arguments):
        """A rank's verdict: the exit status, and the document, None where there is none."""
        status, text = self.towstat("verdict", f"{self.name}.{rank}", "--json", *arguments)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, None

    # --- its end ---

    def close(self):
        if self.page:
            self.page[4:8] = struct.pack("<I", 1)
        end = time.monotonic() + 0.5
        for process in self.ranks.values():
            process.send_signal(signal.SIGCONT)
        while time.monotonic() < end and any(p.poll() is None for p in self.ranks.values()):
            time.sleep(0.01)
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
        for process in self.ranks.values():
            process.wait()
        if self.network:
            self.network.close()
        if self.port:
            self.port.close()
        if self.page:
            self.page.close()
            self.page = None
        self.folder.cleanup()
