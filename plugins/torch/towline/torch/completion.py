"""One thread takes what has ended, for all groups of a runtime, and tells the works."""
from __future__ import annotations

import contextlib
import itertools
import os
import select
import threading
from collections.abc import Callable
from typing import Any

from .._library import ffi, lib
from ..errors import check, result_failure
from .work import Look, Work

_ROOM = 1 << 16  # operations in flight; the knob max_ops bounds them, too
_TAKEN = 64


class Completions:
    """The queue of a runtime, and its thread."""

    def __init__(self, runtime: Any) -> None:
        out, number = ffi.new("struct tow_queue **"), ffi.new("int *")
        check(lib.tow_queue_open(runtime, _ROOM, out))
        self._queue = out[0]
        check(lib.tow_queue_fd(self._queue, number))
        self._lock = threading.Lock()
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

    def start(self, work: Work, call: Callable[[Any], int], look: Look | None) -> None:
        """Starts an operation of `work` whose result comes here: call(user) gives its status."""
        ticket = next(self._tickets)
        work.expect()
        self._works[ticket] = work, look
        try:
            check(call(ffi.cast("void *", ticket)))
        except BaseException:
            del self._works[ticket]
            work.one_ended()
            raise

    def _run(self) -> None:
        while True:
            ready = self._poll.poll()
            while self._take():
                pass
            if any(fd == self._stop[0] for fd, _ in ready):
                return

    def _take(self) -> int:
        for row in range(_TAKEN):
            self._results[row].size = ffi.sizeof("struct tow_result")
        if lib.tow_queue_take(self._queue, self._results, _TAKEN, self._count) != lib.TOW_OK:
            return 0
        ended = []
        for row in range(self._count[0]):
            found = self._results[row]
            work, look = self._works.pop(int(ffi.cast("uintptr_t", found.user)))
            if look is not None and found.status >= 0:
                look(work, found)
            ended.append((work, result_failure(found)))
            lib.tow_op_release(found.op)
        for work, error in ended:
            work.one_ended(error)
        return len(ended)

    def close(self) -> None:
        """Ends the thread; what is still in flight is not told of."""
        os.write(self._stop[1], b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for end in self._stop:
            with contextlib.suppress(OSError):
                os.close(end)
        lib.tow_queue_close(self._queue)
