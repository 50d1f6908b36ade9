"""headers.py - every header compiles alone, and twice; public ones as strict C11 and as C++11.

What a header defines, guards, other macros and the tags of structs, unions and enums, is defined in
no other file: two files that include both would not compile, or would mean two things by one name.

The initialisers of public structs, TOW_..._INIT, are used once in each of these languages and as
C++17: a user's -Wextra must be silent about them.

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


# Initialisers are compiled in these as well.
PUBLIC_LATER = [
    (["g++"], ["-x", "c++", "-std=c++17"] + STRICT),
    (["clang++", "clang++-14"], ["-x", "c++", "-std=c++17"] + STRICT),
]


def compiler(names):
    return next((n for n in names if shutil.which(n)), None)


def jobs(tree, generated):
    """(file for the report, source, command) of every compilation."""
    if compiler(["gcc"]) is None:
        raise common.Skip("gcc is missing")
    public = [(n, "<towline/" + n.split("/")[-1].removesuffix(".in") + ">")
              for n in tree.match(r"include/towline/[^/]+\.h(\.in)?$")
              if generated or not n.endswith(".in")]
    # Beside what is installed, other headers that are generated: diag/trace/export/xspace.pb-c.h.
    made = [generated, os.path.dirname(os.path.normpath(generated))] if generated else []
    paths = ["-I" + folder for folder in [tree.path("include")] + made]
    for name, written in public:
        inits = re.findall(r"#define (TOW_\w+)_INIT\b", tree.text(name))
        for names, flags in PUBLIC + PUBLIC_LATER if inits else PUBLIC:
            tool = compiler(names)
            if tool:
                yield name, twice(written) + users(inits), [tool, *flags, *paths]
    paths = ["-I" + tree.root, *paths, "-I" + tree.path("tests/support")]
    for name in tree.match(r"(?!include/towline/).*\.h$"):
        yield name, twice(f'"{tree.path(name)}"'), ["gcc", *INTERNAL, *paths]


def twice(written):
    """Includes the header twice: it must have a guard."""
    return f"#include {written}\n#include {written}\n"


def users(inits):
    """A function that initialises a struct of each kind, in the same compilation."""
    if not inits:
        return ""
    lines = [f"\tstruct {i.lower()} a{n} = {i}_INIT;\n\t(void)a{n};\n" for n, i in enumerate(inits)]
    return f"void user(void);\nvoid user(void)\n{{\n{''.join(lines)}}}\n"


def compile_one(job):
    """Compiles from stdin."""
    name, source, command = job
    done = common.run([*command, "-fsyntax-only", "-"], input=source)
    if done.returncode == 0:
        return None
    said = next((s for s in done.stderr.splitlines() if "error" in s), done.stderr.strip())
    at = re.match(r"(.*?):(\d+):(?:\d+:)?\s*(.*)", said)
    line, what = (at.group(2), at.group(3)) if at else (1, said)
    return Fault(name, line, f"does not compile alone with {' '.join(command[:4])}: {what}",
                 "include what it uses, guard it, and keep to the standard")


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def definitions(name, text):
    """(kind, identifier, line) of what a file defines; macros of headers alone count."""
    code = common.blank(text)
    for tag in re.finditer(r"\b(?:struct|union|enum)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?"
                           r"(\w+)\s*\{", code):
        yield "tag", tag.group(1), line_of(code, tag.start())
    if name.endswith(".c"):
        return
    # The locals of a list of X(...): defined before it is used, and undefined behind.
    local = set(re.findall(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", code, flags=re.M))
    for macro in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, flags=re.M):
        if macro.group(1) not in local:
            yield "macro", macro.group(1), line_of(code, macro.start())


def check_unique(tree):
    """What a header defines, or begins with twi_ or tow_, has one file; #else is the same file."""
    places = {}
    for name in tree.match(r"(diag|memreg|transport|include)/.*\.(c|h|h\.in|def)$"):
        for kind, what, line in definitions(name, tree.text(name)):
            places.setdefault((kind, what), {}).setdefault(name, line)
    faults = []
    for (kind, what), files in places.items():
        ours = re.match(r"twi_|tow_", what) or any(not n.endswith(".c") for n in files)
        if len(files) > 1 and ours:
            (first, line), *others = files.items()
            faults += [Fault(n, at, f"the {kind} {what} is defined in {first}:{line}, too",
                             "rename the lesser one to what it is") for n, at in others]
    return faults


def check(tree, args=None):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = pool.map(compile_one, jobs(tree, args and args.generated))
    return [fault for fault in done if fault] + check_unique(tree)


SAMPLES = [
    ("good", {"include/towline/a.h": "#ifndef A\n#define A\nint tow_a(void);\n#endif\n",
              "diag/b.h": "#pragma once\n#include <stdint.h>\n#include <towline/a.h>\n"
                          "static inline uint64_t twi_b(void)\n{\n\treturn 0;\n}\n"}, None),
    ("leans on another", {"diag/b.h": "uint64_t twi_b(void);\n"}, "diag/b.h:1: does not compile"),
    ("no guard", {"memreg/b.h": "struct twi_b {\n\tint a;\n};\n"}, "memreg/b.h:1: does not"),
    ("GNU C", {"include/towline/a.h": "#pragma once\nstruct tow_a { int n; int rest[0]; };\n"},
     "gcc -x c -std=c11"),
    ("initialiser", {"include/towline/a.h": "#pragma once\nstruct tow_a { int n, m; };\n"
                     "#define TOW_A_INIT { .n = 1, .m = 0 }\n"}, "g++ -x c++ -std=c++"),
    ("guard twice", {"memreg/a.h": "#ifndef TWI_A_H\n#define TWI_A_H\n#endif\n",
                     "transport/a.h": "/* a */\n#ifndef TWI_A_H\n#define TWI_A_H\n#endif\n"},
     "transport/a.h:3: the macro TWI_A_H is defined in memreg/a.h:2, too"),
    ("tag twice", {"diag/a.h": "#pragma once\nstruct twi_a {\n\tint a;\n};\n",
                   "memreg/b.h": "#pragma once\nstruct\ttwi_a { int b; };\n"},
     "memreg/b.h:2: the tag twi_a is defined in diag/a.h:2, too"),
    ("kinds of tag", {"diag/a.h": "#pragma once\nenum twi_a { TWI_B };\n",
                      "include/internal/b.h": "#pragma once\nunion twi_a { int b; };\n"},
     "include/internal/b.h:2: the tag twi_a is defined in diag/a.h:2, too"),
    ("tag of a source", {"diag/a.c": "struct job { int a; };\n",
                         "memreg/b.h": "#pragma once\nstruct job { int b; };\n"},
     "memreg/b.h:2: the tag job is defined in diag/a.c:1, too"),
    ("our tag in sources", {"diag/a.c": "struct twi_a { int a; };\n",
                            "memreg/b.c": "struct twi_a { int b; };\n"},
     "memreg/b.c:1: the tag twi_a is defined in diag/a.c:1, too"),
    ("macro twice", {"diag/a.h": "#pragma once\n#define TWI_A 1\n",
                     "memreg/b.def": "#  define TWI_A 1\n"},
     "memreg/b.def:1: the macro TWI_A is defined in diag/a.h:2, too"),
    ("names that may be two", {
        "diag/a.c": "struct job { int a; };\n#define A 1\n",
        "memreg/b.c": "struct job { int b; };\n#define A 2\n",
        "diag/a.h": "#pragma once\n#ifdef Y\n#define TWI_Y 1\n#else\n#define TWI_Y 2\n#endif\n"
                    "#define X(a) a\n#undef X\nstruct twi_z;\n/* struct twi_q { */\n",
        "diag/b.h": "#pragma once\n#define X(a)\n#undef X\n#define A 3\nstruct twi_z;\n"
                    "/* struct twi_q { */\n",
        "tests/a.h": "#pragma once\n#define A 4\n"}, None),
    ("not C++", {"include/towline/a.h": "#pragma once\nint tow_a(int class);\n"},
     "g++ -x c++ -std=c++11"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("generated", "folder that holds towline/version.h")]))
