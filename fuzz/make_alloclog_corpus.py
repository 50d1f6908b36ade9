#!/usr/bin/env python3
"""make_alloclog_corpus.py - writes the seeds of fuzz/corpus/alloclog: legal logs, and each way to
break one that a fuzzer would take long to find. It follows docs/alloclog.md alone, so that the
reader is held against a second writer. Run it after a change of the format and commit the files."""
import pathlib
import struct
import zlib

ALLOC, FREE, STEP, GAP = 1, 2, 3, 4


def event(ns, kind, number, size=0, caller=0x401000, thread=7, tag=0, align=6, rest=bytes(6)):
    return struct.pack("<QQQQIIBB6s", ns, number, size, caller, thread, tag, kind, align, rest)


ARENA = struct.pack("<8sQ", b"pagerun", 4 << 20)


def log(events, magic=b"TOWALOG\n", major=2, minor=0, header=128, record=48, flags=0,
        duration=1000, count=None, lost=0, shift=0, unknown=0, rest=ARENA, more=b""):
    body = struct.pack("<8sHHIIIQQQQQQQQQIIQ16s", magic, major, minor, header, record, flags,
                       1700000000 * 10**9, 5, duration, len(events) if count is None else count,
                       lost, 4096, 1, 1 << 28, 4096, shift, 42, unknown, rest)
    body += more + b"".join(events)
    return body + struct.pack("<4sIQ", b"TEND", zlib.crc32(body), len(body) + 16)


def names(*entries, offset=512, size=None, rest=b""):
    """The rest of a header of minor 2 with names: (kind, key, text) each."""
    body = b"".join(struct.pack("<BBQ", kind, len(text), key) + text
                    for kind, key, text in entries) + rest
    body += bytes(-len(body) % 8)
    more = struct.pack("<QQII", 8192, 16384, offset, len(body) if size is None else size)
    more += bytes(360) + body
    return {"minor": 2, "header": 128 + len(more), "more": more}


PAIR = [event(1, ALLOC, 1, 100), event(2, FREE, 1, 100, align=0)]
MANY = [event(i, STEP, i) if i % 3 == 0 else event(i, ALLOC, i - i // 3, 64) for i in range(900)]
GOOD = log(PAIR)
SEEDS = {
    "empty": log([]),
    "pair": GOOD,
    "mended": b"!" + GOOD[:-12] + bytes(12),
    "steps": log([event(0, STEP, 1), *PAIR, event(9, STEP, 2)], flags=1),
    "many": log(MANY),
    "unknown_free": log([event(3, FREE, 0)], unknown=1),
    "unknown_free_miscounted": log([event(3, FREE, 0)]),
    "sampled": log(PAIR, shift=3, lost=9),
    "longer_header": log(PAIR, minor=1, header=132, more=b"more"),
    "version_1": log(PAIR, major=1, rest=bytes(16)),
    "reserved_used": log(PAIR, major=1, rest=b"x" * 16),
    "arena_long": log(PAIR, rest=struct.pack("<8sQ", b"jemalloc", 2**64 - 1)),
    "arena_none": log(PAIR, rest=bytes(16)),
    "arena_split": log(PAIR, rest=b"page\0run" + bytes(8)),
    "names": log(PAIR, **names((1, 7, b"weights"), (2, 0x401000, b"train+0x41 in job+0x1041"))),
    "names_hostile": log(PAIR, **names((1, 7, b"\x1b]0;x\x07\xff\0<&"), (9, 1, b"later"))),
    "names_twice": log(PAIR, **names((1, 7, b"one"), (1, 7, b"two"))),
    "names_cut": log(PAIR, **names((1, 7, b"weights"), size=12)),
    "names_no_end": log(PAIR, **names(rest=b"\x01\xff" + bytes(8))),
    "names_empty_text": log(PAIR, **names((1, 7, b""))),
    "names_behind": log(PAIR, **names(rest=bytes(8) + b"behind..")),
    "names_outside": log(PAIR, **names((1, 7, b"x"), offset=2**31)),
    "names_before": log(PAIR, **names((1, 7, b"x"), offset=8)),
    "names_large": log(PAIR, **names((1, 7, b"x"), size=2**32 - 1)),
    "cut_header": GOOD[:60],
    "cut_records": GOOD[:200],
    "cut_end": GOOD[:-3],
    "more_behind": GOOD + b"x",
    "bit": GOOD[:140] + bytes([GOOD[140] ^ 4]) + GOOD[141:],
    "magic": log(PAIR, magic=b"TOWALOG\r"),
    "major_3": log(PAIR, major=3),
    "header_short": log(PAIR, header=64),
    "header_long": log(PAIR, header=2**32 - 1),
    "record_49": log(PAIR, record=49),
    "flags": log(PAIR, flags=2),
    "count_huge": log(PAIR, count=2**64 - 1),
    "count_large": log(PAIR, count=2**27),
    "count_small": log(PAIR, count=1),
    "shift_11": log(PAIR, shift=11),
    "backwards": log([event(5, STEP, 1), event(4, STEP, 2)]),
    "after_end": log([event(1001, STEP, 1)]),
    "id_gap": log([event(1, ALLOC, 2, 100)]),
    "id_twice": log([event(1, ALLOC, 1, 100), event(2, ALLOC, 1, 100)]),
    "free_unknown_id": log([event(1, FREE, 7)]),
    "free_twice": log([*PAIR, event(3, FREE, 1, 100)]),
    "free_other_size": log([PAIR[0], event(2, FREE, 1, 99)]),
    "free_unknown_size": log([event(2, FREE, 0, 99)], unknown=1),
    "free_unknown_size_1": log([event(2, FREE, 0, 99)], major=1, unknown=1, rest=bytes(16)),
    "bytes_huge": log([event(1, ALLOC, 1, 2**56)]),
    "align_huge": log([event(1, ALLOC, 1, 8, align=64)]),
    "kind_0": log([event(1, 0, 1)]),
    "kind_4": log([event(1, 4, 1)]),
    "kind_5": log([event(1, 5, 1)]),
    "gaps": log([PAIR[0], event(1, GAP, 3, 800, 70), PAIR[1]], minor=3, header=192,
                more=bytes(32) + struct.pack("<QQQQ", 1, 70, 3, 128)),
    "gaps_miscounted": log([PAIR[0], event(1, GAP, 3, 800, 70), PAIR[1]], minor=3, header=192,
                           more=bytes(32) + struct.pack("<QQQQ", 1, 71, 3, 128)),
    "gap_late": log([event(1, GAP, 3, 1000, 70)], minor=3, header=192,
                    more=bytes(32) + struct.pack("<QQQQ", 1, 70, 3, 128)),
    "step_size": log([event(1, STEP, 1, 8)]),
    "record_reserved": log([event(1, STEP, 1, rest=b"abcdef")]),
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "corpus" / "alloclog"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS.items():
        (folder / name).write_bytes(content)
