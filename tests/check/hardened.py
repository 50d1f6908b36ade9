"""hardened.py - installed programs and libraries are hardened, as docs/install.md says.

The build is installed into a folder of its own, and readelf tells of each ELF file there: PIE, full
RELRO, BIND_NOW, no executable stack, a stack protector, functions of _FORTIFY_SOURCE, and on x86-64
functions that begin with endbr64. (The mark of CET in a file's notes is the linker's: it is there
where the start files of the C library have it as well, which those of Debian 12 do not.)
"""
import os
import re
import shutil
import sys

import common
import install
from common import Fault

WHERE = "meson.build"


def elf_files(folder):
    """Paths, relative to the folder, of programs and shared libraries; links do not count."""
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield os.path.relpath(path, folder)


def readelf(flags, path):
    return common.run(["readelf", "-W", *flags, path], check=True).stdout


ENDBR64 = b"\xf3\x0f\x1e\xfa"
# The plugin for malloc calls nothing that _FORTIFY_SOURCE has another form of.
BARE = {"libtowline-malloc.so": "_FORTIFY_SOURCE"}
# What the C library and the compiler bring.
BROUGHT = {"_start", "_init", "_fini", "frame_dummy"}


def begin_with_endbr64(path, segments):
    """Whether the functions do that the compiler cannot know to be called by name alone: all that
    are exported, `main`, and some of the others."""
    with open(path, "rb") as f:
        data = f.read()
    loads = [[int(n, 16) for n in row] for row in
             re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", segments)]
    marked = 0
    rows = re.findall(r"(\w+) +\d+ FUNC +(GLOBAL|LOCAL) +\w+ +\d+ ([^@\s]+)",
                      readelf(["--syms"], path))
    for at, seen, name in rows:
        starts = [int(at, 16) - base + offset for offset, base, size in loads
                  if base <= int(at, 16) < base + size]
        if not starts or name in BROUGHT or name.startswith("__"):
            continue
        if data[starts[0]:starts[0] + 4] == ENDBR64:
            marked += 1
        elif seen == "GLOBAL" or name == "main":
            return False
    return marked > 0


def judge(name, path, without=()):
    """Faults of one file. `without` names what the build was not asked for."""
    head, dynamic, segments = readelf(["-h"], path), readelf(["-d"], path), readelf(["-l"], path)
    symbols = readelf(["--dyn-syms"], path)
    stack = re.search(r"GNU_STACK(?: +0x\w+){5} ([RWE ]{3})", segments)
    has = {
        "PIE": "DYN (" in head,
        "RELRO": "GNU_RELRO" in segments,
        "BIND_NOW": "BIND_NOW" in dynamic or re.search(r"FLAGS_1\).*\bNOW\b", dynamic),
        "a stack that is not executable": stack and "E" not in stack.group(1),
        "a stack protector": "__stack_chk_fail" in symbols,
        "_FORTIFY_SOURCE": re.search(r"\b__(?!stack)\w+_chk\b", symbols),
    }
    if "X86-64" in head:
        has["CET"] = begin_with_endbr64(path, segments)
    return [Fault(WHERE, 1, f"{name} is installed without {what}",
                  "look at `hardened` there, and at what the target sets itself")
            for what, found in has.items()
            if not found and what not in without and what != BARE.get(os.path.basename(name))]


def check(tree, args=None):
    if shutil.which("readelf") is None:
        raise common.Skip("readelf is missing (Debian package binutils)")
    if args is None:
        return judge_sample(tree)
    if args.hardened != "yes":
        raise common.Skip("the build is without hardening: a sanitizer, or -Dhardening=false")
    if not args.meson:
        raise common.Skip("meson is not on PATH")
    staged, fault = install.stage(args, "hardened")
    if fault:
        return [fault]
    without = args.without.split(",") if args.without else []
    names = list(elf_files(staged))
    faults = [f for name in names for f in judge(name, os.path.join(staged, name), without)]
    if not any("libtowline.so" in name for name in names):
        faults.append(Fault(WHERE, 1, "no libtowline.so is installed", "look at the targets"))
    print(f"{len(names)} installed ELF files")
    shutil.rmtree(staged, ignore_errors=True)
    return faults


# A sample is a program with the flags that it is built with.
PROGRAM = """#include <stdio.h>
#include <string.h>
int main(int n, char **v)
{
\tchar text[64];

\tstrncpy(text, v[n - 1], (size_t)n * 8);
\treturn printf("%s\\n", text);
}
"""
FLAGS = ["-O2", "-w", "-fPIE", "-pie", "-fstack-protector-strong", "-fcf-protection=full",
         "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro", "-Wl,-z,now"]


def judge_sample(tree):
    if shutil.which("gcc") is None:
        raise common.Skip("gcc is missing")
    flags = tree.text("flags").split()
    if os.uname().machine != "x86_64":
        flags.remove("-fcf-protection=full")
    common.run(["gcc", *flags, "-o", tree.path("program"), tree.path("program.c")], check=True)
    return judge("program", tree.path("program"))


def sample(old="", new=""):
    return {"program.c": PROGRAM, "flags": " ".join(FLAGS).replace(old, new) if old else
            " ".join(FLAGS)}


SAMPLES = [
    ("good", sample(), None),
    ("no PIE", sample("-fPIE -pie", "-no-pie"), "without PIE"),
    ("no RELRO", sample("-z,relro", "-z,norelro"), "without RELRO"),
    ("lazy", sample("-z,now", "-z,lazy"), "without BIND_NOW"),
    ("executable stack", sample("-O2", "-O2 -z execstack"), "without a stack that is not"),
    ("no protector", sample("-protector-strong", "-protector -fno-stack-protector"),
     "without a stack protector"),
    ("no fortify", sample("-D_FORTIFY_SOURCE=2", "-U_FORTIFY_SOURCE"), "without _FORTIFY_SOURCE"),
]
if os.uname().machine == "x86_64":
    SAMPLES.append(("no CET", sample("protection=full", "protection=none"), "without CET"))

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [
        ("build", "the build folder"), ("meson", "the meson program"),
        ("hardened", "yes where the build is"), ("without", "what it cannot have, with commas")]))
