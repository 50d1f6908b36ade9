"""roff.py - text of comments as requests of man(7): the few that htmlpages.py reads, too.

Every function returns lines. Names that a page has become bold with the section behind.
"""
import re
import textwrap

WIDTH = 66  # columns of code on a screen of 80


def escape(text):
    """Text as groff prints it as it is, in prose."""
    return text.replace("\\", "\\e").replace("'", "\\(aq").replace("`", "\\(ga").replace(
        "^", "\\(ha").replace("~", "\\(ti")


def line(text):
    """A line that is no request, whatever it begins with."""
    return "\\&" + text if text[:1] in ".'" else text


def code(text):
    """Lines as they are, in a fixed pitch."""
    lines = [line(escape(r).replace("-", "\\-").replace("\t", "        "))
             for r in text.split("\n")]
    return [".nf", *lines, ".fi"]


def prose(text, names):
    """One paragraph as lines, a sentence in each. `names` is {name: section} of the pages."""
    def mark(found):
        quoted, word = found.group(1), found.group(2)
        if quoted is not None:
            return "\\fI" + escape(quoted).replace("-", "\\-") + "\\fR"
        if word in names and found.group(3) is None:
            return f"\\fB{word}\\fR({names[word]})"
        return f"\\fB{word}\\fR" + (found.group(3) or "")
    pieces, at = [], 0
    pattern = r"`([^`]+)`|\b((?:tow|TOW)_\w*\w)\b(\(\w+\))?|\bstruct \w+"
    for found in re.finditer(pattern, text):
        pieces.append(escape(text[at:found.start()]))
        if found.group().startswith("struct "):
            pieces.append(f"\\fB{found.group()}\\fR")
        else:
            pieces.append(mark(found))
        at = found.end()
    pieces.append(escape(text[at:]))
    return wrap("".join(pieces))


def wrap(text):
    """Text that is escaped as lines, each sentence on its own."""
    lines = []
    for sentence in re.split(r"(?<=[.!?]) (?=[A-Z*\\(])", text):
        lines += textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False)
    return [line(row) for row in lines]


def paragraphs(text, starts=()):
    """("text", words) and ("code", lines) of a comment; `starts` begin paragraphs of their own.

    Code is what stands behind a tab or two blanks.
    """
    found, words, block = [], [], []

    def flush():
        if words:
            found.append(("text", " ".join(" ".join(words).split())))
            words.clear()
        while block and not block[-1].strip():
            block.pop()
        if block:
            cut = min(len(r) - len(r.lstrip()) for r in block if r.strip())
            found.append(("code", "\n".join(r[cut:] for r in block)))
            block.clear()

    for row in text.expandtabs(8).split("\n"):
        if re.match(r" {2,}\S", row):
            if words:
                flush()
            block.append(row)
        elif not row.strip():
            if block:
                block.append("")
            else:
                flush()
        else:
            label = re.match(r"(\w+): ", row)
            if block or (label and label.group(1) in starts):
                flush()
            words.append(row.strip())
    flush()
    return found


def text(comment, names, starts=()):
    """A comment as requests; the first paragraph follows the heading directly."""
    lines = []
    for kind, body in paragraphs(comment, starts):
        if lines:
            lines.append(".PP" if kind == "text" else ".sp")
        if kind == "code":
            lines += [".in +4n", *code(body), ".in"]
        else:
            lines += prose(body, names)
    return lines


def section(title, lines):
    """A section, or nothing where there is nothing to say."""
    return [f".SH {title}", *lines] if lines else []


def entry(tag, lines):
    """One row of a list."""
    return [".TP", f"\\fB{tag}\\fR", *lines]


def wrapped(declaration):
    """A declaration of one line, cut at its commas."""
    head, paren, rest = " ".join(declaration.split()).partition("(")
    if not paren:
        return head + ";"
    rows, row = [], head + "("
    for piece in re.findall(r"[^,]+,?", rest):
        if len(row) + len(piece) > WIDTH and row.strip():
            rows.append(row.rstrip())
            row = "    " + piece.strip()
        else:
            row += piece if row.endswith("(") or not row.strip() else " " + piece.strip()
    return "\n".join([*rows, row]) + ";"


def page(name, section_number, version, what, body):
    """A whole page."""
    heading = f'.TH {name} {section_number} "" "Towline {version}" "Towline Manual"'
    return "\n".join([heading, ".nh", ".SH NAME", f"{what}", *body]) + "\n"
