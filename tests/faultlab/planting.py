"""planting.py - faults that come from outside of a rank: signals, quotas, hogs, the network. Each
is an object with begin and end; `begin` raises Skip where the fault cannot be had here."""
import os
import signal
import subprocess
import sys
import threading
import time

from jobs import Skip


class Nothing:
    """The fault is in the ranks themselves, or there from the start."""

    def __init__(self, job, victim, draw):
        self.job, self.victim, self.draw = job, victim, draw

    def begin(self):
        pass

    def end(self):
        """Takes the fault away, as its mend says."""


class Stopped(Nothing):
    def begin(self):
        os.kill(self.job.pid(self.victim), signal.SIGSTOP)

    def end(self):
        os.kill(self.job.pid(self.victim), signal.SIGCONT)


class Killed(Nothing):
    def begin(self):
        os.kill(self.job.pid(self.victim), signal.SIGKILL)


class Pulses(Nothing):
    """Stopped and continued in turn, as cpulimit does it, or now and then for longer."""

    def begin(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._turns, daemon=True)
        self.thread.start()

    def _turns(self):
        pid = self.job.pid(self.victim)
        while not self.over.is_set() and self.job.alive(self.victim):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.draw["stop_ms"] / 1000)
            os.kill(pid, signal.SIGCONT)
            self.over.wait(self.draw["run_ms"] / 1000)

    def end(self):
        self.over.set()
        self.thread.join(5)


class Quota(Nothing):
    """A control group with a part of one CPU, in which the rank is (tests/support/cpu_quota.c)."""

    PERIOD_US = 100000

    def begin(self):
        self.home = self.folder = None
        with open("/proc/self/cgroup", encoding="utf-8") as f:
            rows = [line.strip().split(":", 2) for line in f]
        for base, wanted in (("/sys/fs/cgroup", ""), ("/sys/fs/cgroup/cpu", "cpu")):
            for _, controllers, path in rows:
                if wanted not in controllers.split(",") and controllers != wanted:
                    continue
                home = base + ("" if path == "/" else path)
                if self._make(home):
                    return
        raise Skip("no control group with a quota of CPU time can be made here")

    def _make(self, home):
        folder = f"{home}/tow-lab-{os.getpid()}-{self.job.name}"
        quota = str(self.PERIOD_US * self.draw["percent"] // 100)
        try:
            os.mkdir(folder)
        except OSError:
            return False
        for name, text in (("cpu.max", f"{quota} {self.PERIOD_US}"), ("cpu.cfs_quota_us", quota)):
            if os.path.exists(f"{folder}/{name}") and put(f"{folder}/{name}", text) and \
                    put(f"{folder}/cgroup.procs", str(self.job.pid(self.victim))):
                self.home, self.folder, self.file = home, folder, f"{folder}/{name}"
                return True
        os.rmdir(folder)
        return False

    def end(self):
        if self.folder is None:
            return
        put(self.file, "max" if self.file.endswith("max") else "-1")

    def tidy(self):
        """Once nobody is in the group any more."""
        for _ in range(200):
            try:
                os.rmdir(self.folder)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)


class Hogs(Nothing):
    """Programs that spin on the core on which the rank is pinned."""

    def begin(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise Skip("there is one CPU, which all ranks have")
        cpu = cpus[self.victim % len(cpus)]
        spin = (f"import os, time\nend = time.time() + 60\n"
                f"while time.time() < end and os.getppid() == {os.getpid()}:\n    pass\n")
        self.hogs = [subprocess.Popen([sys.executable, "-c", spin],
                                      preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
                     for _ in range(self.draw["hogs"])]

    def end(self):
        for hog in self.hogs:
            hog.kill()
            hog.wait()


class Rules(Nothing):
    """What the network does to packets of a host, or from it to another (lab_wire.c). Both ways,
    unless `one_way` is drawn."""

    def begin(self):
        self._set(self.draw["rule"])

    def _set(self, rule):
        other = self.draw["other"]
        self.job.network.rule(self.victim, other, self.draw.get("rail", -1), **rule)
        if not self.draw.get("one_way"):
            self.job.network.rule(other, self.victim, self.draw.get("rail", -1), **rule)

    def end(self):
        self._set({})


def put(path, text):
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return True
    except OSError:
        return False
