"""hlo_places.py - XLA's buffer assignment: where the buffers of a module lie.

    allocation 19: size 2097232, preallocated-temp:
     value: <52 psum.14 @0> (size=1048576,offset=0): f32[512,512]{1,0}

It does not say which values collectives use, so it is read beside the module's text. It says how
large they are on that device, and which share memory, as a result that lies where its operand lay.
"""
import re

import lines
from log import Refused

ALLOCATION = re.compile(r"allocation (\d{1,9}): (?:0x[0-9a-f]+, )?size (\d{1,18})\b.*")
VALUE = re.compile(r"\s*value: <\d+ ([^\s{]+)(?:\{([\d,]*)\})?(?: \(phi\))? @\d+> "
                   r"\(size=(\d{1,18}),offset=(\d{1,18})\).*")


def looks_like(head):
    return b"BufferAssignment:" in head[:4096]


def parse(path):
    """(name, index) -> (allocation, offset, bytes)"""
    places, allocation, room, where = {}, None, 0, path
    for where, text in lines.each(path):
        found = ALLOCATION.fullmatch(text)
        if found:
            allocation, room = (path, int(found[1])), int(found[2])
            continue
        if not text.lstrip().startswith("value: <"):
            continue
        found = VALUE.fullmatch(text)
        if not found or allocation is None:
            raise Refused(f"{where}: no value of a buffer assignment; was the file cut?")
        index = tuple(int(one) for one in (found[2] or "").split(",") if one)
        count, offset = int(found[3]), int(found[4])
        if offset + count > room:
            raise Refused(f"{where}: {found[1][:60]} ends behind its allocation of {room} bytes")
        places.setdefault((found[1], index), (allocation, offset, count))
    if allocation is None:
        raise Refused(f"{where}: a buffer assignment without an allocation; was the file cut?")
    return places


def settle(buffers, places):
    """Gives buffers their sizes, and joins those that share memory while both live, or where one
    takes over. How many had a place."""
    placed = {}
    for buffer in buffers:
        place = places.get((buffer.name, buffer.index))
        if place is None or not buffer.whole().wanted:
            continue
        allocation, offset, count = place
        buffer.whole().bytes = count
        placed.setdefault(allocation, []).append((offset, count, buffer))
    total = 0
    for rows in placed.values():
        total += len(rows)
        rows.sort(key=lambda row: (row[0], row[2].whole().begin))
        last = None
        for offset, count, buffer in rows:
            if last and last[0] == offset and last[1].whole().end >= buffer.whole().begin and \
                    last[1].whole().begin <= buffer.whole().end:
                buffer.join(last[1])
            last = (offset, buffer)
    return total
