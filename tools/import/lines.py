"""lines.py - files as they are read: lines of text or bytes as a whole, packed by gzip or not, and
no more of them than there is sense in."""
import gzip
import zlib

from log import Refused

LINE_BYTES_MAX = 1 << 24    # one line of HLO may hold the lists of thousands of devices
FILE_BYTES_MAX = 1 << 31    # of a file that is read as a whole
HEAD_BYTES = 1 << 16
PART_BYTES = 1 << 20


def _open(path):
    try:
        file = open(path, "rb")
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    return gzip.GzipFile(fileobj=file) if packed else file


def _guarded(path, read):
    try:
        return read()
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"{path}: it cannot be read to its end: {error}") from error


def head(path):
    """The first bytes, by which a format is found."""
    with _open(path) as file:
        return _guarded(path, lambda: file.read(HEAD_BYTES))


def whole(path):
    """By parts: a read takes memory for all that it may give."""
    data = bytearray()
    with _open(path) as file:
        while True:
            part = _guarded(path, lambda: file.read(PART_BYTES))
            if not part:
                return bytes(data)
            data += part
            if len(data) > FILE_BYTES_MAX:
                raise Refused(f"{path}: more than {FILE_BYTES_MAX} bytes")


def each(path):
    """(place, text) of each line; the place is "path:line"."""
    with _open(path) as file:
        number = 0
        while True:
            line = _guarded(path, lambda: file.readline(LINE_BYTES_MAX + 1))
            if not line:
                return
            number += 1
            if len(line) > LINE_BYTES_MAX:
                raise Refused(f"{path}:{number}: a line of more than {LINE_BYTES_MAX} bytes")
            yield f"{path}:{number}", line.decode("utf-8", "replace").rstrip("\r\n")
