"""malloc_trace.py - records of malloc and free, by address. Three forms, which may be mixed:

    @ ./program:[0x4005fd] + 0x1c0a460 0x64      mtrace of glibc: +, -, < and > (realloc), !
    [pid 7] malloc(100) = 0x5581c0               ltrace, also <unfinished ...> and <... resumed>
    alloc 0x5581c0 100 3                         anybody's: the last column, a thread, may be absent
    free 0x5581c0
"""
import re

import lines
from addresses import Addresses
from log import Nothing, Refused

NUMBER = r"(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})"
NULL = ("0", "0x0", "(nil)", "nil", "NULL")
MTRACE = re.compile(r"(?:@ .*\s|\s*)([-+<>!]) (0x[0-9a-f]{1,16}|\(nil\))(?: (0x[0-9a-f]{1,16}|0))?")
PLAIN = re.compile(rf"\s*(alloc|free)\s+({NUMBER})(?:\s+({NUMBER}))?(?:\s+({NUMBER}))?\s*")
CALLS = "malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign|valloc|reallocarray"
CALL = re.compile(rf"(?:.*[\s>])??({CALLS})\(([^()]*)\)\s*=\s*(\S+).*")
BEGUN = re.compile(rf"(?:.*[\s>])??({CALLS})\(([^()]*?),?\s*<unfinished \.\.\.>")
ENDED = re.compile(rf".*<\.\.\. ({CALLS}) resumed>([^()]*)\)\s*=\s*(\S+).*")
PID = re.compile(r"(?:\[pid\s+(\d+)\]|(\d+))\s")
LINE_MAX = 4096


def looks_like(head):
    return any(line.startswith(("= Start", "@ ")) or PLAIN.fullmatch(line) or CALL.fullmatch(line)
               or BEGUN.fullmatch(line) for line in head.decode("utf-8", "replace")
               .splitlines()[:50] if len(line) <= LINE_MAX)


def number(text, where):
    try:
        return 0 if text in NULL else int(text, 0)
    except ValueError as error:
        raise Refused(f"{where}: '{text[:60]}' is no number") from error


class Reader:
    def __init__(self, log, strict):
        self.log, self.blocks = log, Addresses(log, strict)
        self.known = self.other = self.hidden = 0
        self.begun = {}

    def mtrace(self, found, where):
        sign, address, count = found.groups()
        if sign in "+>" and count is None:
            raise Refused(f"{where}: the bytes are missing; was the file cut?")
        address = number(address, where)
        if sign in "+>" and address != 0:
            self.blocks.alloc(address, number(count, where), where)
        elif sign in "-<" and address != 0:
            self.blocks.free(address, where)

    def plain(self, found, where):
        kind, address, second, third = found.groups()
        if kind == "alloc":
            if second is None:
                raise Refused(f"{where}: alloc needs an address and bytes")
            thread = self.log.thread(third) if third else 0
            self.blocks.alloc(number(address, where), number(second, where), where, thread)
        else:
            self.blocks.free(number(address, where), where,
                             self.log.thread(second) if second else 0)

    def call(self, function, words, result, where, thread):
        words = [word.strip() for word in words.split(",")]
        if len(words) < {"calloc": 2, "realloc": 2, "memalign": 2, "aligned_alloc": 2,
                         "reallocarray": 3}.get(function, 1):
            raise Refused(f"{where}: {function} has too few arguments")
        if function == "posix_memalign":
            self.hidden += 1  # its address is behind a pointer, which ltrace does not follow
            return
        if function == "free":
            if words[0] not in NULL:
                self.blocks.free(number(words[0], where), where, thread)
            return
        address = number(result, where)
        count = number(words[-1], where)
        if function in ("calloc", "reallocarray"):
            count *= number(words[-2], where)
        if function.startswith("realloc") and words[0] not in NULL and (address or not count):
            self.blocks.free(number(words[0], where), where, thread)
        if address != 0:
            self.blocks.alloc(address, count, where, thread)

    def traced(self, line, where):
        """A line of ltrace; False if it is none about memory."""
        pid = PID.match(line)
        pid = pid[1] or pid[2] if pid else "0"
        found = BEGUN.fullmatch(line)
        if found:
            self.begun[pid, found[1]] = found[2]
            return True
        found = ENDED.fullmatch(line)
        if found:
            begun = self.begun.pop((pid, found[1]), None)
            if begun is None:
                raise Refused(f"{where}: {found[1]} is resumed and was not begun")
            rest = found[2].strip(" ,")
            words = begun + ("," + rest if rest else "")
            self.call(found[1], words, found[3], where, self.log.thread(pid))
            return True
        found = CALL.fullmatch(line)
        if found:
            self.call(found[1], found[2], found[3], where, self.log.thread(pid))
        return bool(found)

    def line(self, text, where):
        if len(text) > LINE_MAX:
            raise Refused(f"{where}: a line of more than {LINE_MAX} characters")
        if text.startswith("kind"):
            raise Refused(f"{where}: it is a log of Towline's already: tow-size --replay")
        if text.startswith(("=", "#")) or not text.strip():
            return
        text = text.rstrip()
        for pattern, read in ((MTRACE, self.mtrace), (PLAIN, self.plain)):
            found = pattern.fullmatch(text)
            if found:
                self.known += 1
                read(found, where)
                return
        if text.startswith("@ "):
            raise Refused(f"{where}: a line of mtrace without address; was the file cut?")
        if self.traced(text, where):
            self.known += 1
        else:
            self.other += 1


def read(paths, log, options):
    reader = Reader(log, not options.lenient)
    for path in paths:
        for where, text in lines.each(path):
            reader.line(text, where)
    if reader.begun:
        log.left_out.append(f"{len(reader.begun)} calls that had not returned")
    if reader.hidden:
        log.left_out.append(f"{reader.hidden} calls of posix_memalign, which show no address")
        log.lower.append("their blocks are not in it")
    if reader.other:
        log.left_out.append(f"{reader.other} lines about something else")
    reader.blocks.report()
    if log.allocs == 0:
        raise Nothing("no allocation is in it (mtrace, ltrace, or 'alloc ADDRESS BYTES')")
    log.notes.append("All that the program took from malloc is in it: what it does not send need "
                     "not lie in the pool")
    return f"{reader.known} calls of malloc and its like"
