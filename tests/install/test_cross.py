"""A cross build for aarch64, and its unit and property tests by qemu-user. The libraries are
fetched by packaging/cross/sysroot, or lie where TOW_TEST_SYSROOT says."""
import os
import re

import lab

# What an emulated process cannot be asked, and why.
NOT_EMULATED = {
}

lab.need("meson", "ninja", "aarch64-linux-gnu-gcc", "qemu-aarch64")
sysroot = os.environ.get("TOW_TEST_SYSROOT") or os.path.expanduser("~/.cache/towline-arm64")
done = lab.run([os.path.join(lab.SOURCE, "packaging", "cross", "sysroot"), sysroot])
if done.returncode != 0:
    lab.skip("the libraries of arm64 cannot be had: " + done.stdout.strip().split("\n")[-1])
build = lab.setup("cross", "--cross-file", os.path.join(sysroot, "aarch64.ini"),
                  "-Dtests=enabled", "-Dofi=disabled", "-Dbpf=disabled", "-Ddwarf=disabled",
                  "-Doptimization=1")
lab.ninja(build)
lab.check("AArch64" in lab.must(["readelf", "-h", os.path.join(build, "libtowline.so")]),
          "the library is not for aarch64")
done = lab.run(["meson", "test", "-C", build, "--no-rebuild", "--suite", "unit", "--suite",
                "property", "--timeout-multiplier", "10", "--num-processes", str(os.cpu_count())],
               {"TOW_POLLER": "epoll", "TOW_FLIGHT_DIR": "none"})
counts = dict(re.findall(r"^(Ok|Fail|Timeout|Skipped): +(\d+)", done.stdout, re.M))
failed = set(re.findall(r"^\s*\d+/\d+ (?:\S+ / )?(\w+) +(?:FAIL|TIMEOUT)", done.stdout, re.M))
print(counts, sorted(failed))
lab.check(int(counts.get("Ok", 0)) > 100, done.stdout[-3000:])
lab.check(failed <= set(NOT_EMULATED), f"failed by qemu: {sorted(failed - set(NOT_EMULATED))}")
print("aarch64: passed")
