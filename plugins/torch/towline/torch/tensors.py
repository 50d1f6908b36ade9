"""Memory of tensors: which ones can be moved as they lie, and flat copies of lists of them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._library import ffi
from ..errors import NoRoomError
from ..memory import Memory


def pointer(tensor: torch.Tensor) -> Any:
    """Where it lies."""
    return ffi.cast("void *", tensor.data_ptr())


def empty(runtime: Any, count: int, dtype: torch.dtype) -> torch.Tensor:
    """A flat tensor in the pool, not cleared; outside of it where there is no room."""
    size = count * dtype.itemsize
    if size == 0:
        return torch.empty(count, dtype=dtype)
    try:
        memory = Memory(runtime, size)
    except NoRoomError:
        return torch.empty(count, dtype=dtype)
    return torch.frombuffer(ffi.buffer(memory.owned, size), dtype=dtype)


def check(call: str, *tensors: torch.Tensor) -> None:
    """Refuses what cannot be moved as it lies."""
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise ValueError(f"towline {call}: a tensor of layout {tensor.layout} cannot be moved; "
                             "sparse tensors are not supported, to_dense() makes it one that is")
        if tensor.device.type != "cpu":
            raise ValueError(f"towline {call}: a tensor on {tensor.device} cannot be moved; this "
                             "backend is for tensors of the CPU")
        if not tensor.is_contiguous() and not _dense(tensor):
            raise ValueError(f"towline {call}: a tensor of shape {tuple(tensor.shape)} and strides "
                             f"{tensor.stride()} is not contiguous; contiguous() copies it")
        if tensor.is_conj() or tensor.is_neg():
            raise ValueError(f"towline {call}: a tensor has its conjugation or sign pending; "
                             "resolve_conj() and resolve_neg() carry it out")


def _dense(tensor: torch.Tensor) -> bool:
    """In the order of channels, which all ranks have alike."""
    return (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
            or tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d))


def check_plain(call: str, *tensors: torch.Tensor) -> None:
    """The same for tensors that are cut into parts, or are parts."""
    check(call, *tensors)
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise ValueError(f"towline {call}: a tensor in the order of its channels is not "
                             "contiguous; contiguous() copies it")


def one_dtype(call: str, tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """The dtype that all of them have."""
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != dtype:
            raise ValueError(f"towline {call}: tensors of {dtype} and of {tensor.dtype}")
    return dtype


class Flat:
    """A list of tensors as one piece of memory: as it lies where they follow each other, else of
    the pool, with a copy in (`load`) or out (`store`)."""

    def __init__(self, runtime: Any, tensors: Sequence[torch.Tensor]) -> None:
        self.parts = list(tensors)
        self.counts = [part.numel() for part in self.parts]
        self.dtype = self.parts[0].dtype
        at = self.parts[0].data_ptr()
        self._lies = True
        for part in self.parts:
            self._lies = self._lies and (part.data_ptr() == at or part.numel() == 0)
            at += part.numel() * self.dtype.itemsize
        self.whole = (self.parts[0] if self._lies
                      else empty(runtime, sum(self.counts), self.dtype))

    def load(self) -> None:
        """Copies the parts in."""
        if not self._lies:
            torch.cat([part.reshape(-1) for part in self.parts], out=self.whole)

    def store(self) -> None:
        """Copies the parts out."""
        if not self._lies:
            pieces = self.whole.split(self.counts)  # type: ignore[no-untyped-call]
            for part, piece in zip(self.parts, pieces):
                part.copy_(piece.view(part.shape))
