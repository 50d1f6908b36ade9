"""ranks.py - what the tests of the suite `runtimes` share: they start programs of a runtime that
nobody here wrote, as ranks of a job, and judge what these print.

    python = ranks.python_of("jax")        # of tests/fetch_runtime; skips the test without it
    done = ranks.run(2, [python, program, "arguments"], {"NAME": "of the environment"})

Environment: TOW_TEST_BUILD, TOW_TEST_SOURCE (meson sets them), TOW_TEST_RUNTIMES (docs/testing.md).
"""
import os
import random
import socket
import subprocess
import sys
import time

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
SOURCE = os.environ.get("TOW_TEST_SOURCE", ".")
RUNTIMES = os.environ.get("TOW_TEST_RUNTIMES", os.path.expanduser("~/.cache/towline-runtimes"))
SKIP = 77


def skip(why):
    """Ends the test; it did not run, and says why."""
    print(f"skipped: {why}")
    sys.exit(SKIP)


def built(path):
    """A file of the build folder; skips the test where it was not built."""
    whole = os.path.join(BUILD, path)
    if not os.path.exists(whole):
        skip(f"{path} was not built")
    return whole


def python_of(name):
    """The Python of a runtime's environment, which tests/fetch_runtime makes."""
    if not os.path.exists(os.path.join(RUNTIMES, name, "complete")):
        skip(f"there is no {name} in {RUNTIMES}; tests/fetch_runtime {name} fetches it")
    return os.path.join(RUNTIMES, name, "bin", "python3")


def compiled_once(name):
    """Variables by which Python keeps what it has compiled beside a runtime's environment."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{RUNTIMES}/{name}-bytecode"}


def seed():
    """The seed of this run, printed; TOW_TEST_SEED replays one."""
    number = int(os.environ.get("TOW_TEST_SEED", random.SystemRandom().randrange(1, 1 << 31)))
    print(f"seed {number}; replay: TOW_TEST_SEED={number}", flush=True)
    return number


def free_port():
    """A port that nobody listens at; the program that gets it binds it soon."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(size, command, environment=None, limit_s=300):
    """Runs a command as `size` ranks by towrun. Gives its status and what all ranks printed, each
    line behind the number of its rank in brackets: as `text`, and as `lines`, each with the time at
    which it came (time.monotonic, which all processes of a host have alike)."""
    env = dict(os.environ, **(environment or {}))
    done = subprocess.Popen([built("tools/towrun/towrun"), "-n", str(size), "--timeout",
                             str(limit_s), "--", *command], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    with done:
        done.lines = [(time.monotonic(), line) for line in done.stdout]
    done.text = "".join(line for _, line in done.lines)
    return done


def expect(truth, what, text=""):
    """Ends the test with what is not so, and with the end of what was printed."""
    if not truth:
        print(f"FAILED: {what}\n{text[-6000:]}")
        sys.exit(1)
