"""documented.py - the public headers are the manual, and the lists of names are in docs/.

A public function's comment answers, in this order: Ownership, Copies, Blocks, Threads, Returns
(the last where an int comes back). "Ownership, Copies, Threads: as tow_x" answers several at once.
Each answer begins a line of its own, so that the eye finds it.
docs/counters.md and docs/knobs.md are what towstat prints: --towstat compares them.
A variable TOW_... that a program reads is a knob or stands in environment.def, since the library
warns of all others.
"""
import os
import re
import sys

import common
from common import Fault

WORDS = ["Ownership", "Copies", "Blocks", "Threads", "Returns"]
# List -> (pattern of a row, documents of which one must name it).
LISTS = {
    r"diag/record/counter\.def$": (r"^\s*TWI_COUNTER\(\s*(\w+)", ["docs/counters.md"]),
    r"diag/record/reason\.def$": (r"^\s*TWI_REASON\(\s*(\w+)", ["docs/counters.md"]),
    r"diag/record/lane\.def$": (r"^TWI_LANE\(\w+, (\w+),", ["docs/lanes.md"]),
    r"diag/knob/knob\.def$": (r"^\s*TWI_KNOB\(\s*(\w+)", ["docs/knobs.md"]),
    r"include/towline/status\.h$": (r"^\s*X\((TOW_\w+),",
                                    ["docs/troubleshooting.md"]),
    r"transport/wire/rule\.h$": (r"^\s*X\(\d+, (\w+),", ["docs/wire.md"]),
    r"transport/wire/feature\.def$": (r"^\s*TWI_FEATURE\(\d+, (\w+),", ["docs/wire.md"]),
    r"tools/towstat/towstat\.h$": (r'^\s*X\(\d, \w+, "([^"]+)"', ["docs/verdict.md"]),
    r"diag/judge/verdict\.h$": (r'^\s*X\([A-Z_]+, "(\w+)"', ["docs/verdict.md"]),
    r"tools/towdoctor/towdoctor\.h$": (r"^\s*X\((\w+), ", ["docs/doctor.md"]),
}
GENERATED = {"docs/counters.md": ["counters", "--markdown"],
             "docs/knobs.md": ["knobs", "--markdown"]}


def judge_comment(declaration, known):
    """What the comment of one declaration lacks, or None."""
    text = declaration.comment
    together = re.compile(r"\b((?:%s)(?:, (?:%s))+): as (tow_\w+)" % ((r"|".join(WORDS),) * 2))
    answered = set()
    for group in together.finditer(text):
        if group.group(2) not in known:
            return f"refers to {group.group(2)}, which does not exist"
        answered |= set(group.group(1).split(", "))
    text = together.sub("", text)
    wanted = [w for w in WORDS if w not in answered]
    if not re.match(r"int\b(?!\s*\*)", declaration.code):
        wanted = [w for w in wanted if w != "Returns" or w + ":" in text]
    places = []
    for word in wanted:
        found = re.search(rf"\b{word}:", text)
        if found is None:
            return f"does not say '{word}:'"
        places.append(found.start())
    if places != sorted(places):
        return "answers in another order than " + ", ".join(WORDS)
    return None


def check_headers(tree):
    declared = common.public_declarations(tree)
    known = {d.name for d in declared}
    for d in declared:
        wrong = judge_comment(d, known) if d.comment else "is missing"
        if wrong:
            yield Fault(d.path, d.line, f"the comment of {d.name} {wrong}",
                        "say it: users must not have to guess")


def check_labels(tree):
    """No answer begins within a line, in any comment of a public header."""
    one = "|".join(WORDS)
    for name in tree.match(r"include/towline/[^/]+\.h(\.in)?$"):
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            for label in re.finditer(rf"\b(?:{one})(?:, (?:{one}))*:", line):
                if not re.fullmatch(r"\s*(/?\*+ )?", line[:label.start()]):
                    yield Fault(name, number, f"'{label.group(0)}' stands within a line",
                                "begin a line with it")


def check_lists(tree):
    for pattern, (row, documents) in LISTS.items():
        texts = "\n".join(tree.text(d) for d in documents if d in tree.names)
        for name in tree.match(pattern):
            for number, line in enumerate(tree.text(name).split("\n"), 1):
                found = re.match(row, line)
                if found and not re.search(rf"\b{found.group(1)}\b", texts):
                    yield Fault(name, number,
                                f"{found.group(1)} is not in {' or '.join(documents)}",
                                "write it there (counters and knobs: print them anew, towstat "
                                "counters|knobs --markdown)")


def check_variables(tree):
    """Variables that C and Python read; their lists are knob.def and environment.def."""
    knobs, listed = "diag/knob/knob.def", "diag/knob/environment.def"
    if knobs not in tree.names or listed not in tree.names:
        return
    known = ["TOW_" + k.upper() for k in re.findall(r"^TWI_KNOB\((\w+)", tree.text(knobs), re.M)]
    known += re.findall(r'^TWI_ENVIRONMENT\("([^"]+)"', tree.text(listed), re.M)
    read = re.compile(r"""(?:getenv\(|environ\[|environ\.get\()["'](TOW_\w+)["']""")
    for name in tree.match(r"(?!tests/check/).*\.(c|h|py)$"):
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            for variable in read.findall(line):
                if not any(variable == k or k.endswith("*") and variable.startswith(k[:-1])
                           for k in known):
                    yield Fault(name, number, f"reads {variable}, of which the library warns "
                                "as of a misspelt knob", f"list it in {listed}")


def check_generated(tree, towstat):
    """The committed documents against what the built towstat prints now."""
    for document, command in GENERATED.items():
        if document not in tree.names:
            yield Fault(document, 1, "is missing", f"towstat {' '.join(command)} > {document}")
            continue
        done = common.run([towstat, *command])
        if done.returncode != 0:
            yield Fault(document, 1, f"towstat {' '.join(command)}: {done.stderr.strip()}",
                        "mend towstat")
            continue
        old, new = tree.text(document).split("\n"), done.stdout.split("\n")
        if old != new:
            line = next((i for i, (a, b) in enumerate(zip(old, new), 1) if a != b),
                        min(len(old), len(new)))
            yield Fault(document, line, "is not what the tree says now",
                        f"towstat {' '.join(command)} > {document}")


def check(tree, args=None):
    towstat = args.towstat if args else None
    if args is None and "towstat" in tree.names:
        towstat = tree.path("towstat")
        os.chmod(towstat, 0o755)
    if towstat:
        if not os.path.exists(towstat):
            raise common.Skip(f"{towstat} has not been built, so docs/ cannot be compared with it")
        return list(check_generated(tree, towstat))
    faults = list(check_headers(tree)) + list(check_labels(tree))
    # A tree without the documents yet (the first commits) is told so by the towstat part.
    if args is None or any(d in tree.names for d in GENERATED) or tree.match(r"diag/.*\.def$"):
        faults += check_lists(tree)
    return faults + list(check_variables(tree))


FULL = ("/*\n * Does.\n * Ownership: none.\n * Copies: none.\n"
        " * Blocks: never.\n * Threads:\n * any.\n * %s\n */\n")
H = "include/towline/a.h"


def header(comment, code="int tow_a(void);\n"):
    return {H: "/* a.h */\n" + comment + code}


TOWSTAT = "#!/bin/sh\necho \"$1\" is new\n"
SAMPLES = [
    ("good", {**header(FULL % "Returns: TOW_OK."),
              "diag/record/counter.def": "TWI_COUNTER(a_b, x, y)\n",
              "docs/counters.md": "| a_b |\n"}, None),
    ("as another", header(FULL % "Returns: TOW_OK.", "int tow_a(void);\n\n/* Ownership, Threads: "
                          "as tow_a.\n * Copies: none.\n * Blocks: no.\n * Returns: 0.\n */\n"
                          "int tow_b(void);\n"), None),
    ("two in a line", header((FULL % "Returns: 0.").replace(".\n * Copies", ". Copies")),
     "a.h:4: 'Copies:' stands within a line"),
    ("within a line", header((FULL % "Returns: 0.").replace(" Does.\n *", " Does.")),
     "a.h:3: 'Ownership:' stands within a line"),
    ("several within", header(FULL % "Returns: 0.", "int tow_a(void);\n\n/* Does. Ownership, "
                              "Copies, Blocks, Threads, Returns: as tow_a. */\nint tow_b(void);\n"),
     "a.h:13: 'Ownership, Copies, Blocks, Threads, Returns:' stands within a line"),
    ("in a template", {"include/towline/a.h.in": header(FULL % "Returns: 0.")[H].replace(
        ".\n * Blocks", ". Blocks")}, "a.h.in:5: 'Blocks:' stands within a line"),
    ("as nobody", header("/* Ownership, Copies, Threads: as tow_no. Blocks: no. Returns: 0. */\n"),
     "refers to tow_no"),
    ("no comment", header("\n"), "a.h:3: the comment of tow_a is missing"),
    ("comment above another", header(FULL % "Returns: TOW_OK.",
                                     "int tow_a(void);\nint tow_b(void);\n"),
     "the comment of tow_b is missing"),
    ("no Returns", header(FULL % ""), "does not say 'Returns:'"),
    ("nothing to return", header(FULL % "", "void tow_a(void);\nconst char *tow_b(void);\n"),
     "the comment of tow_b is missing"),
    ("void", header(FULL % "", "void tow_a(void);\n"), None),
    ("no Blocks", header("/* Ownership: a. Copies: b. Threads: c. Returns: d. */\n"), "'Blocks:'"),
    ("order", header("/* Copies: b. Ownership: a. Blocks: x. Threads: c. Returns: d. */\n"),
     "in another order"),
    ("counter", {"diag/record/counter.def": "/* x */\nTWI_COUNTER(a_b, x, y)\n",
                 "docs/counters.md": "a_bc\n"}, "diag/record/counter.def:2: a_b is not in"),
    ("reason", {"diag/record/reason.def": "TWI_REASON(\n"}, None),
    ("reason 2", {"diag/record/reason.def": "TWI_REASON(why, x)\n"}, "why is not in"),
    ("knob", {"diag/knob/knob.def": "TWI_KNOB(rank, x)\n", "docs/counters.md": "rank\n"},
     "rank is not in docs/knobs.md"),
    ("rule", {"transport/wire/rule.h": '\tX(40, DONE, "x") \\\n',
              "docs/wire.md": "| DONE |"}, None),
    ("rule 2", {"transport/wire/rule.h": '\tX(40, DONE, "x") \\\n', "docs/counters.md": "DONE"},
     "transport/wire/rule.h:1: DONE is not in docs/wire.md"),
    ("feature", {"transport/wire/feature.def": "TWI_FEATURE(3, one_two, ALL, 1)\n",
                 "docs/wire.md": "one two"}, "transport/wire/feature.def:1: one_two is not in"),
    ("status", {"include/towline/status.h": '\tX(TOW_EBAD, -1, "x") \\\n'}, "TOW_EBAD is not in"),
    ("variables", {"diag/knob/knob.def": "TWI_KNOB(rank, x)\n", "docs/knobs.md": "rank\n",
                   "diag/knob/environment.def": 'TWI_ENVIRONMENT("TOW_A_*", "x")\n',
                   "a.c": 'getenv("TOW_RANK"), getenv("TOW_A_B")\n',
                   "a.py": "os.environ['TOW_A_C']\n"}, None),
    ("variable", {"diag/knob/knob.def": "TWI_KNOB(rank, x)\n", "docs/knobs.md": "rank\n",
                  "diag/knob/environment.def": 'TWI_ENVIRONMENT("TOW_A", "x")\n',
                  "a.c": '\ngetenv("TOW_AB")\n'}, "a.c:2: reads TOW_AB, of which"),
    ("variable 2", {"diag/knob/knob.def": "TWI_KNOB(rank, x)\n", "docs/knobs.md": "rank\n",
                    "diag/knob/environment.def": "", "a.py": 'environ.get("TOW_AB")\n'},
     "a.py:1: reads TOW_AB, of which"),
    ("generated", {"towstat": TOWSTAT, "docs/counters.md": "counters is new\n",
                   "docs/knobs.md": "knobs is new\n"}, None),
    ("old", {"towstat": TOWSTAT, "docs/counters.md": "counters is new\n",
             "docs/knobs.md": "knobs is old\n"}, "docs/knobs.md:1: is not what"),
    ("absent", {"towstat": TOWSTAT, "docs/knobs.md": "knobs is new\n"},
     "docs/counters.md:1: is missing"),
    ("towstat fails", {"towstat": "#!/bin/sh\nexit 1\n", "docs/counters.md": "\n",
                       "docs/knobs.md": "\n"}, "towstat counters"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [
        ("towstat", "path of the built towstat; only the generated documents are looked at then")]))
