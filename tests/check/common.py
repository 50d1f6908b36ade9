"""common.py - what the checks of the tree share.

A check is a function from a Tree (a folder and the names of its files) to a list of Fault. It is
run over the files that git lists, and with --self-test over small samples: each bad sample names
the words that the check must say about it, and a good one must pass. So no check can be blind.

Exit: 0 nothing found, 1 faults (printed as file:line: what; mend: how), 77 cannot be run here.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SKIP = 77


class Skip(Exception):
    """The check cannot be run on this machine; the text says why."""


class Fault:
    """One thing that is wrong, where, and the line that mends it."""

    def __init__(self, path, line, what, mend):
        self.path, self.line, self.what, self.mend = path, line, what, mend

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}; mend: {self.mend}"


class Tree:
    """A folder and the names of the files in it that count, relative to it."""

    def __init__(self, root, names):
        self.root = root
        self.names = sorted(n for n in names if os.path.isfile(os.path.join(root, n)))

    def path(self, name):
        return os.path.join(self.root, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def match(self, pattern):
        """The names that the regular expression fits from their start."""
        return [n for n in self.names if re.match(pattern, n)]


def git(root, *args):
    """What git prints, or None; a tree that another user owns (a container's) is read too."""
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *args],
                              capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="replace")


def tracked(root):
    """The tree of the files that git lists; without git (a tarball) all that look like source."""
    listed = git(root, "ls-files", "-z")
    if listed is not None and listed:
        return Tree(root, listed.split("\0"))
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [d for d in folders if d != ".git" and d != "__pycache__"
                      and not d.startswith("build")]
        names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return Tree(root, names)


def run(command, **more):
    """Runs a command without a shell and without stdin; returns the finished process, as text."""
    if "input" not in more:
        more["stdin"] = subprocess.DEVNULL
    return subprocess.run(command, capture_output=True, text=True, **more)


def blank(text):
    """C code with comments and the insides of literals as blanks, so that lines keep numbers."""
    def hide(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] + " " * (len(found) - 2) + found[-1]
        return re.sub(r"[^\n]", " ", found)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', hide, text,
                  flags=re.S)


class Declaration:
    """A function declared in a public header, with the comment that stands right above it."""

    def __init__(self, path, line, name, code, comment):
        self.path, self.line, self.name = path, line, name
        self.code, self.comment = code, comment


def public_declarations(tree):
    """Every function that include/towline declares (version.h by its template)."""
    found = []
    for path in tree.match(r"include/towline/[^/]+\.h(\.in)?$"):
        text = tree.text(path)
        code = re.sub(r"^#ifdef __cplusplus\n.*?^#endif[^\n]*$",
                      lambda m: re.sub(r"[^\n]", " ", m.group(0)), blank(text),
                      flags=re.S | re.M)
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                      lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
        depth = start = 0
        for at, sign in enumerate(code):
            depth += (sign == "{") - (sign == "}")
            if sign != ";" and not (sign == "}" and depth == 0):
                continue
            if depth == 0:
                add_declaration(found, path, text, code, start, at)
                start = at + 1
    return found


def add_declaration(found, path, text, code, start, end):
    """Appends text[start:end] to found when it declares a function that others can link."""
    piece = code[start:end]
    words = piece.strip()
    name = re.search(r"(\w+)\s*\(", words)
    if name is None or "{" in words or re.match(r"(typedef|static)\b", words):
        return
    begin = start + len(piece) - len(piece.lstrip())
    above = re.search(r"/\*((?:(?!\*/).)*)\*/[ \t]*\n[ \t]*\Z", text[:begin], flags=re.S)
    comment = re.sub(r"\s*\n\s*\*?\s*", " ", above.group(1)).strip() if above else ""
    found.append(Declaration(path, text.count("\n", 0, begin) + 1, name.group(1),
                             " ".join(words.split()), comment))


def sample_tree(folder, files):
    """Lays the files of a sample, a dict of name to text, into a folder.

    The name .git stands for a repository with one commit, whose subject is the text.
    """
    for name, text in files.items():
        if name == ".git":
            git(folder, "init", "-q")
            git(folder, "-c", "user.name=s", "-c", "user.email=s@s", "-c", "core.hooksPath=none",
                "-c", "commit.gpgSign=false", "commit", "-q", "--allow-empty", "-m", text)
            continue
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return Tree(folder, files)


def self_test(check, samples):
    """Each sample is (what it is, files, the words demanded or None for a good one)."""
    wrong = 0
    for title, files, demanded in samples:
        with tempfile.TemporaryDirectory() as folder:
            said = "\n".join(str(f) for f in check(sample_tree(folder, files)))
        if (demanded is None and said) or (demanded is not None and demanded not in said):
            wrong += 1
            print(f"self-test: {title}: wanted {demanded!r}, the check said {said!r}")
    print(f"self-test: {len(samples)} samples, {wrong} judged wrongly")
    return 1 if wrong or not samples else 0


def main(check, samples, options=()):
    """The command line of every check. `check` takes a tree, and the arguments when it has options.

    options: (name, help) pairs, each an extra argument --name VALUE. A check with options is tested
    on samples through check(tree) with the arguments left out.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--self-test", action="store_true")
    for name, text in options:
        parser.add_argument("--" + name, help=text)
    args = parser.parse_args()
    try:
        if args.self_test:
            return self_test(check, samples)
        tree = tracked(args.root)
        faults = check(tree, args) if options else check(tree)
    except Skip as why:
        print(f"skipped: {why}")
        return SKIP
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults in {len(tree.names)} files")
    return 1 if faults else 0
