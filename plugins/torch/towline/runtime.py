"""A runtime: one pool of memory, its lanes, its knobs, and what it can tell of itself."""
from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy

from . import _library
from ._library import ffi, lib, text
from .errors import check, failure
from .memory import Memory
from .operation import Operations
from .tables import knobs

_NOT_KNOBS = ("size", "premap_progress", "premap_progress_user", "log_callback", "log_user")


def _fields() -> dict[str, Any]:
    members = ffi.typeof("struct tow_options").fields
    return {name: member.type for name, member in members if name not in _NOT_KNOBS}


class _Options:
    """A struct tow_options with knobs that were given by name, and the texts in it."""

    def __init__(self, given: dict[str, object]) -> None:
        self.struct = ffi.new("struct tow_options *")
        self._texts: list[Any] = []
        check(lib.tow_options_init(self.struct, ffi.sizeof("struct tow_options")))
        fields = _fields()
        for name, value in given.items():
            if name not in fields:
                known = ", ".join(sorted(fields))
                raise ValueError(f"towline: no knob is named {name!r}; there are {known}")
            setattr(self.struct, name, self._converted(name, fields[name], value))

    def _converted(self, name: str, kind: Any, value: object) -> Any:
        if kind.kind == "primitive":
            if not isinstance(value, int):
                raise TypeError(f"towline: the knob {name} is a whole number, not {value!r}")
            return int(value)
        if not isinstance(value, str):
            raise TypeError(f"towline: the knob {name} is a text, not {value!r}")
        self._texts.append(ffi.new("char[]", value.encode()))
        return self._texts[-1]


class Runtime:
    """A runtime of this process. `shared`: the one that all parts of the process share.

    Knobs are given by their names (docs/knobs.md): Runtime(premap_memory_bytes=1 << 30). It is
    closed by close(), or as a context manager. Arrays of its pool live until they are dropped,
    also after the close.
    """

    def __init__(self, *, shared: bool = False, **given: object) -> None:
        options = _Options(given)
        out = ffi.new("struct tow_runtime **")
        self._pointer = ffi.NULL
        self.operations = Operations()
        self._lock = threading.Lock()
        self._preload = _library.preload()
        check((lib.tow_runtime_share if shared else lib.tow_runtime_open)(options.struct, out))
        self._pointer = out[0]
        # Another runtime may be attached already: then that one gives the pool.
        if self._preload is not None:
            self._preload.towline_malloc_attach(self._pointer)

    @property
    def pointer(self) -> Any:
        """The struct tow_runtime, for calls of `towline.lib`."""
        if self._pointer == ffi.NULL:
            raise failure(lib.TOW_ECLOSED, "the runtime was closed")
        return self._pointer

    def close(self) -> None:
        """Closes it: operations in flight end. Nothing happens when it is closed already."""
        with self._lock:
            pointer, self._pointer = self._pointer, ffi.NULL
        if pointer == ffi.NULL:
            return
        self.operations.close()
        if self._preload is not None:
            self._preload.towline_malloc_detach(pointer)
        status = lib.tow_runtime_close(pointer)
        # It lives on where others share it, and then places for them.
        if self._preload is not None and lib.tow_place_least(pointer) != lib.TOW_FOREVER:
            self._preload.towline_malloc_attach(pointer)
        check(status)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end of the interpreter the process ends, and all of it with that.
        if getattr(self, "_pointer", ffi.NULL) != ffi.NULL and lib is not None:
            with contextlib.suppress(Exception):
                self.close()

    def allocate(self, count: int, align: int = 0) -> Memory:
        """Memory of the pool: `count` bytes, at a multiple of `align`."""
        return Memory(self.pointer, count, align)

    def empty(self, shape: int | tuple[int, ...],
              dtype: Any = numpy.float32) -> numpy.ndarray[Any, Any]:
        """An array in the pool, not cleared. It moves without copies, and has DLPack."""
        kind = numpy.dtype(dtype)
        if kind.hasobject:
            raise TypeError("towline: the pool holds numbers, and no objects of Python")
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for size in sizes:
            count *= size
        return self.allocate(count * kind.itemsize).array(kind).reshape(sizes)

    def zeros(self, shape: int | tuple[int, ...],
              dtype: Any = numpy.float32) -> numpy.ndarray[Any, Any]:
        """The same, cleared."""
        made = self.empty(shape, dtype)
        made.fill(0)
        return made

    def seal(self) -> None:
        """Says that start-up is over: registrations from now on are late, and counted."""
        check(lib.tow_runtime_seal(self.pointer))

    def progress(self) -> bool:
        """Drives the runtime once, and tells whether there was something to do."""
        return bool(check(lib.tow_progress(self.pointer)) == lib.TOW_OK)

    def flush(self) -> None:
        """Sends what is held back to share a system call, and calls that wait to be fused."""
        check(lib.tow_flush(self.pointer))

    def document(self, path: str) -> str:
        """A document of the stats as text: "/metrics", "/v1/pool" and others (docs/stats.md)."""
        out = ffi.new("char **")
        check(lib.tow_stats_get(self.pointer, path.encode(), out))
        try:
            return text(out[0])
        finally:
            lib.tow_stats_release(out[0])

    def stats(self, path: str) -> Any:
        """The same of a path below /v1, as Python's own types."""
        return json.loads(self.document(path))

    def counters(self) -> dict[str, int]:
        """All counters by name; towline.tables.counters() says what each is."""
        found: dict[str, int] = self.stats("/v1/counters")["counters"]
        return found

    @property
    def stats_socket(self) -> str:
        """Path of the stats socket; "" where there is none."""
        return text(lib.tow_stats_socket(self.pointer))

    def job(self) -> dict[str, object]:
        """Who this process is in its job, as the launcher says; -1 is what is not known."""
        info = ffi.new("struct tow_job_info *", {"size": ffi.sizeof("struct tow_job_info")})
        check(lib.tow_job_info(self.pointer, info))
        return {name: text(getattr(info, name)) if member.type.kind == "pointer"
                else getattr(info, name)
                for name, member in ffi.typeof("struct tow_job_info").fields if name != "size"}

    def interfaces(self) -> list[dict[str, object]]:
        """The network interfaces that may be used (interface.h)."""
        count = ffi.new("size_t *")
        check(lib.tow_interface_count(self.pointer, count))
        rows = []
        for index in range(count[0]):
            info = ffi.new("struct tow_interface_info *",
                           {"size": ffi.sizeof("struct tow_interface_info")})
            check(lib.tow_interface_info(self.pointer, index, info))
            row: dict[str, object] = {
                "name": text(info.name), "pci_path": text(info.pci_path),
                "addresses": [text(info.addresses[i]) for i in range(info.address_count)]}
            for name in ("left_out", "speed_mbits", "numa_node", "mtu_bytes", "up", "loopback"):
                row[name] = getattr(info, name)
            rows.append(row)
        return rows

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A training step, for traces and verdicts (step.h)."""
        check(lib.tow_step_begin(self.pointer, number))
        try:
            yield
        finally:
            check(lib.tow_step_end(self.pointer, number))

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A part of the program, which traces show beside what the library did (step.h)."""
        check(lib.tow_span_begin(self.pointer, name.encode()))
        try:
            yield
        finally:
            check(lib.tow_span_end(self.pointer))


def knob_names() -> list[str]:
    """The names that Runtime takes."""
    known = _fields()
    return [str(row["name"]) for row in knobs() if row["name"] in known]
