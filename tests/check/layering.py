"""layering.py - who may include whom. The table is the architecture: change it only with design."""
import os
import re
import sys

import common
from common import Fault

# Folder -> the folders it may include from, beside itself. Libraries outside of libc are below.
LOWER = ["include/towline", "include/internal"]
LANES = ["transport/uring", "transport/epoll", "transport/loop", "transport/device",
         "transport/ofi", "transport/shm"]
ALL = LOWER + ["diag", "diag/export", "diag/ui", "diag/bpf", "diag/bpf/abi", "memreg", "transport",
               "transport/coll", "transport/plan", "transport/reduce"] + LANES
TABLE = {
    "include/towline": [],
    "include/internal": [],
    # What is served in a tool's format is written there; that knows of diag what a trace is.
    "diag": LOWER + ["diag/export", "diag/ui"],
    "diag/export": LOWER + ["diag"],
    # Its abi is what kernel, helper and library agree on: no part of the library's inside.
    "diag/bpf/abi": [],
    "diag/bpf": LOWER + ["diag", "diag/bpf/abi"],
    "diag/ui": [],
    "memreg": LOWER + ["diag"],
    # Lanes stand beside each other and do not see one another; what joins them is above them.
    "transport": LOWER + ["diag", "diag/bpf", "memreg", "transport/coll", "transport/plan",
                          "transport/reduce"] + LANES,
    # Collectives stand beside what they are made of: ranks, messages, and the shm lane's memory.
    "transport/coll": LOWER + ["diag", "memreg", "transport", "transport/plan", "transport/reduce",
                               "transport/shm"],
    # What elements mean; no lane needs to know.
    "transport/reduce": LOWER + ["diag"],
    # Two pollers behind one table (transport/poller.h); the tcp lane, in uring, knows that alone.
    "transport/uring": LOWER + ["diag", "diag/bpf", "memreg", "transport"],
    "transport/epoll": LOWER + ["diag", "memreg", "transport"],
    "transport/loop": LOWER + ["diag", "memreg", "transport"],
    "transport/shm": LOWER + ["diag", "memreg", "transport"],
    "transport/ofi": LOWER + ["diag", "memreg", "transport"],
    "transport/device": LOWER + ["diag", "memreg", "transport"],
    # What a collective does, as data: it knows of nothing that could do it.
    "transport/plan": LOWER + ["diag"],
    "bench": ALL,
    "fuzz": ALL + ["tests"],
    "tests": ALL + ["bench", "fuzz", "tools"],
    "tools": ["include/towline", "diag/bpf/abi"],
    "examples": ["include/towline"],
    "plugins": ["include/towline"],
}
# These count with all that is below them; of the others each sub-folder needs a row.
WITH_SUBFOLDERS = {"bench", "fuzz", "tests", "tools", "examples", "plugins"}

# Libraries beyond libc, and who may know them. An installed header must not drag one in.
LIBRARIES = {
    "liburing": {"transport", "transport/uring", "bench", "tests", "fuzz", "tools"},
    "rdma": {"transport/ofi"},
    "sodium": {"transport", "tests", "fuzz"},
    "isa-l": {"diag"},
    "numa": {"memreg", "tests"},
    "numaif": {"memreg", "tests"},
    "protobuf-c": {"diag/export", "tests"},
    "microhttpd": {"diag", "tests", "tools"},
    "jansson": {"tools", "examples", "bench", "tests", "fuzz", "plugins"},
    "cmocka": {"tests", "fuzz"},
    "bpf": {"diag/bpf", "tools", "examples", "tests"},
}
# What the headers in include/ may take from the system: the C library as C11 and C++11 have it.
LIBC = {"assert.h", "errno.h", "limits.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h",
        "stddef.h", "stdint.h", "stdlib.h", "string.h"}
LIBC_ONLY = {"include/towline", "include/internal"}


def row_of(name):
    """The table's row for a file or an include path, None when there is none."""
    folder = os.path.dirname(name)
    top = folder.split("/")[0]
    if top in WITH_SUBFOLDERS:
        return top
    return folder if folder in TABLE else None


def find(tree, name, include):
    """Which file of the tree an include means, or the path in the tree that it claims to be in."""
    places = [os.path.dirname(name), "", "include", "tests/support"]
    for place in places:
        path = os.path.normpath(os.path.join(place, include))
        if path in tree.names:
            return path
    first = include.split("/")[0]
    if "/" in include and first in ("towline", "internal"):
        return "include/" + include
    known = {row.split("/")[0] for row in TABLE} - {"include"}
    return include if "/" in include and first in known else None


def judge(tree, name, own, form, include):
    """What is wrong with one include: (what, mend), or None."""
    target = find(tree, name, include)
    if target is None and form == '"':
        return (f'"{include}" is no file of the tree',
                "write the path from the project's root, and <...> for system headers")
    if target is None:
        library = re.match(r"([\w-]+?)(\.h|/.*)?$", include)
        allowed = LIBRARIES.get(library.group(1) if library else "")
        if allowed is not None and own not in allowed:
            return (f"{own} may not know the library of <{include}>",
                    "only " + ", ".join(sorted(allowed)) + " may; put the code there")
        if own in LIBC_ONLY and include not in LIBC:
            return (f"<{include}> is more than {own} may need", "forward-declare, or move the code")
        return None
    row = row_of(target)
    if row == own or row in TABLE[own]:
        return None
    return (f"{own} may not include {target}",
            "let the upper folder hand it down in a table, or move the code; "
            "the table is in tests/check/layering.py")


def check(tree):
    faults = []
    for name in tree.match(r".*\.(c|h|h\.in|def)$"):
        own = row_of(name)
        if own is None:
            faults.append(Fault(name, 1, "is in a folder that the layering table does not know",
                                "add a row to TABLE in tests/check/layering.py"))
            continue
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            wrong = found and judge(tree, name, own, *found.groups())
            if wrong:
                faults.append(Fault(name, number, *wrong))
    return faults


SAMPLES = [
    ("good", {"diag/a.c": '#include "diag/a.h"\n#include <towline/x.h>\n#include <stdio.h>\n',
              "diag/a.h": "#include <internal/b.h>\n#include <microhttpd.h>\n",
              "transport/uring/u.c": '#include "transport/lane.h"\n#include <liburing.h>\n',
              "transport/lane.h": '#include "memreg/pool.h"\n', "memreg/pool.h": "\n",
              "tests/unit/t.c": '#include "helper.h"\n#include "diag/a.h"\n',
              "tests/support/helper.h": "\n", "tools/t.c": "#include <towline/version.h>\n",
              "include/internal/b.h": "#include <stdint.h>\n", "include/towline/x.h": "\n"}, None),
    ("upward", {"diag/a.c": '#include "memreg/pool.h"\n', "memreg/pool.h": "\n"},
     "diag/a.c:1: diag may not include memreg/pool.h"),
    ("upward in angles", {"memreg/a.c": "\n#include <transport/op.h>\n"},
     "memreg/a.c:2: memreg may not include transport/op.h"),
    ("by a relative path", {"diag/a.c": '#include "../memreg/p.h"\n', "memreg/p.h": "\n"},
     "diag may not include memreg/p.h"),
    ("lane sees lane", {"transport/loop/a.c": '#include "transport/uring/r.h"\n'},
     "transport/loop may not include transport/uring/r.h"),
    ("tool looks inside", {"tools/a.c": '#include "diag/emit.h"\n'}, "tools may not include"),
    ("tool uses a primitive", {"tools/a.c": "#include <internal/base.h>\n"},
     "tools may not include include/internal/base.h"),
    ("example looks inside", {"examples/a.c": '#include "transport/op.h"\n'}, "examples may not"),
    ("public needs internal", {"include/towline/a.h": "#include <internal/base.h>\n"},
     "include/towline may not include"),
    ("public needs a library", {"include/towline/a.h": "#include <liburing.h>\n"},
     "may not know the library"),
    ("public needs POSIX", {"include/towline/a.h": "#include <sys/socket.h>\n"}, "more than"),
    ("unknown folder", {"stuff/a.c": "\n"}, "does not know"),
    ("unknown lane", {"transport/nvlink/a.c": "\n"}, "does not know"),
    ("no such header", {"diag/a.c": '#include "gone.h"\n'}, "is no file of the tree"),
    ("a def file", {"diag/a.def": '#include "transport/x.h"\n'}, "diag may not include"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
