"""abi.py - programs that were linked with an older libtowline.so can go on with this one.

The public headers are made into a library of empty functions, whose types are those of the headers
whatever the build type is. abidiff (Debian package abigail-tools) compares it with the baseline
beside this file: functions may be added, and structs that open with their size may grow at their
end. The real library has to export, under the same soname, whatever the baseline has.

`abi.py --record yes` writes the baseline anew, where nothing is lost by it. A library that breaks
with the past has another soname, and so another baseline (docs/abi.md).
"""
import os
import re
import shutil
import sys
import tempfile

import common
import symbols
from common import Fault

FOLDER = "tests/check"
HEADER = r"include/towline/[^/]+\.h(\.in)?$"
FLAGS = ["-g", "-std=c11", "-w", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types"]
WRITE = ["--load-all-types", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
         "--no-elf-needed", "--no-architecture", "--no-parameter-names"]
# How abidiff tells that a struct has grown at its end, and did nothing else.
GROWN = re.compile(r"'struct (\w+)[^'\n]*' changed:\n"
                   r" +type size changed from (\d+) to \d+ \(in bits\)\n"
                   r" +\d+ data member insertions?:\n"
                   r"((?: +'[^\n]*', at offset \d+ \(in bits\)[^\n]*\n)+)"
                   r"(?=\n|\d+ changed type|\Z)")
# It names types again where what changed was told above, or lies behind a pointer.
AGAIN = re.compile(r" +\[C\] '[^'\n]*' changed:\n(?: +details were reported earlier\n)?(?=\n|\Z)")
HEADING = re.compile(r"^\d+ changed types? unreachable from any public interface:\n\s*\Z", re.M)
ADDED = re.compile(r"^\d+ added types? unreachable from any public interface:\n\n"
                   r"(?: +\[A\] .*\n)+", re.M)


def need_tools():
    for tool, package in (("gcc", "gcc"), ("abidw", "abigail-tools"), ("abidiff", "abigail-tools")):
        if shutil.which(tool) is None:
            raise common.Skip(f"{tool} is missing (Debian package {package})")


def soname(tree):
    found = re.search(r"version: '(\d+)\.", tree.text("meson.build")) \
        if "meson.build" in tree.names else None
    return f"libtowline.so.{found.group(1) if found else 0}"


def write_abi(tree, folder, out):
    """Writes what the headers of the tree promise; a Fault where they cannot be compiled."""
    headers = os.path.join(folder, "towline")
    os.makedirs(headers)
    lines = []
    for name in tree.match(HEADER):
        bare = re.sub(r"\.in$", "", os.path.basename(name))
        shutil.copy(tree.path(name), os.path.join(headers, bare))
        lines.append(f"#include <towline/{bare}>")
    lines += [d.code + " { __builtin_trap(); }" for d in common.public_declarations(tree)]
    library = os.path.join(folder, "libtowline.so")
    named = ["-Wl,--version-script=" + tree.path(symbols.MAP)] if symbols.MAP in tree.names else []
    built = common.run(["gcc", *FLAGS, "-I" + folder, "-Wl,-soname," + soname(tree), *named, "-x",
                        "c", "-", "-o", library], input="\n".join(lines) + "\n")
    if built.returncode != 0:
        return Fault("include/towline", 1, "the headers do not compile: " + built.stderr[-300:],
                     "mend them")
    common.run(["abidw", *WRITE, library, "--out-file", out], check=True)
    return None


def growing(tree):
    """Structs of the headers whose first member is `size_t size`."""
    return [name for path in tree.match(HEADER) for name in
            re.findall(r"struct (\w+) \{\s*size_t size;", common.blank(tree.text(path)))]


def lost(tree, old, new):
    """What abidiff tells of changes that are not allowed, without its summary; empty: none."""
    done = common.run(["abidiff", "--leaf-changes-only", "--no-added-syms", "--non-reachable-types",
                       "--no-architecture", old, new])
    if done.returncode & 3:
        raise common.Skip("abidiff failed: " + (done.stdout + done.stderr).strip()[-200:])
    may_grow = growing(tree)

    def without(found):
        name, size, added = found.groups()
        at_end = all(int(o) >= int(size) for o in re.findall(r"at offset (\d+)", added))
        return "" if name in may_grow and at_end else found.group(0)
    said = GROWN.sub(without, done.stdout)
    said = re.sub(r"^.*summary: .*\n", "", said, flags=re.M)
    return HEADING.sub("", AGAIN.sub("", ADDED.sub("", said))).strip()


def compare(tree, old, folder):
    new = os.path.join(folder, "new.abi")
    fault = write_abi(tree, os.path.join(folder, "new"), new)
    if fault:
        return [fault]
    said = lost(tree, old, new)
    if not said:
        return []
    print(said)
    what = re.findall(r"'((?:function|struct|enum|union|typedef) [^']*)'|(SONAME changed.*)", said)
    what = [one or other for one, other in what] or [said[:300]]
    return [Fault("include/towline", 1, "older programs break: " + "; ".join(what[:6]),
                  "give it back, or give the library another major version (docs/abi.md)")]


def compare_library(tree, baseline, library):
    """The real library: no debug information is asked, so each build can be looked at."""
    with open(baseline, encoding="utf-8") as f:
        text = f.read()
    had = set(re.findall(r"<elf-symbol name='(\w+)'", text))
    name = os.path.basename(baseline)
    faults = [Fault(FOLDER + "/" + name, 1, f"libtowline.so has lost {symbol}",
                    "give it back, or give the library another major version (docs/abi.md)")
              for symbol in sorted(had - symbols.exported(library))]
    if not had:
        faults.append(Fault(FOLDER + "/" + name, 1, "the baseline names no function", "record it"))
    is_now = re.findall(r"\(SONAME\).*\[(.*)\]", common.run(["readelf", "-dW", library]).stdout)
    if is_now != [soname(tree)]:
        faults.append(Fault("meson.build", 1, f"the library's soname is {is_now}",
                            f"make it {soname(tree)}"))
    return faults


def check(tree, args=None):
    """Without arguments (self-test) the sample's folder old/ is what was recorded."""
    if args is None:
        need_tools()
        with tempfile.TemporaryDirectory() as folder:
            old = os.path.join(folder, "old.abi")
            past = common.Tree(tree.path("old"), [n[4:] for n in tree.match("old/")])
            fault = write_abi(past, os.path.join(folder, "old"), old)
            if fault or "lib.c" not in tree.names:
                return [fault] if fault else compare(tree, old, folder)
            library = tree.path("lib.so")
            common.run(["gcc", "-shared", "-fPIC", "-Wl,-soname," + soname(tree), "-o", library,
                        tree.path("lib.c")], check=True)
            return compare_library(tree, old, library)
    baseline = tree.path(f"{FOLDER}/{soname(tree)}.abi")
    if args.record:
        return record(tree, baseline)
    if not os.path.isfile(baseline):
        return [Fault("meson.build", 1, f"{baseline} is missing", "abi.py --record yes")]
    faults = compare_library(tree, baseline, args.library)
    if faults:
        return faults
    need_tools()
    with tempfile.TemporaryDirectory() as folder:
        return compare(tree, baseline, folder)


def record(tree, baseline):
    need_tools()
    with tempfile.TemporaryDirectory() as folder:
        faults = compare(tree, baseline, folder) if os.path.isfile(baseline) else []
        return faults or [f for f in [write_abi(tree, os.path.join(folder, "now"), baseline)] if f]


H = "include/towline/a.h"
ENUM = "enum tow_e { TOW_A = 0, TOW_B = -1 };\n"
GROWS = "struct tow_s {\n\tsize_t size; /* first */\n\tint a;\n\tint b;%s\n};\n"
FIXED = "struct tow_f {\n\tint a;%s\n};\n"
CALLS = "int tow_one(struct tow_s *s, enum tow_e e);\nvoid tow_two(struct tow_f *f);\n"


def header(grows="", fixed="", enum=ENUM, calls=CALLS):
    return "#include <stddef.h>\n" + enum + GROWS % grows + FIXED % fixed + calls


OLD = {"old/" + H: header()}
ONE = "int tow_one(void);\nint tow_one(void) { return 1; }\n"
TWO = "void tow_two(void);\nvoid tow_two(void) {}\n"
SAMPLES = [
    ("a library with all", {**OLD, "lib.c": ONE + TWO}, None),
    ("a library that lost one", {**OLD, "lib.c": ONE}, "libtowline.so has lost tow_two"),
    ("the same", {**OLD, H: header()}, None),
    ("a struct that grew", {**OLD, H: header(grows="\n\tlong c;")}, None),
    ("a new function", {**OLD, H: header(calls=CALLS + "int tow_three(void);\n")}, None),
    ("a new value", {**OLD, H: header(enum=ENUM.replace(" }", ", TOW_C = -2 }"))}, None),
    ("a function that went", {**OLD, H: header(calls=CALLS.split("\n", maxsplit=1)[1])},
     "function int tow_one(tow_s*, tow_e)"),
    ("a function of another type",
     {**OLD, H: header(calls=CALLS.replace("enum tow_e e", "long e"))}, "function int tow_one("),
    ("a member of another type", {**OLD, H: header().replace("int b;", "long b;")},
     "older programs break"),
    ("a member that moved", {**OLD, H: header().replace("int a;\n\tint b;", "int b;\n\tint a;")},
     "older programs break"),
    ("a struct that grew and moved",
     {**OLD, H: header(grows="\n\tlong c;").replace("int b;", "long b;")}, "older programs break"),
    ("a struct without a size that grew", {**OLD, H: header(fixed="\n\tint b;")},
     "older programs break"),
    ("another number", {**OLD, H: header(enum=ENUM.replace("-1", "-3"))}, "older programs break"),
    ("another soname", {**OLD, "old/meson.build": "version: '0.2.0',\n", H: header(),
                        "meson.build": "version: '1.0.0',\n"}, "SONAME"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("library", "path of libtowline.so"),
                                          ("record", "yes: writes the baseline anew")]))
