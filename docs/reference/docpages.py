"""docpages.py - a manual page of a document in docs/, or of some chapters of it.

    docpages.py --version VERSION NAME SECTION WHAT FILE [CHAPTER...]

Reads of Markdown what those documents use: headings, paragraphs, lists, tables, code that is
indented, `code`, *emphasis* and **strong** words. The page is on the standard output.
"""
import argparse
import re
import sys

import roff


class Unreadable(Exception):
    """The document has not what is asked for."""


def chapters(text, wanted):
    """(heading, lines) of each chapter, those of deeper headings within; without `wanted` all."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    found, missing = [["DESCRIPTION", []]], set(wanted)
    for row in text.split("\n"):
        heading = re.match(r"(#+) (.*)", row)
        if heading and len(heading.group(1)) == 2:
            found.append([heading.group(2), []])
            missing.discard(heading.group(2))
        elif heading is None or len(heading.group(1)) > 2:
            found[-1][1].append(row)
    if missing:
        raise Unreadable(f"there is no chapter '{sorted(missing)[0]}'")
    if wanted:
        found = [f for f in found if f[0] in wanted]
    return [(h, rows) for h, rows in found if any(r.strip() for r in rows)]


def inline(text, names):
    """Words of a paragraph as lines."""
    text = re.sub(r"<(https?://[^>]*)>", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    pieces = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)", text)
    words = []
    for piece in pieces:
        if piece.startswith("**"):
            words.append("\\fB" + roff.escape(piece[2:-2].replace("`", "")) + "\\fR")
        elif piece.startswith("*") and len(piece) > 2:
            words.append("\\fI" + roff.escape(piece[1:-1]) + "\\fR")
        elif piece.startswith("`"):
            words.append("\\fI" + roff.escape(piece[1:-1]).replace("-", "\\-") + "\\fR")
        else:
            words.append(roff.escape(piece))
    return roff.wrap("".join(words))


def cells(row):
    """The cells of a row of a table."""
    return [c.strip() for c in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def table(rows):
    """A list in place of a table: the first column as the tag, the others behind it."""
    head, lines = cells(rows[0]), []
    titles = [h for h in head if h]
    lines += [".PP", *inline(f"*{titles[0]}*: " + ", ".join(titles[1:]), {})]
    for row in rows[2:]:
        first, *rest = cells(row)
        says = "; ".join(c for c in rest if c)
        lines += [".TP", *([" ".join(inline(first, {}))] if first else ["\\ "]),
                  *(inline(says, {}) or ["\\&"])]
    return lines


def body(rows):
    """The blocks of a chapter as requests."""
    lines, at = [], 0
    while at < len(rows):
        row, start = rows[at], at
        if not row.strip():
            at += 1
        elif re.match(r" {4}|\t", row):
            while at < len(rows) and (re.match(r" {4}|\t", rows[at]) or not rows[at].strip()):
                at += 1
            code = "\n".join(re.sub(r"^(?: {4}|\t)", "", r) for r in rows[start:at]).rstrip()
            lines += [".sp", ".in +4n", *roff.code(code), ".in"]
        elif row.startswith("|"):
            while at < len(rows) and rows[at].startswith("|"):
                at += 1
            lines += table(rows[start:at])
        elif row.startswith("#"):
            lines += [f".SS {roff.escape(row.lstrip('# '))}"]
            at += 1
        else:
            item = re.match(r"- |\d+\. ", row)
            at += 1
            while at < len(rows) and rows[at].strip() and not re.match(r"- |\d+\. |\||#", rows[at]):
                at += 1
            words = " ".join(r.strip() for r in rows[start:at])
            if item:
                lines += [".TP 4", f"\\fB{item.group().strip()}\\fR" if item.group() != "- "
                          else "\\(bu", *inline(words[item.end():], {})]
            else:
                lines += [".PP", *inline(words, {})]
    # A paragraph that follows a heading needs no request.
    return [r for n, r in enumerate(lines)
            if r not in (".PP", ".sp") or (n > 0 and not lines[n - 1].startswith(".SS"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--see", default="", help="names for SEE ALSO: 'towstat(1) towline(7)'")
    for name in ("name", "section", "what", "file"):
        parser.add_argument(name)
    parser.add_argument("chapter", nargs="*")
    args = parser.parse_args()
    try:
        with open(args.file, encoding="utf-8") as f:
            found = chapters(f.read(), args.chapter)
    except (OSError, UnicodeDecodeError, Unreadable) as why:
        print(f"docpages.py: {args.file}: {why}", file=sys.stderr)
        return 2
    lines = []
    for heading, rows in found:
        title = re.sub(r"[*`]", "", heading).upper()
        lines += roff.section(roff.escape(title), body(rows))
    see = re.findall(r"([\w.-]+)\((\w+)\)", args.see)
    lines += roff.section("SEE ALSO", [f".BR {roff.escape(n)} ({s})"
                                       + ("," if at < len(see) - 1 else "")
                                       for at, (n, s) in enumerate(see)])
    what = f"{args.name} \\- {roff.escape(args.what)}"
    sys.stdout.write(roff.page(args.name, args.section, args.version, what, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
