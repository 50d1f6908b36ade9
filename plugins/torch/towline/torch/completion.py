"""What has ended is taken from one queue for all groups of a runtime, and the works are told: by a
thread that sleeps until something has ended, or by one that waits for a work. The latter drives the
library meanwhile, which is faster than to be woken twice."""
from __future__ import annotations

import contextlib
import itertools
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from .._library import ffi, lib
from ..errors import Error, check, result_failure
from .work import Look, Work

_ROOM = 1 << 16  # operations in flight; the knob max_ops bounds them, too
_TAKEN = 64
_TOLD = 0.01  # s for which a thread waits to be told by the one that drives
_SLICE = 0.002  # s for which one work is waited for before results of others are taken


class Completions:
    """The queue of a runtime, and its thread."""

    def __init__(self, runtime: Any) -> None:
        out, number = ffi.new("struct tow_queue **"), ffi.new("int *")
        check(lib.tow_queue_open(runtime, _ROOM, out))
        self._queue = out[0]
        check(lib.tow_queue_fd(self._queue, number))
        # Who holds it takes results; a handle is one until its result has been taken.
        self._taking = threading.Lock()
        self._guard = threading.Lock()
        self._works: dict[int, tuple[Work, Look | None]] = {}
        self._tickets = itertools.count(1)
        self._results = ffi.new("struct tow_result[]", _TAKEN)
        self._count = ffi.new("size_t *")
        self._stop = os.pipe()
        self._poll = select.poll()
        self._poll.register(number[0], select.POLLIN)
        self._poll.register(self._stop[0], select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="towline", daemon=True)
        self._thread.start()

    @property
    def queue(self) -> Any:
        """The struct tow_queue."""
        return self._queue

    def start(self, work: Work, call: Callable[[Any, Any], int], look: Look | None) -> None:
        """Starts an operation of `work` whose result comes here: call(user, op_out)."""
        ticket = next(self._tickets)
        out = ffi.new("struct tow_op **")
        work.expect()
        self._works[ticket] = work, look
        try:
            check(call(ffi.cast("void *", ticket), out))
        except BaseException:
            del self._works[ticket]
            work.one_ended()
            raise
        with self._guard:
            if ticket in self._works:
                work.handles[ticket] = out[0]

    def wait(self, work: Work, limit: float) -> bool:
        """Waits until `work` has ended, below 0 for ever, and tells others meanwhile."""
        until = time.monotonic() + limit
        while not work.done:
            left = until - time.monotonic() if limit >= 0 else _SLICE
            if left <= 0:
                return False
            if not self._taking.acquire(blocking=False):
                # Another thread drives. It may leave, and the queue's own thread may be this one.
                work.wait_told(min(left, _TOLD) if limit >= 0 else _TOLD)
                continue
            try:
                handle = next(iter(work.handles.values()), None)
                if handle is not None:
                    lib.tow_op_wait(handle, int(min(left, _SLICE) * 1e9))
                ended = self._take()
            finally:
                self._taking.release()
            self._tell(ended)
            if handle is None and not work.done:  # it is being started, or is told just now
                work.wait_told(min(left, _TOLD) if limit >= 0 else _TOLD)
        return True

    def _run(self) -> None:
        while True:
            ready = self._poll.poll()
            while True:
                with self._taking:
                    ended = self._take()
                if not ended:
                    break
                self._tell(ended)
            if any(fd == self._stop[0] for fd, _ in ready):
                return

    def _take(self) -> list[tuple[Work, Error | None]]:
        """What has ended; it is told without the lock, as callbacks may wait for other works."""
        for row in range(_TAKEN):
            self._results[row].size = ffi.sizeof("struct tow_result")
        if lib.tow_queue_take(self._queue, self._results, _TAKEN, self._count) != lib.TOW_OK:
            return []
        ended = []
        for row in range(self._count[0]):
            found = self._results[row]
            ticket = int(ffi.cast("uintptr_t", found.user))
            with self._guard:
                work, look = self._works.pop(ticket)
                work.handles.pop(ticket, None)
            if look is not None and found.status >= 0:
                look(work, found)
            ended.append((work, result_failure(found)))
            lib.tow_op_release(found.op)
        return ended

    @staticmethod
    def _tell(ended: list[tuple[Work, Error | None]]) -> None:
        for work, error in ended:
            work.one_ended(error)

    def close(self) -> None:
        """Ends the thread; what is still in flight is not told of."""
        os.write(self._stop[1], b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for end in self._stop:
            with contextlib.suppress(OSError):
                os.close(end)
        lib.tow_queue_close(self._queue)
