"""hlo_text.py - XLA's HLO as text, as --xla_dump_to writes it: computations, each a list of
instructions in the order of the file, which is the schedule where the module says is_scheduled.

    %ag = (f32[4,8]{1,0:T(8,128)}, bf16[32]{0}) all-gather(%a, %b), dimensions={0}, ...

A shape is a Leaf (an array) or a list of shapes (a tuple). Of attributes only those are kept that
say which computations are called, and what is asked of a tuple.
"""
import re

import lines
from log import Refused

# Bytes of an element; those of fewer than 8 bits fill a byte unless the layout says E(bits).
ELEMENT_BYTES = {"pred": 1, "token": 0, "opaque": 0, "bf16": 2, "c64": 8, "c128": 16}
ELEMENT = re.compile(r"[suf](1|2|4|8|16|32|64)|f8e\d+m\d+[a-z0-9]*|f[46]e\d+m\d+[a-z]*")
ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\](?:\{([^}]*)\})?")
COMPUTATION = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*[({]")
INSTRUCTION = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*")
OPCODE = re.compile(r"\s*([\w\-]+)\(")
CALLED = re.compile(r"\b(calls|to_apply|body|condition|true_computation|false_computation)="
                    r"%?([\w.\-]+)")
INDEX = re.compile(r"\bindex=(\d{1,9})\b")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d{1,18})"')
ALIAS = re.compile(r"\{([\d, ]*)\}:\s*\((\d{1,9}),\s*\{([\d, ]*)\}")
OPENING = re.compile(r'"|/\*')
DEPTH_MAX = 100
INSTRUCTIONS_MAX = 1 << 22


class Leaf:
    def __init__(self, count):
        self.bytes = count


class Instruction:
    def __init__(self, name, shape, opcode, operands, where):
        self.name, self.shape, self.opcode = name, shape, opcode
        self.operands, self.where = operands, where
        self.called, self.branches = {}, []
        self.index, self.trips = 0, 0


class Module:
    def __init__(self):
        self.computations = {}  # name -> instructions
        self.roots = {}         # name -> the root's name
        self.entry = None
        self.scheduled = False
        self.aliases = {}       # index of an output -> (parameter, its index)
        self.count = 0


def unquoted(text):
    """A line without strings and comments, in which anything may stand. Its time is of the order
    of its length, as for all that is done with a line: a stranger's may be long."""
    parts, at = [], 0
    for begin in OPENING.finditer(text):
        if begin.start() < at:
            continue
        parts.append(text[at:begin.start()])
        if begin[0] == "/*":
            end = text.find("*/", begin.end())
            at = end + 2 if end >= 0 else len(text)
            continue
        at = begin.end()
        while at < len(text) and text[at] != '"':
            at += 2 if text[at] == "\\" else 1
        at += 1
    parts.append(text[at:])
    return "".join(parts)


def listed(rest, attribute):
    """The names in attribute={a, b}."""
    begin = rest.find(attribute + "={")
    end = rest.find("}", begin)
    if begin < 0 or end < 0:
        return []
    return [one.strip().lstrip("%") for one in rest[begin + len(attribute) + 2:end].split(",")]


def element_bits(kind, layout, where):
    count = ELEMENT_BYTES.get(kind)
    if count is not None:
        return count * 8
    found = ELEMENT.fullmatch(kind)
    if not found:
        raise Refused(f"{where}: '{kind[:40]}' is no type of an element that is known here")
    bits = int(found[1]) if found[1] else 8
    packed = re.search(r"E\((\d{1,2})\)", layout)
    return max(bits, 8) if not packed or bits >= 8 else int(packed[1])


def padded(extents, layout, where):
    """Extents as the layout's first tile rounds them: T(8,128) are the two that vary fastest."""
    order, _, rest = layout.partition(":")
    tile = re.search(r"T\((\d{1,7}(?:,\d{1,7})*)\)", rest)
    if not tile or not order.strip():
        return extents
    try:
        fastest = [int(one) for one in order.split(",")]
        sizes = [int(one) for one in tile[1].split(",")]
        extents = list(extents)
        for dimension, size in zip(fastest, reversed(sizes)):
            extents[dimension] = -(-extents[dimension] // size) * size
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise Refused(f"{where}: '{layout[:60]}' is no layout of this array") from error
    return extents


def array(found, where):
    kind, extents, layout = found[1], found[2], found[3] or ""
    try:
        sizes = [int(one.strip().lstrip("<=")) for one in extents.split(",") if one.strip()]
    except ValueError as error:
        raise Refused(f"{where}: '{extents[:60]}' are no extents of an array") from error
    count = 1
    for one in padded(sizes, layout, where):
        count *= one
        if count < 0 or count > 1 << 50:
            raise Refused(f"{where}: an array of [{extents[:60]}] makes no sense")
    return Leaf((count * element_bits(kind, layout, where) + 7) // 8)


def shape_at(text, at, where, depth=0):
    """(shape, where it ends)"""
    if depth > DEPTH_MAX:
        raise Refused(f"{where}: tuples deeper than {DEPTH_MAX}")
    while at < len(text) and text[at] == " ":
        at += 1
    if text[at:at + 1] != "(":
        found = ARRAY.match(text, at)
        if not found:
            raise Refused(f"{where}: '{text[at:at + 40]}' is no shape")
        return array(found, where), found.end()
    parts, at = [], at + 1
    while True:
        while text[at:at + 1] in (" ", ","):
            at += 1
        if text[at:at + 1] == ")":
            return parts, at + 1
        part, at = shape_at(text, at, where, depth + 1)
        parts.append(part)


def operands_at(text, at, where):
    """The names in parentheses: (names, the text behind). Shapes may stand before the names."""
    depth, part, names = 1, "", []
    for end in range(at, len(text)):
        sign = text[end]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and sign == ","):
            if part.strip():
                names.append(part.split()[-1].lstrip("%"))
            part = ""
            if depth == 0:
                return names, text[end + 1:]
        else:
            part += sign
    raise Refused(f"{where}: the operands do not end; was the file cut?")


def instruction(text, where):
    """(Instruction, is it the root) of a line, or None if it is none."""
    found = INSTRUCTION.match(text)
    if not found:
        return None
    trips = TRIPS.search(text)
    rest = unquoted(text[found.end():])
    shape, at = shape_at(rest, 0, where)
    opcode = OPCODE.match(rest, at)
    if not opcode:
        raise Refused(f"{where}: {found[2][:60]} has no operation; was the file cut?")
    names, rest = operands_at(rest, opcode.end(), where)
    made = Instruction(found[2], shape, opcode[1],
                       [] if opcode[1] == "constant" else names, where)
    made.called = dict(CALLED.findall(rest))
    called = listed(rest, "called_computations")
    if called:
        made.called.setdefault("calls", called[0])
    made.branches = listed(rest, "branch_computations") or [
        made.called[key] for key in ("true_computation", "false_computation")
        if key in made.called]
    index = INDEX.search(rest)
    made.index = int(index[1]) if index else 0
    made.trips = int(trips[1]) if trips else 0
    return made, bool(found[1])


def indexes(text):
    return tuple(int(one) for one in text.split(",") if one.strip())


def header(module, text):
    module.scheduled = "is_scheduled=true" in text
    start = text.find("input_output_alias={")
    end = text.find("entry_computation_layout", start)
    if start >= 0:
        for output, parameter, index in ALIAS.findall(text[start:end if end > 0 else len(text)]):
            module.aliases[indexes(output)] = (int(parameter), indexes(index))


def parse(path):
    module, current = Module(), None
    where = path
    for where, text in lines.each(path):
        if current is not None:
            if text.startswith("}"):
                current = None
                continue
            made = instruction(text, where)
            if made:
                module.count += 1
                if module.count > INSTRUCTIONS_MAX:
                    raise Refused(f"{where}: more than {INSTRUCTIONS_MAX} instructions")
                module.computations[current].append(made[0])
                if made[1]:
                    module.roots[current] = made[0].name
        elif text.startswith("HloModule"):
            header(module, text)
        elif text.rstrip().endswith("{"):
            found = COMPUTATION.match(text)
            if found:
                current = found[2]
                module.computations[current] = []
                if found[1]:
                    module.entry = current
    if current is not None:
        raise Refused(f"{where}: computation {current} does not end; was the file cut?")
    if module.entry is None:
        raise Refused(f"{where}: the module has no ENTRY computation; was the file cut?")
    return module
