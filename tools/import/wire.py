"""wire.py - reads the wire format of protocol buffers, as far as XSpace needs it.

tools/trace reads XSpace with protobuf-c, but only what Towline wrote: it refuses what is no trace
of ours, and towtrace gives no memory events. Those here are of other programs', so the few
messages are walked by hand, without their schema: a field's number, and a number or bytes.
"""
from log import Refused

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Message:
    """Bytes of a file, and where in it they lie."""

    def __init__(self, data, place, begin=0, end=None):
        self.data, self.place, self.begin = data, place, begin
        self.end = len(data) if end is None else end

    def refuse(self, at, what):
        raise Refused(f"{self.place}: byte {at}: {what}")

    def varint(self, at):
        value = shift = 0
        for i in range(at, min(at + 10, self.end)):
            byte = self.data[i]
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value & 0xffffffffffffffff, i + 1
            shift += 7
        return self.refuse(at, "a number does not end; was the file cut?")

    def fields(self):
        """(number of the field, value): an int, or for bytes a Message."""
        at = self.begin
        while at < self.end:
            start = at
            key, at = self.varint(at)
            kind = key & 7
            if kind == VARINT:
                value, at = self.varint(at)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
                if at + size > self.end:
                    self.refuse(start, "a field does not end; was the file cut?")
                value, at = int.from_bytes(self.data[at:at + size], "little"), at + size
            elif kind == BYTES:
                size, at = self.varint(at)
                if size > self.end - at:
                    self.refuse(start, f"{size} bytes are announced and {self.end - at} are left; "
                                "was the file cut?")
                value, at = Message(self.data, self.place, at, at + size), at + size
            else:
                self.refuse(start, "no field of a protocol buffer")
            yield key >> 3, value

    def text(self):
        return bytes(self.data[self.begin:self.end]).decode("utf-8", "replace")

    def get(self, wanted, default=0):
        """The last field of that number, of the kind that the default has."""
        found = default
        for number, value in self.fields():
            if number == wanted:
                if isinstance(value, int) != isinstance(default, int):
                    self.refuse(self.begin, f"field {wanted} is of another kind")
                found = value
        return found


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value
