"""test_warnings.py COMPILER [OPTION...]: a release build, in which warnings are errors, is clean
and works; what it installs is hardened. (check_abi compares the ABI, by the public headers: abidiff
over all that the library's debug information holds took more than seven minutes.)"""
import os
import sys

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "check"))
import hardened  # noqa: E402 (the check judges files)

compiler, options = sys.argv[1], sys.argv[2:]
lab.need("meson", "ninja", compiler, "readelf")
# Optimised over all files, each test would be linked for long: that one is about the library alone.
build = lab.setup("release", *options,
                  "-Dtests=" + ("disabled" if options else "enabled"), env={"CC": compiler})
lab.ninja(build)
prefix = lab.install(build)
# Optimised over all files, functions that nobody else sees may lose what CET asks for.
without = ["CET"] if "-Db_lto=true" in options else []
faults = [str(f) for name in hardened.elf_files(prefix)
          for f in hardened.judge(name, os.path.join(prefix, name), without)]
lab.check(not faults, "\n".join(faults))
source = lab.write("user.c", lab.PROGRAM)
library = os.path.dirname(lab.found(prefix, "libtowline.so"))
lab.must(["cc", "-Wall", "-Wextra", "-Werror", source, "-o", lab.place("user"),
          "-I" + prefix + "/include", "-L" + library, "-ltowline"])
lab.passes([lab.place("user")], lab.version(), {"LD_LIBRARY_PATH": library})
print(f"{compiler} {' '.join(options)}: passed")
