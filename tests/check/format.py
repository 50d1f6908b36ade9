"""format.py - every C and C++ file is as clang-format 14 writes it (scripts/format mends that)."""
import os
import re
import shutil
import sys

import common
from common import Fault

VERSION = "14"
STYLE = ".clang-format"


def formatter():
    """clang-format of the version that the tree is written with; others disagree in details."""
    seen = "none"
    for name in ("clang-format-" + VERSION, "clang-format"):
        if shutil.which(name) is None:
            continue
        seen = common.run([name, "--version"]).stdout
        if re.search(rf"version {VERSION}\.", seen):
            return name
    raise common.Skip(f"clang-format {VERSION} is missing (found: {seen.strip()})")


def check(tree):
    tool = formatter()
    here = os.path.dirname(os.path.abspath(__file__))
    style = os.path.join(os.path.dirname(os.path.dirname(here)), STYLE)
    names = tree.match(r".*\.(c|h|cc)$")
    if not names:
        return []
    done = common.run([tool, "--dry-run", "-Werror", "-style=file:" + style, *names],
                      cwd=tree.root)
    faults = []
    for line in done.stderr.splitlines():
        at = re.match(r"(.*?):(\d+):\d+: error: (.*)", line)
        if at:
            faults.append(Fault(at.group(1), at.group(2), at.group(3), "run scripts/format"))
    if done.returncode != 0 and not faults:
        faults.append(Fault(STYLE, 1, done.stderr.strip(), "run scripts/format"))
    return faults


SAMPLES = [
    ("good", {"a.c": "int tow_f(int a)\n{\n\treturn a;\n}\n"}, None),
    ("spaces", {"a.c": "int tow_f(int a)\n{\n    return a;\n}\n"}, "a.c:2: code should be"),
    ("plus", {"a.cc": "namespace a\n{\nint f(int a) { return a; }\n} // namespace a\n"},
     "a.cc:3: code should be"),
    ("brace", {"b/a.h": "int tow_f(int a) {\n\treturn a;\n}\n"}, "b/a.h:1: code should be"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
