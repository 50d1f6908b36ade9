"""headers.py - every header compiles alone, and twice; public ones as strict C11 and as C++11.

Whoever includes a header must not need to know what else to include before it, and a user's
compiler must not be the first to find that a public header is no C++.
"""
import concurrent.futures
import os
import re
import shutil
import sys

import common
from common import Fault

STRICT = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
INTERNAL = ["-x", "c", "-std=gnu17", "-D_GNU_SOURCE"]
# Compilers, flags; those that are missing are left out, except the first of each table.
PUBLIC = [
    (["gcc"], ["-x", "c", "-std=c11"] + STRICT),
    (["g++"], ["-x", "c++", "-std=c++11"] + STRICT),
    (["clang", "clang-14"], ["-x", "c", "-std=c11"] + STRICT),
    (["clang++", "clang++-14"], ["-x", "c++", "-std=c++11"] + STRICT),
]


def compiler(names):
    return next((n for n in names if shutil.which(n)), None)


def jobs(tree, generated):
    """(file for the report, include as written, command) of every compilation."""
    if compiler(["gcc"]) is None:
        raise common.Skip("gcc is missing")
    public = [(n, "<towline/" + n.split("/")[-1].removesuffix(".in") + ">")
              for n in tree.match(r"include/towline/[^/]+\.h(\.in)?$")
              if generated or not n.endswith(".in")]
    # Beside what is installed, other headers that are generated: diag/export/xspace.pb-c.h.
    made = [generated, os.path.dirname(os.path.normpath(generated))] if generated else []
    paths = ["-I" + folder for folder in [tree.path("include")] + made]
    for name, written in public:
        for names, flags in PUBLIC:
            tool = compiler(names)
            if tool:
                yield name, written, [tool, *flags, *paths]
    paths = ["-I" + tree.root, *paths, "-I" + tree.path("tests/support")]
    for name in tree.match(r"(?!include/towline/).*\.h$"):
        yield name, f'"{tree.path(name)}"', ["gcc", *INTERNAL, *paths]


def compile_one(job):
    """Includes the header twice from stdin: it must have a guard."""
    name, written, command = job
    source = f"#include {written}\n#include {written}\n"
    done = common.run([*command, "-fsyntax-only", "-"], input=source)
    if done.returncode == 0:
        return None
    said = next((s for s in done.stderr.splitlines() if "error" in s), done.stderr.strip())
    at = re.match(r"(.*?):(\d+):(?:\d+:)?\s*(.*)", said)
    line, what = (at.group(2), at.group(3)) if at else (1, said)
    return Fault(name, line, f"does not compile alone with {' '.join(command[:4])}: {what}",
                 "include what it uses, guard it, and keep to the standard")


def check(tree, args=None):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = pool.map(compile_one, jobs(tree, args and args.generated))
    return [fault for fault in done if fault]


SAMPLES = [
    ("good", {"include/towline/a.h": "#ifndef A\n#define A\nint tow_a(void);\n#endif\n",
              "diag/b.h": "#pragma once\n#include <stdint.h>\n#include <towline/a.h>\n"
                          "static inline uint64_t twi_b(void)\n{\n\treturn 0;\n}\n"}, None),
    ("leans on another", {"diag/b.h": "uint64_t twi_b(void);\n"}, "diag/b.h:1: does not compile"),
    ("no guard", {"memreg/b.h": "struct twi_b {\n\tint a;\n};\n"}, "memreg/b.h:1: does not"),
    ("GNU C", {"include/towline/a.h": "#pragma once\nstruct tow_a { int n; int rest[0]; };\n"},
     "gcc -x c -std=c11"),
    ("not C++", {"include/towline/a.h": "#pragma once\nint tow_a(int class);\n"},
     "g++ -x c++ -std=c++11"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("generated", "folder that holds towline/version.h")]))
