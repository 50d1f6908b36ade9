"""manpages.py - the manual pages of the public headers, from their comments.

    manpages.py --version VERSION --out FOLDER --include FOLDER... [HEADER...]

The headers are those that towline/towline.h includes, in its order, and those that are named. A
function, a type and a header have a page each: man3/tow_alloc.3, man3/tow_options.3type,
man7/towline_pool.h.7. Names that a page explains beside its own, constants above all, are links to
it (.so). man3 and man7 are made anew: what no header declares any more is gone.
"""
import argparse
import os
import re
import shutil
import sys

import cheader
import roff
import statuses

TYPES = ("struct", "enum", "typedef")
TITLES = {"Ownership": "OWNERSHIP", "Copies": "COPIES", "Blocks": "BLOCKS", "Threads": "THREADS",
          "Returns": "RETURN VALUE"}
SUMMARY = 70  # columns of NAME behind the dash, where a sentence can be cut
KNOBS = "tow_options"  # the struct whose members without a comment are knobs


class Manual:
    """All headers, and what each name means."""

    def __init__(self, paths, version):
        self.version = version
        self.headers = [cheader.Header(p, os.path.basename(p)) for p in paths]
        self.macros, self.functions, self.names = {}, {}, {}
        self.texts = {}  # status -> what it means
        for header in self.headers:
            self.names[header_page(header)] = "7"
            for item in header.items:
                item.header = header
                self.note(item)
        enums = [i for h in self.headers for i in h.items if i.kind == "enum"]
        for enum in enums:
            if enum.name == "tow_status":
                self.texts = {n: " ".join(more) for n, _, more in
                              cheader.constants(enum, self.macros)}

    def note(self, item):
        """Enters an item; a type that has the name of a function gives way to it in `names`."""
        if item.kind == "macro":
            self.macros[item.name] = item
        elif item.kind == "function":
            self.functions[item.name] = item
            self.names[item.name] = "3"
        elif item.kind in TYPES:
            self.names.setdefault(item.name, "3type")

    def owner(self, macro):
        """The type to whose page a macro belongs, or None."""
        said = re.search(r"(?:initial value|Flags) of struct (\w+)", macro.comment or "")
        if said:
            return said.group(1)
        for header in self.headers:
            for item in header.items:
                if item.kind == "enum" and macro.name + "(" in item.code:
                    return item.name
        return None

    def inherited(self, answer, label):
        """The answer that "as tow_x." refers to, followed to its end; None for an own one."""
        seen = None
        for _ in range(8):
            other = re.fullmatch(r"as (tow_\w+)\.?", answer)
            if other is None or other.group(1) not in self.functions:
                break
            item = self.functions[other.group(1)]
            answer = cheader.answers(item.comment)[1].get(label)
            seen = (item.name, answer)
            if answer is None:
                return None
        return seen


def header_page(header):
    """The name of a header's page: towline_pool.h."""
    return header.name if header.name == "towline.h" else "towline_" + header.name


def include(header):
    return f"#include <towline/{header.name}>"


def summary(comment):
    """What NAME says: the first sentence, or as much of it as says one thing."""
    words = " ".join(cheader.answers(comment)[0].split())
    words = re.split(r"\.(?= |\Z)", words)[0]
    if len(words) > SUMMARY:
        words = re.sub(r" \([^()]*\)", "", words)
    words = re.split(r"[:;] ", words)[0]
    while len(words) > SUMMARY and "," in words[SUMMARY // 3:]:
        words = words.rpartition(",")[0]
    words = roff.escape(re.sub(r"`", "", words).rstrip("."))
    head = words.split(" ")[0]
    return words if re.search(r"[A-Z_]", head[1:]) else words[:1].lower() + words[1:]


def essay(header):
    """(first sentence, all of it) of the comment on top of a header."""
    about = re.sub(r"\A\S+ - ", "", header.about)
    first = re.split(r"\.(?=\s|\Z)", about)[0]
    if len(first) > 100:
        first = re.split(r":\s", first)[0]
    return roff.escape(" ".join(first.replace("`", "").split())), about[:1].upper() + about[1:]


def sentence(words, item):
    """Words that begin a paragraph, with a capital unless they begin with a name."""
    first = words.split(" ")[0]
    if re.fullmatch(r"[a-z]+[:,.;]?", first) and not re.search(rf"\b{first}\b", item.code):
        return words[:1].upper() + words[1:]
    return words


def see_also(own, names, manual):
    """The last section: pages by section and name."""
    found = sorted({(manual.names[n], n) for n in names if n in manual.names and n != own}
                   | {("7", "towline")})
    lines = [f".BR {n} ({s})" + ("," if at < len(found) - 1 else "")
             for at, (s, n) in enumerate(found)]
    return roff.section("SEE ALSO", lines)


def mentioned(text):
    return set(re.findall(r"\btow_\w*\w", text))


def returned(answer, item, manual):
    """The section RETURN VALUE: one row for each status."""
    lines = []
    for kind, body in statuses.parts(answer):
        if kind == "text":
            lines += ([".PP"] if lines else []) + roff.prose(sentence(body, item), manual.names)
            continue
        for names, says in body:
            meaning = manual.texts.get(names[0], "") if names else ""
            if names:
                says = says or meaning
                lines += roff.entry(", ".join(names), roff.prose(says, manual.names))
            else:
                lines += ([".PP"] if lines else []) + roff.prose(
                    sentence(says, item) + ".", manual.names)
    return lines


def answered(item, manual):
    """The sections of the answers, in their order."""
    lines, found = [], cheader.answers(item.comment)[1]
    for label in cheader.LABELS:
        if label not in found:
            continue
        answer, source = found[label], manual.inherited(found[label], label)
        lead = []
        if source:
            lead = roff.prose(f"As {source[0]}:", manual.names)
            answer = source[1]
        if label == "Returns":
            says = returned(answer, item, manual)
        else:
            says = roff.prose(sentence(answer, item), manual.names)
        if lead and says[0] != ".TP":
            lead.append(".PP")
        lines += roff.section(TITLES[label], lead + says)
    return lines


def function_page(item, manual):
    """The page of a function."""
    text = cheader.answers(item.comment)[0]
    parameters = re.findall(r"(\w+)(?:\[\w*\])?\s*[,)]", item.code)
    types = set(re.findall(r"\b(?:struct|enum) (\w+)|\b(tow_\w+_callback|tow_\w+_handler)\b",
                           item.code))
    body = roff.section("LIBRARY", ["Towline (libtowline, \\-ltowline)"])
    if item.header.name == "malloc_preload.h":
        body = roff.section("LIBRARY", ["Towline's preload (libtowline\\-malloc.so)"])
    body += roff.section("SYNOPSIS", roff.code(include(item.header) + "\n\n"
                                               + roff.wrapped(item.code)))
    body += roff.section("DESCRIPTION", roff.text(text, manual.names, parameters))
    body += answered(item, manual)
    related = mentioned(item.comment) | {t for pair in types for t in pair}
    related |= {header_page(item.header)} | ({"tow_status"} if "TOW_" in item.comment else set())
    what = f"{item.name} \\- {summary(item.comment)}"
    body += see_also(item.name, related, manual)
    return roff.page(item.name, "3", manual.version, what, body)


def bare(struct):
    """The declaration of a struct without its comments."""
    text = re.sub(r"\s*/\*.*?\*/", "", struct.code, flags=re.S)
    text = re.sub(r"\n\s*(\*\w+;)", r" \1", text)
    text = re.sub(r"(\w|\*)\n\t\t+", r"\1 ", text)
    text = re.sub(r"[ \t]+(?=\S)", " ", text)
    return re.sub(r"\n (?=\S)", "\n    ", text) + ";"


def member_rows(struct, manual):
    """A row for each member that has something to say."""
    lines = []
    for code, says in cheader.members(struct):
        pointer = re.search(r"\(\*(\w+)\)", code)
        name = pointer.group(1) if pointer else re.sub(
            r"^(?:const |struct |enum |unsigned )*\w+[\s*]+", "", code)
        if not says and struct.name == KNOBS:
            says = "the knob of this name: towline-knobs(7)"
        if says:
            lines += roff.entry(name, roff.prose(says, manual.names))
    return lines


def macro_rows(macros, manual):
    """A row for each macro, and what stands above a group of them."""
    lines = []
    for macro in macros:
        if macro.first and macro.comment and "initial value of" not in macro.comment:
            lines += ([".PP"] if lines else []) + roff.text(macro.comment, manual.names)
        head = re.match(r"#define\s+(\w+(?:\([^)]*\))?)\s*(.*)", macro.code, flags=re.S)
        value = head.group(2) if "\n" not in head.group(2) else ""
        says = roff.prose(macro.trailing, manual.names) if macro.trailing else []
        if "initial value of" in (macro.comment or ""):
            says = roff.prose(macro.comment, manual.names)
        if value and not says:
            says = [f"\\fI{roff.escape(value)}\\fR"]
        elif value:
            says = [f"\\fI{roff.escape(value)}\\fR:"] + says
        lines += roff.entry(roff.escape(head.group(1)), says or ["A macro."])
    return lines


def constant_rows(enum, manual):
    """A row for each constant: its value, and what its row in the list says."""
    lines = []
    for name, value, more in cheader.constants(enum, manual.macros):
        says = roff.escape(": ".join([value, ", ".join(more)]) if more else value)
        lines += roff.entry(name, [roff.line(says)])
    return lines


def type_page(item, manual, macros, group):
    """The page of a struct, an enum or a type of function; `group` shares its comment."""
    text, found = cheader.answers(item.comment)
    shown = bare(item) if item.kind == "struct" else "\n".join(
        roff.wrapped(g.code) for g in group)
    if item.kind == "enum":
        shown = f"enum {item.name};"
    body = roff.section("SYNOPSIS", roff.code(include(item.header) + "\n\n" + shown))
    lists = [m for m in macros if m.name.endswith("_MAP")]
    body += roff.section("DESCRIPTION", roff.text(text, manual.names))
    for label in lists:
        if label.comment:
            body += [".PP", *roff.text(re.sub(r"^X\([^)]*\)\.?\s*", "", label.comment),
                                       manual.names)] if "." in label.comment else []
    if item.kind == "struct":
        body += roff.section("MEMBERS", member_rows(item, manual))
    if item.kind == "enum":
        body += roff.section("VALUES", constant_rows(item, manual))
    body += roff.section("MACROS", macro_rows([m for m in macros if m not in lists], manual))
    body += answered(item, manual) if found else []
    users = {f.name for f in manual.functions.values()
             if re.search(rf"\b{item.name}\b", f.code) and f.name != item.name}
    related = users | mentioned(item.comment + item.code) | {header_page(item.header)}
    if item.name in manual.functions:
        users.add(item.name)
    what = ", ".join(g.name for g in group) + f" \\- {summary(item.comment)}"
    body += see_also(item.name, related, manual)
    return roff.page(item.name, "3type", manual.version, what, body)


def rows_of(items, manual):
    """A row for each item that has a page of its own."""
    lines = []
    for item in items:
        section = "3" if item.kind == "function" else "3type"
        lines += roff.entry(f"{item.name}\\fR({section})\\fB", [roff.line(summary(item.comment))])
    return lines


def header_body(header, manual, own_macros):
    """The sections of a header's page behind NAME."""
    about = essay(header)[1]
    body = roff.section("SYNOPSIS", roff.code(include(header)))
    body += roff.section("DESCRIPTION", roff.text(about, manual.names))
    if header.name == "towline.h":
        listed = re.findall(r"#include <towline/(\S+)>", header.text)
        lines = []
        for other in [h for name in listed for h in manual.headers if h.name == name]:
            lines += roff.entry(f"{header_page(other)}\\fR(7)\\fB", [roff.line(essay(other)[0])])
        body += roff.section("HEADERS", lines)
    functions = [i for i in header.items if i.kind == "function"]
    types = [i for i in header.items if i.kind in TYPES]
    opaque = [i for i in header.items if i.kind == "opaque"]
    body += roff.section("FUNCTIONS", rows_of(functions, manual))
    lines = rows_of(types, manual)
    for item in opaque:
        says = item.trailing or "a handle, whose inside is the library's own"
        lines += roff.entry(f"struct {item.name}", roff.prose(says, manual.names))
    body += roff.section("TYPES", lines)
    body += roff.section("CONSTANTS AND MACROS", macro_rows(own_macros, manual))
    return body


def write(folder, name, text):
    """A page; two of one name would hide each other."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        raise cheader.Unreadable(f"{name} would be written twice")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def alias(out, name, target, section):
    """A link from a name to the page that explains it, unless the name has a page."""
    path = os.path.join(out, f"man{section[0]}", f"{name}.{section}")
    if not os.path.exists(path):
        with open(path, "w", encoding="ascii") as f:
            f.write(f".so man{target[1][0]}/{target[0]}.{target[1]}\n")


def write_header(header, manual, out):
    """The page of a header and of all that it declares; returns (name, target, section)s."""
    links, own, page_of = [], [], (header_page(header), "7")
    macros = [i for i in header.items if i.kind == "macro"]
    for macro in macros:
        owner = manual.owner(macro)
        own += [] if owner else [macro]
        links.append((macro.name, (owner, "3type") if owner else page_of, "3"))
    group = None
    for at, item in enumerate(header.items):
        if item.kind == "function":
            require(item)
            write(os.path.join(out, "man3"), f"{item.name}.3", function_page(item, manual))
        elif item.kind in TYPES and (item.first or group is None):
            require(item)
            group = [item] + [g for g in header.items[at + 1:at + 4] if g.kind == item.kind
                              and g.comment == item.comment]
            mine = [m for m in macros if manual.owner(m) == item.name]
            write(os.path.join(out, "man3"), f"{item.name}.3type",
                  type_page(item, manual, mine, group))
            links += [(g.name, (item.name, "3type"), "3type") for g in group[1:]]
            if item.kind == "enum":
                links += [(n, (item.name, "3type"), "3")
                          for n, _, _ in cheader.constants(item, manual.macros)]
        elif item.kind == "opaque":
            links.append((item.name, page_of, "3type"))
    what = f"{header_page(header)} \\- {essay(header)[0]}"
    others = mentioned(header.about) - {i.name for i in header.items}
    body = header_body(header, manual, own) + see_also(header_page(header), others, manual)
    write(os.path.join(out, "man7"), f"{header_page(header)}.7",
          roff.page(header_page(header), "7", manual.version, what, body))
    return links


def require(item):
    """Nothing is public that nobody has explained."""
    if not item.comment or not cheader.answers(item.comment)[0]:
        raise cheader.Unreadable(f"{item.header.path}:{item.line}: {item.name} has no comment")


def find_headers(folders, more):
    """The paths of the public headers."""
    def find(name):
        for folder in folders:
            path = os.path.join(folder, "towline", name)
            if os.path.exists(path):
                return path
        raise cheader.Unreadable(f"towline/{name} is in none of the folders")

    top = find("towline.h")
    with open(top, encoding="ascii") as f:
        listed = re.findall(r"^#include <towline/(\S+)>", f.read(), flags=re.M)
    return [top] + [find(name) for name in listed] + more


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--version", required=True, help="of Towline, for the foot of each page")
    parser.add_argument("--out", required=True, help="the folder in which man3 and man7 are made")
    parser.add_argument("--include", action="append", required=True, help="where headers are")
    parser.add_argument("--depfile", help="names the headers, for ninja")
    parser.add_argument("headers", nargs="*", metavar="HEADER")
    args = parser.parse_args()
    try:
        paths = find_headers(args.include, args.headers)
        manual = Manual(paths, args.version)
        folders = [os.path.join(args.out, name) for name in ("man3", "man7")]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        links = [link for h in manual.headers for link in write_header(h, manual, args.out)]
        for name, target, section in links:
            alias(args.out, name, target, section)
        if args.depfile:
            with open(args.depfile, "w", encoding="utf-8") as f:
                f.write(" ".join(folders) + ": " + " ".join(paths) + "\n")
    except (OSError, UnicodeDecodeError, cheader.Unreadable) as why:
        print(f"manpages.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
