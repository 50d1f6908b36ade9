"""lanes.py - what lanes may know of the engine and of operations: one header, and its list. And
nobody spells out a list of lanes, as there is one: diag/record/lane.def."""
import re
import sys

import common
from common import Fault

HOST = "transport/op/lane_host.h"
# What is behind that header: a lane includes nothing else of these, and calls of them what HOST
# names. Structures are seen whole, as lanes embed them.
HIDDEN = r"transport/(engine|op)/(\w+/)?\w+\.h$"
LANE = r"transport/lanes/\w+/\w+\.[ch]$"
COMMENT = r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"'
# The one list of lanes; and who may name two of them in one initializer or switch, with why.
LIST = "diag/record/lane.def"
SPELLED = {
    "tests/scenario/engine/test_blocking.c": "names and addresses: each form that a job takes",
    "tests/scenario/op/test_bad_memory.c": "the ways of each lane on which memory can be bad",
    "tests/unit/stream/test_last_words.c": "lanes of streams, one of them encrypted as well",
}
TABLE = r"(?:=|\]\s*\))\s*\{|\bswitch\b[^{;]*\{"
FUNCTION = r"^(?!return\b|else\b)[A-Za-z_][\w \*]*?\b(twi_\w+)\("
MACRO = r"^#define (twi_\w+)\("


def bare(text):
    """The text without comments and strings, line by line as it was."""
    def blank(found):
        return '""' if found.group(0)[0] == '"' else "\n" * found.group(0).count("\n")
    return re.sub(COMMENT, blank, text, flags=re.S)


def declared(tree):
    """Function -> header, of all that the engine and operations declare."""
    out = {}
    for name in tree.match(HIDDEN):
        text = bare(tree.text(name))
        for found in re.finditer(FUNCTION + "|" + MACRO, text, flags=re.M):
            out.setdefault(found.group(1) or found.group(2), name)
    return out


def block(text, start):
    """From an opening brace to where it is closed."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[start:at]
    return text[start:]


def uncommented(text):
    """The text without comments, with its strings, line by line as it was."""
    def blank(found):
        return found.group(0) if found.group(0)[0] == '"' else "\n" * found.group(0).count("\n")
    return re.sub(COMMENT, blank, text, flags=re.S)


def spelled(tree, allowed, here):
    """Lists of lanes elsewhere: by name, or as addresses."""
    names = re.findall(r"^TWI_LANE\(\w+, (\w+)", tree.text(LIST), flags=re.M)
    word = re.compile(rf'"({"|".join(names)})(?:://[^"]*)?"')
    stale = set(allowed)
    for name in tree.match(r"(?!transport/lanes/).*\.[ch]$"):
        text = uncommented(tree.text(name))
        for found in re.finditer(TABLE, text):
            lanes = sorted(set(word.findall(block(text, found.end() - 1))))
            if len(lanes) < 2:
                continue
            stale.discard(name)
            if name not in allowed:
                yield Fault(name, text.count("\n", 0, found.start()) + 1,
                            f"a list of lanes is spelled out: {', '.join(lanes)}",
                            f"make it from {LIST}, or use twt_lane_rows")
    for name in sorted(stale):
        if here in tree.names:
            yield Fault(here, 1, f"{name} spells no list of lanes out any more",
                        "take it out of SPELLED")


def check(tree):
    faults = host_faults(tree)
    if LIST in tree.names:
        faults += spelled(tree, SPELLED, "tests/check/lanes.py")
    return faults


def host_faults(tree):
    if HOST not in tree.names:
        return []
    host = tree.text(HOST)
    named = set(re.findall(r"\btwi_\w+\b", host))
    functions, used, faults = declared(tree), set(), []
    for name in tree.match(LANE):
        raw = tree.text(name)
        for found in re.finditer(r'^#include "(transport/(?:engine|op)/[^"]+)"', raw, flags=re.M):
            if found.group(1) != HOST:
                faults.append(Fault(name, raw.count("\n", 0, found.start()) + 1,
                                    f"a lane includes {found.group(1)}", f"include {HOST} alone"))
        for number, line in enumerate(bare(raw).split("\n"), 1):
            for word in re.findall(r"\btwi_\w+\b", line):
                if word not in functions:
                    continue
                used.add(word)
                if word not in named:
                    faults.append(Fault(name, number, f"a lane may not call {word}, of "
                                        f"{functions[word]}", f"do without it, or name it in "
                                        f"{HOST} with its purpose"))
    for word in sorted(named & set(functions) - used):
        line = host.count("\n", 0, re.search(rf"\b{word}\b", host).start()) + 1
        faults.append(Fault(HOST, line, f"no lane calls {word}", "take it out of this header"))
    return faults


HEADER = {HOST: '/*\n * twi_now  the time\n */\n#include "transport/engine/e.h"\n'
                'void twi_up(int a);\n',
          "transport/engine/e.h": "static inline int twi_now(void) { return twi_clock(); }\n"
                                  "int twi_poll(void);\n#define twi_held(e) (e)\n"}
GOOD = '#include "transport/op/lane_host.h"\n/* twi_poll */\nint a(void) { twi_up(twi_now()); }\n'
LANES = {LIST: 'TWI_LANE(TCP, tcp, NETWORK, "help")\nTWI_LANE(SHM, shm, HOST, "help")\n'}
TWO = 'static const char *const lanes[] = { "shm", "tcp" };\n'
SAMPLES = [
    ("good", {**HEADER, "transport/lanes/tcp/t.c": GOOD,
              "transport/rpc/r.c": '#include "transport/op/op.h"\nint b(void) { twi_poll(); }\n'},
     None),
    ("another header", {**HEADER, "transport/lanes/tcp/t.c": GOOD,
                        "transport/lanes/shm/s.h": '\n#include "transport/engine/e.h"\n'},
     "transport/lanes/shm/s.h:2: a lane includes transport/engine/e.h"),
    ("a function that is not named", {**HEADER,
                                      "transport/lanes/tcp/t.c": GOOD + "x = twi_poll();"},
     "t.c:4: a lane may not call twi_poll, of transport/engine/e.h"),
    ("as a pointer", {**HEADER, "transport/lanes/tcp/t.c": GOOD + "x = &twi_poll;"},
     "may not call twi_poll"),
    ("a macro", {**HEADER, "transport/lanes/tcp/t.c": GOOD + "twi_held(e);"},
     "may not call twi_held"),
    ("named for nobody", {**HEADER, "transport/lanes/tcp/t.c": "int a(void) { twi_up(1); }\n"},
     "lane_host.h:2: no lane calls twi_now"),
    ("declared for nobody", {**HEADER, "transport/lanes/tcp/t.c": "int a(void) { twi_now(); }\n"},
     "lane_host.h:5: no lane calls twi_up"),
    ("one lane, or in the lanes", {**LANES, "transport/lanes/auto/a.c": TWO, "diag/a.c":
                                   'char *a[] = { "tcp", "other", "tcp://h:0" }; /* "shm" */\n'
                                   'char *b = "shm";\n'}, None),
    ("a list of lanes", {**LANES, "diag/a.c": "\n" + TWO},
     "diag/a.c:2: a list of lanes is spelled out: shm, tcp"),
    ("a list of addresses", {**LANES, "tests/a.c":
                             'struct w w[] = {\n\t{ "tcp://h:0" },\n\t{ "shm://*" },\n};\n'},
     "tests/a.c:1: a list of lanes"),
    ("in a compound literal", {**LANES, "tools/a.h":
                               'f((const char *[]){ "shm", "tcp" });\n'}, "tools/a.h:1: a list"),
    ("in a switch", {**LANES, "tools/a.c": 'switch (f(a)) {\ncase 1:\n\treturn "shm";\n'
                     'default:\n\treturn "tcp";\n}\n'}, "tools/a.c:1: a list of lanes"),
    ("one that is no list any more", {**LANES, "tests/check/lanes.py": ""},
     "test_blocking.c spells no list of lanes out any more"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
