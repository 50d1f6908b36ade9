#!/usr/bin/env python3
"""make_corpus.py - writes the seeds of fuzz/corpus/frame: one legal stream of each kind, and each
way to break one that a fuzzer would take long to find. Inputs open with the byte of circumstances
that fuzz_frame.c describes. Run it after a change of the wire format and commit what it writes."""
import pathlib
import struct

(HELLO, EAGER, RTS, CTS, DONE, ACK, CANCEL, REFUSE, BYE, DATA, RECEIVED, PING, PONG,
 ANNOUNCE, READ, WRITE) = range(1, 17)
BULK, ACCEPTOR, GREETED = 1, 2, 4
LAST, ABORT, SUM, READY = 1, 2, 4, 8
RESUME = 1
EAGER_4K = 13 << 3
SESSION, TOKEN = 0x1122334455667788, 0x99AABBCCDDEEFF01


def frame(kind, seq=0, tag=0, value=0, payload=b"", flags=0, payload_bytes=None, channel=0):
    size = len(payload) if payload_bytes is None else payload_bytes
    return struct.pack("<BBHIQQQ", kind, flags, channel, size, seq, tag, value) + payload


def hello(kind=0, token=0, major=2, minor=1, eager=4096, credit=1 << 20, rest=0, flags=0, bulk=2,
          channel=0, offered=0, required=0):
    if kind == 1:
        eager = credit = bulk = 0
    body = struct.pack("<8sHHBBBBQQIIQQQ", b"TOWLINE\0", major, minor, kind, flags, bulk, channel,
                       SESSION, token, eager, rest, credit, offered | required << 32, rest)
    return frame(HELLO, payload=body)


EVERY_CONTROL = (
    frame(EAGER, 1, 5, payload=b"small message") + frame(EAGER, 2, 2**64 - 1)
    + frame(RTS, 3, 6, 1 << 30) + frame(CTS, 3, value=1 << 30) + frame(DONE, 3, value=1500)
    + frame(ACK, 3, 320, 900) + frame(RTS, 4, 6, 9) + frame(CANCEL, 4)
    + frame(REFUSE, 5, value=1) + frame(REFUSE, 6, value=2) + frame(RECEIVED, value=512)
    + frame(PING, value=600) + frame(PONG, value=700) + frame(ANNOUNCE, 4, 6, 1 << 20, flags=2)
    + frame(EAGER, 5, 5, 0x1234, payload=b"summed", flags=1 | SUM)
    + frame(RTS, 6, 6, 1 << 20, flags=2 | SUM | READY) + frame(REFUSE, 6, value=4)
    + frame(BYE, value=15))
CHUNKS = (frame(DATA, 3, value=0, payload=b"x" * 100)
          + frame(DATA, 3, value=100, payload=b"y" * 28) + frame(DATA, 3, value=128, flags=LAST))
TAKEN_BACK = frame(DATA, 3, payload=b"x" * 60 + bytes(40)) + frame(DATA, 3, flags=ABORT)

SEEDS = {
    "control_connector": (EAGER_4K, hello() + EVERY_CONTROL),
    "control_acceptor": (EAGER_4K | ACCEPTOR, hello(token=TOKEN) + EVERY_CONTROL),
    "control_greeted": (EAGER_4K | GREETED, EVERY_CONTROL),
    "bulk_connector": (BULK, hello(1, TOKEN) + CHUNKS),
    "bulk_channel_3": (BULK, hello(1, TOKEN, channel=3) + CHUNKS),
    "bulk_channel_4": (BULK, hello(1, TOKEN, channel=4)),
    "bulk_summed": (BULK | GREETED, frame(DATA, 3, value=0, payload=b"x" * 100)
                    + frame(DATA, 3, 0x89ABCDEF, 100, flags=LAST | SUM)),
    "bulk_sum_too_long": (BULK | GREETED, frame(DATA, 3, 1 << 32, 100, flags=LAST | SUM)),
    "bulk_greeted": (BULK | GREETED, CHUNKS),
    "bulk_abort": (BULK | GREETED, TAKEN_BACK + CHUNKS),
    "bulk_abort_value": (BULK | GREETED, frame(DATA, 3, value=1, flags=ABORT)),
    "bulk_commit_payload": (BULK | GREETED, frame(DATA, 3, value=1, payload=b"z", flags=LAST)),
    "bulk_commit_nothing": (BULK | GREETED, frame(DATA, 3, flags=LAST)),
    "bulk_commit_and_abort": (BULK | GREETED, frame(DATA, 3, flags=LAST | ABORT)),
    "bulk_last_offset": (BULK | GREETED, frame(DATA, 3, value=2**63 - 2, payload=b"z")
                         + frame(DATA, 3, value=2**63 - 1, flags=LAST)),
    "bulk_past_end": (BULK | GREETED, frame(DATA, 3, value=2**63 - 1, payload=b"z")),
    "bulk_huge_chunk": (BULK | GREETED, frame(DATA, 3, payload_bytes=2**32 - 1)),
    "hello_twice": (EAGER_4K, hello() + hello()),
    "hello_major_1": (EAGER_4K, hello(major=1)),
    "hello_resume": (EAGER_4K, hello(token=TOKEN, flags=RESUME) + EVERY_CONTROL),
    "hello_resume_no_token": (EAGER_4K, hello(flags=RESUME)),
    "hello_flags": (EAGER_4K, hello(token=TOKEN, flags=3)),
    "hello_no_bulk": (EAGER_4K, hello(bulk=0)),
    "hello_bulk_5": (EAGER_4K, hello(bulk=5)),
    "hello_minor_0": (EAGER_4K, hello(minor=0) + EVERY_CONTROL),
    "hello_minor_2": (EAGER_4K, hello(minor=2, rest=7) + EVERY_CONTROL),
    "hello_reserved": (EAGER_4K, hello(rest=7)),
    "hello_features": (EAGER_4K, hello(offered=0x80010003, required=0x80000001) + EVERY_CONTROL),
    "hello_features_required_only": (EAGER_4K, hello(offered=2, required=1)),
    "hello_features_resume": (EAGER_4K, hello(token=TOKEN, flags=RESUME, offered=1)),
    "hello_little_credit": (EAGER_4K, hello(credit=4159)),
    "hello_bare": (EAGER_4K, hello()[32:]),
    "eager_too_long": (EAGER_4K | GREETED, frame(EAGER, 1, 5, payload=b"e" * 4097)),
    "eager_space_3": (EAGER_4K | GREETED, frame(EAGER, 1, 5, payload=b"e", flags=3)),
    "eager_value_no_sum": (EAGER_4K | GREETED, frame(EAGER, 1, 5, 1, payload=b"e")),
    "eager_sum_too_long": (EAGER_4K | GREETED, frame(EAGER, 1, 5, 1 << 32, b"e", SUM)),
    "channel_7": (EAGER_4K | GREETED, frame(EAGER, 1, 5, payload=b"of a channel", channel=7)
                  + frame(ACK, 1, 64, channel=0xFFFF) + frame(BYE, value=15, channel=7)),
    "channel_data": (BULK | GREETED, frame(DATA, 3, payload=b"z", channel=7)),
    "channel_ping": (EAGER_4K | GREETED, frame(PING, value=600, channel=1)),
    "remote": (EAGER_4K | GREETED, frame(READ, 1, 4096, 100, payload=b"k" * 32)
               + frame(WRITE, 2, 0, 1 << 30, payload=b"k" * 32, channel=2)),
    "remote_short": (EAGER_4K | GREETED, frame(READ, 1, 4096, 100, payload=b"k" * 31)),
    "truncated": (EAGER_4K | GREETED, frame(EAGER, 1, 5, payload=b"cut")[:-1]),
    "http": (EAGER_4K, b"GET / HTTP/1.1\r\nHost: localhost:4711\r\n\r\n"),
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "corpus" / "frame"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (how, stream) in SEEDS.items():
        (folder / name).write_bytes(bytes([how]) + stream)
