"""lab.py - what the tests of the suite `install` share: builds of the tree for others, in a folder
that goes with the test.

    lab.setup("static", "-Ddefault_library=static")   # meson setup; the build folder
    lab.must(["ninja", "-C", build])                  # ends the test where it fails

Environment: TOW_TEST_SOURCE (meson sets it). Exit: 0 passed, 1 failed, 77 cannot be run here.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.environ.get("TOW_TEST_SOURCE", "."))
FOLDER = tempfile.mkdtemp(prefix="towline-install.")
atexit.register(shutil.rmtree, FOLDER, True)
SKIP = 77
LIMIT_S = 1500
# As it is installed; the same for most tests, so that ccache, where it is, compiles things once.
PLAIN = ["-Dbuildtype=release", "-Dwerror=true"]
ENV = dict(os.environ, CCACHE_NOHASHDIR="1")

# Two processes' worth of Towline in one: sends a message to itself over loopback.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <towline/towline.h>

#define ANY "tcp://127.0.0.1:0"

static int finish(struct tow_op *op, struct tow_result *result)
{
	return tow_op_wait(op, TOW_FOREVER) < 0 || tow_op_result(op, result) < 0 ||
	       tow_op_release(op) < 0;
}

int main(void)
{
	struct tow_result near = TOW_RESULT_INIT, far = TOW_RESULT_INIT, done = TOW_RESULT_INIT;
	struct tow_op *dial, *accept, *send, *receive;
	char address[TOW_ADDRESS_MAX], *out, *in;
	struct tow_endpoint *here, *there;
	struct tow_runtime *runtime;

	if (tow_runtime_open(NULL, &runtime) < 0 || tow_endpoint_open(runtime, ANY, &here) < 0 ||
	    tow_endpoint_open(runtime, ANY, &there) < 0 ||
	    tow_endpoint_address(here, address, sizeof(address)) < 0 ||
	    tow_alloc(runtime, 64, 0, (void **)&out) < 0 ||
	    tow_alloc(runtime, 64, 0, (void **)&in) < 0 ||
	    tow_accept_start(here, NULL, &accept) < 0 ||
	    tow_connect_start(there, address, NULL, &dial) < 0 ||
	    finish(dial, &near) || finish(accept, &far))
		return fprintf(stderr, "%s\n", tow_error_message()), 1;
	strcpy(out, "passed");
	if (tow_recv_start(far.peer, in, 64, 1, NULL, &receive) < 0 ||
	    tow_send_start(near.peer, out, 64, 1, NULL, &send) < 0 || finish(send, &done) ||
	    finish(receive, &done))
		return fprintf(stderr, "%s\n", tow_error_message()), 1;
	printf("%s %s\n", tow_version(), in);
	return tow_runtime_close(runtime) < 0;
}
"""


def skip(why):
    """Ends the test; it did not run, and says why."""
    print(f"skipped: {why}")
    sys.exit(SKIP)


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            skip(f"{tool} is missing")


def fail(why):
    print(f"FAILED: {why}")
    sys.exit(1)


def check(right, why):
    if not right:
        fail(why)


def place(*names):
    return os.path.join(FOLDER, *names)


def write(name, text):
    """A file of the test's folder; its path."""
    path = place(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def run(command, env=None, **more):
    """Runs a command without a shell; its output of both kinds is text."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S,
                          env=dict(ENV, **(env or {})), **more)


def must(command, env=None, **more):
    """The output of a command that has to end with 0."""
    done = run(command, env, **more)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def setup(name, *options, env=None, source=SOURCE):
    """meson setup without tests, unless options ask for them; the build folder."""
    build = place(name)
    with_tests = [] if any(o.startswith("-Dtests=") for o in options) else ["-Dtests=disabled"]
    must(["meson", "setup", build, source, *PLAIN, *with_tests, *options], env)
    return build


def ninja(build, *targets):
    return must(["nice", "-n", "5", "ninja", "-C", build, *targets])


def install(build):
    """Installs into a folder of its own below the test's; returns prefix."""
    staged = build + ".staged"
    must(["meson", "install", "--no-rebuild", "--quiet", "-C", build, "--destdir", staged])
    prefix = staged + "/usr/local"
    check(os.path.isdir(prefix), f"nothing lies below {prefix}")
    return prefix


def found(folder, name):
    """The path of the file or folder below `folder`, or None."""
    for where, folders, files in os.walk(folder):
        if name in files or name in folders:
            return os.path.join(where, name)
    return None


def passes(command, version, env=None):
    said = must(command, env)
    check(said.split() == [version, "passed"], f"the program printed {said!r}")


def version():
    """The version of the project, as meson has it."""
    with open(os.path.join(SOURCE, "meson.build"), encoding="utf-8") as f:
        return f.read().split("version: '")[1].split("'")[0]
