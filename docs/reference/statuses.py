"""statuses.py - the answer "Returns" of a comment, taken apart into one row for each status.

It is a list, "TOW_OK; TOW_EINVAL for NULL; TOW_EFORKED. More text. The operation ends with TOW_OK,
TOW_EPEER (it has gone) or TOW_ECLOSED." What a row does not explain has the status' own text.
"""
import re

NAMES = re.compile(r"(?:TOW_[A-Z]+)(?:(?:,| and| or|, and|, or) TOW_[A-Z]+)*")


def cut(text, pattern):
    """Splits at a pattern, outside of parentheses."""
    pieces, depth, start = [], 0, 0
    for found in re.finditer(r"[()]|" + pattern, text):
        if found.group() in "()" and found.group():
            depth += 1 if found.group() == "(" else -1
        elif depth == 0:
            pieces.append(text[start:found.start()])
            start = found.end()
    return [p.strip() for p in pieces + [text[start:]] if p.strip()]


def clauses(sentence):
    """(names, what it says) of each part of a list; names is [] where it begins with none."""
    rows = []
    for piece in cut(sentence, r"; (?:and |or )?"):
        at = NAMES.match(piece)
        if at is None:
            rows.append(([], piece))
            continue
        names = re.findall(r"TOW_[A-Z]+", at.group())
        says = piece[at.end():].strip(" :,")
        if says.startswith("("):
            inner = re.match(r"\(((?:[^()]|\([^()]*\))*)\)(.*)", says, flags=re.S)
            rows += [([n], "") for n in names[:-1]] + [([names[-1]], inner.group(1))]
            rest = re.sub(r"^\s*(?:,|and|or)\s*(?:and |or )?", "", inner.group(2)).strip(" ,")
            rows += clauses(rest) if rest else []
        elif says:
            rows.append((names, says))
        else:
            rows += [([n], "") for n in names]
    return rows


def is_list(sentence):
    """Whether it enumerates statuses, rather than talks of one."""
    return NAMES.match(sentence) is not None


def parts(answer):
    """("list", rows) and ("text", words) of an answer, in order."""
    found = []
    for sentence in cut(answer.rstrip("."), r"\. (?=[A-Z*])"):
        lead, colon, rest = "", "", sentence
        ends = re.match(r"((?:The|In)\b[^.;]*?\bends? with) (?=TOW_)", sentence)
        if ends:
            lead, colon, rest = ends.group(1), ":", sentence[ends.end():]
        first = not found and any(is_list(c) for c in cut(rest, "; "))
        if first or is_list(rest) and (lead or ";" in rest):
            if lead:
                found.append(("text", lead + colon))
            found.append(("list", clauses(rest)))
        else:
            found.append(("text", sentence + "."))
    return found
