"""Runs kernel IR on many sets of inputs at once, all blocks and threads of a launch side by side, in NumPy.

A statement is carried out by every thread before the next one begins, and copies are complete as they are issued: one
of the orders that a right kernel allows, so that what differs is a wrong value. Orders themselves are the business of
the emulator and of `tests.compiler.lower.interpreter`. Kernels whose warps have parts of their own are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.lower.kernel_ir import (
    Accumulate,
    AccumulateRun,
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    CopyAsync,
    Declare,
    Elected,
    Fill,
    GlobalLoad,
    GlobalStore,
    If,
    Index,
    Kernel,
    Loop,
    MatrixLoad,
    MatrixStore,
    Opaque,
    RemoteStore,
    ScanLanes,
    ScanRun,
    SharedLoad,
    SharedStore,
    Shuffle,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.operands import Reg, Shared
from compiler.lower.sync_ir import (
    AddBytes,
    Arrive,
    ClusterArrive,
    ClusterWait,
    CommitCopies,
    CommitStores,
    ExpectBytes,
    FenceAsync,
    InitBarriers,
    SetRegisters,
    Sync,
    SyncPart,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from compiler.lower.traversal import walk
from compiler.lower.whole_ir import Divisor, WholeNumber
from tests.mutants.machine.bulk import Boxes, run_of
from tests.mutants.machine.lanes import Fault, Flags, Grid, NoKernel, Offsets
from tests.mutants.machine.memory import GlobalTensor, SharedMemory, poisoned
from tests.mutants.machine.numbers import NUMPY, Array, computed, converted, first_of, folded, literal_of
from tests.mutants.machine.scans import over_lanes, running_sums

MAX_STATEMENTS = 40_000
"""Executed by one launch: small kernels need hundreds to thousands, a wrong trip count many more."""

_PARTS = (AddBytes, Arrive, SyncPart, SetRegisters)
_WARP, _ROWS = 32, 8


def refuse(kernel: Kernel) -> None:
    """Raises Unsupported for a kernel that is not run here."""
    for s in walk(kernel.body):
        if isinstance(s, _PARTS) or (isinstance(s, TmaLoad | BulkLoad) and s.blocks > 1):
            raise Unsupported(f"running {type(s).__name__} of parts of a block", "Run it in the emulator.")


class Executor:
    """One launch: the kernel over its tensors, in the order of its positions. Raises Fault and NoKernel as it runs."""

    def __init__(self, kernel: Kernel, grid: Grid, tensors: list[GlobalTensor]) -> None:
        self.kernel, self.grid = kernel, grid
        self.sets = len(tensors[0].data)
        self.tensors = {p.name: tensors[p.position] for p in kernel.pointers}
        self.boxes = {m.name: Boxes(m, tensors[m.position]) for m in kernel.tensor_maps}
        self.shared = SharedMemory(kernel.smem_bytes, grid.blocks, self.sets)
        self.registers: dict[str, Array] = {}
        self.dtypes: dict[str, DType] = {}
        self.loops: dict[str, int] = {}
        self.divisors: dict[str, Array] = {}
        self.executed = 0

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for _ in self.body(self.kernel.body, None):
                pass  # nobody else has a turn

    def body(self, body: tuple[Stmt, ...], lanes: Flags | None) -> Iterator[None]:
        """Statements in order; others have their turn where the threads wait for other blocks."""
        for s in body:
            self.executed += 1
            if self.executed > MAX_STATEMENTS:
                raise Fault("the kernel does not end")
            match s:
                case Loop():
                    yield from self.loop(s, lanes)
                case If():
                    yield from self.branch(s, lanes)
                case Elected():
                    elected = self.grid.thread == 0
                    yield from self.body(s.body, elected if lanes is None else elected & lanes)
                case WaitBarrier() | ClusterWait():
                    yield
                case _:
                    self.statement(s, lanes)

    def statement(self, s: Stmt, lanes: Flags | None) -> None:
        """One that is not made of others."""
        match s:
            case Declare():
                self.registers[s.name] = poisoned((s.elems, self.sets, self.grid.threads), s.dtype)
                self.dtypes[s.name] = s.dtype
            case GlobalLoad() | CopyAsync():
                self.load(s, lanes)
            case GlobalStore():
                self.store(s, lanes)
            case SharedLoad():
                for i, words in enumerate(self.places(s.source, s.width, lanes)):
                    self.write(s.target, i, self.shared.view(s.source.dtype)[:, words], lanes)
            case SharedStore():
                for i, words in enumerate(self.places(s.target, s.width, lanes)):
                    self.keep(words, s.target.dtype, self.read(s.source, lanes, i), lanes)
            case MatrixLoad() | MatrixStore():
                self.matrices(s, lanes)
            case Compute():
                values = [self.read(x, lanes) if isinstance(x, Reg) else x for x in s.operands]
                self.write(s.target, 0, computed(s, values), lanes)
            case Index():
                number = self.grid.each(s.value, self.loops)
                source = DType.I64 if s.target.dtype in (DType.F64, DType.I64, DType.I32) else DType.I32
                self.write(s.target, 0, converted(number.astype(NUMPY[source]), source, s.target.dtype)[None, :], lanes)
            case Fill():
                for i in range(s.elems):
                    self.write_at(s.name, i, first_of(s.kind, s.dtype), lanes)
            case Accumulate():
                self.accumulate(s, 0, lanes)
            case AccumulateRun(of_sizes=True):
                for i in range(s.width):
                    self.accumulate_size(s, i, lanes)
            case AccumulateRun():
                for i in range(s.width):
                    self.accumulate(Accumulate(s.kind, s.target, s.source), i, lanes)
            case Divisor():
                by = s.value
                self.divisors[s.name] = (
                    literal_of(by, DType.F32) if not isinstance(by, Reg) else self.read(by, lanes).copy()
                )
            case WholeNumber():
                self.write(s.target, 0, self.whole(s, lanes), lanes)
            case Shuffle():
                self.shuffle(s, lanes)
            case ScanLanes():
                self.scan_lanes(s, lanes)
            case ScanRun():
                start, elements = self.read(s.running, lanes), [self.read(s.source, lanes, i) for i in range(s.width)]
                sums = running_sums(start, elements, s.running.dtype)
                for i in range(s.width):
                    self.write(s.target, i, sums[i if s.is_exclusive else i + 1], lanes)
                self.write(s.running, 0, sums[-1], lanes)
            case RemoteStore():
                self.remote_store(s, lanes)
            case Convert():
                for i in range(s.width):
                    found = converted(self.read(s.source, lanes, i), s.source.dtype, s.target.dtype)
                    self.write(s.target, i, found, lanes)
            case TmaLoad() | TmaStore():
                self.tiles(s, lanes)
            case BulkLoad() | BulkStore():
                self.runs(s, lanes)
            case AddBytes() | Arrive() | SyncPart() | SetRegisters():
                raise AssertionError("refuse was asked")
            case Loop() | If() | Elected() | WaitBarrier() | ClusterWait():
                raise AssertionError("body has statements of its own for these")
            case (
                Opaque()
                | CommitCopies()
                | WaitCopies()
                | ClusterArrive()
                | InitBarriers()
                | ExpectBytes()
                | Sync()
                | FenceAsync()
                | CommitStores()
                | WaitStores()
            ):
                pass
            case _:
                raise NotImplementedError(f"{s}: tensor memory and products, which the emulator knows")

    # Control ---------------------------------------------------------------------------------------------------------

    def loop(self, s: Loop, lanes: Flags | None) -> Iterator[None]:
        trips = self.grid.value(s.trip, self.loops)
        last = trips if isinstance(trips, int) else int((trips if lanes is None else trips[lanes]).max())
        for i in range(last):
            self.loops[s.var.name] = i
            here = lanes
            if not isinstance(trips, int):
                going = i < trips
                here = going if lanes is None else going & lanes
            yield from self.body(s.body, here)
        self.loops.pop(s.var.name, None)

    def branch(self, s: If, lanes: Flags | None) -> Iterator[None]:
        holds = self.grid.holds(s.conditions, self.loops, lanes)
        others = None if holds is None else ~holds if lanes is None else lanes & ~holds
        ways: list[Iterator[None]] = []
        if holds is None or holds.any():
            ways.append(self.body(s.then, holds))
        if s.orelse and others is not None and others.any():
            ways.append(self.body(s.orelse, others))
        if self.kernel.cluster > 1 and len(ways) > 1:
            yield from self.in_turns(ways)
            return
        for way in ways:
            yield from way

    def in_turns(self, ways: Sequence[Iterator[None]]) -> Iterator[None]:
        """Blocks of a cluster that go different ways wait for each other; each way has its own names."""
        around = self.loops, self.registers
        states = [(way, dict(self.loops), dict(self.registers)) for way in ways]
        while states:
            going = []
            for way, self.loops, self.registers in states:
                if next(way, self) is not self:
                    going.append((way, self.loops, self.registers))
            states = going
            self.loops, self.registers = around
            if states:
                yield

    # Registers -------------------------------------------------------------------------------------------------------

    def read(self, reg: Reg, lanes: Flags | None, lane: int = 0) -> Array:
        """[set, thread]."""
        found: Array = self.array(reg.name)[self.element(reg, lanes, lane)]
        return found

    def write(self, reg: Reg, lane: int, values: Array, lanes: Flags | None) -> None:
        self.write_at(reg.name, self.element(reg, lanes, lane), values, lanes)

    def write_at(self, name: str, at: int, values: Array, lanes: Flags | None) -> None:
        where: Any = True if lanes is None else lanes[None, :]
        np.copyto(self.array(name)[at], values, casting="same_kind", where=where)

    def array(self, name: str) -> Array:
        if name not in self.registers:
            raise NoKernel(f"{name} is not declared")
        return self.registers[name]

    def element(self, reg: Reg, lanes: Flags | None, lane: int) -> int:
        at = self.grid.one(reg.offset, self.loops, lanes) + lane
        if not 0 <= at < len(self.array(reg.name)):
            raise NoKernel(f"{reg.name}[{at}] is outside its array")
        return at

    def accumulate(self, s: Accumulate, lane: int, lanes: Flags | None) -> None:
        holds = self.grid.holds(s.guards, self.loops, lanes)
        if holds is not None and not holds.any():
            return
        element = converted(self.read(s.source, lanes, lane), s.source.dtype, s.target.dtype)
        self.write(s.target, 0, folded(s.kind, self.read(s.target, lanes), element, s.target.dtype), holds)

    def accumulate_size(self, s: AccumulateRun, lane: int, lanes: Flags | None) -> None:
        size = np.abs(converted(self.read(s.source, lanes, lane), s.source.dtype, s.target.dtype))
        self.write(s.target, 0, folded(s.kind, self.read(s.target, lanes), size, s.target.dtype), lanes)

    def whole(self, s: WholeNumber, lanes: Flags | None) -> Array:
        value = self.read(s.source, lanes)
        value = value / self.divisors[s.divisor] if s.divisor else value
        kept = np.clip(np.rint(value), s.low, s.high)
        return np.where(np.isnan(kept), 0, kept).astype(np.int32)

    def shuffle(self, s: Shuffle, lanes: Flags | None) -> None:
        number = np.arange(self.grid.threads)
        for mask in s.masks:
            other = self.grid.block * self.grid.block_threads + (self.grid.thread ^ mask)
            # A lane that has no partner has its own value (PTX ISA, shfl.sync).
            other = np.where((self.grid.thread ^ mask) < self.grid.block_threads, other, number)
            for element in range(s.elems):
                values = self.array(s.name)[element].copy()
                self.write_at(s.name, element, folded(s.kind, values, values[:, other], s.dtype), lanes)

    def scan_lanes(self, s: ScanLanes, lanes: Flags | None) -> None:
        first, *others = (self.read(s.source, lanes, i) for i in range(s.width))
        own = running_sums(first, others, s.source.dtype)[-1]
        before, total = over_lanes(own, self.grid.each(s.lane, self.loops), s.lanes, s.source.dtype)
        self.write(s.before, 0, before, lanes)
        self.write(s.total, 0, total, lanes)

    # Memory ----------------------------------------------------------------------------------------------------------

    def tensor(self, name: str) -> GlobalTensor:
        if name not in self.tensors:
            raise Fault(f"{name} is no parameter")
        return self.tensors[name]

    def pieces(self, s: GlobalLoad | GlobalStore | CopyAsync, lanes: Flags | None) -> list[Flags | None]:
        """For each lane of a vector the threads for which it is moved: where both ends are inside, all lanes are."""
        guards = s.guards if isinstance(s, GlobalStore) else (*s.guards, *s.within)
        inside = self.grid.holds(guards, self.loops, lanes)
        head = None if isinstance(s, CopyAsync) else s.head
        ends = tuple(c for c in (head, s.tail) if c is not None)
        if not ends:
            return [inside] * s.width
        first = (head,) if head is not None else ()
        last = (s.tail,) if s.tail is not None else ()
        whole = self.grid.holds(first, {**self.loops, "lane": 0}, inside)
        whole = self.grid.holds(last, {**self.loops, "lane": s.width - 1}, whole)
        if whole is None:
            return [None] * s.width
        each = (self.grid.holds(ends, {**self.loops, "lane": i}, inside) for i in range(s.width))
        return [None if one is None else one | whole for one in each]

    def offsets(self, s: GlobalLoad | GlobalStore | CopyAsync, dtype: DType, lanes: Flags | None) -> Offsets:
        """Where vectors begin. Raises Fault where one needs a better alignment than it has."""
        found = self.grid.each(s.offset, self.loops)
        straddles = isinstance(s, GlobalLoad) and s.straddles
        if s.width > 1 and not straddles and (found[slice(None) if lanes is None else lanes] % s.width).any():
            raise Fault(f"{s.tensor} is accessed at an address that is not aligned")
        return found

    def load(self, s: GlobalLoad | CopyAsync, lanes: Flags | None) -> None:
        pieces = self.pieces(s, lanes)
        whole = None if any(p is None for p in pieces) else np.logical_and.reduce([p for p in pieces if p is not None])
        offsets = self.offsets(s, s.target.dtype, lanes if whole is None else whole)
        places = self.places(s.target, s.width, lanes) if isinstance(s, CopyAsync) else None
        for i, these in enumerate(pieces):
            at = offsets + i
            found = self.tensor(s.tensor).load(at if these is None else np.where(these, at, 0))
            if these is not None:
                found = np.where(these[None, :], found, np.zeros((), found.dtype))
            if places is None:
                assert isinstance(s, GlobalLoad)
                self.write(s.target, i, found, lanes)
            else:
                self.keep(places[i], s.target.dtype, found, lanes)

    def store(self, s: GlobalStore, lanes: Flags | None) -> None:
        pieces = self.pieces(s, lanes)
        whole = None if any(p is None for p in pieces) else np.logical_and.reduce([p for p in pieces if p is not None])
        offsets = self.offsets(s, s.source.dtype, lanes if whole is None else whole)
        for i, these in enumerate(pieces):
            values = self.read(s.source, lanes, i)
            if these is None:
                self.tensor(s.tensor).store(offsets + i, values)
            elif these.any():
                self.tensor(s.tensor).store(offsets[these] + i, values[:, these])

    def places(self, place: Shared, width: int, lanes: Flags | None) -> list[Offsets]:
        """The words of each lane of a vector in shared memory. Raises Fault where one is not aligned."""
        at, size = self.grid.each(place.byte_offset, self.loops), place.dtype.nbytes
        if (at[slice(None) if lanes is None else lanes] % (width * size)).any():
            raise Fault("shared memory is accessed at an address that is not aligned")
        return [self.shared.words(self.grid.block, at + i * size, place.dtype, lanes) for i in range(width)]

    def keep(self, words: Offsets, dtype: DType, values: Array, lanes: Flags | None) -> None:
        view = self.shared.view(dtype)
        if lanes is None:
            view[:, words] = values
        else:
            view[:, words[lanes]] = values[:, lanes]

    def remote_store(self, s: RemoteStore, lanes: Flags | None) -> None:
        """To the same place in block `rank` of the cluster."""
        rank, size = self.grid.each(s.rank, self.loops), s.source.dtype.nbytes
        blocks = self.grid.block // self.grid.cluster * self.grid.cluster + rank
        at = self.grid.each(s.target.byte_offset, self.loops)
        for i in range(s.width):
            words = self.shared.words(blocks, at + i * size, s.source.dtype, lanes)
            self.keep(words, s.source.dtype, self.read(s.source, lanes, i), lanes)

    def matrices(self, s: MatrixLoad | MatrixStore, lanes: Flags | None) -> None:
        """Units of 16 bits: of matrix i, a lane holds a part of the row that lane 8 i + r names (PTX ISA, ldmatrix)."""
        if lanes is not None and (lanes.reshape(-1, _WARP).any(axis=1) != lanes.reshape(-1, _WARP).all(axis=1)).any():
            raise Fault("matrices are moved by some lanes of a warp")
        held, place = (s.target, s.source) if isinstance(s, MatrixLoad) else (s.source, s.target)
        rows = self.grid.each(place.byte_offset, self.loops)
        t, warp = self.grid.thread % _WARP, np.arange(self.grid.threads) // _WARP * _WARP
        units = s.width * held.dtype.nbytes // 2
        view, first = self.shared.view(DType.BF16), self.element(held, lanes, 0)
        registers = self.array(held.name)[first : first + s.width]
        packed = registers.dtype.itemsize == 1
        for unit in range(units):
            i, b = divmod(unit, 2)
            r, c = (2 * (t % 4) + b, t // 4) if s.is_transposed else (t // 4, 2 * (t % 4) + b)
            at = rows[warp + _ROWS * i + r] + 2 * c
            words = self.shared.words(self.grid.block, at, DType.BF16, lanes)
            if isinstance(s, MatrixLoad):
                found = np.ascontiguousarray(view[:, words])
                if packed:
                    for half, part in enumerate((found & 0xFF, found >> 8)):
                        value = part.astype(np.uint8).view(registers.dtype)
                        self.write_at(held.name, first + 2 * unit + half, value, lanes)
                else:
                    self.write_at(held.name, first + unit, found.view(registers.dtype), lanes)
            elif packed:
                low, high = (registers[2 * unit + n].view(np.uint8).astype(np.uint16) for n in (0, 1))
                self.keep(words, DType.BF16, low | high << 8, lanes)
            else:
                self.keep(words, DType.BF16, registers[unit].view(np.uint16), lanes)

    # Bulk copies -----------------------------------------------------------------------------------------------------

    def issuers(self, lanes: Flags | None) -> Offsets:
        """The threads that come here, at most one a block."""
        found = np.flatnonzero(np.ones(self.grid.threads, np.bool_) if lanes is None else lanes)
        if len(np.unique(self.grid.block[found])) != len(found):
            raise Fault("a bulk copy is issued by several threads")
        return found

    def tiles(self, s: TmaLoad | TmaStore, lanes: Flags | None) -> None:
        who = self.issuers(lanes)
        if s.tensor_map not in self.boxes:
            raise Fault(f"{s.tensor_map} is no parameter")
        boxes, shared = self.boxes[s.tensor_map], s.target if isinstance(s, TmaLoad) else s.source
        at = self.grid.each(shared.byte_offset, self.loops)[who]
        coordinates = [self.grid.each(c, self.loops)[who] for c in s.coordinates]
        move = boxes.load if isinstance(s, TmaLoad) else boxes.store
        move(self.shared, self.grid.block[who], at, coordinates)

    def runs(self, s: BulkLoad | BulkStore, lanes: Flags | None) -> None:
        who, place = self.issuers(lanes), s.target if isinstance(s, BulkLoad) else s.source
        at = self.grid.each(place.byte_offset, self.loops)[who]
        tensor = self.tensor(s.tensor)
        every = run_of(tensor, self.grid.each(s.offset, self.loops)[who], s.nbytes, at, place.dtype)
        step = np.arange(every.shape[1])[None, :] * place.dtype.nbytes
        words = self.shared.words(self.grid.block[who][:, None], at[:, None] + step, place.dtype, None).reshape(-1)
        view = self.shared.view(place.dtype)
        if isinstance(s, BulkLoad):
            view[:, words] = tensor.load(every.reshape(-1))
        else:
            tensor.store(every.reshape(-1), view[:, words])


def executed(kernel: Kernel, grid: Grid, tensors: list[GlobalTensor]) -> None:
    """Runs one launch. Raises Fault, and Unsupported where it is not run here."""
    refuse(kernel)
    Executor(kernel, grid, tensors).run()
