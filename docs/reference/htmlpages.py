"""htmlpages.py - manual pages as HTML, one file each, and an index; they need nothing else.

    htmlpages.py --out FOLDER PAGE_OR_FOLDER...

Reads the requests of man(7) that the pages of this tree use, and refuses others, so that none is
lost in silence. A page that is a link (.so) has no file: what names it leads to what it is a link
to.
"""
import argparse
import html
import os
import re
import shutil
import sys

STYLE = """body{font:16px/1.5 sans-serif;max-width:52em;margin:1em auto;padding:0 1em}
body{color:#111;background:#fff}pre,code{font:14px/1.4 monospace}
pre{background:#f4f4f4;padding:.6em;overflow-x:auto}
h1{font-size:1.5em}h2{font-size:1.1em;margin:1.4em 0 .3em}
dt{font-weight:bold}.mark{float:left;margin-left:1em}dd{margin:0 0 .5em 2em}
nav{border-bottom:1px solid #ccc}a{color:#04c}
table{border-collapse:collapse}td{padding:.1em 1em .1em 0;vertical-align:top}
@media (prefers-color-scheme:dark){
body{color:#ddd;background:#111}pre{background:#222}a{color:#8bf}}"""
SECTIONS = [("1", "Programs"), ("5", "Files"), ("7", "Overview and headers"), ("3", "Functions"),
            ("3type", "Types")]
GLYPHS = {"aq": "'", "ga": "`", "ha": "^", "ti": "~", "em": "\u2014", "bu": "\u2022"}


class Unreadable(Exception):
    """A page has something that is not known here; the text names file and line."""


class Page:
    """A manual page: name, section and what it is, and its HTML."""

    def __init__(self, path):
        self.path = path
        self.name, _, self.section = os.path.basename(path).rpartition(".")
        with open(path, encoding="utf-8") as f:
            self.rows = f.read().split("\n")
        link = re.fullmatch(r"\.so man\d/(\S+)", self.rows[0])
        self.link = link.group(1) if link else None
        self.what = ""

    def file(self):
        return f"{self.name}.{self.section}.html"


class Writer:
    """Turns the rows of one page into HTML."""

    def __init__(self, page, targets):
        self.page, self.targets = page, targets
        self.out, self.open = [], []  # what is written; tags that are open
        self.font, self.code, self.term, self.lead = "R", False, False, False
        self.number = 0
        self.heading = ""

    def inline(self, text):
        """Escapes of roff as HTML, with links to the pages that are named."""
        found, marks = "", {"B": "b", "I": "i", "R": "", "P": ""}
        at = 0
        for escape in re.finditer(r"\\(f[BIRP]|\(\w\w|.)", text):
            found += html.escape(text[at:escape.start()], quote=False)
            at, what = escape.end(), escape.group(1)
            if what[0] == "f":
                found += self.close_font() + (f"<{marks[what[1]]}>" if marks[what[1]] else "")
                self.font = what[1] if marks[what[1]] else "R"
            elif what[0] == "(" and what[1:] in GLYPHS:
                found += html.escape(GLYPHS[what[1:]], quote=False)
            elif what in "e-&.' 0" or what == "\\":
                found += {"e": "\\", "&": "", "0": " "}.get(what, what)
            else:
                self.fail(f"the escape \\{what} is not known")
        found += html.escape(text[at:], quote=False) + self.close_font()
        return self.linked(found)

    def close_font(self):
        closing = {"B": "</b>", "I": "</i>"}.get(self.font, "")
        self.font = "R"
        return closing

    def linked(self, text):
        """Every NAME(SECTION) that is a page leads there."""
        def anchor(found):
            target = self.targets.get((found.group(2), found.group(4)))
            if target is None or target == self.page.file():
                return found.group()
            return f'<a href="{target}">{found.group(2)}({found.group(4)})</a>'
        return re.sub(r"(<b>|<i>)?([\w.-]*\w)(</b>|</i>)?\((\d\w*)\)", anchor, text)

    def example(self, text):
        """A line of code; in a synopsis types and functions are links."""
        found = self.inline(text)
        if self.heading != "SYNOPSIS":
            return found

        def anchor(name):
            sections = ("3type", "3") if name.group(1) else ("3", "3type")
            for section in sections:
                target = self.targets.get((name.group(2), section))
                if target and target != self.page.file():
                    return f'{name.group(1) or ""}<a href="{target}">{name.group(2)}</a>'
            return name.group()
        return re.sub(r"((?:struct|enum) )?\b(tow_\w+)\b", anchor, found)

    def fail(self, what):
        raise Unreadable(f"{self.page.path}:{self.number}: {what}")

    def enter(self, tag):
        """Opens a block, unless it is open."""
        if not self.open or self.open[-1] != tag:
            self.out.append(f"<{tag}>")
            self.open.append(tag)

    def leave(self, until=()):
        """Closes blocks, up to one of `until`."""
        while self.open and self.open[-1] not in until:
            self.out.append(f"</{self.open.pop()}>")

    def words(self, text):
        """Text that flows."""
        if self.term:
            self.leave(("dl",))
            self.enter("dl")
            mark = ' class="mark"' if text == GLYPHS["bu"] else ""
            self.out.append(f"<dt{mark}>{text}</dt>")
            self.term = False
            self.enter("dd")
        elif self.code:
            self.out.append(text)
        else:
            if not self.open or self.open[-1] not in ("p", "dd"):
                self.enter("p")
            self.out.append(text)

    def fonts(self, request, rest):
        """.B, .I and the ones that change from word to word."""
        pieces = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', rest)]
        if len(request) == 1:
            return self.inline(f"\\f{request}{' '.join(pieces)}\\fR")
        return self.inline("".join(f"\\f{request[n % 2]}{p}\\fR" for n, p in enumerate(pieces)))

    def request(self, name, rest):
        """One request; unknown ones are refused."""
        if name in ("SH", "SS"):
            self.leave()
            if name == "SH":
                self.heading = rest.strip('"')
            tag = "h2" if name == "SH" else "h3"
            self.out.append(f"<{tag}>{self.inline(rest.strip(chr(34)))}</{tag}>")
        elif name in ("PP", "sp"):
            self.leave(())
        elif name == "TP":
            self.leave(("dl",))
            self.term = True
        elif name in ("nf", "EX"):
            self.leave(("dd",))
            self.enter("pre")
            self.code = True
        elif name in ("fi", "EE"):
            self.code = False
            self.leave(("dd", "dl"))
        elif name == "br":
            self.out.append("<br>")
        elif re.fullmatch(r"[BI]|[BIR][BIR]", name):
            self.words(self.fonts(name, rest))
        elif name not in ("TH", "nh", "in"):
            self.fail(f"the request .{name} is not known")

    def run(self):
        """The body of the page."""
        for self.number, row in enumerate(self.page.rows, 1):
            request = re.match(r"[.'](\w+) ?(.*)", row)
            if request:
                self.request(request.group(1), request.group(2))
            elif self.code:
                self.out.append(self.example(row))
            elif row:
                self.words(self.inline(row))
        self.leave()
        return "\n".join(self.out).replace("<pre>\n", "<pre>").replace("\n</pre>", "</pre>")


def document(title, body):
    """A whole file."""
    return (f"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            f"<meta name=\"viewport\" content=\"width=device-width\">\n"
            f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n"
            f"<body>\n{body}\n</body>\n</html>\n")


def load(paths):
    """The pages of files and folders."""
    pages = []
    for path in paths:
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                pages += [Page(os.path.join(folder, n)) for n in names]
        else:
            pages.append(Page(path))
    return sorted(pages, key=lambda p: (p.section, p.name.lower()))


def find_targets(pages):
    """{(name, section): file} of pages and links."""
    targets = {(p.name, p.section): p.file() for p in pages if p.link is None}
    for page in pages:
        if page.link is not None:
            name, _, section = page.link.rpartition(".")
            if (name, section) not in targets:
                raise Unreadable(f"{page.path}:1: there is no page {page.link}")
            targets[(page.name, page.section)] = targets[(name, section)]
    return targets


def name_line(page):
    """What the section NAME says behind the dash."""
    text = "\n".join(page.rows)
    found = re.search(r"^\.SH \"?NAME\"?\n(.*)$", text, flags=re.M)
    if found is None or "\\- " not in found.group(1):
        raise Unreadable(f"{page.path}:1: the section NAME is missing")
    return found.group(1).split("\\- ", 1)[1]


def index(pages, targets):
    """The first file: all pages by section, and constants by name."""
    body = ["<h1>Towline</h1>", "<nav>" + " ".join(f'<a href="#s{s}">{t}</a>' for s, t in SECTIONS)
            + ' <a href="#names">Constants</a></nav>']
    for section, title in SECTIONS:
        body.append(f'<h2 id="s{section}">{title}</h2>\n<table>')
        for page in [p for p in pages if p.link is None and p.section == section]:
            what = Writer(page, {}).inline(name_line(page))
            body.append(f'<tr><td><a href="{page.file()}">{page.name}</a></td>'
                        f"<td>{what}</td></tr>")
        body.append("</table>")
    links = [p for p in pages if p.link is not None]
    body.append('<h2 id="names">Constants and other names</h2>\n<p>')
    body.append(",\n".join(f'<a href="{targets[(p.name, p.section)]}">{p.name}</a>'
                           for p in links) + "</p>")
    return document("Towline", "\n".join(body))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="the folder that is made")
    parser.add_argument("pages", nargs="+", metavar="PAGE_OR_FOLDER")
    args = parser.parse_args()
    try:
        pages = load(args.pages)
        targets = find_targets(pages)
        shutil.rmtree(args.out, ignore_errors=True)
        os.makedirs(args.out)
        files = {"index.html": index(pages, targets)}
        for page in [p for p in pages if p.link is None]:
            title = f"{page.name}({page.section})"
            files[page.file()] = document(title, f'<nav><a href="index.html">Towline</a></nav>\n'
                                          f"<h1>{title}</h1>\n" + Writer(page, targets).run())
        for name, text in files.items():
            with open(os.path.join(args.out, name), "w", encoding="utf-8") as f:
                f.write(text)
        os.utime(args.out)
    except (OSError, UnicodeDecodeError, Unreadable) as why:
        print(f"htmlpages.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
