"""hlo.py - modules of XLA become a log: the buffers of their collectives, as the schedule has them,
for one step or several (hlo_text.py, hlo_live.py, hlo_places.py)."""
import hlo_places
import hlo_text
import lines
from hlo_live import Play
from log import Nothing, Refused


def looks_like(head):
    return head.lstrip().startswith(b"HloModule") or hlo_places.looks_like(head)


def timeline(play):
    """(time, 0 alloc or 1 free, buffer) of a step, and the buffers of the caller."""
    rows, callers, seen = [], [], set()
    for buffer in play.buffers:
        buffer = buffer.whole()
        if not buffer.wanted or buffer.bytes == 0 or id(buffer) in seen:
            continue
        seen.add(id(buffer))
        if buffer.is_parameter:
            callers.append(buffer)
        else:
            rows += [(buffer.begin, 0, buffer), (buffer.end, 1, buffer)]
    rows.sort(key=lambda row: row[:2])
    return rows, callers


def write(log, timelines, steps):
    blocks = {}
    for _, callers in timelines:
        for buffer in callers:
            blocks[buffer] = log.alloc(buffer.bytes, buffer.where)
    for _ in range(steps):
        for rows, _ in timelines:
            for _, is_free, buffer in rows:
                if is_free:
                    log.free(blocks[buffer], buffer.where)
                else:
                    blocks[buffer] = log.alloc(buffer.bytes, buffer.where)
        log.step("--steps")
    for _, callers in timelines:
        for buffer in callers:
            log.free(blocks[buffer], buffer.where)


def said(plays, placed):
    count = sum(len(play.collectives) for play in plays)
    text = f"{count} collectives in {sum(len(play.module.computations) for play in plays)} " \
        f"computations of {len(plays)} module" + ("s" if len(plays) > 1 else "")
    return text + (f", {placed} buffers with their places" if placed else "")


def read(paths, log, options):
    plays, places = [], {}
    for path in paths:
        if hlo_places.looks_like(lines.head(path)):
            places.update(hlo_places.parse(path))
            continue
        play = Play(hlo_text.parse(path))
        play.entry()
        plays.append(play)
    if not plays:
        raise Refused(f"{paths[0]}: a buffer assignment does not say what collectives use; give "
                      "the module's text (*after_optimizations.txt) beside it")
    placed = sum(hlo_places.settle(play.buffers, places) for play in plays)
    if places and not placed:
        raise Refused("the buffer assignment is of another module: no buffer of a collective is "
                      "in it")
    timelines = [timeline(play) for play in plays]
    if not any(rows or callers for rows, callers in timelines):
        raise Nothing("no collective is in it: the module sends nothing")
    write(log, timelines, options.steps)
    log.left_out.append("what no collective reads or writes")
    fused = sum(len(play.fused) for play in plays)
    if fused:
        log.notes.append(f"Of {fused} fusions with a collective in them all operands and results "
                         "are taken")
    if not all(play.module.scheduled for play in plays):
        log.notes.append("A module is not scheduled, so when buffers live is an estimate; dump "
                         "*after_optimizations.txt")
    log.lower.append("scratch memory of the network's own is not in it")
    return said(plays, placed)
