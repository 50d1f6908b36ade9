"""launch_exchange.py - launch_program as a library in a Python process that has a store already:
its ranks find each other by that (put and get of struct tow_group_options).

    launch_exchange.py FOLDER RANK SIZE [ARGUMENTS of launch_program]     files in FOLDER
    launch_exchange.run(put, get, rank, size, arguments)                  anything else
"""
import ctypes
import os
import sys
import time

BUILD = os.environ.get("TOW_TEST_BUILD", "build")
TOW_EDEADLINE = -13
PUT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                       ctypes.c_size_t)
GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                       ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.c_uint64)


class Options(ctypes.Structure):
    """struct tow_group_options."""
    _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int64), ("world_size", ctypes.c_int64),
                ("store", ctypes.c_char_p), ("address", ctypes.c_char_p),
                ("timeout_ns", ctypes.c_uint64), ("put", PUT), ("get", GET),
                ("user", ctypes.c_void_p)]


def run(put, get, rank, size, arguments=()):
    """Plays launch_program over put(key, value), and get(key, seconds), None when it is late."""
    def call_put(_, key, value, length):
        put(key.decode(), ctypes.string_at(value, length))
        return 0

    def call_get(_, key, out, room, length_out, timeout_ns):
        value = get(key.decode(), timeout_ns / 1e9)
        if value is None:
            return TOW_EDEADLINE
        length_out[0] = len(value)
        ctypes.memmove(out, value, min(room, len(value)))
        return 0

    module = ctypes.CDLL(os.path.join(BUILD, "tests/launchers/launch_module.so"))
    options = Options(ctypes.sizeof(Options), rank, size, None, None, 60 * 10**9, PUT(call_put),
                      GET(call_get), None)
    words = [b"launch_program", *(word.encode() for word in arguments)]
    return module.launch_run(len(words), (ctypes.c_char_p * len(words))(*words),
                             ctypes.byref(options))


def main(folder, rank, size, *arguments):
    """Values are files, which appear whole."""
    def place(key):
        return os.path.join(folder, key.replace("/", "-"))

    def put(key, value):
        with open(place(key) + ".new", "wb") as file:
            file.write(value)
        os.rename(place(key) + ".new", place(key))

    def get(key, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.path.exists(place(key)):
                with open(place(key), "rb") as file:
                    return file.read()
            time.sleep(0.01)
        return None

    return run(put, get, int(rank), int(size), arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
