"""Works: what c10d waits for. One stands for one or more operations of the library.

A *direct* work is waited for by its caller at once, who drives the library meanwhile. The
operations of any other end in the queue of the runtime, from which one thread takes them
(completion.py), so that futures are set while nobody waits.
"""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .._library import lib
from ..errors import Error, failure, result_failure
from ..operation import patient, sized
from .errors import backend_error

if TYPE_CHECKING:
    from .job import Job

_asked = threading.local()
# What a call wants of the result of an operation that has ended well.
Look = Callable[["Work", Any], None]


class Work(dist.Work):
    """Operations that were started together, and the tensors that they use."""

    def __init__(self, job: Job, name: str, results: Sequence[torch.Tensor],
                 keep: object = None, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.name = name
        self.direct = False
        self.operations: list[tuple[Any, Look | None]] = []  # of a direct one
        self.handles: dict[int, Any] = {}  # of any other, by the tickets of completion.py
        self.group: object = None  # the backend of a collective
        self.source = -1
        self.error: Exception | None = None
        self.results = list(results)
        self._job = job
        self._keep = keep
        self._finish = finish
        self._open = 1  # operations, and whoever starts them
        self._guard = threading.Lock()
        self._waits = threading.Lock()  # one thread waits for the operations of a direct one
        self._ended = threading.Lock()  # held until it has ended
        self._ended.acquire()
        self.done = False
        self._future: torch.futures.Future[Any] | None = None

    # Called by whoever starts it, and by the thread that takes what has ended.

    def expect(self) -> None:
        """One more operation was started."""
        with self._guard:
            self._open += 1

    def one_ended(self, error: Error | None = None) -> None:
        """An operation has ended, or all have been started."""
        if error is not None and self.error is None:
            self.error = backend_error(error, self.name)
        with self._guard:
            self._open -= 1
            if self._open != 0:
                return
        self._end()

    def _end(self) -> None:
        try:
            if self.error is None and self._finish is not None:
                self._finish()
        except Exception as wrong:  # told to whoever waits
            self.error = wrong
        self._keep = self._finish = None
        with self._guard:
            self.done = True
            future = self._future
        self._job.ended(self)
        self._ended.release()
        if future is not None:
            future.set_result(self)

    # Called by c10d and by users.

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until it has ended, and raises what has failed. A timeout of 0 is none."""
        limit = timeout.total_seconds() if timeout > timedelta(0) else -1.0
        if not self.done and not (self._wait_direct(limit) if self.direct
                                  else self._job.completions.wait(self, limit)):
            raise backend_error(failure(
                lib.TOW_ETIMEDOUT, f"not over within {limit:g} s; it goes on"), self.name)
        if self.error is not None:
            raise self.error
        return True

    def wait_told(self, limit: float) -> bool:
        """Waits for the thread that takes what has ended."""
        if not self._ended.acquire(timeout=limit):
            return False
        self._ended.release()
        return True

    def _wait_direct(self, limit: float) -> bool:
        """Waits for the operations, and drives them; other threads wait for the one that does."""
        if not self._waits.acquire(timeout=limit):
            return False
        try:
            while self.operations:
                operation, look = self.operations[-1]
                if patient(functools.partial(lib.tow_op_wait, operation),
                           None if limit < 0 else limit) == lib.TOW_ETIMEDOUT:
                    return False
                self.operations.pop()
                self.one_ended(self._released(operation, look))
        finally:
            self._waits.release()
        return True

    def _released(self, operation: Any, look: Look | None) -> Error | None:
        """Gives back an operation that has ended, and tells its failure."""
        found = sized("struct tow_result")
        lib.tow_op_result(operation, found)
        if look is not None and found.status >= 0:
            look(self, found)
        error = result_failure(found)
        lib.tow_op_release(operation)
        return error

    def over(self) -> bool:
        """Whether it has ended, without waiting."""
        if not self.done and self.direct and self._waits.acquire(blocking=False):
            try:
                while self.operations:
                    operation, look = self.operations[-1]
                    if lib.tow_op_test(operation) == lib.TOW_AGAIN:
                        break
                    self.operations.pop()
                    self.one_ended(self._released(operation, look))
            finally:
                self._waits.release()
        return self.done

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the tensors, which fails with the library's text."""
        _asked.work = self
        with self._guard:
            made = self._future is None
            if self._future is None:
                self._future = torch.futures.Future()
                self._told = self._future.then(_value)
            done = self.done
        if made and done:
            self._future.set_result(self)
        elif made and self.direct and not self.over():
            # Nobody may wait for it any more: that is what its future is for.
            threading.Thread(target=self._wait_direct, args=(-1.0,), daemon=True).start()
        return self._told

    def is_completed(self) -> bool:
        return self.over()

    def is_success(self) -> bool:
        return self.over() and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> list[torch.Tensor]:
        return self.results

    def source_rank(self) -> int:
        return self.source

    _source_rank = source_rank

    def synchronize(self) -> None:
        self.wait()


def _value(future: torch.futures.Future[Any]) -> list[torch.Tensor]:
    work = future.value()
    if work.error is not None:
        raise work.error
    results: list[torch.Tensor] = work.results
    return results


def _own(holder: Any) -> Work | None:
    """The Work that c10d holds in `holder`, if it is one of ours."""
    _asked.work = None
    try:
        dist.Work.get_future(holder)
    except Exception:  # another backend's may have none
        return None
    found: Work | None = _asked.work
    _asked.work = None
    return found


_FORWARDED = ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank",
              "synchronize")


def forward_questions() -> None:
    """c10d hands out a Work of Python's in a holder of its own that passes on `wait` and
    `get_future` alone: is_completed would stay False for ever. This lets the others ask ours."""
    for name in _FORWARDED:
        original = getattr(dist.Work, name, None)
        if original is not None and not hasattr(original, "towline"):
            setattr(dist.Work, name, _forwarding(name, original))


def _forwarding(name: str, original: Any) -> Any:
    def asked(self: Any) -> Any:
        if type(self) is dist.Work:
            ours = _own(self)
            if ours is not None:
                return getattr(ours, name)()
        return original(self)

    asked.__name__ = name
    asked.__doc__ = original.__doc__
    asked.towline = True  # type: ignore[attr-defined]
    return asked
