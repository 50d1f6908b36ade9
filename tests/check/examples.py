"""examples.py - an example is read in one go: under 120 lines each."""
import sys

import common
from common import Fault

LINES = 120


def check(tree):
    faults = []
    for name in tree.match(r"examples/.*\.c$"):
        lines = tree.text(name).count("\n")
        if lines >= LINES:
            faults.append(Fault(name, lines, f"{lines} lines, not under {LINES}",
                                "show one thing only, or make it two examples"))
    return faults


SAMPLES = [
    ("good", {"examples/a.c": "\n" * 119, "tools/a.c": "\n" * 500}, None),
    ("long", {"examples/a.c": "\n" * 120}, "examples/a.c:120: 120 lines"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
