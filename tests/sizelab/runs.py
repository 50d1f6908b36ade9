"""runs.py - starts the ranks of a program of the sizing laboratory, and tow-size.

Environment: TOW_TEST_BUILD (meson sets it).
"""
import itertools
import json
import os
import re
import socket
import subprocess
import time

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
PROGRAMS = {"pagerun": os.path.join(BUILD, "tests/sizelab/size_job"),
            "jemalloc": os.path.join(BUILD, "tests/sizelab/size_job_jemalloc")}
JEMALLOC = os.path.exists(PROGRAMS["jemalloc"])
TOWSTAT = os.path.join(BUILD, "tools/towstat/towstat")
BENCH = os.path.join(BUILD, "bench/tow-size")
LIMIT_S = 60
LOOK_S = 0.005

COUNT = itertools.count()


class Failure(Exception):
    """It did not run; the text says why."""


def plain_env():
    return {k: v for k, v in os.environ.items() if not k.startswith("TOW_")}


class Run:
    """One run of a program; `log`: the file for the log of rank `of`, taken when all is over, or
    in the middle of it for a second, after which nobody waits for the end."""

    def __init__(self, program, folder, sizes, steps, log=None, of=0, middle=False):
        self.program, self.folder, self.sizes, self.steps = program, folder, sizes, steps
        self.log, self.of, self.middle = log, of, middle
        self.name = f"size{os.getpid()}x{next(COUNT)}"
        self.ranks = []

    def _start(self, rank, store):
        env = plain_env()
        env.update({"TOW_RANK": str(rank), "TOW_WORLD_SIZE": str(len(self.sizes)),
                    "TOW_STORE": store, "TOW_JOB": self.name, "TOW_STATS_DIR": self.folder,
                    "TOW_HUGE_PAGES": "0", "TOW_PREMAP_MEMORY_BYTES": str(self.sizes[rank]),
                    "TOW_FLIGHT_DIR": "none"})
        if self.program.lane != "-":
            env["TOW_LANES"] = self.program.lane
        if self.log and not self.middle and rank == self.of:
            env["TOW_ALLOCLOG"] = "1"
        with open(self._out(rank), "wb") as out:
            self.ranks.append(subprocess.Popen(
                [PROGRAMS[self.program.arena], f"{self.folder}/program", str(self.steps)],
                env=env, stdin=subprocess.PIPE, stdout=out, stderr=out))

    def _out(self, rank):
        return f"{self.folder}/out.{rank}"

    def _said(self, rank):
        with open(self._out(rank), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _await(self, word):
        end = time.monotonic() + LIMIT_S
        for rank, process in enumerate(self.ranks):
            while not re.search(f"^{word}.*\n", self._said(rank), re.MULTILINE):
                if process.poll() is not None or time.monotonic() > end:
                    raise Failure(f"rank {rank} has not come to {word}: " +
                                  " / ".join(self._said(r).strip()[-300:]
                                             for r in range(len(self.ranks))))
                time.sleep(LOOK_S)

    def _take_log(self):
        env = dict(plain_env(), TOW_STATS_DIR=self.folder)
        seconds = ["--seconds", "1"] if self.middle else []
        done = subprocess.run([TOWSTAT, "alloclog", f"{self.name}.{self.of}", *seconds, "-o",
                               self.log], env=env, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
        if done.returncode != 0:
            raise Failure("towstat: " + (done.stdout + done.stderr).strip()[-300:])

    def play(self):
        """Of each rank what its pool had no room for; nothing where it was left in the middle."""
        # Bound and not listening, so that it stays this job's.
        with socket.socket() as port:
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind(("127.0.0.1", 0))
            try:
                for rank in range(len(self.sizes)):
                    self._start(rank, "127.0.0.1:%d" % port.getsockname()[1])
                self._await("ready" if self.middle else "done")
                if self.log:
                    self._take_log()
                return [] if self.middle else [self._counts(r) for r in range(len(self.ranks))]
            finally:
                self._end()

    def _counts(self, rank):
        found = re.search(r"done late (\d+) refused (\d+) grown (\d+) peak (\d+)", self._said(rank))
        return dict(zip(("late", "refused", "grown", "peak"), map(int, found.groups())))

    def _end(self):
        for process in self.ranks:
            process.stdin.close()
            if self.middle:
                process.kill()
        for process in self.ranks:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def size_of(log):
    """tow-size's document about a log."""
    done = subprocess.run([BENCH, "--quick", "--json", "--replay", log], env=plain_env(),
                          capture_output=True, text=True, timeout=2 * LIMIT_S, check=False)
    if done.returncode not in (0, 3):
        raise Failure(f"tow-size: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)
