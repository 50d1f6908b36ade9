"""nccl.py - what NCCL says it allocates, with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=ALLOC:

    node:7:9 [0] NCCL INFO transport/net.cc:656 Cuda Host Alloc Size 4194304 pointer 0x7f21ade82000

The words between differ by version (Cuda, CUMEM, Ib; Alloc, Calloc, CallocAsync; 2.28 adds
memType); "Size N pointer P" has stayed. Frees are printed in builds with TRACE alone, and there one
call of NCCL's prints two lines, of which the second says nothing new.
"""
import re

import lines
from addresses import Addresses
from log import Nothing, Refused

LINE_MAX = 4096
LINE = re.compile(r"(?:.*\s)?(\S+?:\d+):(\d+)(?: \[\S+\])? NCCL (?:INFO|TRACE) (.*)")
ALLOC = re.compile(r"(?:.*\s)?(Cuda Host|CUMEM Host|CuMem|CUMEM|Cuda|Ib) (?:[A-Z]\w*lloc\w*) "
                   r"Size (-?\d{1,20}) pointer (0x[0-9a-f]{1,16}|\(nil\)|\(null\))\b.*")
FREE = re.compile(r"(?:.*\s)?(Cuda|CuMem|CUMEM|Cuda Host|CUMEM Host) Free (?:Size -?\d+ )?"
                  r"pointer (0x[0-9a-f]{1,16})\b.*")
CUT = re.compile(r".*(?:lloc\w*) Size(?: \d*)?(?: poi?n?t?e?r?)? ?(?:0x)?")
HEAP = re.compile(r"(?:.*\s)?(?:Mem Realloc|memory stack hunk malloc).*")
HOST, DEVICE = 1, 2
INNER = ("CuMem", "CUMEM")


def looks_like(head):
    return b"NCCL INFO" in head or b"NCCL TRACE" in head


def kind_of(word):
    return HOST if word in ("Cuda Host", "CUMEM Host", "Ib") else DEVICE


class Reader:
    def __init__(self, log, only):
        self.log, self.blocks, self.only = log, Addresses(log, strict=False), only
        self.process = None
        self.inner = set()
        self.bytes = {HOST: 0, DEVICE: 0}
        self.count = self.freed = self.heap = self.others = 0

    def takes(self, process, where):
        if self.only not in (None, "host", "device"):
            self.others += process != self.only
            return process == self.only
        if self.process is None:
            self.process = process
        elif process != self.process:
            raise Refused(f"{where}: the log is of several processes, each with a pool of its own; "
                          f"choose one: --only {self.process}, --only {process}")
        return True

    def alloc(self, found, where, thread):
        count, address, kind = int(found[2]), found[3], kind_of(found[1])
        if not address.startswith("0x") or self.only == ("host", "device")[kind == HOST]:
            return
        if address in self.inner and self.blocks.is_live(address):
            self.inner.discard(address)  # the caller's line about the same block
            return
        if found[1] in INNER:
            self.inner.add(address)
        self.blocks.alloc(address, count, where, thread, kind)
        self.bytes[kind] += count
        self.count += 1

    def line(self, text, where):
        found = LINE.fullmatch(text) if len(text) <= LINE_MAX else None
        if not found:
            return
        process, thread, said = found.groups()
        about = ALLOC.fullmatch(said)
        freed = None if about else FREE.fullmatch(said)
        if HEAP.fullmatch(said):
            self.heap += 1
        elif about or freed:
            if not self.takes(process, where):
                return
            thread = self.log.thread(thread)
            if about:
                self.alloc(about, where, thread)
            elif self.blocks.is_live(freed[2]):
                self.blocks.free(freed[2], where, thread)
                self.freed += 1
        elif CUT.fullmatch(said):
            raise Refused(f"{where}: an allocation without size and pointer; was the file cut?")


def read(paths, log, options):
    reader = Reader(log, options.only)
    for path in paths:
        for where, text in lines.each(path):
            reader.line(text, where)
    if reader.count == 0:
        raise Nothing("no allocation is in it; run the job with NCCL_DEBUG=INFO "
                      "NCCL_DEBUG_SUBSYS=ALLOC"
                      + (f", and look what --only {options.only} leaves" if options.only else ""))
    reader.blocks.report()
    log.notes.append(f"Tag 1 is host memory ({reader.bytes[HOST]} bytes in all), tag 2 the "
                     f"device's ({reader.bytes[DEVICE]}); --only host leaves that out")
    if reader.freed == 0:
        log.notes.append("NCCL prints no frees without TRACE, so the peak is the sum of all that "
                         "was allocated, and more than was live if the job has made communicators "
                         "one after the other")
    if reader.heap:
        log.left_out.append(f"{reader.heap} lines about NCCL's own heap")
    if reader.others:
        log.left_out.append(f"{reader.others} lines of other processes")
    log.lower.append("the buffers of the program itself, which NCCL sends from, are not in it")
    return f"{reader.count} allocations of NCCL's, {reader.freed} frees"
