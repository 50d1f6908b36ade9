"""needed.py - which libraries libtowline.so asks for when it is loaded: those of its data path and
of libc. A runtime that loads it takes a failed dlopen for an answer and goes on without it."""
import os
import re
import shutil
import sys
import tempfile

import common
from common import Fault

ALLOWED = {
    "liburing.so": "the tcp lane",
    "libisal.so": "checksums",
    "libc.so": "", "libm.so": "", "libpthread.so": "", "ld-linux-x86-64.so": "",
    "ld-linux-aarch64.so": "",
}
# What a compiler adds for itself.
SANITIZERS = {"libasan.so", "libubsan.so", "libtsan.so", "libgcc_s.so", "libstdc++.so",
              "libclang_rt.asan-x86_64.so"}
PLACE = "meson.build"


def needed(library):
    if shutil.which("readelf") is None:
        raise common.Skip("readelf is missing (Debian package binutils)")
    listed = common.run(["readelf", "-dW", library], check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed)


def judge(names, more):
    return [Fault(PLACE, 1, f"libtowline.so cannot be loaded without {name}",
                  "load it when it is first used (diag/base/lazy.h)")
            for name in names
            if re.sub(r"\.so.*$", ".so", name) not in set(ALLOWED) | more]


def check(tree, args=None):
    """Without arguments (self-test) a library is built that needs what lib.txt names."""
    if args is not None:
        names = needed(args.library)
        if not names:
            return [Fault(PLACE, 1, "libtowline.so needs no library at all, not even libc",
                          "look at what was linked")]
        return judge(names, SANITIZERS if args.sanitize != "none" else set())
    if shutil.which("gcc") is None:
        raise common.Skip("gcc is missing")
    with tempfile.TemporaryDirectory() as folder:
        with open(tree.path("lib.txt"), encoding="utf-8") as listed:
            flags = listed.read().split()
        library = os.path.join(folder, "lib.so")
        common.run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null", "-x", "none",
                    "-Wl,--no-as-needed", *flags], check=True)
        return judge(needed(library), set())


SAMPLES = [
    ("libc", {"lib.txt": "-lm\n"}, None),
    ("other", {"lib.txt": "-lm -lresolv\n"},
     "meson.build:1: libtowline.so cannot be loaded without libresolv.so.2"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("library", "path of libtowline.so"),
                                          ("sanitize", "as b_sanitize of the build")]))
