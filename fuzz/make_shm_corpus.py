#!/usr/bin/env python3
"""make_shm_corpus.py - writes the seeds of fuzz/corpus/shm_ring: legal slots and notes of each
type, and each way to break one. Inputs open with the byte of circumstances that fuzz_shm_ring.c
describes. Run it after a change of the layout and commit what it writes."""
import pathlib
import struct

(INLINED, IN_AREA, IN_POOL, REMOTE, STAGED, WITHDRAWN) = range(1, 7)
(DONE, VIEWED, RELEASED, TRUNCATED, CANCELED, GONE, WANTED, TAKEN, PIECE) = range(1, 10)
HUGE = (1 << 64) - 1
AREA = 64 << 10
HEAD = bytes([0 | 3 << 2 | 11 << 4])  # 4 slots, 3 extents, small messages up to 4096


def slot(kind, arg=0, size=0, where=0, extent=0, generation=1, space=0, tag=7):
    word = arg << 48 | space << 40 | kind << 32
    return struct.pack("<QQQQQIIQQ", word, tag, 123, size, where, extent, generation, 0, 0)


def note(kind, offer=0, extent=0, where=0, size=0, generation=1, rest=0):
    word = offer << 48 | rest << 40 | kind << 32
    return struct.pack("<QIIQQ", word, extent, generation, where, size)


SLOTS = {
    "inlined": slot(INLINED, 40),
    "inlined_long": slot(INLINED, 41),
    "area": slot(IN_AREA, size=4096, where=AREA - 4096),
    "area_end": slot(IN_AREA, size=4096, where=AREA - 4095),
    "area_far": slot(IN_AREA, size=1, where=HUGE),
    "area_long": slot(IN_AREA, size=4097),
    "area_huge": slot(IN_AREA, size=HUGE, where=1),
    "pool": slot(IN_POOL, 511, 1 << 20, 0, 2),
    "pool_end": slot(IN_POOL, 0, 1 << 20, 1, 2),
    "pool_wrap": slot(IN_POOL, 0, HUGE >> 1, HUGE, 2),
    "pool_extent": slot(IN_POOL, 0, 1, 0, 3),
    "pool_offer": slot(IN_POOL, 512, 1, 0, 0),
    "pool_empty": slot(IN_POOL, 1, 0, 0, 0),
    "remote": slot(REMOTE, 2, 1 << 30, 0x7fff00000000),
    "remote_wrap": slot(REMOTE, 2, 1 << 30, HUGE - 5),
    "staged": slot(STAGED, 3, 1 << 40),
    "withdrawn": slot(WITHDRAWN, 3),
    "withdrawn_offer": slot(WITHDRAWN, 0xffff),
    "type": slot(99),
    "summed": slot(0x80 | INLINED, 40),
    "space": slot(INLINED, 8, space=9),
}
NOTES = {
    "done": note(DONE, 511),
    "done_offer": note(DONE, 512),
    "kind": note(77),
    "rest": note(VIEWED, rest=1),
    "piece": note(PIECE, 1, 1, 0, 64 << 10),
    "piece_end": note(PIECE, 1, 1, 1, 64 << 10),
    "piece_extent": note(PIECE, 1, 9, 0, 1),
    "piece_empty": note(PIECE, 1, 1, 0, 0),
    "all": b"".join(note(k, k) for k in range(1, 11)),
}


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "shm_ring"
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {"slot_" + name: HEAD + data for name, data in SLOTS.items()}
    empty = slot(INLINED) * 4
    seeds.update({"note_" + name: HEAD + empty + data for name, data in NOTES.items()})
    seeds["taken_far"] = HEAD + empty + note(DONE) + struct.pack("<Q", 1 << 50)
    seeds["taken_some"] = HEAD + empty + note(DONE) + struct.pack("<Q", 3)
    seeds["cut"] = HEAD + slot(IN_POOL)[:30]
    seeds["no_extents"] = bytes([3]) + slot(IN_POOL, 0, 1) + slot(IN_AREA, size=1)
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
