"""demo_lines.py - what no line of the demo may be, since who reads it has never seen it.

    odd(text)      sentences, one for each oddity; an empty list is a demo without any
"""
import re

# A figure that belongs to a unit, and has none.
BARE = re.compile(r"^\s+(?:exchange, fastest|slack|each alone|sent by|size|in use|most in use|"
                  r"recommended \w+)\b[^0-9]*[0-9.]+\s*$")
MIB = re.compile(r"^\s+size\s+([0-9.]+) MiB$", re.MULTILINE)
NAMED = re.compile(r"^\s+(?:recommended premap_memory_bytes|premap_memory_bytes, at least)\s+"
                   r"([0-9.]+) MiB$", re.MULTILINE)
CURE = re.compile(r"^CURE: a pool of ([0-9]+) MiB", re.MULTILINE)


def parts(text):
    """The sections, by the words behind ===."""
    found = re.split(r"^=== (.*)$", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2]))


def odd_lines(text):
    lines = text.split("\n")
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if re.search(r"(?<![\w.:/-])-[0-9]+(?:\.[0-9]+)? *(?:%|ms|us|s)(?:\W|$)", line):
            yield f"a negative figure: {line}"
        if re.search(r"\([^)]*\b0\.0 (?:KiB|MiB|GiB|MB)\)", line):
            yield f"bytes that are shown as none: {line}"
        if BARE.match(line):
            yield f"a figure without a unit: {line}"
        if re.match(r"\s+(?:lane|kind) .*\bp50\b", line) and not re.search(r"[0-9]\s*$", after):
            yield f"a table without rows: {line}"
        if re.search(r"--intensity|\"rpcs\":|\bwarning\b|\bnull\b|\bnan\b|post receives", line):
            yield f"it means nothing to the reader: {line[:80]}"
        share = re.match(r"\s+overlap\s+([0-9]+) %", line)
        if share and int(share.group(1)) < 25 and ":" not in line:
            yield f"little overlap without its reason: {line}"


def odd(text):
    found = list(odd_lines(text))
    enough = None
    for name, part in parts(text).items():
        size, named, cure = MIB.search(part), NAMED.search(part), CURE.search(part)
        if size and named and not cure and float(named.group(1)) > float(size.group(1)):
            found.append(f"{name}: more is recommended than was enough")
        if size and not cure:
            enough = float(size.group(1))
        if cure and enough is not None and int(cure.group(1)) > enough:
            found.append(f"{name}: the cure is more than the {enough} MiB that were enough")
    if not re.search(r"^  xdg-open /\S+\.html$", text, re.MULTILINE):
        found.append("no page to open at the end")
    return found
