"""test_import.py - tow-import reads what JAX, PyTorch and glibc write today, and finds in it what
is known by hand (docs/import.md). The artefacts are made by import_program.py.

Not tried here, as they need devices: snapshots of PyTorch's CUDA allocator, NCCL's log, memory
events of XProf's that an allocator has written, captures of Megascale.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile

import ranks

PROGRAM = os.path.join(ranks.SOURCE, "tests/runtimes/import_program.py")
IMPORT = ranks.built("tools/import/tow-import")
BENCH = ranks.built("bench/tow-size")
KIB, GIB = 1 << 10, 1 << 30

TRACED = r"""
#include <mcheck.h>
#include <stdlib.h>

int main(void)
{
	void *volatile before = malloc(50), *volatile one, *volatile two;

	mtrace();
	free(before);
	one = malloc(1000000);
	two = calloc(3, 1000);
	one = realloc(one, 2000000);
	free(two);
	free(one);
	one = aligned_alloc(4096, 8192);
	free(one);
	return 0;
}
"""


def made(name, kind, folder):
    done = subprocess.run([ranks.python_of(name), PROGRAM, kind, folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, check=False,
                          env={**os.environ, **ranks.compiled_once(name), "JAX_PLATFORMS": "cpu"})
    text = done.stdout.decode(errors="replace")
    ranks.expect(done.returncode == 0, f"{kind} is made", text)
    return text


def imported(files, folder, peak, events=None):
    """The log's peak; then tow-size names a size for it."""
    log = os.path.join(folder, "log")
    done = subprocess.run([IMPORT, "-o", log, *files], stderr=subprocess.PIPE, timeout=60,
                          check=False)
    said = done.stderr.decode()
    ranks.expect(done.returncode == 0, f"{files} are read", said)
    found = int(re.search(r"at the peak .*?(\d+) bytes", said)[1])
    ranks.expect(found == peak, f"the peak is {peak}, and {found} is found", said)
    ranks.expect(events is None or f": {events} events" in said, f"{events} events", said)
    sized = subprocess.run([BENCH, "--replay", log, "--arena", "pagerun"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=120, check=False)
    ranks.expect(sized.returncode in (0, 3), "tow-size takes it", sized.stdout.decode())
    print(said, sized.stdout.decode().splitlines()[0], sep="", flush=True)
    return said


def of_jax(folder):
    made("jax", "steps", folder)
    module = glob.glob(f"{folder}/*jit_train*after_optimizations.txt")
    places = glob.glob(f"{folder}/*jit_train*buffer-assignment.txt")
    ranks.expect(len(module) == len(places) == 1, "a module and its buffers were dumped")
    # The shard of 256 KiB is the caller's; the product and its sum, 1 MiB each, live beside what
    # is gathered, 1 MiB. Then come what is scattered (1 MiB), the loop's buffer, and what its body
    # receives, twice: eight blocks, and a step.
    peak = (256 + 3 * 1024) * KIB
    said = imported(module, folder, peak, 17)
    ranks.expect("hlo, 4 collectives" in said, "each collective is found", said)
    said = imported(module + places, folder, peak)
    ranks.expect("buffers with their places" in said, "the places are of this module", said)
    capture = glob.glob(f"{folder}/plugins/profile/*/*.xplane.pb")
    imported(capture, folder, 1007, 3)
    done = subprocess.run([IMPORT, *glob.glob(f"{folder}/plugins/profile/*/*.trace.json.gz")],
                          stderr=subprocess.PIPE, timeout=60, check=False)
    ranks.expect(done.returncode == 1, "JAX's own trace has no memory events", str(done.stderr))


def of_server(folder):
    """The rule is read in the sources; here it is held to what the process maps."""
    said = made("jax", "server", folder)
    for sockets in (0, 1):
        found = int(re.search(rf"mapped {sockets} (\d+)", said)[1])
        done = subprocess.run([IMPORT, "--jax-transfer", f"transport_addresses={sockets}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        wanted = int(re.search(r"at the peak .*?(\d+) bytes", done.stderr.decode())[1])
        ranks.expect(wanted <= found < wanted + GIB, f"{wanted} bytes are told, {found} mapped",
                     said)
        print(f"start_transfer_server, {sockets} sockets: {wanted} bytes are told, the process has "
              f"grown by {found}", flush=True)


def of_glibc(folder):
    library = "/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"
    compiler = shutil.which("cc")
    if compiler is None or not os.path.exists(library):
        print("mtrace: no compiler, or no libc_malloc_debug: left out", flush=True)
        return
    with open(f"{folder}/traced.c", "w", encoding="ascii") as file:
        file.write(TRACED)
    subprocess.run([compiler, "-fno-builtin", "-o", f"{folder}/traced", f"{folder}/traced.c"],
                   check=True)
    subprocess.run([f"{folder}/traced"], check=True, timeout=30,
                   env={**os.environ, "LD_PRELOAD": library, "MALLOC_TRACE": f"{folder}/mtrace"})
    said = imported([f"{folder}/mtrace"], folder, 2000000 + 3000, 8)
    ranks.expect("1 free of blocks that were allocated before" in said, "one was earlier", said)


def of_torch(folder):
    made("torch", "profile", folder)
    imported([f"{folder}/trace.json"], folder, 10000000, 8)


for part in (of_glibc, of_torch, of_jax, of_server):
    with tempfile.TemporaryDirectory() as place:
        part(place)
