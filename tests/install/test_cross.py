"""A cross build for aarch64, and its unit and property tests by qemu-user. The libraries are
fetched by packaging/cross/sysroot, or lie where TOW_TEST_SYSROOT says."""
import os
import re
import sys

import lab

# What fails by qemu-user 7.2, and why; each cause was shown by a program of a few lines. It has
# neither io_uring, process_vm_readv nor seccomp.
NOT_EMULATED = {
    "shm": "no process_vm_readv",
    "shm_window": "RLIMIT_AS is not kept",
    "coll": "most likely no process_vm_readv: it fails over shm, and not over tcp",
    "coll_again": "most likely the same: it fails over shm",
    "extent": "MADV_POPULATE_WRITE returns 0 and does nothing",
    "ofi_guard": "seccomp: ENOSYS",
    "regions": "it judges times, and fails at times: the late cache has too few hits",
    "stacks": "real-time signals from 44 on do not come",
}

lab.need("meson", "ninja", "aarch64-linux-gnu-gcc", "qemu-aarch64")
sysroot = os.environ.get("TOW_TEST_SYSROOT") or os.path.expanduser("~/.cache/towline-arm64")
done = lab.run([os.path.join(lab.SOURCE, "packaging", "cross", "sysroot"), sysroot])
if done.returncode != 0:
    lab.skip("the libraries of arm64 cannot be had: " + done.stdout.strip().split("\n")[-1])
build = lab.setup("cross", "--cross-file", os.path.join(sysroot, "aarch64.ini"),
                  "-Dtests=enabled", "-Dofi=disabled", "-Dbpf=disabled", "-Ddwarf=disabled",
                  # At -O1 gcc has guesses of its own about what may be cut or unset.
                  "-Doptimization=1", "-Dwerror=false")
suites = ["--suite", "unit", "--suite", "property"]
library = "libtowline.so." + lab.version()
lab.ninja(build, library, *lab.must([sys.executable, os.path.join(
    lab.SOURCE, "scripts", "testtargets.py"), build, *suites]).split())
lab.check("AArch64" in lab.must(["readelf", "-h", os.path.join(build, library)]),
          "the library is not for aarch64")
done = lab.run(["meson", "test", "-C", build, "--no-rebuild", *suites, "--timeout-multiplier", "10",
                "--num-processes", str(os.cpu_count())],
               {"TOW_POLLER": "epoll", "TOW_FLIGHT_DIR": "none"})
counts = dict(re.findall(r"^(Ok|Fail|Timeout|Skipped): +(\d+)", done.stdout, re.M))
failed = set(re.findall(r"^\s*\d+/\d+ (?:\S+ / )?(\w+) +(?:FAIL|TIMEOUT)", done.stdout, re.M))
print(counts, sorted(failed))
lab.check(int(counts.get("Ok", 0)) > 100, done.stdout[-3000:])
lab.check(failed <= set(NOT_EMULATED), f"failed by qemu: {sorted(failed - set(NOT_EMULATED))}")
print("aarch64: passed")
