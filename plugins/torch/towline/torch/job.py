"""The runtime of this process and the group of all ranks, which all process groups share."""
from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from .._library import lib
from ..errors import InvalidError, failure
from ..group import Group
from ..runtime import Runtime
from .completion import Completions
from .work import Work


class StoreExchange:
    """c10d's store, by which ranks find rank 0. Each opening has keys of its own: a store may
    outlive a process group, and its keys with it."""

    def __init__(self, store: Store, rank: int) -> None:
        base = PrefixStore("towline", store)
        # All ranks open equally often, so this number is the same at each of them.
        number = base.add(f"opened/{rank}", 1)
        self._store = PrefixStore(str(number), base)

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)  # type: ignore[arg-type]  # any bytes

    def get(self, key: str, timeout: float) -> bytes:
        self._store.wait([key], timedelta(seconds=timeout))
        value: bytes = self._store.get(key)
        return value


_LAUNCHERS = (("TOW_RANK", "TOW_WORLD_SIZE"), ("RANK", "WORLD_SIZE"))


def _launched(rank: int, size: int) -> bool:
    """Whether the launcher, whose variables the library reads, says what c10d says."""
    for names in _LAUNCHERS:
        said = [os.environ.get(name, "") for name in names]
        if any(said):
            return said == [str(rank), str(size)]
    return False


def _name(store: Store, group: str) -> str:
    """What rank 0 calls a job that no launcher has named: after the port of its store."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    number = getattr(store, "port", 0) or os.getpid()
    # A group of some ranks that is a job of its own is one beside others of the same store.
    return f"torch-{number}" + (f"-{group[:8]}" if group else "")


def _identity(store: Store, exchange: StoreExchange | None, rank: int, size: int, group: str,
              timeout: timedelta) -> dict[str, Any]:
    """The knobs by which tools tell this process from others: rank, and name of the job.

    They are the launcher's where it has started these ranks, and else c10d's. All ranks call the
    job as rank 0 does, since names of jobs are compared.
    """
    name = ""
    if rank == 0 and not os.environ.get("TOW_JOB") and not _launched(rank, size):
        name = _name(store, group)
    if exchange is not None and rank == 0:
        exchange.put("job", name.encode())
    elif exchange is not None:
        try:
            name = exchange.get("job", timeout.total_seconds()).decode()
        except Exception as wrong:
            raise failure(lib.TOW_EDEADLINE,
                          f"rank 0 has not come to the job: {wrong}") from wrong
    knobs: dict[str, Any] = {"job": name} if name else {}
    if not _launched(rank, size):
        knobs["rank"] = rank
    return knobs


def _open_runtime(shared: bool, knobs: dict[str, Any]) -> Runtime:
    try:
        return Runtime(shared=shared, **knobs)
    except InvalidError:
        # The one that the process shares may be there, and have another name.
        return Runtime(shared=shared)


class Job:
    """A runtime, its group of all ranks, and the thread for what ends in it."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta,
                 group: str, shared: bool) -> None:
        exchange = StoreExchange(store, rank) if size > 1 else None
        self.runtime = _open_runtime(shared, _identity(store, exchange, rank, size, group,
                                                       timeout))
        try:
            self.world = Group.open(self.runtime, rank=rank, world_size=size,
                                    timeout=timeout.total_seconds(), exchange=exchange)
            self.completions = Completions(self.runtime.pointer)
        except BaseException:
            self.runtime.close()
            raise
        self._users = 0
        # Works that c10d may have dropped, whose tensors are in use.
        self._open: set[Work] = set()

    def hold(self, work: Work) -> None:
        """It is in flight."""
        self._open.add(work)

    def collectives(self, group: object) -> list[Work]:
        """Those of a process group that are in flight."""
        return [work for work in self._open.copy() if work.group is group]

    def ended(self, work: Work) -> None:
        """It is not any more."""
        self._open.discard(work)

    def sweep(self) -> None:
        """Looks after direct works that nobody has waited for."""
        if len(self._open) > 64:
            for work in list(self._open):
                work.over()

    def enter(self, first: bool, ranks: Sequence[int], timeout: timedelta) -> Group:
        """A process group is made, by its members alone; the first is that of all ranks.

        Members find each other by their list, and not by c10d's name of the group.
        """
        if first:
            with _lock:
                self._users += 1
            return self.world
        return self.create(self.world, ranks, timeout)

    def create(self, parent: Group, ranks: Sequence[int], timeout: timedelta) -> Group:
        """The same of some ranks of another group of the job."""
        with _lock:
            self._users += 1
        try:
            return parent.create(ranks, timeout=timeout.total_seconds())
        except BaseException:
            self.leave(None)
            raise

    def leave(self, group: Group | None) -> None:
        """A process group has ended; with the last one the job ends."""
        global _world
        if group is not None and group is not self.world:
            group.close()
        with _lock:
            self._users -= 1
            if self._users != 0:
                return
            if self is _world:
                _world = None
        self.world.close()
        self.completions.close()
        self.runtime.close()


_lock = threading.Lock()
_world: Job | None = None


def _of_all(ranks: Sequence[int]) -> bool:
    """Whether a process group is one of all ranks; c10d names none for the first one."""
    return not ranks or dist.is_initialized() and list(ranks) == list(range(dist.get_world_size()))


def enter(store: Any, rank: int, size: int, ranks: Sequence[int], timeout: timedelta,
          name: str) -> tuple[Job, Group]:
    """The job and the group of a new process group. `ranks` are global ones; none: all. `name` is
    c10d's of the group.

    The first group of all ranks opens the job, of which the others are made. A group of some ranks
    of a program whose group of all ranks is another backend's has a runtime of its own, since those
    that are not in it do not take part.
    """
    global _world
    first = False
    with _lock:
        job = _world
    if job is None:
        first = True
        # All ranks make their first group of all ranks before another one of it, so no two threads
        # do this at once.
        whole = _of_all(ranks)
        job = Job(store, rank, size, timeout, "" if whole else name, shared=whole)
        if _of_all(ranks):
            with _lock:
                _world = job
    return job, job.enter(first, ranks or range(size), timeout)


def runtime() -> Runtime | None:
    """The runtime of the process groups, if there is one."""
    return None if _world is None else _world.runtime
