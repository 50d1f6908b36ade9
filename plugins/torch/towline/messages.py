"""Messages between the ranks of a group (group_message.h). A group has tags of its own."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._library import ffi, lib
from .errors import check
from .memory import span
from .operation import Operation, Queue, Result, nanoseconds, result_of, sized
from .runtime import Runtime

_ALL = 0xFFFFFFFFFFFFFFFF


def _match(rank: int | None, tag: int, mask: int) -> Any:
    return sized("struct tow_group_match", rank=lib.TOW_RANK_ANY if rank is None else rank,
                 tag=tag, tag_mask=mask)


class Messages:
    """The messages of a group; `Group` is one."""

    runtime: Runtime

    @property
    def pointer(self) -> Any:
        """The struct tow_group."""
        raise NotImplementedError

    def send(self, data: Any, rank: int, tag: int = 0, *, timeout: float | None = None,
             queue: Queue | None = None, user: int = 0) -> Operation:
        """Starts to send an array to a rank, which may be this one; connects to it if need be."""
        given = span(data, type=lib.TOW_U8)
        return self._begin(lambda options, out: lib.tow_group_send_start(
            self.pointer, rank, given.pointer, given.count, tag, options, out),
            given, timeout, 0, queue, user)

    def recv(self, out: Any, rank: int | None = None, tag: int = 0, *, mask: int = _ALL,
             truncate: bool = False, timeout: float | None = None, queue: Queue | None = None,
             user: int = 0) -> Operation:
        """Starts to receive the next message of a rank, of any where it is None, into an array.

        Only those bits of the tag count that are set in `mask`; 0 is any tag. The result has its
        bytes, tag and rank. A longer one fails, unless `truncate` lets the rest be dropped.
        """
        taken = span(out, write=True, type=lib.TOW_U8)
        match = _match(rank, tag, mask)
        part = ffi.new("struct tow_part *", {"data": taken.pointer, "bytes": taken.count})
        return self._begin(lambda options, out: lib.tow_group_recv_match_start(
            self.pointer, match, part, 1, options, out),
            taken, timeout, int(lib.TOW_OP_TRUNCATE) if truncate else 0, queue, user)

    def probe(self, rank: int | None = None, tag: int = 0, *, mask: int = _ALL) -> Result | None:
        """The message that a receive would take now, if one has come: its bytes, tag and rank."""
        found = sized("struct tow_result")
        status = check(lib.tow_group_probe(self.pointer, _match(rank, tag, mask), found))
        return None if status == lib.TOW_AGAIN else result_of(found, self.pointer)

    def _begin(self, start: Callable[[Any, Any], int], keep: object, timeout: float | None,
               flags: int, queue: Queue | None, user: int) -> Operation:
        options = sized("struct tow_op_options", timeout_ns=nanoseconds(timeout), flags=flags,
                        queue=ffi.NULL if queue is None else queue.pointer)

        def begin(key: Any, out: Any) -> int:
            options.user = key
            return start(options, out)

        if queue is not None:
            return queue.start(begin, user, keep, self.pointer)
        out = ffi.new("struct tow_op **")
        check(begin(ffi.NULL, out))
        return Operation(self.runtime.operations, out[0], keep, group=self.pointer)
