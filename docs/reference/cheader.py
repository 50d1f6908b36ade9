"""cheader.py - what a public header declares, with the comments that explain it.

A header is read as this tree writes them: a comment stands right above what it explains, without an
empty line between, and one behind a macro or a member explains that one alone. A group of
declarations without an empty line between shares its comment. What is read is a list of Item.
"""
import re

LABELS = ["Ownership", "Copies", "Blocks", "Threads", "Returns"]


class Unreadable(Exception):
    """The header has a form that is not known here; the text names file and line."""


class Item:
    """One declaration: kind is function, struct, enum, typedef, opaque or macro."""

    def __init__(self, kind, name, code, comment, line):
        self.kind, self.name, self.code, self.comment = kind, name, code, comment
        self.line = line
        self.trailing = ""  # the comment behind it
        self.first = True   # of the group that shares a comment


class Header:
    """A header file: its name below towline/, the essay on top of it, and its items."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.items = []
        with open(path, encoding="ascii") as f:
            self.text = f.read()
        self.about = ""
        self.read()

    def fail(self, at, what):
        line = self.text.count("\n", 0, at) + 1
        raise Unreadable(f"{self.path}:{line}: {what}")

    def read(self):
        """Fills items. `comment` is the one that stands above, None when an empty line follows."""
        at, comment, shared = 0, None, False
        text = self.text
        while at < len(text):
            gap = re.compile(r"\s*").match(text, at)
            if gap.group().count("\n") > 1:
                comment, shared = None, False
            at = gap.end()
            if at == len(text):
                break
            if text.startswith("/*", at):
                end = text.find("*/", at)
                if end < 0:
                    self.fail(at, "the comment does not end")
                body, behind = plain(text[at:end + 2]), "\n" not in text[:at][-1:] + gap.group()
                if not self.about:
                    self.about = body
                elif behind and self.items:
                    self.items[-1].trailing = body
                else:
                    comment, shared = body, False
                at = end + 2
            elif text[at] == "#":
                at = self.directive(at, comment, shared)
                shared = shared or text[gap.end():].startswith("#define")
            else:
                at = self.statement(at, comment, shared)
                shared = True

    def directive(self, at, comment, shared):
        """A line of the preprocessor, with its continuations; returns where it ends."""
        line = re.compile(r"#(?:[^\n]*\\\n)*[^\n]*").match(self.text, at)
        code = line.group()
        if re.fullmatch(r"#ifdef __cplusplus", code):
            language = re.compile(r'#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif')
            whole = language.match(self.text, at)
            if whole:
                return whole.end()
        define = re.match(r"#define\s+(\w+)", code)
        if define is None or define.group(1).endswith("_H"):
            return line.end()
        end, trailing = line.end(), re.search(r"\s*/\*((?:(?!\*/).)*)\*/\s*\Z", code, flags=re.S)
        if trailing:
            code = code[:trailing.start()]
        if define.group(1) in [i.name for i in self.items]:
            return end  # the other branch of an #if
        item = Item("macro", define.group(1), code, comment, self.text.count("\n", 0, at) + 1)
        item.first = not shared
        item.trailing = " ".join(trailing.group(1).split()) if trailing else ""
        self.items.append(item)
        return end

    def statement(self, at, comment, shared):
        """What ends with a semicolon; returns where that is."""
        depth, end = 0, at
        blanked = re.sub(r'/\*.*?\*/|"[^"\n]*"', lambda m: re.sub(r"[^\n]", " ", m.group()),
                         self.text[at:], flags=re.S)
        for offset, sign in enumerate(blanked):
            depth += (sign == "{") - (sign == "}")
            if sign == ";" and depth == 0:
                end = at + offset
                break
        if end == at:
            self.fail(at, "the declaration does not end")
        code, bare = self.text[at:end], blanked[:end - at]
        item = Item(*self.kind_of(at, code, bare), code, comment,
                    self.text.count("\n", 0, at) + 1)
        item.first = not shared
        self.items.append(item)
        return end + 1

    def kind_of(self, at, code, bare):
        """(kind, name) of a declaration."""
        tagged = re.match(r"(struct|enum)\s+(\w+)\s*(\{|\Z)", bare)
        if tagged:
            return tagged.group(1) if tagged.group(3) else "opaque", tagged.group(2)
        pointer = re.match(r"typedef\b[^(]*\(\*(\w+)\)", bare)
        if pointer:
            return "typedef", pointer.group(1)
        function = re.match(r"[\w\s*]+?\b(\w+)\s*\(", bare)
        if function and "{" not in bare:
            return "function", function.group(1)
        return self.fail(at, f"'{code.split(chr(10))[0]}' is no declaration that is known here")


def plain(comment):
    """The text of a comment without its frame; lines and indentation stay."""
    lines = re.sub(r"\A/\*+[ \t]?|[ \t]*\*+/\Z", "", comment).split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line) if n else line
                     for n, line in enumerate(lines)).strip("\n")


def answers(comment):
    """(text, {label: answer}) of a comment: what stands before the labels, and each answer."""
    one = "|".join(LABELS)
    pattern = re.compile(rf"(?:\A|\n|(?<=\. ))((?:{one})(?:,\s+(?:{one}))*):\s")
    places = list(pattern.finditer(comment))
    text = comment[:places[0].start()] if places else comment
    found = {}
    for place, after in zip(places, places[1:] + [None]):
        answer = comment[place.end():after.start() if after else len(comment)]
        for label in re.split(r",\s+", place.group(1)):
            found[label] = " ".join(answer.split())
    return text.strip("\n"), found


def rows(macro):
    """The rows of a list macro, #define NAME(X) X(a, b, "c") ...: each a list of texts."""
    found = []
    body = macro.code.split("\n", 1)[-1]
    for row in re.finditer(r'\bX\(((?:"(?:\\.|[^"\\])*"|[^()"])*)\)', body):
        cells = re.findall(r'\s*("(?:\\.|[^"\\])*"|[^,"]+)', row.group(1))
        found.append([re.sub(r'\A"|"\Z', "", c.strip()) for c in cells])
    return found


def members(struct):
    """(declaration, comment) of each member of a struct, in order."""
    body = struct.code[struct.code.index("{") + 1:struct.code.rindex("}")]
    found, above = [], ""
    for piece in re.finditer(r"/\*(.*?)\*/|([^;/]+);", body, flags=re.S):
        if piece.group(2) is not None:
            found.append([" ".join(piece.group(2).split()), above])
            above = ""
            continue
        text = " ".join(re.sub(r"\n\s*\*", "\n", piece.group(1)).split())
        if "\n" not in body[:piece.start()].rpartition(";")[2] and found:
            found[-1][1] = (found[-1][1] + " " + text).strip()
        else:
            above = text
    return [tuple(m) for m in found]


def constants(enum, macros):
    """(name, value, [further cells]) of each constant, the rows of list macros included."""
    body = enum.code[enum.code.index("{") + 1:enum.code.rindex("}")]
    body, found = re.sub(r"^\s*#.*$", "", body, flags=re.M), []
    for piece in re.finditer(r"(\w+_MAP)\(\w+\)|(TOW_\w+) = (\w+),?(?:\s*/\*(.*?)\*/)?", body):
        if piece.group(1):
            found += [(r[0], r[1], r[2:]) for r in rows(macros[piece.group(1)])]
        else:
            says = (piece.group(4) or "").strip()
            found.append((piece.group(2), piece.group(3), [says] if says else []))
    return found
