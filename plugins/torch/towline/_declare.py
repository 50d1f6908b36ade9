"""The declarations that cffi wants, made from the public headers: there is no second list.

cffi reads C without a preprocessor. So this expands the few macros that the headers have: numbers,
and lists of X(name, value, ...) that are made into enums.
"""
from __future__ import annotations

import pathlib
import re

_ORDER = r"#include <towline/(\w+)\.h>"
_NUMBER = r"\(?(-?(?:0x[0-9a-fA-F]+|\d+))[uUlL]*\)?"
_NUMBERS = {"UINT64_MAX": "0xFFFFFFFFFFFFFFFF", "UINT32_MAX": "0xFFFFFFFF"}
_MALLOC = "malloc_preload"


def _directives(text: str) -> tuple[list[str], list[str]]:
    """The lines of C, and those of the preprocessor, without what is for C++ alone."""
    code, macros, skip = [], [], 0
    for line in text.replace("\\\n", " ").split("\n"):
        word = re.match(r"\s*#\s*(\w+)(.*)", line)
        if skip:
            if word and word[1].startswith("if"):
                skip += 1
            elif word and (word[1] == "endif" or word[1] == "else" and skip == 1):
                skip -= 1
        elif word is None:
            code.append(line)
        elif word[1] == "ifdef" and word[2].strip() == "__cplusplus":
            skip = 1
        else:
            macros.append(line.strip())
    return code, macros


def _constant(macro: str) -> str | None:
    """The line for cffi of a macro that is a number, else None."""
    found = re.match(r"#\s*define\s+(TOW_\w+)\s+(\S.*)", macro)
    if found is None:
        return None
    value = found[2].strip()
    number = re.fullmatch(_NUMBER, value)
    if number is None and value not in _NUMBERS:
        return None
    return f"#define {found[1]} {number[1] if number else _NUMBERS[value]}"


def _expand(code: str, macros: list[str]) -> str:
    """The code with each list of X(...) that stands in it written out as NAME = value."""
    for macro in macros:
        found = re.match(r"#\s*define\s+(\w+_MAP)\(X\)\s+(.*)", macro)
        if found:
            rows = re.findall(r"X\((\w+),\s*(-?\d+)", found[2])
            body = "".join(f"{name} = {value}, " for name, value in rows)
            code = re.sub(found[1] + r"\(\w+\)", lambda _, body=body: body, code)
    return code


def header(text: str) -> str:
    """What one header declares."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    code, macros = _directives(text)
    lines = [line for line in map(_constant, macros) if line]
    body = "\n".join(line for line in code if line.strip())
    return "\n".join(lines) + "\n" + _expand(body, macros)


def declarations(tree: pathlib.Path) -> str:
    """All that the library and the preload declare, from the source tree at `tree`."""
    folder = tree / "include" / "towline"
    names = re.findall(_ORDER, (folder / "towline.h").read_text())
    parts = []
    for name in names:
        path = folder / f"{name}.h"
        parts.append(header((path if path.exists() else folder / f"{name}.h.in").read_text()))
    parts.append(header((tree / "plugins" / "malloc" / f"{_MALLOC}.h").read_text()))
    return "\n".join(parts)


def written() -> str:
    """The declarations of this installation: of the wheel, or of the tree that this lies in."""
    here = pathlib.Path(__file__).resolve().parent
    made = here / "declarations.txt"
    if made.exists():
        return made.read_text()
    return declarations(here.parents[2])
