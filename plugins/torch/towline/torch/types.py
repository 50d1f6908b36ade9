"""What torch's elements and operators are to the library."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .._library import lib
from ..memory import _TYPES

_BYTES = int(lib.TOW_U8)
_NUMBERS: dict[torch.dtype, int] = {
    getattr(torch, name): int(getattr(lib, number))
    for name, number in _TYPES.items() if hasattr(torch, name)}

_OPERATORS: dict[Any, str] = {
    dist.ReduceOp.SUM: "TOW_SUM", dist.ReduceOp.PRODUCT: "TOW_PROD", dist.ReduceOp.MIN: "TOW_MIN",
    dist.ReduceOp.MAX: "TOW_MAX", dist.ReduceOp.BAND: "TOW_AND", dist.ReduceOp.BOR: "TOW_OR",
    dist.ReduceOp.BXOR: "TOW_XOR", dist.ReduceOp.AVG: "TOW_AVG"}


def moved(dtype: torch.dtype) -> tuple[int, int]:
    """The type by which elements are moved, and how many of it one is: any dtype can be moved."""
    number = _NUMBERS.get(dtype)
    return (_BYTES, dtype.itemsize) if number is None else (number, 1)


def reduced(dtype: torch.dtype, call: str) -> int:
    """The type by which elements are reduced."""
    number = _NUMBERS.get(dtype)
    if number is None:
        raise TypeError(f"towline {call}: elements of {dtype} cannot be reduced, only moved")
    return number


def operator(op: Any, call: str) -> tuple[int, float]:
    """The library's operator, and what elements are multiplied by before it; 0: nothing."""
    if op == dist.ReduceOp.PREMUL_SUM:
        factor = op.__getstate__()[1]
        scale = float(factor)
        # The library's 0 is "not set".
        if scale == 0:
            raise ValueError(f"towline {call}: PREMUL_SUM by 0")
        return int(lib.TOW_SUM), scale
    for known, name in _OPERATORS.items():
        if op == known:
            return int(getattr(lib, name)), 0.0
    raise ValueError(f"towline {call}: there is no operator {op}")
