"""Operations: one thing that was started, and ends once."""
from __future__ import annotations

import dataclasses
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._library import ffi, lib
from .errors import Error, check, failure, result_failure

if TYPE_CHECKING:
    from .runtime import Runtime


_TAKEN = 64  # results at once


def nanoseconds(seconds: float | None) -> int:
    """A time for the library; None is for ever."""
    if seconds is None:
        return int(lib.TOW_FOREVER)
    if not seconds >= 0:
        raise ValueError(f"towline: {seconds} s is no time to wait")
    return min(int(seconds * 1e9), int(lib.TOW_FOREVER) - 1)


def patient(call: Callable[[int], int], timeout: float | None) -> int:
    """Waits by call(nanoseconds) for a second at a time, so that signals (ctrl-c) are dealt with
    meanwhile. The last wait is one of two seconds and more, whose message says why it waits."""
    until = None if timeout is None else time.monotonic() + nanoseconds(timeout) / 1e9
    while until is None or until - time.monotonic() > 3:
        status = call(1_000_000_000)
        if status != lib.TOW_ETIMEDOUT:
            return status
    return call(nanoseconds(max(0.0, until - time.monotonic())))


def sized(kind: str, **members: Any) -> Any:
    """A struct that begins with its size, with some members set."""
    return ffi.new(kind + " *", {"size": ffi.sizeof(kind), **members})


@dataclasses.dataclass(frozen=True)
class Result:
    """How an operation went: bytes and tag are of the message, `user` is the starter's number;
    `rank` is in the group, of a message of one."""

    status: int
    bytes: int
    tag: int
    latency_ns: int
    user: int
    error: Error | None
    rank: int | None = None


def result_of(found: Any, group: Any = None) -> Result:
    """The same of a struct tow_result; of a message of `group`."""
    rank = None if group is None else int(lib.tow_group_peer_rank(group, found.peer))
    return Result(found.status, found.bytes, found.tag, found.latency_ns,
                  int(ffi.cast("uintptr_t", found.user)), result_failure(found),
                  None if rank == lib.TOW_RANK_ANY else rank)


class Operations:
    """The operations of a runtime: their handles are none any more when it has been closed."""

    def __init__(self) -> None:
        self.closed = False
        self._lock = threading.Lock()
        self._known: weakref.WeakSet[Operation] = weakref.WeakSet()
        # In flight, with nobody to ask: what they use stays until they have ended.
        self._left: list[tuple[Any, object]] = []

    def add(self, operation: Operation) -> None:
        """One was started."""
        self._known.add(operation)
        if self._left:
            self.sweep()

    def drop(self, pointer: Any, keep: object) -> None:
        """Nobody has this handle any more."""
        if self.closed or self._released(pointer):
            return
        with self._lock:
            self._left.append((pointer, keep))

    def _released(self, pointer: Any) -> bool:
        if lib.tow_op_result(pointer, sized("struct tow_result")) == lib.TOW_AGAIN:
            return False
        lib.tow_op_release(pointer)
        return True

    def sweep(self) -> None:
        """Gives back those with nobody to ask that have ended."""
        with self._lock:
            if not self.closed:
                self._left = [row for row in self._left if not self._released(row[0])]

    def close(self) -> None:
        """The runtime is about to be closed: what has ended is given back first."""
        self.sweep()
        for operation in list(self._known):
            operation.leave()
        self.closed = True


class Operation:
    """One thing in flight. It keeps the memory that it uses; any thread may wait for it."""

    def __init__(self, home: Operations, pointer: Any, keep: object = None,
                 queued: bool = False, group: Any = None) -> None:
        self._home = home
        self.group = group  # the struct tow_group of a message
        self._pointer = pointer
        self._keep = keep
        self._queued = queued
        self._result: Result | None = None
        home.add(self)

    @property
    def pointer(self) -> Any:
        """The struct tow_op, for calls of `towline.lib`."""
        if self._home.closed:
            raise failure(lib.TOW_ECLOSED, "the runtime of the operation was closed")
        return self._pointer

    def wait(self, timeout: float | None = None) -> Result:
        """Waits until it has ended, and raises what has failed; DeadlineError after `timeout`."""
        if self._queued:
            raise failure(lib.TOW_EINVAL, "the result of this operation comes by its queue")
        pointer = self.pointer
        check(patient(lambda time: int(lib.tow_op_wait(pointer, time)), timeout))
        return self.result()

    def done(self) -> bool:
        """Whether it has ended, well or not; drives the runtime once."""
        if self._queued:
            return self._result is not None
        return bool(lib.tow_op_test(self.pointer) != lib.TOW_AGAIN)

    def result(self) -> Result:
        """How it went, when it has ended; InvalidError while it is in flight."""
        if self._result is None and not self._queued:
            found = sized("struct tow_result")
            if check(lib.tow_op_result(self.pointer, found)) == lib.TOW_OK:
                self._result = result_of(found, self.group)
        if self._result is None:
            raise failure(lib.TOW_EINVAL, "the operation is in flight, and has no result yet")
        return self._result

    def cancel(self) -> None:
        """Asks it to end early, with TOW_ECANCELED."""
        if self._result is None:
            check(lib.tow_op_cancel(self.pointer))

    def taken(self, result: Result) -> None:
        """Its queue has given its result: the handle is none any more."""
        self._pointer, self._result, self._keep = ffi.NULL, result, None

    def leave(self) -> None:
        """The handle is given back; what is in flight goes on, and keeps what it uses."""
        pointer, self._pointer = self._pointer, ffi.NULL
        # What is to come by a queue is the queue's.
        if not self._queued and pointer != ffi.NULL:
            self._home.drop(pointer, self._keep)

    def __del__(self) -> None:
        if lib is not None and hasattr(self, "_result"):
            self.leave()


def wait_all(operations: list[Operation], timeout: float | None = None) -> None:
    """Waits until all have ended, and raises the first failure of them."""
    pointers = ffi.new("struct tow_op *[]", [operation.pointer for operation in operations])
    check(patient(lambda time: int(lib.tow_wait_all(pointers, len(operations), time)), timeout))


class Queue:
    """Results of operations that were started with it, and one descriptor to sleep on (queue.h)."""

    def __init__(self, runtime: Runtime, room: int = 4096) -> None:
        out = ffi.new("struct tow_queue **")
        check(lib.tow_queue_open(runtime.pointer, room, out))
        self._home = runtime.operations
        self.pointer = out[0]
        number = ffi.new("int *")
        check(lib.tow_queue_fd(self.pointer, number))
        self._fd: int = number[0]
        self._lock = threading.Lock()
        self._started: dict[int, tuple[Operation, int]] = {}
        self._tickets = itertools.count(1)

    def fileno(self) -> int:
        """The descriptor: readable while there is a result."""
        return self._fd

    def start(self, call: Callable[[Any, Any], int], user: int, keep: object,
              group: Any = None) -> Operation:
        """Starts an operation whose result comes here: call(user pointer, op_out)."""
        out = ffi.new("struct tow_op **")
        with self._lock:
            ticket = next(self._tickets)
            check(call(ffi.cast("void *", ticket), out))
            operation = Operation(self._home, out[0], keep, queued=True, group=group)
            self._started[ticket] = operation, user
        return operation

    def take(self) -> list[Result]:
        """The results that are there, at most 64; an empty list when there is none."""
        found = ffi.new("struct tow_result[]", _TAKEN)
        count = ffi.new("size_t *")
        for row in range(_TAKEN):
            found[row].size = ffi.sizeof("struct tow_result")
        # Who starts one holds the lock until the operation is known here.
        with self._lock:
            check(lib.tow_queue_take(self.pointer, found, _TAKEN, count))
            return [self._finish(found[row]) for row in range(count[0])]

    def _finish(self, found: Any) -> Result:
        operation, user = self._started.pop(int(ffi.cast("uintptr_t", found.user)))
        result = dataclasses.replace(result_of(found, operation.group), user=user)
        check(lib.tow_op_release(found.op))
        operation.taken(result)
        return result

    def close(self) -> None:
        """Closes it; results that were not taken are dropped."""
        pointer, self.pointer = self.pointer, ffi.NULL
        if pointer != ffi.NULL:
            check(lib.tow_queue_close(pointer))
