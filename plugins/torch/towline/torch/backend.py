"""The backend of torch.distributed: c10d's collectives, each as operations of the library."""
from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as _Base
from torch._C._distributed_c10d import Store

from .._library import ffi, lib
from ..errors import Error, check
from ..operation import sized
from . import job as jobs
from .errors import backend_error
from .tensors import Flat, check_plain, empty, one_dtype, pointer
from .tensors import check as check_tensors
from .types import moved, operator, reduced
from .work import Look, Work

Tensor = torch.Tensor
# Starts an operation: start(group, options, op_out) gives its status.
Start = Callable[[Any, Any, Any], int]

_UNSET = timedelta(milliseconds=-1)
# c10d's wrapper (TORCH_DISTRIBUTED_DEBUG=DETAIL) keeps the part of a backend that is C++ alone.
_living: set[Backend] = set()


# Names of calls as the library takes them: there are some twenty.
_names: dict[str, Any] = {}


def _name_of(call: str) -> Any:
    if call not in _names:
        _names[call] = ffi.new("char[]", call[:31].encode())
    return _names[call]


def _label_of(name: str, group: Any) -> str:
    """What people call a group: its description, as of a mesh's dimension, else c10d's name.

    c10d sets the description after the backend is made; names of groups made by members alone are
    long hashes.
    """
    described = getattr(group, "group_desc", "") if group is not None else ""
    if described in ("", "undefined"):
        described = "pg:" + (name if len(name) <= 12 else name[:8])
    return "".join(c for c in described if " " <= c <= "~")[:47]


@dataclasses.dataclass
class Call:
    """A call of c10d's: the operations that it is, and what they use."""

    name: str
    starts: list[Start]
    results: list[Tensor]
    timeout: timedelta
    direct: bool = False
    message: bool = False  # and no collective
    keep: object = None
    finish: Callable[[], None] | None = None
    look: Look | None = None
    scale: float = 0.0


class _Deferred(threading.local):
    """What this thread has called since it has begun to coalesce."""

    calls: list[Call] | None = None


def _fill(work: Work, found: Any, size: int) -> None:
    if found.bytes != size and work.error is None:
        work.error = ValueError(f"towline recv: a message of {found.bytes} bytes came for a tensor "
                                f"of {size} ({work.name})")


class Backend(_Base):
    """A process group's backend on one group of the library."""

    def __init__(self, store: Store | None, rank: int, size: int, timeout: timedelta,
                 name: str = "", ranks: Sequence[int] = (), group: Any = None,
                 parent: Backend | None = None) -> None:
        """`ranks` are global ones, those of a part of `parent` its own."""
        super().__init__(rank, size)
        self._timeout = timeout
        self._group_name = name
        self._process_group = None if group is None else weakref.ref(group)
        self._is_part = parent is not None
        self._label = ""
        self._deferred = _Deferred()
        self._lock = threading.Lock()
        self._sequence = 0
        self._closed = False
        try:
            if parent is not None:
                self._job = parent._job
                self._group = self._job.create(parent._group, ranks, timeout)
            else:
                self._job, self._group = jobs.enter(store, rank, size, ranks, timeout, name)
        except Error as wrong:
            raise backend_error(wrong) from wrong.__cause__
        # c10d names no ranks for the group that it makes first, and calls it so.
        self._group.label = _label_of(name, None) if ranks else "default_pg"
        self._described = f"process group {name}"
        _living.add(self)

    def _describe(self) -> None:
        """Takes the description of the process group, which c10d has set by its first call."""
        group = self._process_group() if self._process_group is not None else None
        if group is None and self._is_part:
            with contextlib.suppress(Exception):  # one that c10d has not registered has no name
                group = dist.distributed_c10d._resolve_process_group(self._group_name)
        self._label = _label_of(self._group_name, group)
        self._described = f'process group {self._group_name} "{self._label}"'
        if not self._closed:
            self._group.label = self._label

    # What c10d asks of a backend.

    def getBackendName(self) -> str:
        return "towline"

    def name(self) -> str:
        return "towline"

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def supports_splitting(self) -> bool:
        return True

    def split(self, store: Store, ranks: list[int], opts: Any) -> Backend:
        """A group of some ranks of this one, in this order. Made by its members alone, without the
        store."""
        if self.rank() not in ranks:  # c10d takes no None of a backend of Python's
            raise ValueError(f"towline split_group: rank {self.rank()} is in no part; every rank "
                             "is to be in one, or use new_group(use_local_synchronization=True)")
        timeout = getattr(opts, "_timeout", _UNSET)
        return Backend(None, ranks.index(self.rank()), len(ranks),
                       self._timeout if timeout <= timedelta(0) else timeout,
                       getattr(opts, "group_name", ""), ranks, parent=self)

    def perform_nocolor_split(self, device: Any) -> None:
        """What c10d asks of ranks that are in no part: nothing."""

    def eager_connect_single_device(self, device: Any = None) -> None:
        """Ranks connect when they first have something to say to each other."""

    @property
    def options(self) -> Any:
        return _Base.Options("towline", self._timeout)

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def supports_tensor_alloc(self, device: Any) -> bool:
        return True

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any = None) -> Tensor:
        return empty(self._job.runtime.pointer, size, dtype)

    def abort(self) -> None:
        """Ends what is in flight in the group, here and at the other ranks. Any thread may."""
        if not self._closed:
            self._group.abort(f"process group {self._group_name}: aborted by the program")

    def shutdown(self) -> None:
        """Closes the group; with the last one of the process, the runtime."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._job.leave(self._group)
        _living.discard(self)

    # How all of them are started.

    def _start(self, name: str, starts: list[Start], results: Sequence[Tensor], *,
               opts: Any = None, keep: object = None, finish: Callable[[], None] | None = None,
               scale: float = 0.0) -> Work:
        """Starts operations that are one work; while coalescing, they wait for its end."""
        timeout = getattr(opts, "timeout", _UNSET)
        return self._called(Call(
            name, starts, list(results), self._timeout if timeout <= timedelta(0) else timeout,
            direct=not getattr(opts, "asyncOp", True), keep=keep, finish=finish, scale=scale))

    def _called(self, call: Call) -> Work:
        if self._deferred.calls is None:
            return self._begin([call])
        self._deferred.calls.append(call)
        return Work(self._job, call.name, call.results)

    def _begin(self, calls: list[Call]) -> Work:
        if not self._label:
            self._describe()
        finishes = [call.finish for call in calls if call.finish is not None]

        def finish() -> None:
            for one in finishes:
                one()

        work = Work(self._job, f"{calls[0].name} of {self._described}",
                    [tensor for call in calls for tensor in call.results],
                    [(call.results, call.keep) for call in calls], finish if finishes else None)
        work.direct = len(calls) == 1 and calls[0].direct
        work.group = None if any(call.message for call in calls) else self
        self._job.hold(work)
        self._job.sweep()
        try:
            with self._lock:
                self._sequence += 1
                self._issue(work, calls)
        except Error as wrong:
            work.one_ended()
            raise backend_error(wrong, work.name) from None
        work.one_ended()
        return work

    def _issue(self, work: Work, calls: list[Call]) -> None:
        group = self._group.pointer
        # Small all-reduces that follow each other are fused in a batch; messages are in none.
        several = sum(len(call.starts) for call in calls if not call.message) > 1
        if several:
            check(lib.tow_coll_batch_begin(group))
        try:
            for call in calls:
                options = self._options(call)
                for start in call.starts:
                    self._issue_one(work, group, start, options, call.look)
        finally:
            if several:
                check(lib.tow_coll_batch_end(group))

    @staticmethod
    def _options(call: Call) -> Any:
        nanoseconds = int(call.timeout.total_seconds() * 1e9)
        if call.message:
            return sized("struct tow_op_options", timeout_ns=nanoseconds)
        return sized("struct tow_coll_options", name=_name_of(call.name), scale=call.scale,
                     timeout_ns=nanoseconds)

    def _issue_one(self, work: Work, group: Any, start: Start, options: Any,
                   look: Look | None) -> None:
        if work.direct:
            out = ffi.new("struct tow_op **")
            work.expect()
            try:
                check(start(group, options, out))
            except Error:
                work.one_ended()
                raise
            work.operations.append((out[0], look))
            return
        options.queue = self._job.completions.queue

        def begin(user: Any, out: Any) -> int:
            options.user = user
            return start(group, options, out)

        self._job.completions.start(work, begin, look)

    def start_coalescing(self) -> None:
        self._deferred.calls = []

    def end_coalescing(self) -> Work | None:
        calls, self._deferred.calls = self._deferred.calls, None
        return self._begin(calls) if calls else None

    # Collectives of one tensor of each rank.

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Work:
        check_tensors("broadcast", *tensors)

        def one(tensor: Tensor) -> Start:
            kind, width = moved(tensor.dtype)
            return lambda group, options, out: lib.tow_coll_broadcast_start(
                group, pointer(tensor), tensor.numel() * width, kind, opts.rootRank, options, out)

        return self._start("broadcast", [one(tensor) for tensor in tensors], tensors, opts=opts)

    def allreduce(self, tensors: list[Tensor], opts: Any) -> Work:
        return self._all_reduce("all_reduce", tensors, opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Work:
        return self._all_reduce("all_reduce_coalesced", tensors, opts)

    def allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Work:
        check_tensors("all_reduce", *tensors)
        return self.allreduce(tensors, opts)

    def _all_reduce(self, call: str, tensors: list[Tensor], opts: Any) -> Work:
        check_tensors(call, *tensors)
        op, scale = operator(opts.reduceOp, call)

        def one(tensor: Tensor) -> Start:
            kind, at = reduced(tensor.dtype, call), pointer(tensor)
            return lambda group, options, out: lib.tow_coll_all_reduce_start(
                group, at, at, tensor.numel(), kind, op, options, out)

        return self._start(call, [one(tensor) for tensor in tensors], tensors, opts=opts,
                           scale=scale)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Work:
        check_tensors("reduce", *tensors)
        op, scale = operator(opts.reduceOp, "reduce")

        def one(tensor: Tensor) -> Start:
            kind, at = reduced(tensor.dtype, "reduce"), pointer(tensor)
            return lambda group, options, out: lib.tow_coll_reduce_start(
                group, at, at, tensor.numel(), kind, op, opts.rootRank, options, out)

        return self._start("reduce", [one(tensor) for tensor in tensors], tensors, opts=opts,
                           scale=scale)

    # Gathers.

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                    opts: Any = None) -> Work:
        check_plain("all_gather_single", *outputs, *inputs)
        starts = []
        for output, given in zip(outputs, inputs):
            self._fits("all_gather_single", output, given.numel() * self.size(), given)
            starts.append(self._gather_all(pointer(given), pointer(output), given))
        return self._start("all_gather_single", starts, outputs, opts=opts, keep=inputs)

    @staticmethod
    def _gather_all(given: Any, output: Any, like: Tensor) -> Start:
        kind, width = moved(like.dtype)
        return lambda group, options, out: lib.tow_coll_all_gather_start(
            group, given, output, like.numel() * width, kind, options, out)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Work:
        if len(inputs) != 1 or len(outputs) != 1:
            raise ValueError("towline all_gather: one tensor and one list for each rank, not "
                             f"{len(inputs)} and {len(outputs)}")
        return self.allgather_coalesced(outputs, inputs, opts, "all_gather")

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any,
                            call: str = "all_gather_coalesced") -> Work:
        starts, flats = [], []
        # c10d's coalesced form has a list of tensors for each rank; that of one has one of each.
        lists = outputs if call == "all_gather" else [list(row) for row in zip(*outputs)]
        for given, parts in zip(inputs, lists):
            flat = self._parts(call, parts, given)
            flats.append(flat)
            starts.append(self._gather_parts(flat, given, call))

        def finish() -> None:
            for flat in flats:
                flat.store()

        return self._start(call, starts, [part for row in outputs for part in row], opts=opts,
                           keep=(inputs, flats), finish=finish)

    def _gather_parts(self, flat: Flat, given: Tensor, call: str) -> Start:
        if flat.counts[self.rank()] != given.numel():
            raise ValueError(f"towline {call}: this rank has {given.numel()} elements, and room "
                             f"for {flat.counts[self.rank()]} of its own")
        if len(set(flat.counts)) == 1:
            return self._gather_all(pointer(given), pointer(flat.whole), given)
        kind, width = moved(given.dtype)
        counts = ffi.new("uint64_t[]", [count * width for count in flat.counts])
        return lambda group, options, out: lib.tow_coll_all_gather_v_start(
            group, pointer(given), pointer(flat.whole), counts, ffi.NULL, kind, options, out)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Work:
        given = inputs[0]
        check_plain("gather", given)
        kind, width = moved(given.dtype)
        flat = None
        if opts.rootRank == self.rank():
            flat = self._parts("gather", outputs[0], given, alike=True)
        output = ffi.NULL if flat is None else pointer(flat.whole)

        def start(group: Any, options: Any, out: Any) -> int:
            status: int = lib.tow_coll_gather_start(
                group, pointer(given), output, given.numel() * width, kind, opts.rootRank, options,
                out)
            return status

        return self._start("gather", [start], outputs[0] if flat is not None else [], opts=opts,
                           keep=(inputs, flat), finish=None if flat is None else flat.store)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Work:
        output = outputs[0]
        check_plain("scatter", output)
        kind, width = moved(output.dtype)
        flat = None
        if opts.rootRank == self.rank():
            flat = self._parts("scatter", inputs[0], output, alike=True)
            flat.load()
        given = ffi.NULL if flat is None else pointer(flat.whole)

        def start(group: Any, options: Any, out: Any) -> int:
            status: int = lib.tow_coll_scatter_start(
                group, given, pointer(output), output.numel() * width, kind, opts.rootRank,
                options, out)
            return status

        return self._start("scatter", [start], outputs, opts=opts, keep=(inputs, flat))

    # Reduce-scatters.

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                        opts: Any) -> Work:
        check_plain("reduce_scatter_single", *outputs, *inputs)
        op, scale = operator(opts.reduceOp, "reduce_scatter_single")
        starts = []
        for output, given in zip(outputs, inputs):
            self._fits("reduce_scatter_single", given, output.numel() * self.size(), output)
            starts.append(self._scatter_sum(pointer(given), output, op, "reduce_scatter_single"))
        return self._start("reduce_scatter_single", starts, outputs, opts=opts, keep=inputs,
                           scale=scale)

    @staticmethod
    def _scatter_sum(given: Any, output: Tensor, op: int, call: str) -> Start:
        kind = reduced(output.dtype, call)
        return lambda group, options, out: lib.tow_coll_reduce_scatter_start(
            group, given, pointer(output), output.numel(), kind, op, options, out)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Work:
        output = outputs[0]
        check_plain("reduce_scatter", output)
        op, scale = operator(opts.reduceOp, "reduce_scatter")
        flat = self._parts("reduce_scatter", inputs[0], output)
        if flat.counts[self.rank()] != output.numel():
            raise ValueError(f"towline reduce_scatter: part {self.rank()} has "
                             f"{flat.counts[self.rank()]} elements, and room for {output.numel()}")
        flat.load()
        if len(set(flat.counts)) == 1:
            starts = [self._scatter_sum(pointer(flat.whole), output, op, "reduce_scatter")]
        else:
            starts = self._reduce_each(flat, output, op)
        return self._start("reduce_scatter", starts, outputs, opts=opts, keep=(inputs, flat),
                           scale=scale)

    def _reduce_each(self, flat: Flat, output: Tensor, op: int) -> list[Start]:
        """Parts of several lengths: each is reduced to its rank."""
        kind = reduced(output.dtype, "reduce_scatter")

        def one(root: int, part: Tensor) -> Start:
            into = output if root == self.rank() else part
            return lambda group, options, out: lib.tow_coll_reduce_start(
                group, pointer(part), pointer(into), part.numel(), kind, op, root, options, out)

        parts = flat.whole.split(flat.counts)  # type: ignore[no-untyped-call]
        return [one(root, part) for root, part in enumerate(parts)]

    # All-to-alls.

    def all_to_all_single(self, output: Tensor, input: Tensor, output_splits: list[int],
                          input_splits: list[int], opts: Any = None) -> Work:
        check_plain("all_to_all_single", output, input)
        one_dtype("all_to_all_single", [output, input])
        kind, width = moved(input.dtype)
        counts = [self._splits(tensor, splits, width) for tensor, splits in
                  ((input, input_splits), (output, output_splits))]
        return self._all_to_all("all_to_all_single", pointer(input), pointer(output), counts, kind,
                                [output], opts, (input, output), None)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        given = self._parts("all_to_all", inputs, inputs[0])
        taken = self._parts("all_to_all", outputs, inputs[0])
        given.load()
        kind, width = moved(inputs[0].dtype)
        counts = [[count * width for count in flat.counts] for flat in (given, taken)]
        return self._all_to_all("all_to_all", pointer(given.whole), pointer(taken.whole), counts,
                                kind, outputs, opts, (inputs, given, taken), taken.store)

    def _all_to_all(self, call: str, given: Any, taken: Any, counts: list[list[int]], kind: int,
                    outputs: list[Tensor], opts: Any, keep: object,
                    finish: Callable[[], None] | None) -> Work:
        lists = [ffi.new("uint64_t[]", one) for one in counts]
        sends = ffi.new("struct tow_coll_parts *", {"counts": lists[0]})
        takes = ffi.new("struct tow_coll_parts *", {"counts": lists[1]})

        def start(group: Any, options: Any, out: Any) -> int:
            status: int = lib.tow_coll_all_to_all_v_start(
                group, given, sends, taken, takes, kind, options, out)
            return status

        return self._start(call, [start], outputs, opts=opts, keep=(keep, lists), finish=finish)

    def _splits(self, tensor: Tensor, splits: list[int], width: int) -> list[int]:
        """How many elements go to each rank, or come from it."""
        rows = tensor.size(0) if tensor.dim() else 1
        if not splits:
            if rows % self.size() != 0:
                raise ValueError(f"towline all_to_all_single: {rows} rows are not the same for "
                                 f"each of {self.size()} ranks; give the split sizes")
            splits = [rows // self.size()] * self.size()
        if len(splits) != self.size() or sum(splits) != rows or min(splits) < 0:
            raise ValueError(f"towline all_to_all_single: the splits {splits} do not make {rows} "
                             f"rows for {self.size()} ranks")
        each = tensor.numel() // rows * width if rows else 0
        return [split * each for split in splits]

    # Messages.

    def _message(self, name: str, tensors: list[Tensor], start: Start,
                 look: Look | None = None) -> Work:
        return self._called(Call(name, [start], tensors, self._timeout, direct=True, message=True,
                                 look=look))

    @staticmethod
    def _one(name: str, tensors: list[Tensor]) -> tuple[Any, int]:
        """The one tensor of a message: where it lies, and its bytes."""
        if len(tensors) != 1:
            raise ValueError(f"towline {name}: one tensor makes a message, not {len(tensors)}")
        check_tensors(name, *tensors)
        return pointer(tensors[0]), tensors[0].numel() * tensors[0].dtype.itemsize

    def send(self, tensors: list[Tensor], target: int, tag: int) -> Work:
        at, size = self._one("send", tensors)
        return self._message("send", tensors, lambda group, options, out: lib.tow_group_send_start(
            group, target, at, size, tag, options, out))

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> Work:
        at, size = self._one("recv", tensors)

        def look(work: Work, found: Any) -> None:
            _fill(work, found, size)
            work.source = source

        return self._message("recv", tensors, lambda group, options, out: lib.tow_group_recv_start(
            group, source, at, size, tag, options, out), look)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Work:
        at, size = self._one("recv", tensors)
        match = sized("struct tow_group_match", rank=lib.TOW_RANK_ANY, tag=tag,
                      tag_mask=lib.TOW_FOREVER)
        part = ffi.new("struct tow_part *", {"data": at, "bytes": size})

        def look(work: Work, found: Any) -> None:
            _fill(work, found, size)
            work.source = lib.tow_group_peer_rank(self._group.pointer, found.peer)

        return self._message(
            "recv", tensors, lambda group, options, out: lib.tow_group_recv_match_start(
                group, match, part, 1, options, out), look)

    def barrier(self, opts: Any = None) -> Work:
        # As gloo's, it ends when what this rank has started in the group before has ended, too.
        before = self._job.collectives(self)

        def finish() -> None:
            for work in before:
                with contextlib.suppress(Exception):  # told to whoever waits for it
                    work.wait()

        return self._start("barrier", [lib.tow_coll_barrier_start], [], opts=opts, finish=finish)

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier whose failure names who has not come, as that of any does."""
        self.barrier(opts).wait()

    # What arguments must be.

    def _parts(self, call: str, parts: Sequence[Tensor], like: Tensor,
               alike: bool = False) -> Flat:
        """A list of one tensor for each rank."""
        if len(parts) != self.size():
            raise ValueError(f"towline {call}: {len(parts)} tensors for {self.size()} ranks")
        check_plain(call, like, *parts)
        one_dtype(call, [like, *parts])
        for rank, part in enumerate(parts):
            if alike and part.numel() != like.numel():
                raise ValueError(f"towline {call}: tensor {rank} has {part.numel()} elements, and "
                                 f"another has {like.numel()}")
        return Flat(self._job.runtime.pointer, parts)

    @staticmethod
    def _fits(call: str, large: Tensor, count: int, small: Tensor) -> None:
        one_dtype(call, [large, small])
        if large.numel() != count:
            raise ValueError(f"towline {call}: a tensor of {large.numel()} elements, where all "
                             f"ranks have {count}")

    # Names of older versions.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
