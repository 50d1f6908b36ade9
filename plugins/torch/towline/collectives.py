"""Collectives (coll.h): each method starts one, and returns the operation to wait for.

Every rank of the group starts the same ones in the same order. Arrays are contiguous; those of the
pool (Runtime.empty) are not copied. What a method returns is to be waited for before its arrays are
used: `group.all_reduce(x).wait()`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ._library import ffi, lib
from .errors import check
from .memory import Span, span
from .operation import Operation, Queue, nanoseconds, sized
from .runtime import Runtime

_REDUCES = {"sum": "TOW_SUM", "prod": "TOW_PROD", "min": "TOW_MIN", "max": "TOW_MAX",
            "avg": "TOW_AVG", "and": "TOW_AND", "or": "TOW_OR", "xor": "TOW_XOR"}


def reduce_number(name: str) -> int:
    """The number of an operator by its name: "sum", "prod", "min", "max", "avg", "and", ..."""
    if name not in _REDUCES:
        raise ValueError(f"towline: no operator is named {name!r}; there are {', '.join(_REDUCES)}")
    number: int = getattr(lib, _REDUCES[name])
    return number


class How:
    """How to start a collective, as struct tow_coll_options has it.

    timeout: seconds; None: the knob coll_timeout_ns. scale: what this rank's elements of a
    reduction are multiplied by first. name: for diagnostics, of at most 31 bytes. With `queue` the
    result goes there, with the number `user`.
    """

    def __init__(self, *, timeout: float | None = None, priority: int = 0, plan: str | None = None,
                 name: str | None = None, scale: float = 0.0, queue: Queue | None = None,
                 user: int = 0) -> None:
        self._texts = [ffi.NULL if word is None else ffi.new("char[]", word.encode())
                       for word in (plan, name)]
        self.struct = sized(
            "struct tow_coll_options", timeout_ns=0 if timeout is None else nanoseconds(timeout),
            priority=priority, plan=self._texts[0], name=self._texts[1], scale=scale,
            queue=ffi.NULL if queue is None else queue.pointer)
        self.queue, self.user = queue, user


def _numbers(values: Sequence[int] | None) -> Any:
    return ffi.NULL if values is None else ffi.new("uint64_t[]", list(values))


def _whole(what: Span, parts: int, call: str) -> int:
    if what.count % parts != 0:
        raise ValueError(f"towline: {call}: {what.count} elements are not the same for each of "
                         f"{parts} ranks")
    return what.count // parts


def _same(a: Span, b: Span, call: str) -> None:
    if a.type != b.type:
        raise ValueError(f"towline: {call}: the arrays have elements of different types")


class Collectives:
    """The collectives of a group; `Group` is one."""

    runtime: Runtime
    size: int

    @property
    def pointer(self) -> Any:
        """The struct tow_group."""
        raise NotImplementedError

    def _start(self, call: str, *arguments: Any, how: dict[str, Any], keep: object) -> Operation:
        options = How(**how)
        start = getattr(lib, f"tow_coll_{call}_start")

        def begin(user: Any, out: Any) -> int:
            options.struct.user = user
            status: int = start(self.pointer, *arguments, options.struct, out)
            return status

        if options.queue is not None:
            return options.queue.start(begin, options.user, keep)
        out = ffi.new("struct tow_op **")
        check(begin(ffi.NULL, out))
        return Operation(self.runtime.operations, out[0], keep)

    def all_reduce(self, data: Any, out: Any = None, op: str = "sum", **how: Any) -> Operation:
        """Every rank gets the reduction of all `data`; into `data` itself without `out`."""
        result = span(data if out is None else out, write=True)
        source = result if out is None else span(data)
        _same(source, result, "all_reduce")
        if source.count != result.count:
            raise ValueError(f"towline: all_reduce: {source.count} elements do not fit into "
                             f"{result.count}")
        return self._start("all_reduce", source.pointer, result.pointer, result.count, result.type,
                           reduce_number(op), how=how, keep=(source, result))

    def reduce_scatter(self, data: Any, out: Any, op: str = "sum", **how: Any) -> Operation:
        """Rank r gets part r of the reduction; `data` has a part for each rank."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "reduce_scatter")
        if _whole(source, self.size, "reduce_scatter") != result.count:
            raise ValueError(f"towline: reduce_scatter: {source.count} elements of {self.size} "
                             f"ranks do not make {result.count} for each")
        return self._start("reduce_scatter", source.pointer, result.pointer, result.count,
                           result.type, reduce_number(op), how=how, keep=(source, result))

    def all_gather(self, data: Any, out: Any, **how: Any) -> Operation:
        """Every rank gets the elements of every rank, one after another."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "all_gather")
        if _whole(result, self.size, "all_gather") != source.count:
            raise ValueError(f"towline: all_gather: {source.count} elements of {self.size} ranks "
                             f"do not fill {result.count}")
        return self._start("all_gather", source.pointer, result.pointer, source.count, source.type,
                           how=how, keep=(source, result))

    def all_gather_v(self, data: Any, out: Any, counts: Sequence[int],
                     offsets: Sequence[int] | None = None, **how: Any) -> Operation:
        """The same with counts[r] elements of rank r, at offsets[r] of `out`."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "all_gather_v")
        self._check_parts("all_gather_v", counts, offsets, result)
        return self._start("all_gather_v", source.pointer, result.pointer, _numbers(counts),
                           _numbers(offsets), source.type, how=how, keep=(source, result))

    def broadcast(self, data: Any, root: int, **how: Any) -> Operation:
        """Every rank's `data` becomes that of rank `root`."""
        result = span(data, write=True)
        return self._start("broadcast", result.pointer, result.count, result.type, root, how=how,
                           keep=result)

    def reduce(self, data: Any, out: Any, root: int, op: str = "sum", **how: Any) -> Operation:
        """Rank `root` gets the reduction in `out`, which may be `data`; others give None."""
        source = span(data)
        result = source if out is None else span(out, write=True)
        _same(source, result, "reduce")
        return self._start("reduce", source.pointer, result.pointer, source.count, source.type,
                           reduce_number(op), root, how=how, keep=(source, result))

    def gather(self, data: Any, out: Any, root: int, **how: Any) -> Operation:
        """Rank `root` gets the elements of every rank in `out`; others give None."""
        source = span(data)
        result = None if out is None else span(out, write=True)
        if result is not None and _whole(result, self.size, "gather") != source.count:
            raise ValueError(f"towline: gather: {source.count} elements of {self.size} ranks do "
                             f"not fill {result.count}")
        return self._start("gather", source.pointer, ffi.NULL if result is None else result.pointer,
                           source.count, source.type, root, how=how, keep=(source, result))

    def scatter(self, data: Any, out: Any, root: int, **how: Any) -> Operation:
        """Rank r gets part r of the root's `data`; others give None."""
        source = None if data is None else span(data)
        result = span(out, write=True)
        if source is not None and _whole(source, self.size, "scatter") != result.count:
            raise ValueError(f"towline: scatter: {source.count} elements are not "
                             f"{result.count} for each of {self.size} ranks")
        return self._start("scatter", ffi.NULL if source is None else source.pointer,
                           result.pointer, result.count, result.type, root, how=how,
                           keep=(source, result))

    def all_to_all(self, data: Any, out: Any, **how: Any) -> Operation:
        """Part p of `data` goes to rank p, and part p of `out` is rank p's."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "all_to_all")
        if source.count != result.count:
            raise ValueError("towline: all_to_all: the arrays have different lengths")
        return self._start("all_to_all", source.pointer, result.pointer,
                           _whole(source, self.size, "all_to_all"), source.type, how=how,
                           keep=(source, result))

    def all_to_all_v(self, data: Any, send_counts: Sequence[int], out: Any,
                     receive_counts: Sequence[int], *, send_offsets: Sequence[int] | None = None,
                     receive_offsets: Sequence[int] | None = None, **how: Any) -> Operation:
        """The same with parts of any length, in elements."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "all_to_all_v")
        self._check_parts("all_to_all_v", send_counts, send_offsets, source)
        self._check_parts("all_to_all_v", receive_counts, receive_offsets, result)
        lists = [_numbers(send_counts), _numbers(send_offsets), _numbers(receive_counts),
                 _numbers(receive_offsets)]
        send = ffi.new("struct tow_coll_parts *", {"counts": lists[0], "offsets": lists[1]})
        receive = ffi.new("struct tow_coll_parts *", {"counts": lists[2], "offsets": lists[3]})
        return self._start("all_to_all_v", source.pointer, send, result.pointer, receive,
                           source.type, how=how, keep=(source, result))

    def permute(self, data: Any, out: Any, pairs: Sequence[tuple[int, int]],
                **how: Any) -> Operation:
        """Each pair's target gets the elements of its source; `out` of others becomes zeros."""
        source, result = span(data), span(out, write=True)
        _same(source, result, "permute")
        if source.count != result.count:
            raise ValueError("towline: permute: the arrays have different lengths")
        rows = ffi.new("struct tow_coll_pair[]", [{"source": a, "target": b} for a, b in pairs])
        return self._start("permute", source.pointer, result.pointer, source.count, source.type,
                           rows, len(pairs), how=how, keep=(source, result))

    def send_receive(self, data: Any, target: int | None, out: Any, source: int | None,
                     **how: Any) -> Operation:
        """Sends `data` to one rank, and receives `out` from one; every rank calls it."""
        given = None if target is None else span(data)
        taken = None if source is None else span(out, write=True)
        known = given or taken or Span(0, 0, int(lib.TOW_U8))
        if given and taken and (given.count != taken.count or given.type != taken.type):
            raise ValueError("towline: send_receive: the arrays are not of one length and type")
        none = int(lib.TOW_GROUP_NONE)
        return self._start("send_receive", given.pointer if given else ffi.NULL,
                           none if target is None else target,
                           taken.pointer if taken else ffi.NULL,
                           none if source is None else source, known.count, known.type, how=how,
                           keep=(given, taken))

    def barrier(self, **how: Any) -> Operation:
        """Ends when every rank has started it."""
        return self._start("barrier", how=how, keep=None)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """What is started within is issued at its end, small all-reduces as one."""
        check(lib.tow_coll_batch_begin(self.pointer))
        try:
            yield
        finally:
            check(lib.tow_coll_batch_end(self.pointer))

    def _check_parts(self, call: str, counts: Sequence[int], offsets: Sequence[int] | None,
                     room: Span) -> None:
        if len(counts) != self.size or offsets is not None and len(offsets) != self.size:
            raise ValueError(f"towline: {call}: there is not one count for each of {self.size} "
                             "ranks")
        ends = ([sum(counts)] if offsets is None
                else [at + count for at, count in zip(offsets, counts)])
        if min(counts) < 0 or offsets is not None and min(offsets) < 0 or max(ends) > room.count:
            raise ValueError(f"towline: {call}: the parts do not lie within {room.count} elements")
