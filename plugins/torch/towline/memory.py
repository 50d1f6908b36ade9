"""Memory of the pool, and memory of a caller's as the library's calls want it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from ._library import ffi, lib
from .errors import check


class Memory:
    """Bytes of a runtime's pool. They are freed when the last array of them is dropped.

    It has DLPack as an array of bytes: torch.from_dlpack(memory) shares it, too.
    """

    def __init__(self, runtime: Any, count: int, align: int = 0) -> None:
        out = ffi.new("void **")
        check(lib.tow_alloc(runtime, count, align, out))
        self.bytes = count
        self.owned = ffi.gc(out[0], lambda memory: lib.tow_free(runtime, memory))

    @property
    def address(self) -> int:
        """Where it lies."""
        return int(ffi.cast("uintptr_t", self.owned))

    def array(self, dtype: Any = numpy.uint8) -> numpy.ndarray[Any, Any]:
        """All of it as a flat array, which keeps it alive."""
        kind = numpy.dtype(dtype)
        if self.bytes == 0:
            return numpy.empty(0, kind)
        # The buffer knows the owned pointer, and the array knows the buffer.
        return numpy.frombuffer(ffi.buffer(self.owned, self.bytes), kind)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array().__dlpack_device__()


@dataclass
class Span:
    """Memory as the calls take it: an address, how many elements of which type, and its owner."""

    address: int
    count: int
    type: int
    owner: object = None
    writable: bool = True

    @property
    def pointer(self) -> Any:
        """The address as cffi has it."""
        return ffi.cast("void *", self.address)


_TYPES = {"float32": "TOW_F32", "float64": "TOW_F64", "float16": "TOW_F16", "bfloat16": "TOW_BF16",
          "float8_e4m3fn": "TOW_F8E4M3", "float8_e5m2": "TOW_F8E5M2", "int8": "TOW_S8",
          "int16": "TOW_S16", "int32": "TOW_S32", "int64": "TOW_S64", "uint8": "TOW_U8",
          "uint16": "TOW_U16", "uint32": "TOW_U32", "uint64": "TOW_U64", "bool": "TOW_BOOL",
          "complex64": "TOW_C64", "complex128": "TOW_C128"}


def type_number(name: str) -> int:
    """The library's type of a dtype by its name, as numpy, ml_dtypes and torch have it."""
    if name not in _TYPES:
        raise TypeError(f"towline: there is no type for elements of {name}; view them as uint8")
    number: int = getattr(lib, _TYPES[name])
    return number


def _array(what: Any, write: bool) -> numpy.ndarray[Any, Any]:
    """The memory of something that is no array of numpy's."""
    if hasattr(what, "__dlpack__"):
        return numpy.from_dlpack(what)
    if hasattr(what, "__array_interface__"):
        return numpy.asarray(what)
    try:
        return numpy.asarray(memoryview(what))
    except TypeError:
        if write:
            raise TypeError("towline: a result needs an array, or a buffer that can be written; "
                            f"this is {type(what).__name__}") from None
        return numpy.asarray(what)


def span(what: Any, *, write: bool = False, type: int | None = None) -> Span:
    """The memory of a contiguous array, of anything with DLPack or a buffer, or of a Memory.

    `type`: elements are of this type, whatever the array says.
    """
    if isinstance(what, Span):
        return what
    if isinstance(what, Memory):
        what = what.array()
    if not isinstance(what, numpy.ndarray):
        what = _array(what, write)
    if not what.flags.c_contiguous:
        raise ValueError(f"towline: an array of strides {what.strides} is not contiguous; "
                         "numpy.ascontiguousarray copies it")
    if write and not what.flags.writeable:
        raise ValueError("towline: the array for the result cannot be written")
    if type is None:
        type = type_number(what.dtype.name)
    width = lib.tow_type_bytes(type)
    if width == 0 or what.nbytes % width != 0:
        raise ValueError(f"towline: {what.nbytes} bytes are no whole number of elements")
    return Span(what.__array_interface__["data"][0], what.nbytes // width, type, what,
                what.flags.writeable)
