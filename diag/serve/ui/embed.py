#!/usr/bin/env python3
"""embed.py PAGE STYLE SCRIPT... OUT - puts a page together and writes it as C.

The page's places for style and script are filled, and the policy names them by their hashes: so
the browser runs what was built, and nothing that got into the page on its way.
"""
import base64
import hashlib
import sys


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def constant(name, text):
    """A string in pieces: compilers need not take long ones, but arrays of any length."""
    data = text.encode() + b"\0"
    rows = [", ".join(str(b) for b in data[i:i + 20]) for i in range(0, len(data), 20)]
    return f"const char {name}[] = {{\n\t" + ",\n\t".join(rows) + "\n};\n"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    page, style, *scripts, out = sys.argv[1:]
    style = "\n" + read(style)
    script = "\n" + "\n".join(read(path) for path in scripts)
    for text, end in ((style, "</style"), (script, "</script")):
        if end in text.lower():
            sys.exit(f"embed.py: {end} within what is to stand inside of it")
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
              f"connect-src 'self'; img-src data:; style-src {digest(style)}; "
              f"script-src {digest(script)}")
    whole = read(page).replace("@STYLE@", style).replace("@SCRIPT@", script)
    with open(out, "w", encoding="utf-8") as f:
        f.write("/* Made by embed.py: change the files that it is made of. */\n"
                '#include "diag/serve/ui/ui.h"\n\n')
        f.write(constant("twi_ui_style", style))
        f.write(constant("twi_ui_page", whole))
        f.write(constant("twi_ui_policy", policy))


main()
