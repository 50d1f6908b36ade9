"""symbols.py - libtowline.so exports what include/towline declares: no more, no less, all tow_."""
import os
import shutil
import sys
import tempfile

import common
from common import Fault

MAP = "towline.map"


def exported(library):
    """The names that a shared library defines for others, without versions."""
    if shutil.which("nm") is None:
        raise common.Skip("nm is missing (Debian package binutils)")
    listed = common.run(["nm", "-D", "--defined-only", library], check=True)
    rows = [row.split() for row in listed.stdout.splitlines()]
    # Type A is the name of the version node itself.
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def compare(tree, names):
    faults = []
    declared = {d.name: d for d in common.public_declarations(tree)}
    for name in sorted(set(declared) - names):
        faults.append(Fault(declared[name].path, declared[name].line,
                            f"{name} is declared but libtowline.so does not export it",
                            "define it with TOW_PUBLIC, or take the declaration away"))
    for name in sorted(names - set(declared)):
        faults.append(Fault(MAP, 1, f"libtowline.so exports {name}, which no header declares",
                            "take TOW_PUBLIC away (internal names begin with twi_), or declare it"))
    for name in sorted(n for n in names | set(declared) if not n.startswith("tow_")):
        faults.append(Fault(MAP, 1, f"{name} is public but does not begin with tow_", "rename it"))
    if not declared:
        faults.append(Fault("include/towline", 1, "declares nothing at all", "the parser is blind"))
    return faults


def check(tree, args=None):
    """Without arguments (self-test) the library is built from the sample's lib.c."""
    if args is not None:
        return compare(tree, exported(args.library))
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "lib.so")
        if shutil.which("gcc") is None:
            raise common.Skip("gcc is missing")
        common.run(["gcc", "-shared", "-fPIC", "-o", library, tree.path("lib.c")], check=True)
        return compare(tree, exported(library))


HEADER = """#ifdef __cplusplus
extern "C" {
#endif
struct tow_s { int (*call)(int); };
typedef void (*tow_callback)(int);
#define TOW_CALL(x) tow_not_this(x)
/* int tow_nor_this(void); */
enum tow_e { TOW_A, };
int tow_one(int a,
\t    struct tow_s *s);
const char *tow_two(void);
#ifdef __cplusplus
}
#endif
"""
ONE = "int tow_one(void);\nint tow_one(void) { return 1; }\n"
TWO = "int tow_two(void) { return 2; }\n"
H = "include/towline/a.h"
SAMPLES = [
    ("good", {H: HEADER, "lib.c": ONE + TWO + "static int h(void) { return 0; }\n"
              "int (*tow_keep(void))(void);\n__attribute__((visibility(\"hidden\"))) "
              "int twi_x(void) { return h(); }\n"}, None),
    ("not defined", {H: HEADER, "lib.c": ONE}, "include/towline/a.h:11: tow_two is declared but"),
    ("not declared", {H: HEADER, "lib.c": ONE + TWO + "int tow_three(void) { return 3; }\n"},
     "exports tow_three"),
    ("internal leaks", {H: HEADER, "lib.c": ONE + TWO + "int twi_x;\n"}, "exports twi_x"),
    ("bad prefix", {H: HEADER + "int other(void);\n",
                    "lib.c": ONE + TWO + "int other(void) { return 1; }\n"}, "does not begin with"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [("library", "path of libtowline.so")]))
