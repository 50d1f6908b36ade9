"""manual.py - the manual pages and their HTML, as built: complete, without faults or dead links.

Every function that the library exports, every other public name and every installed program has a
page; groff and, where it is there, mandoc have nothing to say; no section is empty; what SEE ALSO
and links name exists. The HTML loads nothing from elsewhere.
"""
import html.parser
import os
import re
import shutil
import sys

import common
import programs
import symbols
from common import Fault

MEND = "mend docs/reference, or the comment that it is made of"
VOID = ("meta", "br")


class Page:
    """A manual page that was built."""

    def __init__(self, path, shown):
        self.path, self.shown = path, shown
        self.name, _, self.section = os.path.basename(path).rpartition(".")
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        link = re.match(r"\.so man\d/(\S+)\n", self.text)
        self.link = link.group(1) if link else None


def load(folder):
    """Pages of a folder: *.N, and those in man3 and man7."""
    found = []
    for below in ("", "man3", "man7"):
        at = os.path.join(folder, below)
        for name in sorted(os.listdir(at)) if os.path.isdir(at) else []:
            if re.search(r"\.[1-8][a-z]*\Z", name):
                found.append(Page(os.path.join(at, name), os.path.join("docs", below, name)))
    return found


def check_sections(page):
    """No section is empty, and none stands twice."""
    pieces = re.split(r"^\.SH (.*)$", page.text, flags=re.M)
    titles = pieces[1::2]
    for title, body in zip(titles, pieces[2::2]):
        if not re.sub(r"^\.(?:PP|TP|nf|fi|sp|in|nh).*$", "", body, flags=re.M).strip():
            yield Fault(page.shown, 1, f"the section {title} is empty", MEND)
    for title in sorted({t for t in titles if titles.count(t) > 1}):
        yield Fault(page.shown, 1, f"there are two sections {title}", MEND)
    if titles[:1] != ["NAME"]:
        yield Fault(page.shown, 1, "it does not begin with NAME", MEND)


def check_names(pages):
    """Links and SEE ALSO name pages that are there."""
    known = {(p.name, p.section) for p in pages}
    for page in pages:
        if page.link is not None:
            if tuple(page.link.rpartition(".")[::2]) not in known:
                yield Fault(page.shown, 1, f"it leads to {page.link}, which is not there", MEND)
            continue
        see = re.search(r"^\.SH SEE ALSO\n(.*?)(?=^\.SH|\Z)", page.text, flags=re.M | re.S)
        listed = see.group(1).replace("\\-", "-") if see else ""
        named = re.findall(r"([\w.-]+) ?\((\d\w*)\)", listed)
        if not named:
            yield Fault(page.shown, 1, "SEE ALSO names no page", MEND)
        for one in [n for n in named if n not in known]:
            yield Fault(page.shown, 1, f"SEE ALSO has {one[0]}({one[1]}), which is not there", MEND)


def check_tools(pages):
    """What groff and mandoc say of all pages; man of one in each section."""
    pages = [p for p in pages if p.link is None]
    samples = list({p.section: p for p in pages}.values())
    if shutil.which("groff") is None:
        raise common.Skip("groff is missing (Debian package groff-base)")
    runs = [["groff", "-mandoc", "-Tutf8", "-ww", "-z", *[p.path for p in pages]]]
    if shutil.which("man"):
        runs += [["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", p.path]
                 for p in samples]
    if shutil.which("mandoc"):
        runs.append(["mandoc", "-Tlint", "-Wwarning", *[p.path for p in pages]])
    for run in runs:
        done = common.run(run)
        said = done.stderr + (done.stdout if run[0] == "mandoc" else "")
        # Pages have no date: the same source makes the same page.
        said = [s for s in said.split("\n") if s.strip() and "missing date" not in s]
        if said:
            yield Fault("docs", 1, f"{run[0]} says: {said[0]}", MEND)


def check_complete(pages, functions, names, installed):
    """Functions have pages of their own, other names a page or a link."""
    own = {(p.name, p.section) for p in pages if p.link is None}
    any_page = {p.name for p in pages}
    for name in sorted(functions):
        if (name, "3") not in own:
            yield Fault("docs/man3", 1, f"there is no page {name}(3)", MEND)
    for name in sorted(names - any_page):
        yield Fault("docs/man3", 1, f"{name} is public and has no page", MEND)
    for name in sorted(installed):
        if (name, "1") not in own:
            yield Fault("docs/meson.build", 1, f"there is no page {name}(1)",
                        "give it a row in man_programs and a file in docs/man")


def public_names(tree):
    """Types and macros of the public headers; guards and lists of rows are for themselves."""
    found = set()
    for header in tree.match(r"include/towline/[^/]+\.h(\.in)?$"):
        code = common.blank(tree.text(header))
        local = set(re.findall(r"^#undef (\w+)", code, flags=re.M))
        found |= set(re.findall(r"^(?:struct|enum) (tow_\w+)(?: \{|;)", code, flags=re.M))
        found |= set(re.findall(r"^typedef [^;]*\(\*(tow_\w+)\)", code, flags=re.M))
        found |= {m for m in re.findall(r"^#define (TOW_\w+)", code, flags=re.M) if m not in local}
        found |= set(re.findall(r"^\s+X\((TOW_\w+),", tree.text(header), flags=re.M))
    return found


class Links(html.parser.HTMLParser):
    """The links, anchors and foreign things of a page, and whether its tags match."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors, self.foreign, self.open, self.crossed = [], set(), [], [], ""

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.add(values.get("id"))
        if tag == "a":
            self.links.append(values.get("href", ""))
        if tag in ("script", "link", "img", "iframe") or "src" in values:
            self.foreign.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.crossed = self.crossed or tag


def check_html(folder, pages):
    """Each page has a file; links lead somewhere."""
    read = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        read[name] = Links()
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            read[name].feed(f.read())
    for page in [p for p in pages if p.link is None]:
        if f"{page.name}.{page.section}.html" not in read:
            yield Fault("docs/html", 1, f"there is no HTML of {page.shown}", MEND)
    if "index.html" not in read:
        yield Fault("docs/html", 1, "there is no index.html", MEND)
    for name, found in read.items():
        if found.foreign or found.crossed or found.open:
            yield Fault(f"docs/html/{name}", 1, "loads from elsewhere, or its tags do not match: "
                        f"{(found.foreign + [found.crossed] + found.open)[0]}", MEND)
        for link in found.links:
            file, _, anchor = link.partition("#")
            if file and file not in read:
                yield Fault(f"docs/html/{name}", 1, f"leads to {link}, which is not there", MEND)
            elif anchor and anchor not in read[file or name].anchors:
                yield Fault(f"docs/html/{name}", 1, f"leads to {link}: no such place", MEND)


def check(tree, args=None):
    if args is None:
        pages = load(tree.path("docs"))
        functions, names, installed = set(re.findall(r"tow_\w+", tree.text("functions"))), set(), []
        folder = tree.path("docs/html")
    else:
        if args.sanitize not in (None, "none"):
            raise common.Skip("sanitized programs are not run for their pages")
        pages = load(os.path.join(args.build, "docs")) + load(tree.path("docs/man"))
        functions = symbols.exported(args.library)
        functions |= set(re.findall(r"^\w[\w *]*\b(towline_malloc_\w+)\(", tree.text(
            "plugins/malloc/malloc_preload.h"), flags=re.M))
        names, installed = public_names(tree), programs.installed(args.build)
        folder = os.path.join(args.build, "docs", "html")
    faults = list(check_complete(pages, functions, names, installed)) + list(check_names(pages))
    for page in [p for p in pages if p.link is None]:
        faults += check_sections(page)
    return faults + list(check_html(folder, pages)) + list(check_tools(pages))


GOOD = (".TH tow_a 3 \"\" Towline T\n.SH NAME\ntow_a \\- does\n.SH DESCRIPTION\nDoes.\n"
        ".SH SEE ALSO\n.BR towline (7)\n")
TOP = GOOD.replace("tow_a 3", "towline 7").replace("towline (7)", "tow_a (3)")
HTML = "<p>x <a href=\"%s\">a</a></p>"


def sample(page=GOOD, link="towline.7.html", more=None):
    return {"functions": "tow_a\n", "docs/man3/tow_a.3": page, "docs/man7/towline.7": TOP,
            "docs/html/tow_a.3.html": HTML % link, "docs/html/towline.7.html": "<p>x</p>",
            "docs/html/index.html": HTML % "tow_a.3.html", **(more or {})}


SAMPLES = [
    ("good", sample(more={"docs/man3/TOW_A.3": ".so man3/tow_a.3\n"}), None),
    ("no page", sample(more={"functions": "tow_a tow_b\n"}), "there is no page tow_b(3)"),
    ("page is a link", sample(more={"functions": "tow_a tow_b", "docs/man3/tow_b.3":
                                    ".so man3/tow_a.3\n"}), "there is no page tow_b(3)"),
    ("link to nowhere", sample(more={"docs/man3/TOW_A.3": ".so man3/tow_c.3\n"}),
     "leads to tow_c.3"),
    ("empty section", sample(GOOD.replace("Does.\n", ".PP\n")), "the section DESCRIPTION is empty"),
    ("twice", sample(GOOD.replace("SEE ALSO", "NAME\nx\n.SH SEE ALSO")), "two sections NAME"),
    ("see nobody", sample(GOOD.replace("towline (7)", "towlin (7)")), "SEE ALSO has towlin(7)"),
    ("groff", sample(GOOD.replace("Does.", ".XX does\nDoes.")), "groff says"),
    ("no HTML", sample(more={"docs/man7/tow_b.7": TOP}), "there is no HTML of docs/man7/tow_b.7"),
    ("dead link", sample(link="tow_c.3.html"), "leads to tow_c.3.html, which is not there"),
    ("dead anchor", sample(link="index.html#x"), "no such place"),
    ("from elsewhere", sample(link="index.html\"><img src=\"x\">"), "loads from elsewhere"),
    ("crossed", sample(link="index.html\"><b></a></b><a href=\"index.html"), "do not match"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [
        ("build", "the build folder"), ("library", "path of libtowline.so"),
        ("sanitize", "the option b_sanitize")]))
