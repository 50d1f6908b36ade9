"""formats.py - the formats, and which one a file is, by what is in it."""
import hlo
import lines
import malloc_trace
import nccl
import torch_snapshot
import torch_trace
import xprof
from log import Refused


def torch_read(paths, log, options):
    kinds = {torch_snapshot if torch_snapshot.looks_like(lines.head(path)) else torch_trace
             for path in paths}
    if len(kinds) > 1:
        raise Refused("a snapshot and a trace of the profiler cannot be read as one job")
    return kinds.pop().read(paths, log, options)


def torch_looks_like(head):
    return torch_snapshot.looks_like(head) or torch_trace.looks_like(head)


# In the order in which they are asked: the vaguest are the last.
FORMATS = {
    "hlo": (hlo.looks_like, hlo.read),
    "torch": (torch_looks_like, torch_read),
    "nccl": (nccl.looks_like, nccl.read),
    "xprof": (xprof.looks_like, xprof.read),
    "malloc": (malloc_trace.looks_like, malloc_trace.read),
}


def find(path):
    head = lines.head(path)
    if not head:
        raise Refused(f"{path}: the file is empty")
    if head.startswith(b"kind"):
        raise Refused(f"{path}:1: it is a log of Towline's already: tow-size --replay {path}")
    for name, (looks_like, _) in FORMATS.items():
        if looks_like(head):
            return name
    raise Refused(f"{path}: no format that is known is found in its first {len(head)} bytes; "
                  f"name it: --format {'|'.join(FORMATS)}")


def find_all(paths):
    names = {find(path) for path in paths}
    if len(names) > 1:
        raise Refused(f"the files are of several formats: {', '.join(sorted(names))}")
    return names.pop()
