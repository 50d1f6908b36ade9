"""log.py - what is written: an allocation log as tow-size --replay reads it (docs/sizing.md).

Formats say what happened (alloc, free, step), with the place in their file; the log gives numbers
to blocks, keeps the sum of what lives, and refuses what no pool can be asked for. Nothing is on
standard output before all has been read: a log that stops in the middle would be sized too small.
"""
import shutil
import tempfile

BLOCK_BYTES_MAX = 1 << 40   # tow-size refuses larger blocks
EVENTS_MAX = 1 << 26        # and more events
FLUSH_EVENTS = 1 << 14


class Refused(Exception):
    """What the user gave makes no sense: the message names it, and the status is 2."""


class Nothing(Exception):
    """All was read, and there is nothing in it to size a pool by: status 1."""


def amount(count):
    """Bytes as people read them, and exactly."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit} ({count} bytes)"
    return f"{count} bytes"


def plural(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")


class Log:
    def __init__(self, events_max=EVENTS_MAX):
        self.events_max = events_max
        self.events = self.allocs = self.frees = self.steps = 0
        self.live_bytes = self.peak_bytes = self.before_bytes = 0
        self.left_out = []  # what is not in the log, and why
        self.lower = []     # why the pool may have to be larger than what the log asks for
        self.notes = []     # what else the user has to know
        self._sizes = {}
        self._threads = {}
        self._lines = []
        self._file = tempfile.TemporaryFile("w+")

    def thread(self, key):
        """A small number for a thread, by whatever the format knows it."""
        return self._threads.setdefault(key, len(self._threads))

    def _write(self, line, where):
        self.events += 1
        if self.events > self.events_max:
            raise Refused(f"{where}: more than {self.events_max} events, which tow-size does "
                          "not read; cut the file")
        self._lines.append(line)
        if len(self._lines) >= FLUSH_EVENTS:
            self._flush()

    def _flush(self):
        self._file.writelines(self._lines)
        self._lines.clear()

    def alloc(self, count, where, thread=0, tag=0):
        """Gives the block's number; 0 where it has no bytes, which free takes, too."""
        if not 0 <= count <= BLOCK_BYTES_MAX:
            raise Refused(f"{where}: a block of {count} bytes; no more than {BLOCK_BYTES_MAX} "
                          "make sense")
        if count == 0:
            return 0
        self.allocs += 1
        self._sizes[self.allocs] = count
        self._write(f"alloc\t{self.allocs}\t{count}\t64\t{thread}\t{tag}\n", where)
        self.live_bytes += count
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return self.allocs

    def free(self, block, where, thread=0):
        if block == 0:
            return
        self.live_bytes -= self._sizes.pop(block)
        self.frees += 1
        self._write(f"free\t{block}\t0\t0\t{thread}\n", where)

    def step(self, where):
        self.steps += 1
        self._write("step\n", where)

    def copy_to(self, out):
        self._flush()
        self._file.seek(0)
        out.write("kind\tid\tbytes\talign\tthread\ttag\n")
        if self.before_bytes > 0:
            out.write(f"# before {self.before_bytes}\n")
        shutil.copyfileobj(self._file, out)

    def summary(self):
        """One paragraph, behind what the format says it has read."""
        text = (f"{plural(self.events, 'event')} ({plural(self.allocs, 'block')}, "
                f"{self.frees} of them freed"
                + (f", {plural(self.steps, 'step')}" if self.steps else "") + "); at the peak "
                f"{amount(self.peak_bytes + self.before_bytes)} live.")
        if self.before_bytes:
            text += f" Of these, {amount(self.before_bytes)} were there before it began."
        for note in self.notes:
            text += f" {note}."
        if self.left_out:
            text += " Left out: " + "; ".join(self.left_out) + "."
        if self.lower:
            text += " It is a lower bound: " + "; ".join(self.lower) + "."
        return text
