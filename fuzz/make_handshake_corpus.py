#!/usr/bin/env python3
"""make_handshake_corpus.py - writes the seeds of fuzz/corpus/handshake: greetings of every kind,
each way to break one, what other programs say first, and encrypted records. Inputs open with the
two bytes that fuzz_handshake.c describes. Run it after a change of the handshake and commit what
it writes."""
import pathlib
import struct

KEY, ENCRYPT, CONNECTOR, RECORDS, SEAL = 1, 2, 4, 8, 24
MAGIC, VERSION = b"TOWAUTH\0", 2
NONCE, PUBLIC, NONE = b"n" * 32, b"p" * 32, bytes(32)


def greeting(flags=0, magic=MAGIC, version=VERSION, reserved=0, purpose=b"tcp", public=None):
    if public is None:
        public = PUBLIC if flags & 1 else NONE
    return magic + struct.pack("<HHI16s", version, flags, reserved, purpose) + NONCE + public


def proof(kind=1, mac=b"m" * 32):
    return struct.pack("<B7x", kind) + mac


def record(sealed, content):
    return struct.pack("<I", sealed) + content


HELLO = struct.pack("<BBHIQQQ", 1, 0, 0, 64, 0, 0, 0) + struct.pack(
    "<8sHHB3xQQIIQQQ", b"TOWLINE\0", 1, 0, 0, 7, 0, 4096, 0, 1 << 20, 0, 0)

SEEDS = {
    "open_acceptor": (0, 255, greeting() + HELLO),
    "open_connector": (CONNECTOR, 255, greeting() + HELLO),
    "open_in_pieces": (0, 6, greeting() + HELLO),
    "keyed_acceptor": (KEY, 255, greeting(1) + proof()),
    "keyed_connector": (KEY | CONNECTOR, 255, greeting(1, public=NONE) + proof()),
    "keyed_connector_refused": (KEY | CONNECTOR, 255, greeting(1, public=NONE)
                                + proof(2, NONE)),
    "encrypt_acceptor": (ENCRYPT, 9, greeting(3) + proof()),
    "encrypt_connector": (ENCRYPT | CONNECTOR, 31, greeting(3) + proof()),
    "keyed_meets_open": (KEY, 255, greeting()),
    "open_meets_keyed": (0, 255, greeting(1)),
    "encrypt_without_key": (0, 255, greeting(2)),
    "unknown_flag": (KEY, 255, greeting(5)),
    "reserved": (0, 255, greeting(reserved=1)),
    "other_purpose": (0, 255, greeting(purpose=b"store")),
    "control_characters": (0, 255, greeting(purpose=b"\x1b[2J")),
    "long_purpose": (0, 255, greeting(purpose=b"a" * 16)),
    "public_without_key": (0, 255, greeting(public=PUBLIC)),
    "key_without_public": (KEY, 255, greeting(1, public=NONE)),
    "version_3": (KEY, 255, greeting(1, version=3)),
    "version_1_hello": (KEY, 3, HELLO),
    "cut": (KEY, 255, greeting(1)[:-1]),
    "http": (0, 255, b"GET / HTTP/1.1\r\nHost: localhost:4711\r\n\r\n"),
    "tls": (0, 255, bytes.fromhex("160301020001000200fcfd")),
    "record_garbage": (RECORDS, 0, record(40, b"g" * 40)),
    "record_short": (RECORDS, 0, record(17, b"g" * 17)),
    "record_long": (RECORDS, 0, record(0xFFFFFFFF, b"g" * 40)),
    "record_cut": (RECORDS, 0, record(65536 + 17, b"g" * 100)),
    "seal_one": (SEAL, 255, b"one record"),
    "seal_many": (SEAL, 0, b"many records of a byte each"),
    "seal_length": (SEAL, 15, bytes([0]) + b"a changed length" + bytes([0])),
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "corpus" / "handshake"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (how, cut, stream) in SEEDS.items():
        (folder / name).write_bytes(bytes([how, cut]) + stream)
