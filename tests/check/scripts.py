"""scripts.py - every script parses, and shellcheck has nothing to say where it is installed."""
import re
import shutil
import sys

import common
from common import Fault


def language(tree, name):
    """sh, bash, python or None, by the first line, else by the name."""
    with open(tree.path(name), "rb") as f:
        first = f.readline(200).decode(errors="replace")
    found = re.match(r"#!\s*\S*?(?:/env\s+)?(bash|dash|sh|python3?)\b", first)
    if found:
        return {"dash": "sh", "python3": "python"}.get(found.group(1), found.group(1))
    return "python" if name.endswith(".py") else "sh" if name.endswith(".sh") else None


def check_shell(tree, name, shell):
    done = common.run([shell, "-n", tree.path(name)])
    if done.returncode != 0:
        at = re.search(r": (?:line )?(\d+): (.*)", done.stderr)
        line, what = at.groups() if at else (1, done.stderr.strip())
        yield Fault(name, line, f"{shell} cannot read it: {what}", "mend the syntax")
    elif shutil.which("shellcheck"):
        done = common.run(["shellcheck", "--format=gcc", "--shell=" + shell, tree.path(name)])
        for said in done.stdout.splitlines():
            at = re.search(r":(\d+):\d+: \w+: (.*)", said)
            line, what = at.groups() if at else (1, said)
            yield Fault(name, line, what, "mend it, or disable it there with a reason")


def check_python(tree, name):
    try:
        compile(tree.text(name), name, "exec")
    except SyntaxError as wrong:
        yield Fault(name, wrong.lineno or 1, f"python cannot read it: {wrong.msg}", "mend it")


def check(tree):
    faults = []
    for name in tree.names:
        what = language(tree, name)
        if what == "python":
            faults += check_python(tree, name)
        elif what:
            faults += check_shell(tree, name, what)
    if shutil.which("shellcheck") is None:
        print("note: shellcheck is missing, so scripts were only parsed")
    return faults


SAMPLES = [
    ("good", {"a": '#!/bin/sh\nx=1\necho "$x"\n', "b.py": "x = 1\n", "c.md": "if (\n",
              "d": "#!/usr/bin/env python3\nx = 1\n"}, None),
    ("sh", {"scripts/a": "#!/bin/sh\nif true; then\n"}, "scripts/a:"),
    ("bash", {"a": "#!/usr/bin/env bash\ncase\n"}, "bash cannot read it"),
    ("by name", {"a.sh": "while\n"}, "sh cannot read it"),
    ("python", {"a": "#!/usr/bin/python3\n\ndef (\n"}, "a:3: python cannot read it"),
]
if shutil.which("shellcheck"):
    SAMPLES.append(("quotes", {"a": '#!/bin/sh\nx="a b"\nrm $x\n'}, "a:3: Double quote"))

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
