"""Failures of the library as exceptions: the status, its name, and the library's own text."""
from __future__ import annotations

from ._library import ffi, lib, text


class Error(RuntimeError):
    """A call or an operation has failed. `status` is the number, `name` is as "TOW_EPEER"."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.name = text(lib.tow_status_name(status))
        self.message = message or text(lib.tow_status_text(status))
        super().__init__(f"{self.name}: {self.message}"
                         if not self.message.startswith(self.name) else self.message)

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (self.status, self.message)


class InvalidError(Error, ValueError):
    """TOW_EINVAL, TOW_ETRUNCATED: an argument or option is wrong; the text names it."""


class NoRoomError(Error, MemoryError):
    """TOW_ENOMEM, TOW_EEXHAUSTED: the system or the pool has no room."""


class DeadlineError(Error, TimeoutError):
    """TOW_EDEADLINE, TOW_ETIMEDOUT: the text names who has not come."""


class PeerError(Error, ConnectionError):
    """TOW_EPEER, TOW_EREFUSED: a rank has gone, or is not there; the text names it."""


class MismatchError(Error):
    """TOW_EMISMATCH: ranks disagree about a call; the text names both sides."""


class AbortedError(Error):
    """TOW_EABORTED, TOW_ECANCELED, TOW_ECLOSED: ended by a call here, or at another rank."""


_CLASSES: dict[str, type[Error]] = {
    "TOW_EINVAL": InvalidError, "TOW_ETRUNCATED": InvalidError,
    "TOW_ENOMEM": NoRoomError, "TOW_EEXHAUSTED": NoRoomError,
    "TOW_EDEADLINE": DeadlineError, "TOW_ETIMEDOUT": DeadlineError,
    "TOW_EPEER": PeerError, "TOW_EREFUSED": PeerError,
    "TOW_EMISMATCH": MismatchError,
    "TOW_EABORTED": AbortedError, "TOW_ECANCELED": AbortedError, "TOW_ECLOSED": AbortedError,
}


def failure(status: int, message: str | None = None) -> Error:
    """The exception of a status; without a message the one that this thread was left."""
    if message is None:
        message = text(lib.tow_error_message())
    return _CLASSES.get(text(lib.tow_status_name(status)), Error)(status, message)


def check(status: int) -> int:
    """Raises what has failed; else the status, 0 or above."""
    if status < 0:
        raise failure(status)
    return status


def result_failure(result: object) -> Error | None:
    """The exception of a `struct tow_result` of an operation that has ended, or None."""
    status: int = result.status  # type: ignore[attr-defined]
    if status >= 0:
        return None
    message = result.message  # type: ignore[attr-defined]
    return failure(status, "" if message == ffi.NULL else text(message))
