"""addresses.py - blocks that are known by address: an address comes again for another block, is
freed twice, or was allocated before anybody looked.

A strict one refuses what no right program does (a live address allocated again, a double free). The
others are for records that are known to lose events: they take the older block as freed, and count.
"""
from log import Refused, plural


class Addresses:
    def __init__(self, log, strict):
        self.log, self.strict = log, strict
        self._blocks = {}   # address -> block, or None once it is freed
        self._reused = self._doubled = self._unknown = 0
        self._first_unknown = ""

    def is_live(self, address):
        return self._blocks.get(address) is not None

    def alloc(self, address, count, where, thread=0, tag=0):
        if self.is_live(address):
            if self.strict:
                raise Refused(f"{where}: {name(address)} is allocated already; --lenient takes the "
                              "older block as freed")
            self._reused += 1
            self.log.free(self._blocks[address], where, thread)
        self._blocks[address] = self.log.alloc(count, where, thread, tag)

    def free(self, address, where, thread=0):
        if self.is_live(address):
            self.log.free(self._blocks[address], where, thread)
            self._blocks[address] = None
        elif address in self._blocks:
            if self.strict:
                raise Refused(f"{where}: {name(address)} is freed twice; --lenient ignores that")
            self._doubled += 1
        else:
            self._unknown += 1
            self._first_unknown = self._first_unknown or where

    def report(self):
        if self._reused:
            self.log.notes.append(f"{plural(self._reused, 'address')} came again without a free "
                                  "between, taken as freed then".replace("addresss", "addresses"))
        if self._doubled:
            self.log.left_out.append(f"{plural(self._doubled, 'second free')} of one block")
        if self._unknown:
            self.log.left_out.append(
                f"{plural(self._unknown, 'free')} of blocks that were allocated before it began "
                f"(the first at {self._first_unknown})")
            self.log.lower.append("what was allocated before it began is not in it")


def name(address):
    return hex(address) if isinstance(address, int) else str(address)


def play(log, events, alive=()):
    """Writes a record whose frees know their bytes, too: (kind, address, bytes, where, thread, tag)
    in the order of time. What is freed and was never allocated in it, and what of `alive`
    (address, bytes, where, tag: blocks there at the end) has no allocation, was there from the
    beginning on. Gives how many bytes these were."""
    earlier, seen, live = [], set(), set()
    for kind, address, count, where, _, tag in events:
        if kind == "alloc":
            live.add(address)
        elif address not in seen:
            earlier.append((address, count, where, tag))
        else:
            live.discard(address)
        seen.add(address)
    for address, count, where, tag in alive:
        if address not in live and address not in seen:
            earlier.append((address, count, where, tag))
            seen.add(address)
    blocks = Addresses(log, strict=False)
    for address, count, where, tag in earlier:
        blocks.alloc(address, count, where, 0, tag)
    before = log.live_bytes
    for kind, address, count, where, thread, tag in events:
        if kind == "alloc":
            blocks.alloc(address, count, where, thread, tag)
        else:
            blocks.free(address, where, thread)
    blocks.report()
    return before
