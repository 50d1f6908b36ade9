"""language.py - the documents are written in short sentences, in the field's terms.

Each sentence of README.md and docs/ has at most 25 words. Sentences are those of paragraphs and
list items: blocks of code, tables and headings have none. A piece of code, `towstat get coll`,
counts as one word, and so does a link's target not at all.

The glossary of docs/style.md has the home-made nouns that were retired, each with the term that
took its place. This check knows the words of its second column; a row without a pattern in RETIRED,
or a pattern without a row, is a fault. Retired nouns are looked for in tables and headings too, but
not in code.
"""
import re
import sys

import common
from common import Fault

WORDS = 25
STYLE = "docs/style.md"
# What towstat prints, and what is recorded from other programs, is not written here.
GENERATED = ("docs/counters.md", "docs/knobs.md")

# Home-made noun, as the glossary has it -> how it is found. Where the noun is also a word of
# English the pattern has the uses that the field does not know.
RETIRED = {
    "box": r"\bbox(?:es)?\b",
    "claim": r"\b(?:a|the|its|their) claims?\b|\bclaims (?:its|their) memory\b",
    "door": r"\bdoors?\b",
    "ground": r"\b(?:a|the) ground\b",
    "guest, talk": r"\bguests?\b|\b(?:a|the) talk\b",
    "life": r"\b(?:a|the) \*?life\*?(?! of)\b|\bruntime's life\b",
    "onlooker": r"\bonlookers?\b",
    "parcel": r"\bparcels?\b",
    "reckon": r"\breckon(?:s|ed|ing)?\b",
    "remark": r"\bremarks?\b",
    "site": r"(?<!call )(?<!web )\bsites?\b",
    "the word of": r"\b(?:the|its|'s) word of\b|\bkernel's word\b",
    "who, whom": r"(?:^|[.:;] )Who(?:m)? (?![^.]*\?)|\b(?:of|for|by|to) whom\b"
                 r"|\b(?:as|by|from|of|where) who\b|[(;|] ?who\b",
    "whoever": r"\bwhoever\b",
}
FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
END = re.compile(r"""(?<!\.\.)(?<=[.!?])["')*_\]]*\s+""")


def paragraphs(text):
    """(line, text) of each paragraph and list item, on one line."""
    inside, lines, first = False, [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        words = line.strip()
        if FENCE.match(line):
            inside, words = not inside, ""
        ends = inside or not words or words.startswith(("|", "#", "<!--")) \
            or (line.startswith("    ") and not lines)
        item = None if ends else ITEM.match(line)
        if (ends or item) and lines:
            yield first, " ".join(lines)
            lines = []
        if ends:
            continue
        if not lines:
            first = number
        lines.append(line[item.end():].strip() if item else words)


def sentences(text):
    """A paragraph's sentences, each piece of code and each link as the words that it stands for."""
    text = re.sub(r"`[^`]+`", "Code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return END.split(re.sub(r"\b(e\.g|i\.e|cf|vs)\.", r"\1", text))


def count(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def long_sentences(text):
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            if count(sentence) > WORDS:
                yield number, count(sentence), " ".join(sentence.split()[:6])


def uncoded(text):
    """The lines outside of blocks of code, without code, with their numbers."""
    inside, before = False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not (line.startswith("    ") and not before.strip()):
            yield number, re.sub(r"`[^`]*`", "``", line)
        if not line.startswith("    "):
            before = line


def glossary(text):
    """The lines of docs/style.md that are its glossary: heading to heading."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            inside = line == "## Glossary"
        elif inside:
            yield number, line


def retired_nouns(page, text):
    own = {number for number, _ in glossary(text)} if page == STYLE else set()
    for number, line in uncoded(text):
        for noun, pattern in RETIRED.items():
            flags = 0 if noun == "who, whom" else re.IGNORECASE
            for found in re.finditer(pattern, line, flags):
                if number not in own:
                    yield number, found.group(0).strip(".:; "), noun


def check_glossary(tree, faults):
    rows = {}
    for number, line in glossary(tree.text(STYLE)) if STYLE in tree.names else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1] not in ("", "home-made", "---"):
            rows.update({noun.strip(" *"): number for noun in cells[1].split(";")})
    for noun, number in rows.items():
        if noun not in RETIRED:
            faults.append(Fault(STYLE, number, f"no check looks for the retired noun {noun}",
                                "give it a pattern in RETIRED of tests/check/language.py"))
    for noun in RETIRED:
        if rows and noun not in rows:
            faults.append(Fault(STYLE, 1, f"the glossary lacks the retired noun {noun}",
                                "say there which term took its place"))


def check_page(page, text, faults):
    for number, words, begins in long_sentences(text):
        faults.append(Fault(page, number, f"a sentence of {words} words, more than {WORDS}: "
                            f"{begins} ...", "make two of it"))
    for number, said, noun in retired_nouns(page, text):
        faults.append(Fault(page, number, f"says {said}, a retired noun",
                            f"take the term for {noun} of the glossary of {STYLE}"))


def check(tree):
    faults = []
    for page in tree.match(r"(README|docs/.*)\.md$"):
        if page not in GENERATED and (page == "README.md" or page.startswith("docs/")):
            check_page(page, tree.text(page), faults)
    check_glossary(tree, faults)
    return faults


def page(text, **more):
    return {"docs/a.md": text, **more}


def of(words):
    return " ".join(["word"] * words) + ".\n"


GLOSSARY = "# S\n\n## Glossary\n\n| term | home-made | meaning |\n|---|---|---|\n"
ROWS = "".join(f"| t | {noun} | m |\n" for noun in RETIRED)

SAMPLES = [
    ("good", page("# A\n\n" + of(25) + "`a b c` [" + "a " * 22 + "b](c.md) x.\n\n- " + of(25)
                  + "  " + of(25) + "\n    " + of(40) + "\n```\n" + of(40) + "```\n| " + of(40)
                  + "\nThe `box` is there. Who may do it? The call site.\n",
                  **{STYLE: GLOSSARY + ROWS, "docs/counters.md": of(40)}), None),
    ("long", page("\n" + of(26)), "docs/a.md:2: a sentence of 26 words, more than 25"),
    ("long on two lines", page("# A\n\nA" + " b" * 20 + "\nc" + " d" * 10 + ".\n"),
     "docs/a.md:3: a sentence of 32 words"),
    ("long in an item", page("A:\n\n1. " + of(26)), "docs/a.md:3: a sentence of 26 words"),
    ("long behind a short one", page("It is.\n" + of(26)), "docs/a.md:1: a sentence of 26"),
    ("dots in between", page("1, 2, 4, ... and" + " a" * 22 + ".\n"), "a sentence of 26 words"),
    ("long in README", {"README.md": of(26)}, "README.md:1: a sentence of 26 words"),
    ("noun", page("# A\n\nEach side makes\na box.\n"), "docs/a.md:4: says box, a retired noun"),
    ("noun in a table", page("| whoever waits | b |\n"), "docs/a.md:1: says whoever"),
    ("noun in a heading", page("## What this door can do\n"), "docs/a.md:1: says door"),
    ("who", page("It is so. Who waits, drives.\n"), "docs/a.md:1: says Who"),
    ("who within", page("It is a rank, by who sends.\n"), "docs/a.md:1: says by who"),
    ("glossary, unknown", {STYLE: GLOSSARY + ROWS + "| t | cubby | m |\n"},
     "docs/style.md:" + str(7 + len(RETIRED)) + ": no check looks for the retired noun cubby"),
    ("glossary, lacking", {STYLE: GLOSSARY + ROWS.replace("| t | parcel | m |\n", "")},
     "the glossary lacks the retired noun parcel"),
    ("glossary, noun elsewhere", {STYLE: GLOSSARY + ROWS + "\n## B\n\nA parcel.\n"},
     "says parcel, a retired noun"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
