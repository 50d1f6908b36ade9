"""Towline from Python: memory that moves without copies, groups of ranks, collectives, statistics.

    import numpy, towline

    with towline.Runtime() as runtime:
        group = towline.Group.open(runtime)          # the launcher says who is who
        x = runtime.empty(1 << 20, numpy.float32)    # an array in the pool
        x.fill(group.rank)
        group.all_reduce(x).wait()

docs/torch.md has more, and the backend for PyTorch: towline.torch.
"""
from __future__ import annotations

from ._library import ffi, lib
from .collectives import How
from .errors import (AbortedError, DeadlineError, Error, InvalidError, MismatchError, NoRoomError,
                     PeerError)
from .group import Exchange, Group
from .memory import Memory, Span, span
from .operation import Operation, Queue, Result, wait_all
from .runtime import Runtime, knob_names
from .tables import version

__all__ = ["AbortedError", "DeadlineError", "Error", "Exchange", "Group", "How", "InvalidError",
           "Memory", "MismatchError", "NoRoomError", "Operation", "PeerError", "Queue", "Result",
           "Runtime", "Span", "ffi", "knob_names", "lib", "span", "version", "wait_all"]
