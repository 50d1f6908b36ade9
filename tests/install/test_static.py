"""The static library: it is built when it is asked for, pkg-config and CMake say what linking it
needs, and a program with it, which has no libtowline.so, exchanges a message."""
import os
import sys

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "check"))
import install  # noqa: E402 (the check has the program of CMake)


def linked(prefix, flags, name):
    pc = lab.found(prefix, "pkgconfig")
    env = {"PKG_CONFIG_PATH": pc, "PKG_CONFIG_SYSROOT_DIR": prefix[:-len("/usr/local")]}
    said = lab.must(["pkg-config", *flags, "towline"], env).split()
    source = lab.write("user.c", lab.PROGRAM)
    program = lab.place(name)
    lab.must(["cc", source, "-o", program, *said])
    return program, said


def needs_library(program):
    return "libtowline" in lab.must(["readelf", "-dW", program])


lab.need("meson", "ninja", "pkg-config", "cc", "readelf")
version = lab.version()

# Static alone, with the tools, which then have it inside.
build = lab.setup("static", "-Ddefault_library=static")
lab.ninja(build)
prefix = lab.install(build)
lab.check(lab.found(prefix, "libtowline.a"), "there is no libtowline.a")
lab.check(not lab.found(prefix, "libtowline.so"), "a shared library was installed with static")
program, said = linked(prefix, ["--cflags", "--static", "--libs"], "by_static")
lab.check({"-luring", "-lisal"} <= set(said), f"pkg-config --static says {said}")
lab.check(not needs_library(program), "the program asks for libtowline.so")
lab.passes([program], version)
towstat = lab.found(prefix, "towstat")
lab.check(not needs_library(towstat), "towstat asks for libtowline.so, which was not installed")
lab.must([towstat, "list"])
if lab.run(["cmake", "--version"]).returncode == 0:
    for target in ("towline", "towline_static"):
        fault = install.by_cmake(prefix, version, lab.place("cmake." + target), target)
        lab.check(fault is None, str(fault))

# Both: the shared one is the default, the other is there, and links with what pkg-config says.
lab.must(["meson", "configure", build, "-Ddefault_library=both"])
lab.ninja(build)
prefix = lab.install(build)
for name in ("libtowline.a", "libtowline.so", "libnccl-net-towline.so"):
    lab.check(lab.found(prefix, name), f"there is no {name} with both")
program, said = linked(prefix, ["--cflags", "--libs"], "by_shared")
lab.check(needs_library(program), "the program does not ask for libtowline.so")
lab.check("-luring" not in said, f"pkg-config without --static says {said}")
shared = lab.found(prefix, "libtowline.so")
lab.passes([program], version, {"LD_LIBRARY_PATH": os.path.dirname(shared)})
os.unlink(shared)
program, said = linked(prefix, ["--cflags", "--static", "--libs"], "by_both")
lab.passes([program], version)

# What goes without the shared library is refused or left out by name.
refused = lab.run(["meson", "setup", lab.place("refused"), lab.SOURCE, "-Ddefault_library=static",
                   "-Dplugins=enabled"])
lab.check(refused.returncode != 0 and "they need the shared library" in refused.stdout,
          "plugins with the static library are not refused by name")
print("static, both: passed")
