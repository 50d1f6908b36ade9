"""launchers.py - what the tests of the suite `launchers` share: programs that must be there, runs
of launch_program under somebody's launcher, and the judgement of what its ranks print.

    launchers.need("mpirun.openmpi")
    done = launchers.run(["mpirun.openmpi", "-n", "3", launchers.PROGRAM])
    launchers.expect_job(done, 3, "openmpi", "shm")

Environment: TOW_TEST_BUILD, TOW_TEST_SOURCE (meson sets them), TOW_TEST_RUNTIMES (docs/testing.md).
"""
import os
import re
import shutil
import subprocess
import sys

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
SOURCE = os.environ.get("TOW_TEST_SOURCE", ".")
RUNTIMES = os.environ.get("TOW_TEST_RUNTIMES", os.path.expanduser("~/.cache/towline-runtimes"))
PROGRAM = os.path.join(BUILD, "tests/launchers/launch_program")
SKIP = 77
WELL = re.compile(
    r"all well: rank (?P<rank>\d+) of (?P<size>\d+), launcher (?P<launcher>\w+), "
    r"local (?P<local>-?\d+) of (?P<locals>-?\d+), restarts (?P<restarts>-?\d+), "
    r"lanes \[(?P<lanes>[a-z ]*)\], (?P<rounds>\d+) rounds of "
    r"at most (?P<longest>[\d.]+) s, job (?P<job>\S*)")


def skip(why):
    """Ends the test; it did not run, and says why."""
    print(f"skipped: {why}")
    sys.exit(SKIP)


def need(*programs):
    """Skips the test where one of the programs is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            skip(f"{program} is not installed; scripts/install-deps launchers installs it")


def fetched(name):
    """Has tests/fetch_runtime NAME fetched it?"""
    return os.path.exists(os.path.join(RUNTIMES, name, "complete"))


def python_of(name):
    """The Python of tests/fetch_runtime NAME; skips the test without it."""
    if not fetched(name):
        skip(f"there is no {name} in {RUNTIMES}; tests/fetch_runtime {name} fetches it")
    return os.path.join(RUNTIMES, name, "bin", "python3")


def runtime_environment(name):
    """What a Python of a runtime's is to have: its compiled files beside it, and one thread."""
    return {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1",
            "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{RUNTIMES}/{name}-bytecode"}


def clean_environment(more=None):
    """This process's environment without what another launcher may have left there."""
    left = re.compile(r"TOW_(?!TEST_)|SLURM_|PMI|OMPI_|PMIX_|MASTER_|RANK$|WORLD_SIZE$|KUBERNETES_")
    env = {name: value for name, value in os.environ.items() if not left.match(name)}
    env.update({"TOW_FLIGHT_DIR": "none", "TOW_LOG_LEVEL": "1"})
    env.update(more or {})
    return env


def run(command, environment=None, limit_s=90):
    """Runs a command to its end; .text is what it printed."""
    started = subprocess.Popen(command, env=clean_environment(environment), text=True,
                               errors="replace", stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ended(started, limit_s)


def ended(started, limit_s=90):
    """Waits for a started command; it is killed, and the test ends, when its time is over."""
    try:
        started.text = started.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        started.kill()
        expect(False, f"{started.args[0]} ends within {limit_s} s", started.communicate()[0])
    return started


def expect(truth, what, text=""):
    """Ends the test with what is not so, and with the end of what was printed."""
    if not truth:
        print(f"FAILED: {what}\n{text[-6000:]}")
        sys.exit(1)


def ranks_of(text):
    """What the ranks of a job have said of themselves, by rank."""
    return {int(found["rank"]): {**found.groupdict(),
                                 "lanes": " ".join(sorted(found["lanes"].split()))}
            for found in WELL.finditer(text)}


def expect_job(done, size, launcher, lanes, what="", **more):
    """Every rank of the job ended well, by `launcher`, and used `lanes` (None: any)."""
    name = f"{what or launcher}: "
    expect(done.returncode == 0, f"{name}the launcher ends with {done.returncode}", done.text)
    ranks = ranks_of(done.text)
    expect(sorted(ranks) == list(range(size)), f"{name}ranks {sorted(ranks)} of {size} ended well",
           done.text)
    wanted = {"size": size, "launcher": launcher, **({"lanes": lanes} if lanes is not None else {}),
              **more}
    for rank, said in ranks.items():
        for key, value in wanted.items():
            expect(said[key] == str(value),
                   f"{name}rank {rank} says {key} {said[key]}, not {value}", done.text)
    expect(len({said["job"] for said in ranks.values()}) == 1, f"{name}all mean one job", done.text)
    print(f"{name}{size} ranks, lanes [{ranks[0]['lanes']}], job {ranks[0]['job']}: well",
          flush=True)
    return ranks
