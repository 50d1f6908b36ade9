"""names.py - what comments of C files name exists: each twi_..., tow_..., TWI_... and TOW_...

Who reads a name in a comment looks for it, and a renamed one leads nowhere. A name exists when code
has it: C without its comments, which may have it in a literal (variables of the environment), a
meson.build (targets), the name of a file, or a knob (its variable is TOW_ and its name in
capitals). Families, as in twi_list_* and TOW_SIM_..., end with what is no letter.
"""
import os
import re
import sys

import common
from common import Fault

C = r"\.(c|h|h\.in|def)$"
NAME = r"(?<!\w)(?:twi|tow|TWI|TOW)_\w*\w"
TOKEN = r'(?P<comment>/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''


def without_comments(text):
    """Literals stay, and each comment leaves its line breaks."""
    def hide(found):
        return re.sub(r"[^\n]", " ", found.group(0)) if found.group("comment") else found.group(0)
    return re.sub(TOKEN, hide, text, flags=re.S)


def existing(tree):
    names = set()
    for name in tree.names:
        names.add(os.path.basename(name).split(".")[0])
        if re.search(C, name):
            code = without_comments(tree.text(name))
            names.update(re.findall(NAME, code))
            names.update("TOW_" + k.upper() for k in re.findall(r"^TWI_KNOB\((\w+)", code, re.M))
        elif os.path.basename(name) == "meson.build":
            names.update(re.findall(NAME, re.sub(r"#[^\n]*", "", tree.text(name))))
    return names


def check(tree):
    known, faults = existing(tree), []
    for name in tree.names:
        if not re.search(C, name):
            continue
        text = tree.text(name)
        for comment in re.finditer(TOKEN, text, flags=re.S):
            for found in re.finditer(NAME, comment.group("comment") or ""):
                behind = comment.group("comment")[found.end():found.end() + 1]
                what = found.group(0)
                if what in known or what.endswith("_") or behind in ("*", "<", "{", "#"):
                    continue
                line = text.count("\n", 0, comment.start() + found.start()) + 1
                faults.append(Fault(name, line, f"a comment names {what}, which is nowhere",
                                    "say what it is called now"))
    return faults


SAMPLES = [
    ("good", {"diag/a.h": "/* twi_a() of twi_b.c, twi_c, TWI_D_*, tow_e_, TOW_F_<KIND>, TOW_G. */\n"
                          "int twi_a(void); // TOW_SIZE, TWI_H_MAX\n#define TWI_H_MAX 1\n",
              "diag/twi_b.c": 'char *a = "/* TOW_G";\n', "meson.build": "twi_c = executable('c')\n",
              "diag/knob/knob.def": "TWI_KNOB(size, BYTES)\n"}, None),
    ("nowhere", {"diag/a.c": "/*\n * twi_gone says.\n */\nint twi_a;\n"},
     "diag/a.c:2: a comment names twi_gone, which is nowhere"),
    ("behind code", {"a.h": "int twi_a; // as TOW_GONE\n"}, "a.h:1: a comment names TOW_GONE"),
    ("in another comment", {"a.h": "/* TWI_A */\n", "b.c": "/* TWI_A */\n"}, "b.c:1: a comment"),
    ("in a target's remark", {"a.c": "/* tow_a */\n", "meson.build": "# tow_a\n"}, "a.c:1: a"),
    ("in a document", {"a.c": "/* tow_a */\n", "a.md": "tow_a\n"}, "a.c:1: a comment names tow_a"),
    ("part of another", {"a.c": "/* twi_a */\nint twi_ab;\n"}, "a.c:1: a comment names twi_a,"),
    ("no knob", {"a.c": "/* TOW_A */\n", "knob.def": "/* TWI_KNOB(a) */\n"}, "names TOW_A"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
