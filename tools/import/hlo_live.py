"""hlo_live.py - plays the schedule of a module, and finds when the buffers of collectives live.

Each instruction is played once in its turn; a while loop's body twice, if it goes round at least
that often: the second time shows what the first leaves in pieces. A value is a Buffer or a list of
values (a tuple). What makes no memory of its own (tuples, get-tuple-element, bitcasts, -done) hands
its operands' on; a loop's body writes back into the buffers that it was given, and an output that
aliases a parameter into the parameter. Then a buffer lives from the instruction that defines it to
the last that uses it, or, for an asynchronous one, to its -done.

Parameters of the entry are the caller's, from the begin to the end; its outputs live to the end of
the step. A buffer counts if a collective reads or writes it.
"""
from hlo_text import Leaf
from log import Refused

COLLECTIVES = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
               "collective-permute", "collective-broadcast", "send", "recv"}
HANDS_ON = {"bitcast", "optimization-barrier", "domain", "add-dependency", "async-update"}
# Bounds of what a module can ask for: work, nested calls, and tuples, which can double each time.
WORK_MAX = 1 << 25
DEPTH_MAX = 60
PARTS_MAX = 1 << 20
NESTED_MAX = 150


class Buffer:
    weight, nested = 1, 0

    def __init__(self, name, index, count, now, where):
        self.name, self.index, self.bytes, self.where = name, index, count, where
        self.begin = self.end = now
        self.wanted = self.is_parameter = False
        self._same = None

    def whole(self):
        """The buffer that this one is a part or another name of."""
        while self._same is not None:
            self = self._same
        return self

    def join(self, other):
        """Both are one block of memory from now on; the other's name stays."""
        this, other = self.whole(), other.whole()
        if this is other:
            return
        this._same = other
        other.bytes = max(this.bytes, other.bytes)
        other.begin, other.end = min(this.begin, other.begin), max(this.end, other.end)
        other.wanted |= this.wanted
        other.is_parameter |= this.is_parameter


class Parts(list):
    """A tuple's values; how many buffers are in it, and how deep."""

    def __init__(self, values, where):
        super().__init__(values)
        self.weight = sum(one.weight for one in self)
        self.nested = 1 + max((one.nested for one in self), default=0)
        if self.weight > PARTS_MAX or self.nested > NESTED_MAX:
            raise Refused(f"{where}: a tuple of {self.weight} buffers, {self.nested} deep")


def leaves(value):
    if isinstance(value, Buffer):
        yield value.whole()
        return
    for part in value:
        yield from leaves(part)


def join(value, other):
    if isinstance(value, Buffer):
        if isinstance(other, Buffer):
            value.join(other)
    elif not isinstance(other, Buffer):
        for one, two in zip(value, other):
            join(one, two)


def base(opcode):
    """all-gather of all-gather-start, and which of the two; '' where it is one alone."""
    for end in ("-start", "-done"):
        if opcode.endswith(end):
            return opcode[:-len(end)], end
    return opcode, ""


class Play:
    def __init__(self, module):
        self.module = module
        self.now = self.work = self.depth = 0
        self.buffers = []
        self.pending = {}
        self.collectives = set()
        self.fused = set()
        self.carried = {}       # computation -> has it a collective of its own

    def spend(self, count, where):
        self.work += count
        if self.work > WORK_MAX:
            raise Refused(f"{where}: the module is too large to be played, or loops in loops are")

    def make(self, name, shape, where, index=()):
        self.spend(1, where)
        if isinstance(shape, Leaf):
            made = Buffer(name, index, shape.bytes, self.now, where)
            self.buffers.append(made)
            return made
        return Parts([self.make(name, part, where, index + (i,))
                      for i, part in enumerate(shape)], where)

    def touch(self, value, where, wanted=False):
        self.spend(value.weight, where)
        for buffer in leaves(value):
            buffer.end = max(buffer.end, self.now)
            buffer.wanted |= wanted

    def computation(self, name, where):
        if name not in self.module.computations:
            raise Refused(f"{where}: there is no computation {str(name)[:60]}; was the file cut?")
        return self.module.computations[name]

    def communicates(self, name, where, depth=0):
        """Whether there is a collective in it: a fusion with one is one."""
        if name not in self.carried:
            self.carried[name] = False
            if depth > DEPTH_MAX:
                raise Refused(f"{where}: computations call each other deeper than {DEPTH_MAX}")
            self.carried[name] = any(
                base(one.opcode)[0] in COLLECTIVES or
                any(self.communicates(called, one.where, depth + 1)
                    for key, called in one.called.items() if key == "calls")
                for one in self.computation(name, where))
        return self.carried[name]

    def loop(self, one, operands):
        carry = operands[0] if operands else Parts([], one.where)
        for _ in range(min(one.trips or 2, 2)):
            self.call(one.called.get("condition"), [carry], one.where)
            result = self.call(one.called.get("body"), [carry], one.where)
            self.spend(carry.weight, one.where)
            join(result, carry)
        self.touch(carry, one.where)
        return carry

    def branch(self, one, operands):
        results = [self.call(name, operands[i + 1:i + 2], one.where)
                   for i, name in enumerate(one.branches)]
        for result in results[:-1]:
            self.spend(result.weight, one.where)
            for mine, last in zip(leaves(result), leaves(results[-1])):
                last.wanted = mine.wanted = last.wanted or mine.wanted
        return results[-1] if results else Parts([], one.where)

    def start(self, one, kind, operands):
        """An asynchronous begin: what it reads is held until its -done."""
        wanted = kind in COLLECTIVES
        called = one.called.get("calls")
        if kind == "async" or (called and not wanted):
            made = Parts([Parts(operands, one.where), self.call(called, operands, one.where)],
                         one.where)
            wanted = self.communicates(called, one.where)
        elif kind == "all-reduce" or isinstance(one.shape, Leaf) or len(one.shape) < 2:
            made = self.make(one.name, one.shape, one.where)
        elif kind == "copy":
            made = Parts([self.make(one.name, one.shape[0], one.where, (0,)), *operands[:1]],
                         one.where)
        else:
            alone = len(operands) == 1 and isinstance(one.shape[0], Leaf)
            made = Parts([operands[0] if alone else Parts(operands, one.where),
                          self.make(one.name, one.shape[1], one.where, (1,))], one.where)
        self.hold(one.name, operands, wanted, one.where)
        self.touch(made, one.where, wanted)
        return made

    def hold(self, name, operands, wanted, where):
        self.pending[name] = (operands, wanted)
        for operand in operands:
            self.touch(operand, where, wanted)

    def done(self, one, kind, operands):
        held, wanted = self.pending.pop(one.operands[0] if one.operands else "", ([], False))
        self.hold("", held, wanted, one.where)
        empty = Parts([], one.where)
        value = operands[0] if operands else empty
        self.touch(value, one.where)
        if kind == "send":
            return empty
        if isinstance(value, Buffer) or kind == "all-reduce":
            return value
        if kind == "recv":
            return Parts([value[0], empty], one.where) if value else empty
        return value[0 if kind == "copy" else 1] if len(value) >= 2 else value

    def sent(self, one, operands):
        made = operands[:1]
        if one.opcode == "recv":
            has_one = not isinstance(one.shape, Leaf) and len(one.shape) > 0
            made = [self.make(one.name, one.shape[0], one.where, (0,))] if has_one else []
        self.hold(one.name, made, True, one.where)
        return Parts(made, one.where)

    def plain(self, one, operands):
        called = one.called.get("calls")
        fused = one.opcode == "fusion" and called and self.communicates(called, one.where)
        if fused:
            self.fused.add(one.name)
        made = self.make(one.name, one.shape, one.where)
        wanted = bool(one.opcode in COLLECTIVES or fused)
        for value in [*operands, made]:
            self.touch(value, one.where, wanted)
        return made

    def hand_on(self, one, operands):
        """What makes no memory of its own, or None."""
        if one.opcode == "tuple":
            return Parts(operands, one.where)
        if one.opcode == "get-tuple-element":
            whole = operands[0] if operands else Parts([], one.where)
            if isinstance(whole, Buffer) or one.index >= len(whole):
                raise Refused(f"{one.where}: the tuple has no element {one.index}")
            return whole[one.index]
        if one.opcode in HANDS_ON and operands:
            if one.operands[0] in self.pending:
                self.pending[one.name] = self.pending.pop(one.operands[0])
            return operands[0]
        return None

    def value(self, one, operands):
        kind, end = base(one.opcode)
        if kind in COLLECTIVES and end != "-done":
            self.collectives.add(one.name)
        handed = self.hand_on(one, operands)
        if handed is not None:
            return handed
        if one.opcode == "while":
            return self.loop(one, operands)
        if one.opcode == "conditional":
            return self.branch(one, operands)
        if one.opcode == "call":
            return self.call(one.called.get("to_apply"), operands, one.where)
        if end == "-start":
            return self.start(one, kind, operands)
        if end == "-done":
            return self.done(one, kind, operands)
        if one.opcode in ("send", "recv"):
            return self.sent(one, operands)
        return self.plain(one, operands)

    def parameter(self, one, given, passed):
        text = one.operands[0] if one.operands else ""
        number = int(text) if text.isdigit() and len(text) < 9 else passed
        if number >= len(given):
            raise Refused(f"{one.where}: parameter {number} of {len(given)}")
        return given[number]

    def call(self, name, given, where):
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Refused(f"{where}: computations call each other deeper than {DEPTH_MAX}")
        values, passed = {}, 0
        for one in self.computation(name, where):
            self.now += 1
            self.spend(1, one.where)
            if one.opcode == "parameter":
                values[one.name] = self.parameter(one, given, passed)
                passed += 1
                continue
            try:
                operands = [values[operand] for operand in one.operands]
            except KeyError as error:
                raise Refused(f"{one.where}: there is no {str(error)[:60]} before it") from error
            values[one.name] = self.value(one, operands)
        self.depth -= 1
        root = self.module.roots.get(name)
        return values[root] if root in values else Parts([], where)

    def entry(self):
        """Plays the whole module; its buffers are in `buffers`."""
        parts = {}
        for one in self.module.computations[self.module.entry]:
            if one.opcode == "parameter":
                text = one.operands[0] if one.operands else ""
                parts[int(text) if text.isdigit() and len(text) < 9 else len(parts)] = one
        given = []
        for number in range(len(parts)):
            if number not in parts:
                raise Refused(f"{self.module.entry}: there is no parameter {number}")
            given.append(self.make(parts[number].name, parts[number].shape, parts[number].where))
        for buffer in self.buffers:
            buffer.is_parameter = True
        root = self.call(self.module.entry, given, self.module.entry)
        for output, (parameter, index) in self.module.aliases.items():
            mine, theirs = at(root, output), at(given, (parameter,) + index)
            if mine is not None and theirs is not None:
                join(mine, theirs)
        self.now += 1
        self.touch(root, self.module.entry)
        for buffer in self.buffers:
            if buffer.is_parameter:
                buffer.whole().is_parameter = True


def at(value, index):
    for one in index:
        if isinstance(value, Buffer) or one >= len(value):
            return None
        value = value[one]
    return value
