"""torch_trace.py - the trace of PyTorch's profiler with profile_memory=True: JSON, often packed.

    {"name": "[memory]", "tid": 7, "ts": 12.5, "args": {"Addr": 1399, "Bytes": -4000000,
     "Device Type": 0, "Device Id": -1, "Total Allocated": 0}}

Bytes below zero are a free. The first event of a device says by its total what was there before.
"""
import json
import math

import lines
from addresses import play
from log import Nothing, Refused, amount

DEVICES = {0: "cpu", 1: "cuda"}
NOT_JSON = (ValueError, RecursionError, MemoryError)


def looks_like(head):
    return head.lstrip()[:1] == b"{" and b'"' in head


def integer(value, what, where):
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"{where}: '{what}' is no whole number")
    return value


def device_of(args, where):
    kind = integer(args.get("Device Type", 0), "Device Type", where)
    number = integer(args.get("Device Id", -1), "Device Id", where)
    return DEVICES.get(kind, f"device{kind}") + (f":{number}" if number >= 0 else "")


def document(path):
    try:
        found = json.loads(lines.whole(path))
    except NOT_JSON as error:
        raise Refused(f"{path}: it is no JSON: {str(error)[:100] or type(error).__name__}; was "
                      "the file cut?") from error
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        raise Refused(f"{path}: it has no list traceEvents")
    return events


def memory_rows(path):
    """(time, number, device, address, bytes, total, thread, place)"""
    for number, event in enumerate(document(path)):
        if not isinstance(event, dict) or event.get("name") != "[memory]":
            continue
        where = f"{path}: event {number}"
        args, at = event.get("args"), event.get("ts")
        if not isinstance(args, dict):
            raise Refused(f"{where}: it has no args")
        if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at):
            raise Refused(f"{where}: 'ts' is no time")
        yield (at, number, device_of(args, where), integer(args.get("Addr"), "Addr", where),
               integer(args.get("Bytes"), "Bytes", where),
               integer(args.get("Total Allocated", 0), "Total Allocated", where),
               str(event.get("tid")), where)


def read(paths, log, options):
    events, devices, before = [], {}, 0
    for path in paths:
        for _, _, device, address, count, total, thread, where in sorted(
                memory_rows(path), key=lambda row: row[:2]):
            is_new = device not in devices
            tag = devices.setdefault(device, len(devices) + 1)
            if options.only not in (None, device):
                continue
            if is_new:
                before += max(total - count, 0)
            events.append(("alloc" if count > 0 else "free", (path, device, address), abs(count),
                           where, log.thread(thread), tag))
    known = play(log, events)
    if not events:
        raise Nothing("no event [memory] is in it; profile with profile_memory=True"
                      + (f", and without --only {options.only}" if options.only else ""))
    log.before_bytes = max(before - known, 0)
    if known:
        log.notes.append(f"{amount(known)} of blocks that are freed in it were there before it "
                         "began, and are allocated first here")
    log.notes.append("Tags are devices: " + ", ".join(
        f"{tag} {name}" for name, tag in list(devices.items())[:8]) + "; --only NAME reads one")
    log.notes.append("All tensors are in it, not only those that are sent")
    return f"{len(events)} events of PyTorch's profiler"
