#!/usr/bin/env python3
"""make_store_corpus.py - writes the seeds of fuzz/corpus/store, in the commands that fuzz_store.c
describes: a job that goes well, each way in which ranks disagree, and frames that are none."""
import pathlib
import struct

HELLO, SET, GET, ADD, DELETE, GATHER, BYE = range(1, 8)
RANKS = 5


def frame(kind, key=b"", value=b"", a=0, b=0, number=1, wait_ms=100, length=None, zero=0,
          key_bytes=None):
    body = struct.pack("<BBHiIIQQ", kind, zero, len(key) if key_bytes is None else key_bytes, 0,
                       number, wait_ms, a, b) + key + value
    return struct.pack("<I", len(body) if length is None else length) + body


def hello(rank, world=RANKS, instance=None, job=b"job", version=1, restarts=0, value=None):
    value = struct.pack("<II", version, restarts) if value is None else value
    return frame(HELLO, job, value, rank | world << 32, rank + 1 if instance is None else instance)


def pair(low, high):
    return low | high << 32


def sends(connection, data):
    return struct.pack("<BH", connection, len(data)) + data


def greets(connection, rank):
    return bytes([11 << 4 | connection, rank])


def hangs_up(connection):
    return bytes([10 << 4 | connection])


def later(ticks):
    return struct.pack("<BH", 12 << 4, ticks)


def gather(index, members=RANKS, key=b"open", generation=0, start=0, value=b"tcp://h:1", number=2):
    return frame(GATHER, key, value, pair(index, members), pair(generation, start), number)


ALL = b"".join(greets(i, i) for i in range(RANKS))
OPEN = ALL + b"".join(sends(i, gather(i)) for i in range(RANKS))
SEEDS = {
    "open": OPEN,
    "open_twice": OPEN + b"".join(sends(i, gather(i, generation=1)) for i in range(RANKS)),
    "values": ALL + sends(1, frame(GET, b"k")) + sends(0, frame(SET, b"k", b"v"))
    + sends(2, frame(DELETE, b"k")) + sends(2, frame(GET, b"k")) + later(50),
    "sums": ALL + sends(0, frame(ADD, b"n", a=5)) + sends(0, frame(ADD, b"n", a=5))
    + sends(1, frame(ADD, b"n", a=2**64 - 1, number=9)) + sends(2, frame(GET, b"n")),
    "text_as_sum": ALL + sends(0, frame(SET, b"n", b"abc")) + sends(1, frame(ADD, b"n", a=1)),
    "goodbye": OPEN + b"".join(sends(i, frame(BYE)) + hangs_up(i) for i in range(RANKS)),
    "missing": ALL[:6] + sends(0, gather(0)) + sends(1, gather(1)) + later(50),
    "lost": OPEN + hangs_up(2) + sends(0, frame(GET, b"x", wait_ms=9000)) + later(400),
    "back": ALL + sends(0, gather(0)) + hangs_up(0) + greets(0, 0) + sends(0, gather(0)),
    "other_world": ALL + sends(0, gather(0)) + sends(9, hello(3, 8)),
    "other_job": ALL + sends(9, hello(3, job=b"jib")),
    "other_restart": ALL + sends(9, hello(3, restarts=1)),
    "other_version": ALL + sends(9, hello(3, version=2)),
    "rank_beyond": sends(9, hello(5)) + ALL,
    "rank_huge": sends(9, hello(2**32 - 1)) + ALL,
    "twice": ALL + sends(9, hello(3, instance=99)),
    "no_instance": sends(9, hello(3, instance=0)),
    "short_hello": sends(9, hello(3, value=b"abc")),
    "hello_again": greets(0, 0) + sends(0, hello(0)),
    "before_hello": sends(0, frame(SET, b"k", b"v")),
    "two_at_once": greets(0, 0) + sends(0, frame(GET, b"a") + frame(GET, b"b")),
    "a_reply": greets(0, 0) + sends(0, frame(GET | 0x80, b"a")),
    "a_reply_late": ALL + sends(9, hello(3, 8)) + sends(0, frame(GET | 0x80, b"a")),
    "gather_of_none": greets(0, 0) + sends(0, gather(0, 0)),
    "gather_beyond": greets(0, 0) + sends(0, gather(3, 3)),
    "gather_of_too_many": greets(0, 0) + sends(0, gather(0, RANKS + 1)),
    "gather_from_beyond": greets(0, 0) + sends(0, gather(0, 1, start=1)),
    "gather_too_large": greets(0, 0) + sends(0, gather(0, value=b"x" * 1025)),
    "gather_sizes": ALL + sends(0, gather(0, 3)) + sends(1, gather(1, 4)),
    "gather_member": ALL + sends(0, gather(0, 3)) + sends(1, gather(0, 3)),
    "gather_ahead": ALL + sends(0, gather(0, 3)) + sends(1, gather(1, 3, generation=1)),
    "gather_value": ALL + sends(0, frame(SET, b"open", b"x")) + sends(1, gather(1)),
    "in_pieces": greets(0, 0) + b"".join(sends(0, bytes([b]))
                                         for b in frame(SET, b"k", b"value")),
    "short_length": sends(0, frame(HELLO, length=31)),
    "long_length": sends(0, frame(HELLO, length=2**32 - 1)),
    "no_kind": sends(0, frame(0)),
    "kind_8": sends(0, frame(8)),
    "not_zero": sends(0, frame(GET, zero=1)),
    "long_key": sends(0, frame(GET, b"k" * 300)),
    "key_beyond": sends(0, frame(GET, b"k", key_bytes=200)),
    "requests": ALL + bytes(sum(([13 << 4 | i % 5, i, 37 * i % 256, i, i, 3, 97, 98, 99]
                                 for i in range(40)), [])),
    "crowd": b"".join(hangs_up(i % 16) + greets(i % 16, i % RANKS) for i in range(40)),
    "empty": b"",
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "corpus" / "store"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)
    print(f"{len(SEEDS)} seeds in {folder}")
