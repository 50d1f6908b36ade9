"""The runtime of this process and the group of all ranks, which all process groups share."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

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


class Job:
    """A runtime, its group of all ranks, and the thread for what ends in it."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta,
                 shared: bool) -> None:
        self.runtime = Runtime(shared=shared)
        try:
            self.world = Group.open(self.runtime, rank=rank, world_size=size,
                                    timeout=timeout.total_seconds(),
                                    exchange=StoreExchange(store, rank) if size > 1 else None)
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
        with _lock:
            self._users += 1
        if first:
            return self.world
        try:
            return self.world.create(ranks, timeout=timeout.total_seconds())
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


def enter(store: Store, rank: int, size: int, ranks: Sequence[int],
          timeout: timedelta) -> tuple[Job, Group]:
    """The job and the group of a new process group. `ranks` are global ones; none: all.

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
        job = Job(store, rank, size, timeout, shared=_of_all(ranks))
        if _of_all(ranks):
            with _lock:
                _world = job
    return job, job.enter(first, ranks or range(size), timeout)


def runtime() -> Runtime | None:
    """The runtime of the process groups, if there is one."""
    return None if _world is None else _world.runtime
