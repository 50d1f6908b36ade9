"""hand.py - one handwriting: pointers are compared with NULL, failure is status < 0, no goto.

    p == NULL, p != NULL    not !p, if (p), p && ..., p ? ... : ...
    status < 0              it has failed. != TOW_OK is for what may also be positive, and the
                            function names that: /* TOW_AGAIN, too */
    goto                    nowhere: docs/style.md says how to clean up

Which expression is a pointer is read from declarations: of parameters, locals, members of structs,
functions of the tree and a few of libc. What cannot be known that way (macros, typedefs of others)
is left alone, so nothing is judged that is not sure.
"""
import re
import sys

import common
from common import Fault

POSITIVE = r"\b(?:TOW_AGAIN|TOW_COPIED|TWI_HOLD_\w+)\b"
EXACT = r"(?:tests|examples)/"  # they want TOW_OK and nothing else
LIBC = {"malloc", "calloc", "realloc", "aligned_alloc", "strdup", "strndup", "strchr", "strrchr",
        "strstr", "memchr", "memmem", "strtok_r", "strsep", "getenv", "secure_getenv", "fopen",
        "fdopen", "opendir", "readdir", "dlopen", "dlsym"}
WORDS = {"if", "while", "for", "switch", "return", "sizeof", "else", "case", "do", "goto", "break",
         "continue", "default", "typeof", "_Generic", "_Alignof", "defined"}
BASE = (r"(?:(?:static|inline|extern|const|volatile|register|_Atomic|_Noreturn|_Thread_local"
        r"|TOW_PUBLIC)\s+|_Alignas\(\w+\)\s+|__attribute__\s*\(\([^;{}]*?\)\)\s*)*"
        r"(?:_Atomic\s*\(([^()]*)\)|((?:struct|union|enum)\s+\w+|(?:unsigned|signed|long|short)"
        r"(?:\s+(?:long|int|char|short))*|[A-Za-z_]\w*))(?:\s+const)?(?=[\s*])\s*")
TRUTH = r"(?:\b(?:if|while) \(|&& |\|\| )!?(status|rc)(?=\)| &&| \|\|)"
DECLARES = r"([A-Za-z_][^;{}]*(?:\{[^;]*\}[^;{}]*)*);"
DECLARATOR = (r"\s*((?:\*\s*(?:(?:const|restrict|volatile|_Atomic)\b\s*)*)*)(\w+)"
              r"\s*((?:\[[^]]*\]\s*)*)(?=$|=|:|,)")
TOKEN = r"\w+|->|&&|\|\||[=!<>]=|\"[^\"]*\"|'[^']*'|\S"


class Type:
    """A tag of a struct or another name, and how many stars and brackets stand before it."""

    def __init__(self, base, depth, array=0):
        self.base, self.depth, self.array = base, depth, array

    def key(self):
        return self.base, self.depth, self.array


def matching(text, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(text)


def pieces(text, sign=","):
    """What stands between commas that are in no bracket."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == sign and depth == 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def declared(text, typedefs):
    """(name, Type) of each declarator of one declaration without its semicolon."""
    head = re.match(r"\s*" + BASE, text)
    if head is None:
        return
    base = (head.group(1) or head.group(2)).strip()
    if base.split()[0] in WORDS:
        return
    stars = base.count("*")
    base = re.sub(r"^(?:struct|union|const)\s+|[\s*]+$", "", base)
    stars += typedefs.get(base, 0)
    for piece in pieces(text[head.end():]):
        pointer = re.match(r"\s*\(\s*\*\s*(?:const\s+)?(\w+)\s*\)\s*\(", piece)
        if pointer:
            yield pointer.group(1), Type("(function)", 1)
            continue
        one = re.match(DECLARATOR, piece)
        if one is None:
            return
        yield one.group(2), Type(base, stars + one.group(1).count("*"), one.group(3).count("["))


def add(names, name, kind):
    """Two meanings of one name are none."""
    if name in names and (names[name] is None or names[name].key() != kind.key()):
        names[name] = None
    else:
        names[name] = kind


def members_of(body, typedefs):
    """The members of a struct; those of unnamed structs and unions within count as its own."""
    names, at = {}, 0
    body = re.sub(r"^[ \t]*#[^\n]*", "", body, flags=re.M)
    while at < len(body):
        end = body.find(";", at)
        brace = body.find("{", at)
        if 0 <= brace < end:
            close = matching(body, brace)
            end = body.find(";", close)
            if not body[close:end].strip():
                names.update(members_of(body[brace + 1:close - 1], typedefs))
        elif end >= 0:
            for name, kind in declared(body[at:end], typedefs):
                names[name] = kind
        if end < 0:
            return names
        at = end + 1
    return names


class Known:
    """What the tree declares: structs by tag, functions and variables of each file and of all."""

    def __init__(self, codes):
        self.structs, self.functions, self.own, self.typedefs = {}, {}, {}, {}
        for code in codes.values():
            for found in re.finditer(r"^typedef\b[^;{}]*?\(\s*\*\s*(\w+)\s*\)\s*\(", code, re.M):
                self.typedefs[found.group(1)] = 1
        for name, code in codes.items():
            self.own[name] = {}
            for found in re.finditer(r"\b(?:struct|union)\s+(\w+)\s*\{", code):
                end = matching(code, found.end() - 1)
                members = members_of(code[found.end():end - 1], self.typedefs)
                add_members(self.structs, found.group(1), members)
                self.own[name]["struct " + found.group(1)] = members
            for found in re.finditer(r"^(?![#/ \t}])([^;{}()=#]*?)\b(\w+)\s*\(", code, re.M):
                for function, kind in declared(found.group(1) + " " + found.group(2),
                                               self.typedefs):
                    if re.search(r"\bstatic\b", found.group(1)):
                        add(self.own[name], function + "()", kind)
                    else:
                        add(self.functions, function + "()", kind)
            for found in re.finditer(r"^(?![#/ \t}])(?:static|const|extern|struct)\b[^;{}()]*[;=]",
                                     code, re.M):
                for variable, kind in declared(found.group(0)[:-1], self.typedefs):
                    add(self.own[name], variable, kind)


def add_members(structs, tag, members):
    """A tag that files use for different structs keeps the members that mean one thing."""
    known = structs.setdefault(tag, {})
    for name, kind in members.items():
        if name in known and (known[name] is None or known[name].key() != kind.key()):
            known[name] = None
        else:
            known[name] = kind


def locals_of(head, body, typedefs):
    """Parameters and the variables that a function's body declares."""
    names = {}
    open_at = head.find("(")
    for parameter in pieces(head[open_at + 1:matching(head, open_at) - 1]):
        for name, kind in declared(parameter, typedefs):
            add(names, name, Type(kind.base, kind.depth + kind.array))
    for before in (r"(?<=[;{}])\s*", r"\bfor \("):
        for statement in re.finditer(before + DECLARES, body):
            if re.match(BASE + r"[\w*(]", statement.group(1)):
                for name, kind in declared(statement.group(1), typedefs):
                    add(names, name, kind)
    return names


class Reader:
    """Walks over the tokens of one function and tells which operands are pointers."""

    def __init__(self, tokens, names, known, own):
        self.tokens, self.names, self.known, self.own = tokens, names, known, own

    def past(self, at):
        """Behind the bracket that closes the one at `at`."""
        depth = 0
        while at < len(self.tokens):
            depth += (self.tokens[at] in "([{") - (self.tokens[at] in ")]}")
            at += 1
            if depth == 0:
                break
        return at

    def first(self, word, call):
        if call and word in LIBC:
            return Type("void", 1)
        name = word + "()" if call else word
        if word in self.names:
            return None if call else self.names[word]
        return self.own.get(name, self.known.functions.get(name))

    def members(self, tag):
        return self.own.get("struct " + tag) or self.known.structs.get(tag, {})

    def operand(self, at):
        """(Type or None, behind it) of `*x->y[i].z`, `f(x)->y`, `(x = ...)`."""
        stars = 0
        if self.tokens[at] == "(":
            assigns = self.tokens[at + 2] == "=" and self.tokens[at + 1] not in WORDS
            kind = self.first(self.tokens[at + 1], False) if assigns else None
            return kind, self.past(at)
        while self.tokens[at] == "*":
            stars, at = stars + 1, at + 1
        word = self.tokens[at]
        if not re.match(r"[A-Za-z_]", word) or word in WORDS:
            return None, at + 1
        call = self.tokens[at + 1] == "("
        kind = self.first(word, call)
        at = self.past(at + 1) if call else at + 1
        while True:
            sign = self.tokens[at]
            if sign in ("->", "."):
                members = self.members(kind.base) if kind else {}
                right = kind and kind.depth + kind.array == (1 if sign == "->" else 0)
                kind = members.get(self.tokens[at + 1]) if right else None
                at += 2
            elif sign == "[":
                at = self.past(at)
                if kind:
                    less = kind.array > 0
                    kind = Type(kind.base, kind.depth - (not less), kind.array - less)
            elif sign == "(":
                at, kind = self.past(at), None
            else:
                break
        if kind and stars:
            kind = Type(kind.base, kind.depth + kind.array - stars)
        return kind, at

    def in_for(self, at):
        """Whether the token stands in the brackets of a for, and not in a body."""
        while at > 1 and self.tokens[at] not in "(){}":
            at -= 1
        while at > 1 and self.tokens[at] == ")":
            depth = 0
            while at > 0:
                depth += (self.tokens[at] == ")") - (self.tokens[at] == "(")
                at -= 1
                if depth == 0:
                    break
            while at > 1 and self.tokens[at] not in "(){}":
                at -= 1
        return self.tokens[at] == "(" and self.tokens[at - 1] == "for"

    def faults(self):
        """Tokens at which a pointer is taken for a truth."""
        tokens = self.tokens
        for at in range(2, len(tokens) - 2):
            before = tokens[at - 1]
            if before in ("->", ".", "*") or not re.match(r"[A-Za-z_*(]", tokens[at]):
                continue
            kind, end = self.operand(at)
            if kind is None or kind.depth < 1 or kind.array > 0 or end >= len(tokens):
                continue
            behind = tokens[end]
            inside = before in ("&&", "||") and behind in ("&&", "||", ")", ";", "?", ",")
            front = behind in ("&&", "||", "?") and before in ("(", ",", "=", "return", ";", "{",
                                                               ":", "?", "}", ")")
            alone = before == "(" and behind == ")" and tokens[at - 2] in ("if", "while")
            turn = before == ";" and behind == ";" and self.in_for(at)
            if before == "!" or inside or (front and before != ")") or alone or turn:
                yield at, "".join(tokens[at:end])


def functions(code):
    """(head, body, where the body begins) of all functions; their braces are in column 0."""
    for opening in re.finditer(r"^\{$", code, re.M):
        end = code.find("\n}", opening.end())
        start = max(code.rfind("\n}", 0, opening.start()), code.rfind(";\n", 0, opening.start()),
                    code.rfind("\n\n", 0, opening.start()), 0)
        yield code[start:opening.start()], code[opening.start():end + 2], opening.start(), start


def check_pointers(name, code, known, faults):
    for head, body, start, _ in functions(code):
        if "(" not in head:
            continue
        names = locals_of(head, body, known.typedefs)
        found = list(re.finditer(TOKEN, body))
        reader = Reader([f.group(0) for f in found] + [";"], names, known, known.own[name])
        for at, text in reader.faults():
            line = code.count("\n", 0, start + found[at].start()) + 1
            faults.append(Fault(name, line, f"the pointer {text} is taken for a truth",
                                "compare it: == NULL or != NULL"))
        for truth in re.finditer(TRUTH, body):
            kind = names.get(truth.group(1))
            if kind and kind.key() == ("int", 0, 0):
                line = code.count("\n", 0, start + truth.start()) + 1
                faults.append(Fault(name, line, f"{truth.group(1)} is taken for a truth",
                                    "compare it: < 0, == TOW_OK"))


def check_statuses(name, text, code, faults):
    """Of a macro its own lines count as the function."""
    spans = [(at, start + len(body)) for _, body, start, at in functions(code)]
    spans += [m.span() for m in re.finditer(r"^#define (?:[^\n]*\\\n)*[^\n]*", code, re.M)]
    for found in re.finditer(r"!= TOW_OK\b", code):
        whole = next((text[a:b] for a, b in spans if a <= found.start() < b), "")
        if not re.search(POSITIVE, whole):
            faults.append(Fault(name, code.count("\n", 0, found.start()) + 1, "!= TOW_OK",
                                "write < 0; where positive statuses are meant, say which in a "
                                "comment: /* TOW_AGAIN, too */"))


def check(tree):
    names = tree.match(r".*\.[ch]$")
    texts = {n: tree.text(n) for n in names}
    codes = {n: common.blank(t) for n, t in texts.items()}
    known, faults = Known(codes), []
    for name, code in codes.items():
        check_pointers(name, code, known, faults)
        if not re.match(EXACT, name):
            check_statuses(name, texts[name], code, faults)
        for found in re.finditer(r"\bgoto\b", code):
            faults.append(Fault(name, code.count("\n", 0, found.start()) + 1, "goto",
                                "undo in one place: docs/style.md, Cleaning up"))
    return faults


HEAD = ("struct row {\n\tstruct row *next;\n\tchar *text;\n\tunion {\n\t\tint *at;\n"
        "\t\tint bytes;\n\t};\n\tchar name[8];\n\tvoid (*call)(void *arg, int status);\n"
        "\tint count;\n};\n"
        "static struct row *row_of(int at);\nint count_of(void);\n")


ALL = "struct row *row, int *const *list, const char *text, int status, bool done"


def c(body, parameters=ALL):
    return {"diag/a.c": f"{HEAD}\nstatic int row_f({parameters})\n{{\n{body}}}\n"}


SAMPLES = [
    ("good", c("\tint *p = list[0], n = 0;\n\tif (row == NULL || row->next != NULL)\n"
               "\t\treturn 1;\n"
               "\tif (!done && *p && row->count && !row->name[0] && *text)\n\t\treturn *p;\n"
               "\tfor (n = 0; n && !count_of(); n++)\n\t\trow_of(n);\n\trow_of(0)->count++;\n"
               "\tif (status < 0 || !row->bytes || (status == TOW_OK && row->count))\n"
               "\t\treturn done ? status : n;\n\treturn done && row->count;\n"), None),
    ("not", c("\tif (!row)\n\t\treturn 1;\n"), "diag/a.c:17: the pointer row is taken"),
    ("if", c("\tif (text)\n\t\treturn 1;\n"), "the pointer text is taken for a truth"),
    ("while", c("\twhile (row->next)\n\t\trow = row->next;\n"), "the pointer row->next is"),
    ("for", c("\tfor (struct row *r = row; r; r = r->next)\n\t\tstatus++;\n"), "the pointer r is"),
    ("and", c("\treturn done && row->next->text;\n"), "the pointer row->next->text is"),
    ("or", c("\tif (row->at || done)\n\t\treturn 1;\n"), "the pointer row->at is"),
    ("choice", c("\treturn list[0] ? 1 : 2;\n"), "the pointer list[0] is"),
    ("call", c("\tif (!row_of(1))\n\t\treturn 1;\n"), "the pointer row_of(1) is"),
    ("function", c("\tif (row->call)\n\t\trow->call(row, 0);\n"), "the pointer row->call is"),
    ("of libc", c("\treturn done && strchr(text, 'a');\n"), "the pointer strchr("),
    ("assigned", c("\twhile ((row = row->next) && done)\n\t\tstatus++;\n"), "is taken for a truth"),
    ("local", c("\tint first = 1, *second = *list;\n\n\treturn first && second;\n"), "second is"),
    ("status", c("\tif (status != TOW_OK)\n\t\treturn 1;\n"), "diag/a.c:17: != TOW_OK"),
    ("status, positive", c("\tif (status != TOW_OK) /* TOW_AGAIN, too */\n\t\treturn 1;\n"), None),
    ("status in a test", {"tests/a.c": c("\tif (status != TOW_OK)\n\t\treturn 1;\n")["diag/a.c"]},
     None),
    ("status in a macro", {"diag/a.h": "#define OK(a) \\\n\tif ((a) != TOW_OK) \\\n\t\tend()\n"},
     "diag/a.h:2: != TOW_OK"),
    ("bare status", c("\tif (status)\n\t\treturn 1;\n"), "status is taken for a truth"),
    ("bare bool", c("\tif (status)\n\t\treturn 1;\n", "bool status"), None),
    ("goto", c("\tgoto out;\nout:\n\treturn 1;\n"), "diag/a.c:17: goto"),
    ("two meanings", {"a.h": "struct a {\n\tint *x;\n};\n", "b.h": "struct a {\n\tint x;\n};\n",
                      "c.c": "static int a_f(struct a *a)\n{\n\treturn a->x && 1;\n}\n"}, None),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
