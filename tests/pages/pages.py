"""pages.py - runs what README.md and the pages of docs/ tell a reader to type.

  pages.py --root SOURCE --build BUILD [--long] [--keep] [--show] [PAGE...]
  pages.py --self-test --build BUILD

A page is played from top to bottom in a scratch folder of its own, with the programs of the
build in PATH, `examples` of the source tree, and a folder of its own for stats sockets.
The line above a block says what it is:

  <!-- run -->                  sh: run by sh -e; the exit status must be 0
  <!-- run: exit 3 -->          the exit status must be 3
  <!-- run: within 30 s -->     tried again until status and output are right: what it asks takes
                                a while to begin; `within 30 s, exit 3` is both
  <!-- run: long -->            only with --long (scripts/test --suite docs)
  <!-- program: ring.c -->      c: compiled as -std=c11 -Wall -Wextra -pedantic -Werror, and run
  <!-- program: ring.c, as towrun -n 2 ./ring -->   run by this command; `as nothing`: the page
                                itself runs it, in a later block
  <!-- file: pod.yaml -->       laid into the folder under this name
  <!-- output -->               text: these lines came, in this order, from the last block that was
                                run. A line `...` stands for lines that were left out. Numbers and
                                blanks are not compared: they differ from run to run
  <!-- output: seen once -->    what came once; not compared, as units or words differ
  <!-- not run: why -->         neither compiled nor run, for that reason

--show prints what each command printed, for whoever writes a page; --keep keeps the folders.
$(pkg-config --variable=libdir towline)/towline/ in a command stands for the folder of the build's
plugins. Pools have 64 MiB where a page says nothing else, so that less is faulted in. What a page
leaves in the background is ended with it. Exit: 0 good, 1 something failed, 2 wrong arguments.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FENCE = re.compile(r"^```+(\w*)\s*$")
MARKER = re.compile(r"^<!-- (run|program|file|output|not run)(?:: (.+))? -->$")
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"]
LIMIT_S = {False: 60, True: 600}  # of one block; with --long
PLUGINS = "$(pkg-config --variable=libdir towline)/towline/"


class Wrong(Exception):
    """A block that is not what the page says."""


def blocks(text):
    """(line, marker, its argument, the text) of each fenced block that has a marker."""
    above, opened = "", None
    for number, line in enumerate(text.split("\n"), 1):
        if not FENCE.match(line):
            if opened is not None:
                opened[3].append(line)
        elif opened is None:
            mark = MARKER.match(above)
            opened = (number, mark.group(1) if mark else "", mark.group(2) if mark else None, [])
        else:
            if opened[1]:
                yield opened[0], opened[1], opened[2] or "", "\n".join(opened[3]) + "\n"
            opened = None
        above = line


def plain(line):
    """A line without what differs from run to run: numbers, and how many blanks there are."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", line).split())


def compare(wanted, came):
    """None, or the first wanted line that did not come where it should."""
    came, at, gap = [plain(line) for line in came.split("\n")], 0, True
    for line in wanted.rstrip("\n").split("\n"):
        if line.strip() == "...":
            gap = True
            continue
        rest = came[at:] if gap else came[at:at + 1]
        if plain(line) not in rest:
            return line
        at += rest.index(plain(line)) + 1
        gap = False
    return None


PC = """Name: towline
Description: the build
Version: 0
Cflags: -I{root}/include -I{build}/include
Libs: -L{build} -ltowline
"""


def environment(root, build, scratch):
    """What a user has who has installed Towline, made of a build."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TOW_", "LD_"))}
    programs, plugins = os.path.join(scratch, "bin"), os.path.join(scratch, "plugins")
    for folder in (programs, plugins, os.path.join(scratch, "run"), os.path.join(scratch, "here")):
        os.mkdir(folder, 0o700)
    for path in glob.glob(build + "/tools/*/*") + glob.glob(build + "/bench/*"):
        if os.path.isfile(path) and os.access(path, os.X_OK) and "." not in os.path.basename(path):
            os.symlink(path, os.path.join(programs, os.path.basename(path)))
    for path in glob.glob(build + "/plugins/*/*.so"):
        os.symlink(path, os.path.join(plugins, os.path.basename(path)))
    with open(os.path.join(scratch, "towline.pc"), "w", encoding="utf-8") as f:
        f.write(PC.format(root=root, build=build))
    env.update(PATH=programs + ":" + env.get("PATH", "/usr/bin:/bin"), HOME=scratch,
               PKG_CONFIG_PATH=scratch, LD_LIBRARY_PATH=build,
               TOW_STATS_DIR=os.path.join(scratch, "run"),
               TOW_PREMAP_MEMORY_BYTES="64MiB", PYTHONDONTWRITEBYTECODE="1")
    return env


class Page:
    """One page, played in a folder of its own."""

    def __init__(self, name, text, args):
        root, build = args.root, args.build
        self.name, self.text, self.long, self.show = name, text, args.long, args.show
        self.scratch = tempfile.mkdtemp(prefix="tow-page-")
        self.here = os.path.join(self.scratch, "here")
        self.env = environment(root, build, self.scratch)
        os.symlink(os.path.join(root, "examples"), os.path.join(self.here, "examples"))
        self.groups, self.output, self.ran = [], None, 0

    def close(self, keep=False):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not keep:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def command(self, text, status=0):
        """Runs a text by sh -e; what it starts in the background lives as long as the page."""
        text = text.replace(PLUGINS, os.path.join(self.scratch, "plugins") + "/")
        with open(os.path.join(self.scratch, "output"), "w+b") as out:
            child = subprocess.Popen(["sh", "-e", "-c", text], cwd=self.here, env=self.env,
                                     stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            self.groups.append(child.pid)
            try:
                ended = child.wait(LIMIT_S[self.long])
            except subprocess.TimeoutExpired:
                ended = f"none within {LIMIT_S[self.long]} s"
            out.seek(0)
            self.output = out.read().decode(errors="replace")
        self.ran += 1
        if self.show:
            print(f"$ {text}{self.output}[{ended}]", flush=True)
        if ended != status:
            raise Wrong(f"exit status {ended}, not {status}; it printed:\n{self.output}")

    def program(self, what, text):
        name, _, how = what.partition(", as ")
        exe = name.rsplit(".", 1)[0]
        self.file(name, text)
        flags = " ".join(FLAGS)
        self.command(f"cc {flags} {name} -o {exe} $(pkg-config --cflags --libs towline)")
        if how != "nothing":
            self.command(how or f"./{exe}")

    def file(self, name, text):
        with open(os.path.join(self.here, name), "w", encoding="utf-8") as f:
            f.write(text)

    def run(self, words, text, behind):
        """A block of commands; `behind` is the block behind it, which may be its output."""
        if "long" in words and not self.long:
            self.output = None
            return
        numbers = {w.split()[0]: int(w.split()[1]) for w in words if " " in w}
        end = time.monotonic() + numbers.get("within", 0)
        while True:
            try:
                self.command(text, numbers.get("exit", 0))
                if behind is not None and behind[1] == "output":
                    self.block(behind[1], behind[2], behind[3])
                return
            except Wrong:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)

    def block(self, mark, what, text, behind=None):
        words = what.split(", ") if what else []
        if mark == "run":
            self.run(words, text, behind)
        elif mark == "program":
            self.program(what, text)
        elif mark == "file":
            self.file(what, text)
        elif mark == "output" and what != "seen once" and self.output is not None:
            missing = compare(text, self.output)
            if missing is not None:
                raise Wrong(f"this line did not come: {missing}\nwhat came:\n{self.output}")

    def play(self):
        """How many faults there are; a page ends with its first."""
        listed = list(blocks(self.text))
        for (line, mark, what, text), behind in zip(listed, listed[1:] + [None]):
            try:
                self.block(mark, what, text, behind)
            except Wrong as wrong:
                print(f"{self.name}:{line}: {wrong}")
                return 1
        return 0


def play(name, text, args):
    page = Page(name, text, args)
    try:
        faults = page.play()
    finally:
        page.close(args.keep)
    print(f"{name}: {page.ran} commands, {faults} faults" +
          (f"; kept in {page.scratch}" if args.keep else ""))
    return faults


def all_pages(root):
    found = [os.path.join(root, "README.md")]
    for folder, _, files in sorted(os.walk(os.path.join(root, "docs"))):
        found += [os.path.join(folder, f) for f in sorted(files) if f.endswith(".md")]
    return [os.path.relpath(p, root) for p in found]


HELLO = ("#include <stdio.h>\n#include <towline/towline.h>\n"
         "int main(void)\n{\n\tputs(tow_status_name(%s));\n\treturn 0;\n}\n")
# What it is, the page, and how many faults it has.
SAMPLES = [
    ("good", "<!-- run -->\n```sh\necho a 12 b\n```\n<!-- output -->\n```text\na 7 b\n```\n", 0),
    ("broken command", "<!-- run -->\n```sh\ntowstat no-such-command\n```\n", 1),
    ("no such program", "<!-- run -->\n```sh\nno-such-program\n```\n", 1),
    ("fails in the middle", "<!-- run -->\n```sh\nfalse\ntrue\n```\n", 1),
    ("a status that is told", "<!-- run: exit 3 -->\n```sh\nexit 3\n```\n", 0),
    ("another status", "<!-- run: exit 3 -->\n```sh\ntrue\n```\n", 1),
    ("other output", "<!-- run -->\n```sh\necho a\n```\n<!-- output -->\n```text\nb\n```\n", 1),
    ("left out", "<!-- run -->\n```sh\nseq 5 | sed s/^/x/; echo y\n```\n"
     "<!-- output -->\n```text\n...\ny\n```\n", 0),
    ("next line is another", "<!-- run -->\n```sh\necho a; echo b; echo c\n```\n"
     "<!-- output -->\n```text\na\nc\n```\n", 1),
    ("comes later", "<!-- run -->\n```sh\n(sleep 1; echo x >y) &\n```\n"
     "<!-- run: within 20 s -->\n```sh\ncat y\n```\n<!-- output -->\n```text\nx\n```\n", 0),
    ("comes too late", "<!-- run: within 1 s -->\n```sh\ntest -f y\n```\n", 1),
    ("not run", "<!-- not run: a sample -->\n```sh\nexit 1\n```\n", 0),
    ("long", "<!-- run: long -->\n```sh\nexit 1\n```\n<!-- output -->\n```text\nx\n```\n", 0),
    ("program", f"<!-- program: a.c -->\n```c\n{HELLO % 'TOW_EPEER'}```\n"
     "<!-- output -->\n```text\nTOW_EPEER\n```\n", 0),
    ("program of ranks", f"<!-- program: a.c, as towrun -n 2 ./a -->\n```c\n{HELLO % '0'}```\n", 0),
    ("a warning", f"<!-- program: a.c -->\n```c\n{HELLO % '0, 1'}```\n", 1),
    ("background", "<!-- run -->\n```sh\nsleep 1000 &\n```\n<!-- run -->\n```sh\ntrue\n```\n", 0),
    ("file", "<!-- file: a.txt -->\n```yaml\nx\n```\n<!-- run -->\n```sh\ngrep x a.txt\n```\n", 0),
]


def self_test(args):
    wrong = 0
    for title, text, faults in SAMPLES:
        if play(title, text, args) != faults:
            wrong += 1
            print(f"self-test: {title}: wanted {faults} faults")
    print(f"self-test: {len(SAMPLES)} samples, {wrong} judged wrongly")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.getcwd())
    parser.add_argument("--build", required=True)
    for name in ("long", "keep", "show", "self-test"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("pages", nargs="*")
    args = parser.parse_args()
    args.root, args.build = os.path.abspath(args.root), os.path.abspath(args.build)
    if args.self_test:
        return self_test(args)
    played = []
    for name in args.pages or all_pages(args.root):
        with open(os.path.join(args.root, name), encoding="utf-8") as f:
            text = f.read()
        if any(mark in ("run", "program") for _, mark, _, _ in blocks(text)):
            played.append((name, text))
    # Pages mostly wait for jobs that sleep; those with long blocks have the machine to themselves.
    with concurrent.futures.ThreadPoolExecutor(1 if args.long or args.show else 3) as pool:
        faults = sum(pool.map(lambda page: play(*page, args), played))
    print(f"{len(played)} pages, {faults} faults")
    return 1 if faults or not played else 0


if __name__ == "__main__":
    sys.exit(main())
