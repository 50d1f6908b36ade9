"""static_tls.py - how much static TLS libtowline.so takes: every library that a program loads by
dlopen takes its share of the little that the loader has kept free (about 1.6 KiB in glibc)."""
import os
import re
import shutil
import sys
import tempfile

import common
from common import Fault

MOST = 128  # bytes
PLACE = "diag/base/error.c"


def tls_bytes(library):
    """Bytes of PT_TLS in memory; 0: it has none."""
    if shutil.which("readelf") is None:
        raise common.Skip("readelf is missing (Debian package binutils)")
    listed = common.run(["readelf", "-lW", library], check=True).stdout
    found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", listed, re.M)
    return int(found.group(1), 16) if found else 0


def compare(size):
    if size <= MOST:
        return []
    return [Fault(PLACE, 1, f"the library takes {size} bytes of static TLS, more than {MOST}",
                  "put what is large behind a pointer that its thread frees, as the message is "
                  "(docs/embedding.md)")]


def check(tree, args=None):
    """Without arguments (self-test) the library is built from the sample's lib.c."""
    if args is not None:
        return compare(tls_bytes(args.library))
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "lib.so")
        if shutil.which("gcc") is None:
            raise common.Skip("gcc is missing")
        common.run(["gcc", "-shared", "-fPIC", "-o", library, tree.path("lib.c")], check=True)
        return compare(tls_bytes(library))


SAMPLES = [
    ("none", {"lib.c": "int tow_one(void) { return 1; }\n"}, None),
    ("little", {"lib.c": "__thread char text[128]; char *tow_text(void) { return text; }\n"}, None),
    ("much", {"lib.c": "__thread char text[144]; char *tow_text(void) { return text; }\n"},
     "diag/base/error.c:1: the library takes 144 bytes of static TLS"),
    ("set", {"lib.c": "__thread char text[512] = \"x\"; char *tow_text(void) { return text; }\n"},
     "diag/base/error.c:1: the library takes 512 bytes"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("library", "path of libtowline.so")]))
