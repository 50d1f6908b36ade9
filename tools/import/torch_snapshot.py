"""torch_snapshot.py - what torch.cuda.memory._dump_snapshot writes: a pickle of plain things.

    {"device_traces": [[{"action": "alloc", "addr": 7, "size": 512, "stream": 0, "time_us": 1}]],
     "segments": [{"device": 0, "address": 7, "blocks": [{"size": 512, "state": "..."}]}]}

A pickle can call any function that it names. This reader knows no name at all: a snapshot has
none, and a file that has one is refused before anything is called. As a pickle can ask for more
memory than there is, the address space is bounded while it is read.
"""
import io
import pickle
import resource

import lines
from addresses import play
from log import Nothing, Refused, amount
from torch_trace import integer

ROOM_EACH = 64              # bytes of memory for a byte of the file
ROOM_BYTES = 1 << 30
LIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")


def looks_like(head):
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise Refused(f"it names {str(module)[:60]}.{str(name)[:60]}, and no snapshot of memory "
                      "names a function or class; nothing of it was run")

    def persistent_load(self, pid):
        raise Refused("it refers to objects outside of it; nothing of it was run")


def mapped_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def unpickled(path):
    data = lines.whole(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    room = mapped_bytes() + ROOM_BYTES + ROOM_EACH * len(data)
    if soft == resource.RLIM_INFINITY or room < soft:
        resource.setrlimit(resource.RLIMIT_AS, (room, hard))
    file = io.BytesIO(data)
    try:
        return PlainUnpickler(file).load()
    except Refused as error:
        raise Refused(f"{path}: byte {file.tell()}: {error}") from error
    except Exception as error:  # whatever the bytes of a stranger make pickle say
        raise Refused(f"{path}: byte {file.tell()}: it is no whole pickle "
                      f"({type(error).__name__}: {str(error)[:100]}); was the file cut?") from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def rows_of(found, key, where):
    rows = found.get(key, [])
    if not isinstance(rows, (list, tuple)):
        raise Refused(f"{where}: '{key}' is no list")
    for number, row in enumerate(rows):
        yield f"{where}: {key} {number}", row


def mapping(row, where):
    if not isinstance(row, dict):
        raise Refused(f"{where}: it is no dictionary")
    return row


def alive_blocks(snapshot, path):
    """(device, address, bytes, place) of what the segments say is allocated."""
    for where, segment in rows_of(snapshot, "segments", path):
        segment = mapping(segment, where)
        device = integer(segment.get("device", 0), "device", where)
        address = integer(segment.get("address", 0), "address", where)
        for place, block in rows_of(segment, "blocks", where):
            block = mapping(block, place)
            size = integer(block.get("size"), "size", place)
            asked = integer(block.get("requested_size", size), "requested_size", place)
            start = integer(block.get("address", address), "address", place)
            if block.get("state") in LIVE:
                yield device, start, asked if asked > 0 else size, place
            address = start + size


def trace_events(snapshot, path):
    """(time, number, device, action, address, bytes, stream, place)"""
    number = 0
    for device, (where, trace) in enumerate(rows_of(snapshot, "device_traces", path)):
        if not isinstance(trace, (list, tuple)):
            raise Refused(f"{where}: it is no list")
        for event, row in enumerate(trace):
            place = f"{where}, event {event}"
            row = mapping(row, place)
            number += 1
            action = row.get("action")
            if action in ("alloc", "free_completed"):
                yield (integer(row.get("time_us", 0), "time_us", place), number, device, action,
                       integer(row.get("addr"), "addr", place),
                       integer(row.get("size"), "size", place), str(row.get("stream")), place)


def read(paths, log, options):
    events, alive, devices = [], [], set()
    for path in paths:
        snapshot = mapping(unpickled(path), path)
        if "device_traces" not in snapshot and "segments" not in snapshot:
            raise Refused(f"{path}: a pickle without device_traces and segments is no snapshot")
        # By time where there is one, else a device behind the other.
        for _, _, device, action, address, size, stream, where in sorted(
                trace_events(snapshot, path), key=lambda row: row[:2]):
            devices.add(device)
            if options.only in (None, f"cuda:{device}"):
                events.append(("alloc" if action == "alloc" else "free", (path, device, address),
                               size, where, log.thread(stream), device + 1))
        for device, address, size, where in alive_blocks(snapshot, path):
            devices.add(device)
            if options.only in (None, f"cuda:{device}"):
                alive.append(((path, device, address), size, where, device + 1))
    before = play(log, events, alive)
    if log.allocs == 0:
        raise Nothing("no block is in it; call torch.cuda.memory._record_memory_history() first"
                      + (f", or leave --only {options.only} out" if options.only else ""))
    if before:
        log.notes.append(f"{amount(before)} were allocated before the record began, as its frees "
                         "and segments show")
    log.notes.append("Tags are devices, counted from 1 for cuda:0; "
                     f"{len(devices)} of them are in it. All tensors are in it, not only those "
                     "that are sent")
    if not events:
        log.lower.append("it has no history, so it is what lived when it was taken")
    return f"{len(events)} events and {len(alive)} live blocks of a snapshot of PyTorch's"
