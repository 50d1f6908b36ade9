"""layering.py - who may include whom. The table is the architecture: change it only with design."""
import os
import re
import sys

import common
from common import Fault

# Room -> the rooms that it may include from, beside itself. A room includes only what stands above
# it in this list, so no two include each other and there is no cycle; `order` below checks that.
# Libraries outside of libc are below.
LOWER = ["include/towline", "include/internal"]
TABLE = {
    "include/towline": [],
    "include/internal": [],
    # What everybody needs; knows nobody.
    "diag/base": LOWER,
    "diag/record": LOWER + ["diag/base"],
    "diag/knob": LOWER + ["diag/base", "diag/record"],
    "diag/judge": LOWER + ["diag/base", "diag/record"],
    "diag/serve/ui": [],
    # trace: what a trace is and what can be reckoned from it; writing it; taking one.
    "diag/trace": LOWER + ["diag/base", "diag/record"],
    "diag/trace/export": LOWER + ["diag/base", "diag/record", "diag/trace"],
    "diag/serve": LOWER + ["diag/base", "diag/record", "diag/knob", "diag/serve/ui",
                           "diag/trace"],
    "diag/trace/capture": ["include/internal", "diag/base", "diag/record", "diag/trace",
                           "diag/trace/export", "diag/serve"],
    "diag/bpf/abi": [],
    "diag/bpf": ["include/internal", "diag/base", "diag/record", "diag/serve", "diag/bpf/abi"],
    # memreg: what is registered and held; what the system gives; allocating; the pool; the user's.
    "memreg/region": LOWER + ["diag/base"],
    "memreg/os": ["include/internal", "diag/base"],
    "memreg/arena": LOWER + ["diag/base", "memreg/region"],
    "memreg/pool": LOWER + ["diag/base", "diag/record", "diag/knob", "memreg/region", "memreg/os",
                            "memreg/arena"],
    "memreg/user": ["include/internal", "diag/base", "diag/record", "memreg/region", "memreg/os",
                    "memreg/pool"],
    "memreg/alloclog": ["include/internal", "diag/base", "diag/record", "memreg/arena",
                        "memreg/pool"],
    # transport: what travels (pure); the table of a lane; who may; who drives, and how it sleeps.
    "transport/wire": LOWER + ["diag/base", "diag/record"],
    "transport/lanes": ["include/towline", "diag/base", "diag/record"],
    "transport/security": LOWER + ["diag/base", "diag/knob", "diag/serve", "transport/wire"],
    "transport/engine": LOWER + ["diag/base", "diag/record", "diag/knob", "diag/judge",
                                 "memreg/region", "memreg/pool", "transport/wire",
                                 "transport/lanes", "transport/security"],
    "transport/engine/uring": ["diag/base", "diag/record", "memreg/pool", "transport/engine"],
    "transport/engine/epoll": ["include/internal", "diag/base", "diag/record", "memreg/pool",
                               "transport/engine"],
    # Operations, endpoints, peers, leases; then what carries messages over streams.
    "transport/op": LOWER + ["diag/base", "diag/record", "memreg/os", "memreg/region",
                             "memreg/pool", "memreg/alloclog", "transport/wire",
                             "transport/lanes", "transport/engine"],
    "transport/message": LOWER + ["diag/base", "diag/record", "transport/wire",
                                  "transport/lanes", "transport/engine", "transport/op"],
    "transport/stream": ["include/internal", "diag/base", "diag/record", "diag/judge",
                         "transport/wire",
                         "transport/engine", "transport/op", "transport/message"],
    # Lanes stand beside each other and do not see one another; what joins them is above them.
    # Any lane may do what this row says; one that needs more has a row of its own.
    "transport/lanes/*": LOWER + ["diag/base", "diag/record", "transport/wire", "transport/lanes",
                                  "transport/security", "transport/engine", "transport/op",
                                  "transport/message", "transport/stream"],
    "transport/lanes/auto": LOWER + ["diag/base", "diag/record", "transport/engine",
                                     "transport/op"],
    "transport/lanes/tcp": LOWER + ["diag/base", "diag/record", "diag/judge", "diag/bpf",
                                    "transport/wire", "transport/lanes", "transport/security",
                                    "transport/engine", "transport/op", "transport/stream"],
    "transport/lanes/shm": LOWER + ["diag/base", "diag/record", "diag/serve", "memreg/pool",
                                    "transport/wire", "transport/lanes", "transport/security",
                                    "transport/engine", "transport/op", "transport/message"],
    "transport/lanes/ofi": LOWER + ["diag/base", "diag/record", "diag/judge", "memreg/region",
                                    "memreg/pool", "transport/wire", "transport/lanes",
                                    "transport/security", "transport/engine", "transport/op",
                                    "transport/message"],
    "transport/lanes/loop": ["diag/base", "diag/record", "transport/lanes", "transport/engine",
                             "transport/op", "transport/stream"],
    # What is made of messages.
    "transport/rpc": LOWER + ["diag/base", "diag/record", "memreg/pool", "transport/engine",
                              "transport/op"],
    "transport/job": LOWER + ["diag/base", "diag/record", "diag/judge", "transport/security",
                              "transport/engine", "transport/op", "transport/message",
                              "transport/rpc"],
    "transport/coll/plan": ["include/towline", "diag/base", "diag/record"],
    "transport/coll/reduce": LOWER,
    "transport/coll": LOWER + ["diag/base", "diag/record", "diag/judge", "memreg/pool",
                               "transport/engine", "transport/op", "transport/lanes/auto",
                               "transport/lanes", "transport/job", "transport/coll/plan",
                               "transport/coll/reduce"],
    "transport/foreign": LOWER + ["diag/base", "diag/record", "diag/judge", "transport/engine",
                                  "transport/op", "transport/job"],
    "transport/inquiry": LOWER + ["diag/base", "diag/record", "diag/judge", "diag/trace",
                                  "memreg/pool", "transport/wire", "transport/engine",
                                  "transport/op", "transport/rpc", "transport/job",
                                  "transport/coll", "transport/foreign"],
    "transport/device": LOWER + ["diag/base", "diag/record", "memreg/region", "memreg/pool",
                                 "transport/engine", "transport/op"],
    # A runtime: opening, closing, and the list of its parts.
    "transport": ["include/towline", "diag/base", "diag/record", "diag/knob", "diag/serve",
                  "diag/trace/capture", "diag/bpf", "memreg/pool", "memreg/user",
                  "memreg/alloclog",
                  "transport/wire", "transport/engine", "transport/op", "transport/message",
                  "transport/rpc", "transport/job", "transport/coll/plan", "transport/coll",
                  "transport/foreign", "transport/inquiry", "transport/device"],
}
# The tools: users of the library like any other. None knows another one's inside.
TOOLS = {
    "tools/common": ["include/towline"],
    # Rows and JSON of profiles, which benches write, too; of the library a list of names.
    "tools/profile": ["include/towline", "diag/record"],
    # The judge, which needs no runtime, linked as verdict_judge.
    "tools/verdict": LOWER + ["diag/base", "diag/record", "diag/judge"],
    "tools/towstat": ["include/towline", "tools/common", "tools/verdict"],
    # Of the library's inside it has what needs no runtime, linked as offline_lib.
    "tools/trace": LOWER + ["diag/base", "diag/record", "diag/serve/ui", "diag/trace",
                            "diag/trace/export", "tools/profile"],
    "tools/towtrace": ["include/towline", "tools/common", "tools/profile", "tools/trace"],
    "tools/towdoctor": ["include/towline", "tools/common"],
    "tools/towrun": ["include/towline", "tools/common"],
    "tools/towbpf": ["include/towline", "diag/bpf/abi", "tools/common"],
}
# What some benches, fuzz and tests see: all of the library.
ROOMS = list(TABLE)
TABLE.update(TOOLS | {
    # Beside the library: sizing a pool by a log; simulated networks and jobs.
    "memreg/sizing": LOWER + ["diag/base", "memreg/region", "memreg/arena", "memreg/alloclog"],
    "transport/sim": ["diag/base", "memreg/pool", "transport/engine", "transport/op",
                      "transport/lanes/loop", "transport/job"],
    # What stands between the library and programs that were not written for it.
    "plugins": ["include/towline"],
    # Sizes and what is sent; the tensors of models and what a job does with them.
    "bench/common": ["include/towline"],
    "bench/workloads": [],
    # Users of the library like any other; then those that look inside, the last everywhere.
    "bench/perf": ["include/towline", "bench/common"],
    "bench/coll": ["include/towline", "transport/coll/plan", "tools/common", "tools/profile",
                   "bench/common"],
    "bench/grads": ["include/towline", "bench/common", "bench/workloads"],
    "bench/memreg": LOWER + ["diag/base", "diag/record", "diag/knob", "memreg/arena",
                             "memreg/pool", "memreg/sizing", "transport/engine", "transport/coll",
                             "bench/common", "bench/workloads"],
    "bench/micro": ROOMS + ["bench/common"],
    # Programs for Towline's peers, which know nothing of Towline.
    "bench/peers/programs": ["bench/common"],
    # What NCCL and its plugins agree on (nccl_net_abi.h).
    "bench/nccl": ["plugins"],
})
# These have one direction, too.
ORDERED = list(TABLE)
TABLE.update({
    "fuzz": ROOMS + ["memreg/sizing", "transport/sim", "tools/towstat", "tools/trace", "tests"],
    "tests": ORDERED + ["fuzz", "plugins"],
    "examples": ["include/towline"],
})
# Bench, fuzz and tests see a lane without a row of its own, too; no other room does.
SEE_ALL = {"bench", "fuzz", "tests"}
# These count with all that is below them; of the others each sub-folder needs a row.
WITH_SUBFOLDERS = {"fuzz", "tests", "examples", "plugins"}

# Libraries beyond libc, and who may know them. An installed header must not drag one in.
LIBRARIES = {
    "liburing": {"transport/engine/uring", "bench/memreg", "tests", "fuzz"},
    "rdma": {"transport/lanes/ofi"},
    "sodium": {"transport/security", "tests", "fuzz"},
    "isa-l": {"diag/base"},
    "protobuf-c": {"diag/trace/export", "tools/trace", "tests"},
    "microhttpd": {"diag/serve", "tests", "tools/towstat"},
    "jansson": {"tools/profile", "tools/towstat", "tools/towdoctor", "bench/coll",
                "bench/grads", "bench/memreg", "examples", "tests", "fuzz", "plugins"},
    "cmocka": {"tests", "fuzz"},
    "bpf": {"diag/bpf", "tools/towbpf", "examples", "tests"},
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
    return folder if rule_of(folder) in TABLE else None


def rule_of(folder):
    """The row of the table that holds for a folder: its own, or the one of all lanes."""
    return folder if folder in TABLE else os.path.dirname(folder) + "/*"


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
    allowed = TABLE[rule_of(own)]
    if row == own or row in allowed:
        return None
    if row is not None and own in SEE_ALL and rule_of(row) in allowed:
        return None
    return (f"{own} may not include {target}",
            "let the upper folder hand it down in a table, or move the code; "
            "the table is in tests/check/layering.py")


def order(table):
    """The rows of rooms that may include one below themselves, or that is none."""
    seen = set()
    for row, allowed in table.items():
        yield from ((row, other) for other in allowed if other not in seen)
        seen.add(row)


def includes(tree, name):
    for number, line in enumerate(tree.text(name).split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if found:
            yield (number, *found.groups())


def check(tree):
    here = "tests/check/layering.py"
    faults = [Fault(here, 1, f"the row of {row} names {other}, which does not stand above it",
                    "a room includes what stands above it alone")
              for row, other in order({row: TABLE[row] for row in ORDERED})]
    for name in tree.match(r".*\.(c|cc|h|h\.in|def)$"):
        own = row_of(name)
        if own is None:
            faults.append(Fault(name, 1, "is in a folder that the layering table does not know",
                                "add a row to TABLE in tests/check/layering.py"))
            continue
        for number, form, include in includes(tree, name):
            wrong = judge(tree, name, own, form, include)
            if wrong:
                faults.append(Fault(name, number, *wrong))
    return faults


SAMPLES = [
    ("good", {"diag/record/a.c": '#include "diag/record/a.h"\n#include <towline/x.h>\n',
              "diag/record/a.h": "#include <internal/b.h>\n#include <stdio.h>\n",
              "diag/serve/h.c": "#include <microhttpd.h>\n",
              "transport/lanes/tcp/u.c": '#include "transport/lanes/lane.h"\n',
              "transport/engine/uring/r.c": "#include <liburing.h>\n",
              "transport/lanes/lane.h": '#include "diag/base/p.h"\n', "diag/base/p.h": "\n",
              "tests/unit/t.c": '#include "helper.h"\n#include "diag/record/a.h"\n',
              "tests/support/helper.h": "\n", "tools/towstat/t.c": "#include <towline/version.h>\n",
              "include/internal/b.h": "#include <stdint.h>\n", "include/towline/x.h": "\n"}, None),
    ("upward", {"diag/base/a.c": '#include "memreg/pool/pool.h"\n', "memreg/pool/pool.h": "\n"},
     "diag/base/a.c:1: diag/base may not include memreg/pool/pool.h"),
    ("upward within a layer", {"transport/op/a.c": '#include "transport/rpc/r.h"\n'},
     "transport/op may not include transport/rpc/r.h"),
    ("upward in angles", {"memreg/os/a.c": "\n#include <transport/op/op.h>\n"},
     "memreg/os/a.c:2: memreg/os may not include transport/op/op.h"),
    ("by a relative path", {"diag/base/a.c": '#include "../../memreg/p.h"\n', "memreg/p.h": "\n"},
     "diag/base may not include memreg/p.h"),
    ("lane sees lane", {"transport/lanes/loop/a.c": '#include "transport/lanes/tcp/r.h"\n'},
     "transport/lanes/loop may not include transport/lanes/tcp/r.h"),
    ("tool looks inside", {"tools/towstat/a.c": '#include "diag/base/emit.h"\n'},
     "tools/towstat may not include"),
    ("tool uses a primitive", {"tools/towrun/a.c": "#include <internal/base.h>\n"},
     "tools/towrun may not include include/internal/base.h"),
    ("tool sees tool", {"tools/towtrace/a.c": '#include "tools/towstat/b.h"\n'},
     "tools/towtrace may not include tools/towstat/b.h"),
    ("library sees tool", {"diag/serve/a.c": '#include "tools/common/b.h"\n'},
     "diag/serve may not include tools/common/b.h"),
    ("a tool without a room", {"tools/a.c": "\n"}, "does not know"),
    ("bench looks inside", {"bench/perf/a.c": '#include "diag/base/clock.h"\n'},
     "bench/perf may not include diag/base/clock.h"),
    ("bench sees bench", {"bench/micro/a.c": '#include "bench/perf/perf.h"\n'},
     "bench/micro may not include bench/perf/perf.h"),
    ("no room of bench", {"bench/a.c": "\n"}, "does not know"),
    ("example looks inside", {"examples/a.c": '#include "transport/op/op.h"\n'},
     "examples may not"),
    ("public needs internal", {"include/towline/a.h": "#include <internal/base.h>\n"},
     "include/towline may not include"),
    ("public needs a library", {"include/towline/a.h": "#include <liburing.h>\n"},
     "may not know the library"),
    ("public needs POSIX", {"include/towline/a.h": "#include <sys/socket.h>\n"}, "more than"),
    ("unknown folder", {"stuff/a.c": "\n"}, "does not know"),
    ("unknown room", {"transport/a/b.c": "\n"}, "does not know"),
    ("a lane without a row", {"transport/lanes/nvlink/a.c": '#include "transport/op/op.h"\n',
                              "tests/unit/a.c": '#include "transport/lanes/nvlink/b.h"\n',
                              "transport/lanes/nvlink/b.h": "\n"}, None),
    ("such a lane sees another", {"transport/lanes/nvlink/a.c":
                                  '#include "transport/lanes/verbs/b.h"\n'},
     "transport/lanes/nvlink may not include transport/lanes/verbs/b.h"),
    ("such a lane sees more", {"transport/lanes/nvlink/a.c": '#include "diag/judge/b.h"\n'},
     "transport/lanes/nvlink may not include diag/judge/b.h"),
    ("such a lane is seen", {"transport/coll/a.c": '#include "transport/lanes/nvlink/b.h"\n'},
     "transport/coll may not include transport/lanes/nvlink/b.h"),
    ("a room in a lane", {"transport/lanes/nvlink/core/a.c": "\n"}, "does not know"),
    ("no such header", {"diag/base/a.c": '#include "gone.h"\n'}, "is no file of the tree"),
    ("a def file", {"diag/base/a.def": '#include "transport/x.h"\n'}, "diag/base may not include"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
