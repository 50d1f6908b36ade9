"""Groups: the ranks of a job, what they do together, and messages between them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._library import ffi, lib, text
from .collectives import Collectives
from .errors import Error, check, failure
from .messages import Messages
from .operation import Operation, nanoseconds, sized
from .runtime import Runtime


class Exchange(Protocol):
    """A store that the program has already: by it ranks find rank 0.

    Every opening of a group wants keys of its own, by a prefix. `get` waits until the key is
    there, at most `timeout` seconds, and raises an exception else.
    """

    def put(self, key: str, value: bytes) -> None: ...
    def get(self, key: str, timeout: float) -> bytes: ...


class _Calls:
    """The callbacks of the library for an Exchange, and the exception that one has ended with."""

    def __init__(self, exchange: Exchange) -> None:
        self.wrong: BaseException | None = None
        self._exchange = exchange
        self.put = ffi.callback("tow_exchange_put", self._put, error=lib.TOW_ESYSTEM,
                                onerror=self._failed)
        self.get = ffi.callback("tow_exchange_get", self._get, error=lib.TOW_ESYSTEM,
                                onerror=self._failed)

    def _failed(self, kind: object, wrong: BaseException, trace: object) -> None:
        self.wrong = wrong

    def _put(self, user: Any, key: Any, value: Any, count: int) -> int:
        self._exchange.put(text(key), bytes(ffi.buffer(value, count)))
        return int(lib.TOW_OK)

    def _get(self, user: Any, key: Any, out: Any, room: int, count: Any, timeout: int) -> int:
        value = self._exchange.get(text(key), timeout / 1e9)
        ffi.memmove(out, value, min(room, len(value)))
        count[0] = len(value)
        return int(lib.TOW_OK)


# Calls that did not return in time are left to themselves (group.h), and so are their callbacks.
_kept: list[_Calls] = []


class Group(Collectives, Messages):
    """Some ranks of a job. Open the group of all ranks once, and make others of it."""

    def __init__(self, runtime: Runtime, pointer: Any) -> None:
        self.runtime = runtime
        self._pointer = pointer
        self.rank: int = lib.tow_group_rank(pointer)
        self.size: int = lib.tow_group_size(pointer)

    @classmethod
    def open(cls, runtime: Runtime, *, rank: int | None = None, world_size: int | None = None,
             store: str | None = None, address: str | None = None, timeout: float | None = 120,
             exchange: Exchange | None = None) -> Group:
        """The group of all ranks: every rank calls it, and it waits for all.

        Who is who says the launcher (docs/bootstrap.md), or the arguments; how ranks find rank 0
        says it too, or `store` as "HOST:PORT", or `exchange`.
        """
        texts = [ffi.NULL if word is None else ffi.new("char[]", word.encode())
                 for word in (store, address)]
        options = sized("struct tow_group_options", rank=-1 if rank is None else rank,
                        world_size=-1 if world_size is None else world_size,
                        store=texts[0], address=texts[1], timeout_ns=nanoseconds(timeout))
        calls = None
        if exchange is not None:
            calls = _Calls(exchange)
            options.put, options.get = calls.put, calls.get
        out = ffi.new("struct tow_group **")
        status = lib.tow_group_open(runtime.pointer, options, out)
        if status < 0:
            wrong = failure(status)
            if calls is not None:
                _kept.append(calls)
                raise wrong from calls.wrong
            raise wrong
        return cls(runtime, out[0])

    @property
    def pointer(self) -> Any:
        """The struct tow_group, for calls of `towline.lib`."""
        if self._pointer == ffi.NULL:
            raise failure(lib.TOW_ECLOSED, "the group was closed")
        return self._pointer

    def create(self, ranks: Sequence[int], name: str | None = None,
               timeout: float | None = 120) -> Group:
        """A group of these ranks of this one, made by them alone; ranks[i] is its rank i."""
        out = ffi.new("struct tow_group **")
        list_of = ffi.new("uint32_t[]", list(ranks))
        word = ffi.NULL if name is None else ffi.new("char[]", name.encode())
        check(lib.tow_group_create(self.pointer, list_of, len(ranks), word,
                                   nanoseconds(timeout), out))
        return Group(self.runtime, out[0])

    def split(self, color: int | None, key: int = 0, timeout: float | None = 120) -> Group | None:
        """Groups of all ranks: those with one color are one. None: in none of them."""
        out = ffi.new("struct tow_group **")
        check(lib.tow_group_split(self.pointer, lib.TOW_GROUP_NONE if color is None else color,
                                  key, nanoseconds(timeout), out))
        return None if out[0] == ffi.NULL else Group(self.runtime, out[0])

    def shrink(self, timeout: float | None = 120) -> Group:
        """A group of those ranks that still live, of one that is broken."""
        out = ffi.new("struct tow_group **")
        check(lib.tow_group_shrink(self.pointer, nanoseconds(timeout), out))
        return Group(self.runtime, out[0])

    def abort(self, reason: str | None = None) -> None:
        """Ends all that is in flight in it, here and at the other ranks, which hear the reason."""
        word = ffi.NULL if reason is None else ffi.new("char[]", reason.encode())
        check(lib.tow_group_abort(self.pointer, word))

    @property
    def id(self) -> int:
        """A number of the group, the same at all its ranks; 0 is the group of all."""
        return int(lib.tow_group_id(self.pointer))

    @property
    def label(self) -> str:
        """What people call it, at this rank, in messages, verdicts and traces: at most 47 bytes of
        printable ASCII. "": nothing. One that `create` has given a name is called by that."""
        out = ffi.new("char[]", lib.TOW_GROUP_LABEL_MAX)
        check(lib.tow_group_label(self.pointer, out))
        return text(out)

    @label.setter
    def label(self, label: str | None) -> None:
        word = ffi.NULL if not label else ffi.new("char[]", label.encode())
        check(lib.tow_group_set_label(self.pointer, word))

    def address(self, rank: int) -> str:
        """Where a rank can be reached."""
        out = ffi.new("char[]", lib.TOW_ADDRESS_MAX)
        check(lib.tow_group_address(self.pointer, rank, out, lib.TOW_ADDRESS_MAX))
        return text(out)

    def set(self, key: str, value: bytes, timeout: float | None = 120) -> None:
        """Puts a little value where every rank of the job can get it."""
        check(lib.tow_group_set(self.pointer, key.encode(), value, len(value),
                                nanoseconds(timeout)))

    def get(self, key: str, timeout: float | None = 120, room: int = 65536) -> bytes:
        """Gets a value, and waits until somebody has put it."""
        out, count = ffi.new("char[]", room), ffi.new("size_t *")
        check(lib.tow_group_get(self.pointer, key.encode(), out, room, count,
                                nanoseconds(timeout)))
        return bytes(ffi.buffer(out, min(room, count[0])))

    def group_barrier(self, timeout: float | None = None) -> None:
        """Waits until every rank is here; counted apart from the collectives (group.h)."""
        check(lib.tow_group_barrier(self.pointer, nanoseconds(timeout)))

    def connect(self, rank: int, timeout: float | None = None) -> Operation:
        """Connects to a rank now, and not with the first message."""
        out = ffi.new("struct tow_op **")
        options = sized("struct tow_op_options", timeout_ns=nanoseconds(timeout))
        check(lib.tow_group_connect_start(self.pointer, rank, options, out))
        return Operation(self.runtime.operations, out[0])

    def close(self) -> None:
        """Closes it; make a barrier first where others may still work with this rank."""
        pointer, self._pointer = self._pointer, ffi.NULL
        if pointer != ffi.NULL:
            check(lib.tow_group_close(pointer))

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["Error", "Exchange", "Group"]
