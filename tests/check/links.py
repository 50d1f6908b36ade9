"""links.py - every relative link in README.md and docs/ leads somewhere, and every block of a
language says whether it is run.

A link to a file must find it, and a link with an anchor must find a heading that has this anchor,
as GitHub makes them. A fenced block with a language (```sh, ```c, ...) needs a marker in the line
above it; tests/pages/pages.py runs what is marked, and its head has the list of markers.
"""
import os
import re
import sys

import common
from common import Fault

FENCE = re.compile(r"^(```+)(\w*)\s*$")
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
MARKER = re.compile(r"^<!-- (run|program|file|output|not run)(?:: (.+))? -->$")
# Which marker a block of which language may have.
MARKS = {"sh": ["run", "file", "not run"], "c": ["program", "not run"],
         "text": ["output", "not run"]}
OTHERS = ["file", "not run"]


def anchor(heading):
    """The anchor that a heading has: small letters, blanks as hyphens, other signs left out."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def prose(text):
    """The lines outside of fenced and indented blocks, with their numbers."""
    fenced, before = False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not (line.startswith("    ") and not before.strip()):
            yield number, line
        if not line.startswith("    "):
            before = line


def anchors(text):
    found, count = set(), {}
    for _, line in prose(text):
        heading = re.match(r"#{1,6} (.*)", line)
        if heading:
            name = anchor(heading.group(1))
            found.add(name if count.get(name, 0) == 0 else f"{name}-{count[name]}")
            count[name] = count.get(name, 0) + 1
    return found


def check_links(tree, page):
    for number, line in prose(tree.text(page)):
        for link in LINK.finditer(re.sub(r"`[^`]*`", "``", line)):
            target = link.group(1)
            if re.match(r"[a-z]+:", target):
                continue
            name, _, place = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
            if not os.path.exists(tree.path(path)):
                yield Fault(page, number, f"the link {target} leads nowhere",
                            f"name a file; there is no {path}")
            elif place and path.endswith(".md") and place not in anchors(tree.text(path)):
                yield Fault(page, number, f"the link {target} has an anchor that no heading has",
                            f"take one of the headings of {path}")


def check_marks(tree, page):
    above, inside = "", False
    for number, line in enumerate(tree.text(page).split("\n"), 1):
        fence = FENCE.match(line)
        if fence and not inside and fence.group(2):
            mark = MARKER.match(above)
            may = MARKS.get(fence.group(2), OTHERS)
            if mark is None or mark.group(1) not in may:
                yield Fault(page, number, f"a block of {fence.group(2)} has no marker above it",
                            "put <!-- WORD --> there, WORD being " + " or ".join(may))
            elif mark.group(1) == "not run" and not mark.group(2):
                yield Fault(page, number, "the marker does not say why the block is not run",
                            "write <!-- not run: the reason -->")
        if fence:
            inside = not inside
        above = line


def check(tree):
    faults = []
    for page in tree.match(r"(README|docs/.*)\.md$"):
        if page.startswith("docs") or page == "README.md":
            faults += list(check_links(tree, page)) + list(check_marks(tree, page))
    return faults


def page(text, **more):
    return {"docs/a.md": text, **more}


SAMPLES = [
    ("good", page("# A b\n[x](a.md) [y](#a-b) [z](../README.md#of-it-all-1) [w](https://x.y)\n",
                  **{"README.md": "# Of it all\n## Of `it`, all\n"}), None),
    ("broken link", page("text\n[x](b.md)\n"), "docs/a.md:2: the link b.md leads nowhere"),
    ("broken link of README", {"README.md": "| [x](docs/b.md) |\n"},
     "README.md:1: the link docs/b.md leads nowhere"),
    ("broken anchor", page("# A\n[x](#b)\n"), "docs/a.md:2: the link #b has an anchor"),
    ("anchor elsewhere", page("[x](b.md#c)\n", **{"docs/b.md": "# D\n"}), "the link b.md#c has"),
    ("a heading in a block", page("```\n# b\n```\n[x](#b)\n"), "the link #b has an anchor"),
    ("code is no link", page("`[x](b.md)`\n\n    [x](b.md)\n\n```\n[x](b.md)\n```\n"), None),
    ("marked", page("<!-- run -->\n```sh\ntrue\n```\n<!-- not run: needs a GPU -->\n```c\n```\n"
                    "<!-- output -->\n```text\nx\n```\n```\nany\n```\n"), None),
    ("unmarked", page("\n```sh\ntrue\n```\n"), "docs/a.md:2: a block of sh has no marker"),
    ("without a reason", page("<!-- not run -->\n```c\n```\n"), "does not say why"),
    ("marker of another", page("<!-- output -->\n```sh\n```\n"), "a block of sh has no marker"),
    ("marker too far", page("<!-- run -->\n\n```sh\n```\n"), "a block of sh has no marker"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
