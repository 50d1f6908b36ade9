"""Towline as a backend of torch.distributed, by the name "towline".

    torch.distributed.init_process_group("towline")     # torch 2.14 and later find it by themselves
    import towline.torch                                # older ones need this line before

docs/torch.md says what it does, and what it does not.
"""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import job as _jobs
from . import work as _work
from .backend import Backend
from .tensors import empty as _empty

__all__ = ["Backend", "empty", "register", "runtime"]


def _create(opts: Any, _options: object = None) -> Backend:
    return Backend(opts.store, opts.group_rank, opts.group_size, opts.timeout, opts.group_id,
                   list(opts.global_ranks_in_group), getattr(opts, "process_group", None))


def register() -> None:
    """Makes the backend known to torch.distributed; nothing happens the second time."""
    if "TOWLINE" not in dist.Backend._plugins:
        dist.Backend.register_backend("towline", _create, extended_api=True, devices=["cpu"])
        _work.forward_questions()


def runtime() -> Any:
    """The towline.Runtime of the process groups: its counters, its pool. None without a group."""
    return _jobs.runtime()


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor in the pool of the process groups, not cleared: it moves without copies."""
    found = _jobs.runtime()
    if found is None:
        raise RuntimeError("towline: there is no process group yet, and so no pool")
    count = 1
    for size in shape:
        count *= size
    return _empty(found.pointer, count, dtype).view(shape)


register()
