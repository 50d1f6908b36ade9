"""xprof.py - what XProf's capture of a host (*.xplane.pb) says of memory.

    MemoryAllocation, MemoryDeallocation    stats addr, allocation_bytes, requested_bytes,
                                            allocator_name: the runtime's allocators, as they went
    MapDmaBuffer                            Megascale registers a buffer late: those behind the end
                                            of the first step are what its pool was too small by

A plane is read further only if it names such an event. Field numbers are those of xplane.proto.
"""
import lines
from addresses import play
from log import EVENTS_MAX, Nothing, Refused, amount
from wire import Message, signed

PLANES, NAME, LINES, EVENT_NAMES, STAT_NAMES = 1, 2, 3, 4, 5
LINE_STAMP_NS, LINE_EVENTS, LINE_ID = 3, 4, 1
EVENT_NAME, EVENT_OFFSET_PS, EVENT_DURATION_PS, EVENT_STATS = 1, 2, 3, 4
STAT_NAME, STAT_UINT, STAT_INT, STAT_TEXT, STAT_REF = 1, 3, 4, 5, 7
MEMORY = {"MemoryAllocation": "alloc", "MemoryDeallocation": "free"}
LATE = "MapDmaBuffer"
LATE_SIZES = ("bytes", "size", "size_bytes", "buffer_size", "length", "num_bytes")


def looks_like(head):
    return head[:1] == b"\n" and (b"/host:" in head or b"/device:" in head)


def names(plane, number):
    """The metadata of a plane: id -> name."""
    found = {}
    for field, entry in plane.fields():
        if field != number or isinstance(entry, int):
            continue
        value = entry.get(2, Message(b"", plane.place))
        found[entry.get(1)] = value.get(NAME, Message(b"", plane.place)).text()
    return found


def stats_of(event, stat_names):
    """name -> number or text"""
    found = {}
    for field, stat in event.fields():
        if field != EVENT_STATS or isinstance(stat, int):
            continue
        key = value = None
        for number, one in stat.fields():
            if number == STAT_NAME and isinstance(one, int):
                key = stat_names.get(one)
            elif number == STAT_UINT:
                value = one
            elif number == STAT_INT and isinstance(one, int):
                value = signed(one)
            elif number == STAT_TEXT and not isinstance(one, int):
                value = one.text()
            elif number == STAT_REF and isinstance(one, int):
                value = stat_names.get(one, "")
        if key is not None and value is not None:
            found[key] = value
    return found


class Capture:
    def __init__(self):
        self.memory = []    # (picoseconds, number, kind, thread, stats, place)
        self.late = []      # (picoseconds, stats)
        self.first_step_ps = None

    def event(self, line, event, begin_ps, kinds, stat_names):
        kind = kinds.get(event.get(EVENT_NAME))
        if kind is None:
            return
        at = begin_ps + signed(event.get(EVENT_OFFSET_PS))
        where = f"{event.place}: byte {event.begin}"
        if kind == "step":
            end = at + signed(event.get(EVENT_DURATION_PS))
            if self.first_step_ps is None or end < self.first_step_ps:
                self.first_step_ps = end
        elif kind == LATE:
            self.late.append((at, stats_of(event, stat_names), where))
        else:
            self.memory.append((at, len(self.memory), kind, line, stats_of(event, stat_names),
                                where))
        if len(self.memory) + len(self.late) > EVENTS_MAX:
            raise Refused(f"{where}: more than {EVENTS_MAX} events")

    def plane(self, plane):
        kinds = {}
        for number, name in names(plane, EVENT_NAMES).items():
            if name in MEMORY:
                kinds[number] = MEMORY[name]
            elif LATE in name:
                kinds[number] = LATE
        is_device = plane.get(NAME, Message(b"", plane.place)).text().startswith("/device:")
        if not kinds and not is_device:
            return
        stat_names = names(plane, STAT_NAMES)
        every = dict.fromkeys(names(plane, EVENT_NAMES), "step") if is_device else {}
        for field, line in plane.fields():
            if field != LINES or isinstance(line, int):
                continue
            is_steps = is_device and line.get(NAME, Message(b"", plane.place)).text() == "Steps"
            number_of_line = line.get(LINE_ID)
            begin_ps = signed(line.get(LINE_STAMP_NS)) * 1000
            for number, event in line.fields():
                if number == LINE_EVENTS and not isinstance(event, int):
                    self.event(number_of_line, event, begin_ps,
                               every if is_steps else kinds, stat_names)


def memory_events(capture, log, only):
    """(events for play, the allocators' names)"""
    allocators, events, unnamed, stacks = {}, [], 0, {}
    for _, number, kind, line, stats, where in sorted(capture.memory, key=lambda row: row[:2]):
        allocator = str(stats.get("allocator_name", "unnamed"))
        count = stats.get("allocation_bytes", stats.get("requested_bytes"))
        address = stats.get("addr", stats.get("address"))
        if not isinstance(count, int):
            raise Refused(f"{where}: a memory event without allocation_bytes")
        tag = allocators.setdefault(allocator, len(allocators) + 1)
        if only not in (None, allocator):
            continue
        if address is None:
            unnamed += 1
            stack = stacks.setdefault((allocator, count), [])
            if kind == "alloc":
                stack.append(number)
            address = stack.pop() if kind == "free" and stack else number
            address = f"unnamed {address}"
        events.append((kind, (allocator, address), abs(count), where, log.thread(line), tag))
    if unnamed:
        log.notes.append(f"{unnamed} events have no address and were paired by their bytes, last "
                         "in first out")
    return events, allocators


def late_registrations(capture, log, alone):
    """Sums up what was registered behind the first step; into the log if there is nothing else."""
    if not capture.late:
        return
    if capture.first_step_ps is None:
        log.notes.append(f"{len(capture.late)} calls of {LATE} are in it, but no step, so which "
                         "of them came late is not known")
        return
    late = [row for row in capture.late if row[0] >= capture.first_step_ps]
    total = unsized = 0
    for _, stats, where in late:
        count = next((stats[name] for name in LATE_SIZES if isinstance(stats.get(name), int)), 0)
        unsized += count <= 0
        total += max(count, 0)
        if alone and count > 0:
            log.alloc(count, where)
    if late:
        log.notes.append(f"{len(late)} buffers were registered behind the first step"
                         + (f", {unsized} of them without a size" if unsized else "")
                         + f": add at least {amount(total)} to the premapped pool")
    else:
        log.notes.append(f"None of {len(capture.late)} calls of {LATE} came behind the first step")


def read(paths, log, options):
    capture = Capture()
    for path in paths:
        for field, plane in Message(lines.whole(path), path).fields():
            if field == PLANES:
                if isinstance(plane, int):
                    raise Refused(f"{path}: it is no XSpace: its planes are numbers")
                capture.plane(plane)
    events, allocators = memory_events(capture, log, options.only)
    before = play(log, events)
    if before:
        log.notes.append(f"{amount(before)} of blocks that are freed in it were there before it "
                         "began, and are allocated first here")
    late_registrations(capture, log, not events)
    if log.allocs == 0:
        raise Nothing(". ".join(["no memory event of XProf's is in it (MemoryAllocation, or "
                                 f"{LATE} behind a first step)", *log.notes]))
    if not events:
        log.lower.append("it is what the pool was too small by, at least, and not what it holds")
        return f"{len(capture.late)} calls of {LATE}"
    log.notes.append("Tags are allocators: " + ", ".join(
        f"{tag} {name[:40]}" for name, tag in list(allocators.items())[:8])
        + "; --only NAME reads one alone")
    log.lower.append("what was there before the capture, and is not freed in it, is missing")
    return f"{len(events)} memory events"
