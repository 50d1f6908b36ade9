"""test_warnings.py COMPILER [OPTION...]: a release build, in which warnings are errors, is clean
and works; what it installs is hardened. Its ABI, by its debug information, is the recorded one."""
import glob
import os
import shutil
import sys

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "check"))
import hardened  # noqa: E402 (the check judges files)

compiler, options = sys.argv[1], sys.argv[2:]
lab.need("meson", "ninja", compiler, "readelf")
with_abi = compiler == "gcc" and not options
# Optimised over all files, each test would be linked for long: that one is about the library alone.
build = lab.setup("release", *options, *(["-Ddebug=true"] if with_abi else []),
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

if with_abi:
    record = glob.glob(os.path.join(lab.SOURCE, "tests", "check", "libtowline.so.*.abi"))
    lab.check(len(record) == 1, f"there are {len(record)} records of the ABI")
    if shutil.which("abidiff"):
        said = lab.run(["abidiff", "--no-added-syms", "--no-architecture", record[0],
                        os.path.join(build, "libtowline.so")])
        # The record may be older, so that structs have grown: that one is for check_abi.
        lab.check(" 0 Removed" in said.stdout and said.returncode & 3 == 0,
                  "the real library has not the recorded ABI:\n" + said.stdout[-3000:])
        print(said.stdout.split("\n", maxsplit=1)[0])
    else:
        print("note: abidiff is missing (Debian package abigail-tools): the ABI was not compared")
print(f"{compiler} {' '.join(options)}: passed")
