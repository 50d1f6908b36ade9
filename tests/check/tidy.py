"""tidy.py - line lengths, blanks, leftovers, stray copies, sizes, names, machine paths, subjects.

Functions of 61 to 70 lines and .c files of 601 to 1000 stand in tidy_ratchet.txt with their
length. The ratchet only turns one way: entries shrink and go, none grows.
"""
import os
import re
import sys

import common
from common import Fault

COLUMNS = 100
FUNCTION, FUNCTION_HARD = 60, 70
SOURCE, SOURCE_HARD = 600, 1000
INTERNAL_HEADER = 300
SUBJECT = 60
RATCHET = "tests/check/tidy_ratchet.txt"

# Copies of payload are what this library exists to avoid, so each place that may copy is named.
MAY_COPY = {
    "transport/op/path.c": "the only file that may copy payload, and it counts what it copies",
    "transport/security/auth.c": "greetings and proofs of a handshake, never payload",
    "transport/wire/frame.c": "packs and unpacks header words, never payload",
    "transport/wire/frame.h": "likewise",
    "transport/job/store_codec.c": "names and addresses of the job's store, never payload",
    "transport/lanes/tcp/tcp_greet.c": "words of a handshake, never payload",
    "transport/lanes/tcp/tcp_name.c": "addresses, never payload",
    "transport/lanes/tcp/tcp_seal.c": "the sealed beginning of a record that is not whole yet",
}
COPY = r"(?<![\w.>])(?:__builtin_)?(?:memcpy|memmove|mempcpy|memccpy|bcopy)\s*\("
# A word alone is in twenty files: of no use for grep, nor in a backtrace. Tests and examples are
# programs of one file, whose names say what is tried.
STATIC = r"^(?:__attribute__\s*\(\([^;{}]*?\)\)\s*)?static\b[^;={}#]*?\)\s*[;{]"
ONE_WORD = r"(?:tests|examples)/"
TYPES = ("int", "void", "char", "bool", "double", "_Atomic", "_Alignas")
LIBRARY = r"(diag|memreg|transport|include/internal)/"
# The second branch steps over literals, in which no comment begins.
OPENS_A_COMMENT = r'/\*(.*?)\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
# A library neither prints nor ends the process of its user. Members of tables are not meant.
PRINTS = r"(?<![\w.>])(?:v?f?d?printf|f?puts|putchar|perror|_?exit|quick_exit|abort|assert)\s*\("
# The program's locale is its own matter. What the library reads is the same in all of them.
LOCALE = r"(?<![\w.>])(?:strto(?:d|f|ld)|atof|strn?casecmp|strcasestr|toupper|tolower)\s*\("
# A descriptor of 0, 1 or 2 would take what a program without an output prints.
DESCRIPTOR = (r"(twi_fd_high\(\s*)?(?<![\w.>])(?:socket|accept4?|eventfd|timerfd_create"
              r"|epoll_create1?|memfd_create|signalfd|inotify_init1?)\s*\(")

# Written in pieces, so that this file does not find itself.
LEFTOVER = r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"
MACHINE = r"(?<![\w.$}~*)-])/(?:wo" r"rk|ro" r"ot|ho" r"me)(?:/|\b)(?![-.\w]*[:(])"
HOSTS = r"(?:py" r"pi\.org|deb\.deb" r"ian\.org|files\.python" r"hosted\.org)"


def is_text(tree, name):
    """Corpora and other binary files are not written by hand."""
    if "corpus" in name.split("/")[:-1]:
        return False
    with open(tree.path(name), "rb") as f:
        return b"\0" not in f.read(8192)


def is_code(name, lines):
    return bool(re.search(r"\.(c|cc|h|h\.in|py|sh|def)$", name)) or lines[0].startswith("#!")


def check_lines(name, lines, faults):
    code = is_code(name, lines)
    for number, line in enumerate(lines, 1):
        width = len(line.expandtabs(8))
        if code and width > COLUMNS:
            faults.append(Fault(name, number, f"{width} columns, more than {COLUMNS}", "break it"))
        if code and re.match(r" \*[^\s*/]", line):
            faults.append(Fault(name, number, "no blank behind the star of a comment",
                                "add it; clang-format loses it where a line was too long"))
        if line != line.rstrip():
            faults.append(Fault(name, number, "blanks at the end of the line", "scripts/format"))
        for pattern, what, mend in (
                (LEFTOVER, "a leftover", "do it now, or open an issue"),
                (MACHINE, "a path of one machine", "make it relative, or an argument"),
                (HOSTS, "the host of a package registry", "leave it to the client's set-up")):
            found = re.search(pattern, line)
            if found:
                faults.append(Fault(name, number, f"{what}: {found.group(0)}", mend))


def check_comments(name, text, faults):
    """What a formatter leaves that fills comments up: ends and drawings that it has broken."""
    for comment in re.finditer(OPENS_A_COMMENT, text, flags=re.S):
        body = comment.group(1) or ""
        first = text.count("\n", 0, comment.start()) + 1
        lines = body.split("\n")
        if len(lines) == 2 and lines[0].strip("* ") and not lines[1].strip():
            faults.append(Fault(name, first + 1, "a comment of one line ends on the next",
                                "shorten it to one line, or make it a block of three"))
        for at in range(1, len(lines)):
            if re.match(r"\s*\*\t", lines[at - 1]) and re.match(r"\s*\* ?[^\s*/][^\t]*$",
                                                                 lines[at]):
                faults.append(Fault(name, first + at, "text joined to a drawing or table",
                                    "go on with a tab behind the star, or leave a line free"))


def check_calls(name, code, faults):
    """Calls that this folder may not make; `code` is without comments and literals."""
    for number, line in enumerate(code.split("\n"), 1):
        found = re.search(PRINTS, line)
        if found and re.match(LIBRARY, name):
            faults.append(Fault(name, number, f"the library calls {found.group(0)})",
                                "return twi_error(), log with twi_log(), or use twi_assert()"))
        found = re.search(LOCALE, line)
        if found and re.match(LIBRARY, name):
            faults.append(Fault(name, number, f"{found.group(0)}) asks the program's locale",
                                "call diag/base/ascii.h"))
        found = re.search(COPY, line)
        if found and name.startswith("transport/") and name not in MAY_COPY:
            faults.append(Fault(name, number, f"{found.group(0)}) outside transport/op/path.c",
                                "payload: call path.c, which counts it. Other words: assign them, "
                                "or give the file a row with its reason in MAY_COPY of tidy.py"))
    for found in re.finditer(DESCRIPTOR, code):
        if found.group(1) is None and re.match(LIBRARY, name):
            faults.append(Fault(name, code.count("\n", 0, found.start()) + 1,
                                f"the descriptor of {found.group(0)}) may be 0, 1 or 2",
                                "wrap the call: twi_fd_high() of diag/base/fd.h"))


def check_statics(name, code, faults):
    """Static functions carry their noun."""
    for found in re.finditer(STATIC, code, re.M):
        text = re.sub(r"__attribute__\s*\(\(.*?\)\)", lambda m: " " * len(m.group(0)),
                      found.group(0), flags=re.S)
        names = [m for m in re.finditer(r"(\w+)\s*\(", text) if m.group(1) not in TYPES]
        if names and "_" not in names[0].group(1).strip("_"):
            line = code.count("\n", 0, found.start() + names[0].start()) + 1
            faults.append(Fault(name, line, f"the static function {names[0].group(1)} has one word",
                                "add its noun: row_add, add_row"))


def functions(lines):
    """(name, first line, length) of every function; clang-format keeps their braces in column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            above = " ".join(lines[max(0, start - 12):start - 1])
            above = re.split(r"[;}]", above)[-1]
            names = re.findall(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", above))
            yield names[0] if names else "?", start, number - start + 1
            start = None


def measure(name, code, faults, long):
    """Sizes over the soft limit go into `long`, for the ratchet; over the hard one are faults."""
    lines = code.split("\n")
    for function, number, length in functions(lines):
        if length > FUNCTION_HARD:
            faults.append(Fault(name, number, f"{function} has {length} lines, more than "
                                f"{FUNCTION_HARD}", "split it by what it does"))
        elif length > FUNCTION:
            long[name, function] = (number, length)
    if name.endswith(".c") and len(lines) - 1 > SOURCE_HARD:
        faults.append(Fault(name, 1, f"{len(lines) - 1} lines, more than {SOURCE_HARD}",
                            "split it"))
    elif name.endswith(".c") and len(lines) - 1 > SOURCE:
        long[name, "-"] = (1, len(lines) - 1)
    if name.endswith(".h") and not name.startswith("include/towline/") \
            and len(lines) - 1 > INTERNAL_HEADER:
        faults.append(Fault(name, 1, f"{len(lines) - 1} lines, more than {INTERNAL_HEADER} for an "
                            "internal header", "move code into a .c file, or split it"))


def check_ratchet(tree, long, faults):
    rows = {}
    for number, line in enumerate(tree.text(RATCHET).split("\n") if RATCHET in tree.names else [],
                                  1):
        words = line.split("#")[0].split()
        if words:
            rows[words[0], words[1]] = (number, int(words[2]))
    for (name, function), (number, length) in long.items():
        limit = rows.get((name, function), (0, SOURCE if function == "-" else FUNCTION))[1]
        if length > limit:
            faults.append(Fault(name, number, f"{function} has {length} lines, more than {limit}",
                                f"shorten it (the ratchet of {RATCHET} does not turn back)"))
    for key, (number, limit) in rows.items():
        now = long.get(key, (0, 0))[1]
        if now < limit:
            faults.append(Fault(RATCHET, number, f"{' '.join(key)} has become shorter than {limit}",
                                f"write {now}" if now else "take the row away"))


def check_subjects(root, faults):
    """Subjects of the commits that HEAD has; a shallow clone does not show them all."""
    if not os.path.exists(os.path.join(root, ".git")):
        return
    if (common.git(root, "rev-parse", "--is-shallow-repository") or "").strip() != "false":
        return
    for line in (common.git(root, "log", "--no-merges", "--format=%h %s") or "").splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            faults.append(Fault("commit " + commit, 1, f"subject of {len(subject)} characters: "
                                f"{subject}", f"at most {SUBJECT}; the reason goes into the body"))


def check(tree):
    faults, long = [], {}
    for name in tree.names:
        if not is_text(tree, name):
            continue
        text = tree.text(name)
        lines = text.split("\n")
        if text and not text.endswith("\n"):
            faults.append(Fault(name, len(lines), "no newline at the end", "add one"))
        if text.endswith("\n\n"):
            faults.append(Fault(name, len(lines), "empty lines at the end", "take them away"))
        check_lines(name, lines, faults)
        if re.search(r"\.(c|h|h\.in)$", name):
            if not text.startswith(("/*", "//")):
                faults.append(Fault(name, 1, "does not open with a comment",
                                    "open with its concept"))
            code = common.blank(text)
            check_comments(name, text, faults)
            check_calls(name, code, faults)
            if not re.match(ONE_WORD, name):
                check_statics(name, code, faults)
            measure(name, code, faults, long)
    check_ratchet(tree, long, faults)
    check_subjects(tree.root, faults)
    return faults


def c(body, head="/* a.c - a sample. */\n"):
    return head + body


def long_function(lines):
    return c("static int twi_f(int a)\n{\n" + "\ta++;\n" * (lines - 2) + "}\n")


def ratchet(row):
    return "# what is long\n" + row + "\n"


SAMPLES = [
    ("good", {"transport/a.c": c('int twi_f(void)\n{\n\t/* printf( memcpy( */\n\tlog("exit(");\n'
                                 "\tops->abort(x);\n\tsnprintf(b, 1, \"\");\n}\n"),
              "transport/op/path.c": c("\tmemcpy(a, b, n);\n"), "README.md": "x" * 200 + "\n",
              "tools/a.c": c('\tprintf("");\n\texit(1);\n'),
              "scripts/a": '#!/bin/sh\nmktemp aXX' 'XXXX\ncd "$HOME/wo' 'rk" ./wo' 'rk\n'}, None),
    ("wide", {"a.py": "x" * 101 + "\n"}, "a.py:1: 101 columns"),
    ("wide by tabs", {"a.c": c("\t" * 12 + "x" * 5 + "\n")}, "a.c:2: 101 columns"),
    ("wide script", {"scripts/a": "#!/bin/sh\n" + "x" * 101 + "\n"}, "scripts/a:2: 101 columns"),
    ("star", {"a.c": "/*\n * a\n *sample\n */\n"}, "a.c:3: no blank behind the star"),
    ("star, quoted", {"a.c": "/*\n * a\n *\"b\"\n */\n"}, "a.c:3: no blank behind the star"),
    ("stars", {"a.c": "/*\n * a\n *\n **b\n */\n/* c */\n/**\n */\n"}, None),
    ("dangling end", {"a.c": c("/* a comment.\n */\n")}, "a.c:3: a comment of one line ends"),
    ("dangling end behind code", {"a.h": c("int a; /* b\n\t\t*/\n")}, "a.h:3: a comment of one"),
    ("joined table", {"a.h": "/*\n *\ta  b\n * c\n */\n"}, "a.h:3: text joined to a drawing"),
    ("table of words", {"a.h": "/*\n * A\tb\n *\t c\n * D, E\tf\n */\n"}, None),
    ("table", {"a.h": "/*\n *\ta  b\n *\t   c\n *\n * d\n */\n"}, None),
    ("blanks", {"a.md": "x \n"}, "blanks at the end"),
    ("no newline", {"a.md": "x"}, "no newline"),
    ("empty end", {"a.md": "x\n\n"}, "empty lines"),
    ("leftover", {"a.md": "FIX" "ME soon\n"}, "a leftover"),
    ("leftover in C", {"diag/a.c": c("/* TO" "DO */\n")}, "diag/a.c:2: a leftover"),
    ("prints", {"diag/a.c": c('\tfprintf(stderr, "");\n')}, "the library calls fprintf()"),
    ("prints 2", {"memreg/a.h": c("\tx = puts(y);\n")}, "the library calls puts()"),
    ("exits", {"transport/engine/uring/a.c": c("\texit (1);\n")}, "the library calls exit ()"),
    ("aborts", {"diag/a.c": c("\tabort();\n")}, "the library calls abort()"),
    ("locale", {"diag/a.c": c("\tx = strtod(a, &b);\n")}, "strtod() asks the program's locale"),
    ("locale 2", {"memreg/a.c": c("\tx = strcasecmp(a, b);\n")}, "asks the program's locale"),
    ("locale, named", {"diag/a.c": c("\tx = strtod_l(a, &b, c);\n"),
                       "tools/a.c": c("\tx = toupper(a);\n")}, None),
    ("descriptor", {"diag/a.c": c("\tx = a;\n\tx = eventfd(0, 1);\n")},
     "diag/a.c:3: the descriptor of eventfd() may be 0, 1 or 2"),
    ("descriptor, high", {"diag/a.c": c("\tx = twi_fd_high(\n\t\tsocket(a, b, 0));\n"),
                          "tools/a.c": c("\tx = socket(a, b, 0);\n")}, None),
    ("copies", {"transport/a.c": c("\tmemcpy(a, b, n);\n")}, "outside transport/op/path.c"),
    ("moves", {"transport/op/a.c": c("\tmemmove(a, b, n);\n")}, "outside transport/op/path.c"),
    ("copies by builtin", {"transport/a.c": c("\t__builtin_memcpy(a, b, n);\n")}, "outside"),
    ("long", {"a.c": long_function(61)}, "a.c:3: twi_f has 61 lines, more than 60"),
    ("long, allowed", {"a.c": long_function(65), RATCHET: ratchet("a.c twi_f 65")}, None),
    ("long, grown", {"a.c": long_function(66), RATCHET: ratchet("a.c twi_f 65")}, "more than 65"),
    ("long, shrunk", {"a.c": long_function(62), RATCHET: ratchet("a.c twi_f 65")}, "write 62"),
    ("long, gone", {"a.c": long_function(60), RATCHET: ratchet("a.c twi_f 65")}, "take the row"),
    ("too long", {"a.c": long_function(71), RATCHET: ratchet("a.c twi_f 71")}, "more than 70"),
    ("file", {"a.c": c("int a;\n" * 600)}, "- has 601 lines, more than 600"),
    ("huge file", {"a.c": c("int a;\n" * 1000)}, "1001 lines, more than 1000"),
    ("header", {"diag/a.h": c("int a;\n" * 300)}, "for an internal header"),
    ("public header", {"include/towline/a.h": c("int a;\n" * 300)}, None),
    ("statics", {"a.c": c("static int a_add(int add)\n{\n\tadd(1);\n}\nint add(void);\n"
                          "static int (*add_of(int a))(int);\nstatic int (*add)(void) = NULL;\n"
                          "static const int add[] = { f(1) };\n"),
                 "tests/a.c": c("static int add(void)\n{\n}\n")}, None),
    ("one word", {"a.c": c("static int\nadd(int a,\n    int b)\n{\n}\n")},
     "a.c:3: the static function add has one word"),
    ("one word, marked", {"a.h": c("__attribute__((format(printf, 1, 2))) static inline\n"
                                   "__attribute__((cold)) const struct a *add(int a)\n{\n}\n")},
     "a.h:3: the static function add has"),
    ("one word, declared", {"a.c": c("static void *add(void);\n")}, "a.c:2: the static function"),
    ("no comment", {"a.c": "int a;\n"}, "does not open with a comment"),
    ("machine path", {"a.md": "in /wo" "rk/main\n"}, "a path of one machine"),
    ("machine path 2", {"a.sh": 'cd "/ro' 'ot"\n'}, "a path of one machine"),
    ("machine path 3", {"a.sh": "x=/ho" "me/me\n"}, "a path of one machine"),
    ("subject", {".git": "diag: " + "x" * 54}, None),
    ("long subject", {".git": "diag: " + "x" * 55}, "subject of 61 characters"),
    ("registry", {"a.sh": "curl https://py" "pi.org/simple\n"}, "registry"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
