"""What the library knows of itself, as rows: knobs, counters, reasons, statuses, lanes."""
from __future__ import annotations

from typing import Any

from ._library import ffi, lib, text
from .errors import check

Row = dict[str, object]


def _row(info: Any, kind: str) -> Row:
    return {name: text(getattr(info, name)) if member.type.kind == "pointer"
            else getattr(info, name)
            for name, member in ffi.typeof(kind).fields if name != "size"}


def _rows(kind: str, call: Any, count: int | None = None) -> list[Row]:
    rows: list[Row] = []
    while count is None or len(rows) < count:
        info = ffi.new(kind + " *", {"size": ffi.sizeof(kind)})
        status = call(len(rows), info)
        if count is None and status == lib.TOW_EINVAL:
            break
        check(status)
        rows.append(_row(info, kind))
    return rows


def knobs() -> list[Row]:
    """Each knob: name, environment variable, unit, default, least, most, help."""
    return _rows("struct tow_knob_info", lib.tow_knob_info, lib.tow_knob_count())


def counters() -> list[Row]:
    """Each counter: name, unit, help."""
    return _rows("struct tow_counter_info", lib.tow_counter_info)


def reasons() -> list[Row]:
    """Each reason for a copy or a late registration, and what a user can change."""
    return _rows("struct tow_reason_info", lib.tow_reason_info)


def statuses() -> list[Row]:
    """Each status: name, number, meaning."""
    return _rows("struct tow_status_info", lib.tow_status_info)


def lanes() -> list[Row]:
    """Each lane that the library was built with."""
    return _rows("struct tow_lane_info", lib.tow_lane_info)


def version() -> str:
    """The version of the library that is loaded."""
    return text(lib.tow_version())
