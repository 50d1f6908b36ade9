"""Finds and loads libtowline.so, and says what has failed in it.

It is looked for in this order: the file that TOWLINE_LIBRARY names; one that lies beside this
package; the one that the system's loader finds.
"""
from __future__ import annotations

import os
import pathlib
from typing import Any

import cffi

from . import _declare

ffi = cffi.FFI()
ffi.cdef(_declare.written())

_NAME = "libtowline.so.0"


def _candidates() -> list[str]:
    named = os.environ.get("TOWLINE_LIBRARY", "")
    if named:
        return [named]
    beside = pathlib.Path(__file__).resolve().parent / _NAME
    return [str(beside)] if beside.exists() else [_NAME]


def _load() -> Any:
    wrong = ""
    for name in _candidates():
        try:
            return ffi.dlopen(name)
        except OSError as error:
            wrong = str(error)
    raise ImportError(
        f"towline: cannot load the library: {wrong}; install Towline, or set TOWLINE_LIBRARY to "
        "the path of libtowline.so")


lib: Any = _load()


def text(pointer: Any) -> str:
    """A string of the library's; "" for NULL."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")


def preload() -> Any | None:
    """The calls of plugins/malloc where it is preloaded into this process, else None."""
    everything = ffi.dlopen(None)
    try:
        everything.towline_malloc_attach  # noqa: B018 - cffi looks it up here
    except AttributeError:
        return None
    return everything
