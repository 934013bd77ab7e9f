"""Runs kernel IR in NumPy: the witness, without a GPU, that lowering is right.

Blocks run one after another. The threads of a block go through the statements together, one NumPy lane each; a
statement of some of them sees those only. What a kernel may not rely on is made to go wrong: the order of threads
between block barriers (`interpreted_shared` knows who touched each byte), the time of bulk copies, values nobody wrote,
memory beyond a tensor. The first breach raises KernelFault, which names the rule and the statement.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion, Literal
from compiler.ir.ops import MOVES, OpKind
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
    SharedLoad,
    SharedStore,
    Shuffle,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.operands import Less, Reg
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
from tests.compiler.lower.interpreted_global import Access, GlobalTensor, MappedTensor, bits_of, shared_guards, swizzled
from tests.compiler.lower.interpreted_matrices import ROW_BYTES, gathered, naming, spread
from tests.compiler.lower.interpreted_shared import SharedMemory
from tests.compiler.lower.interpreted_values import BITS, Array, KernelFault, computed, decoded, encoded, folded, sides

MAX_STATEMENTS = 1 << 17
"""Statements that one block may execute: small kernels need thousands, a wrong trip count needs billions."""


def run(kernel: Kernel, fusion: Fusion, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of one launch, as bits of their shapes. `inputs` are flat storages of bits, holes included.

    Elements that the kernel does not store are poison: all bits set, a NaN. Raises KernelFault.
    """
    contents: list[Array | None] = [*inputs, *(None for _ in fusion.outputs)]
    names = (*fusion.inputs, *fusion.outputs)
    tensors = [GlobalTensor(fusion.value(n), c) for n, c in zip(names, contents, strict=True)]
    by_name = {p.name: tensors[p.position] for p in kernel.pointers}
    maps = {m.name: MappedTensor(m, tensors[m.position]) for m in kernel.tensor_maps}
    grid = itertools.product(*(range(n) for n in reversed(kernel.grid)))
    for number, (z, y, x) in enumerate(grid):
        block = _Block(kernel, number, {"bx": x, "by": y, "bz": z}, by_name, maps)
        block.run()
    return tuple(tensors[len(fusion.inputs) + i].logical() for i in range(len(fusion.outputs)))


@dataclass
class _Lanes:
    """The threads that execute a statement, and the variables as they see them: integers or one number a thread."""

    threads: Array
    variables: dict[str, Any]

    def only(self, these: Array) -> _Lanes:
        """The lanes where `these` holds."""
        own = {k: v[these] if isinstance(v, np.ndarray) else v for k, v in self.variables.items()}
        return _Lanes(self.threads[these], own)


@dataclass
class _Registers:
    """A register array [element, thread]: bits, and which of them were written."""

    dtype: DType
    bits: Array
    written: Array


class _Block:
    def __init__(
        self,
        kernel: Kernel,
        number: int,
        index: dict[str, int],
        tensors: dict[str, GlobalTensor],
        maps: dict[str, MappedTensor],
    ) -> None:
        self.kernel = kernel
        self.first_thread = number * kernel.threads
        self.tensors = tensors
        self.maps = maps
        self.shared = SharedMemory(kernel.smem_bytes, kernel.smem_align, kernel.threads)
        self.registers: dict[str, _Registers] = {}
        self.executed = 0
        threads = np.arange(kernel.threads)
        x, y, _ = kernel.block
        places = {"tx": threads % x, "ty": threads // x % y, "tz": threads // (x * y)}
        self.all = _Lanes(threads, {**index, **places})

    def run(self) -> None:
        self.body(self.kernel.body, self.all)
        self.shared.end()

    def body(self, body: tuple[Stmt, ...], lanes: _Lanes) -> None:
        """Statements in order; what they declare ends with them."""
        for s in body:
            self.executed += 1
            if self.executed > MAX_STATEMENTS:
                raise KernelFault("loops_come_to_an_end", f"{MAX_STATEMENTS} statements of one block")
            try:
                self.statement(s, lanes)
            except KernelFault as fault:
                if not hasattr(fault, "__notes__"):
                    fault.add_note(f"in {s}")
                raise
        for s in body:
            if isinstance(s, Declare):
                del self.registers[s.name]

    def statement(self, s: Stmt, lanes: _Lanes) -> None:
        match s:
            case Declare():
                bits = np.full((s.elems, self.kernel.threads), np.iinfo(BITS[s.dtype]).max, BITS[s.dtype])
                self.registers[s.name] = _Registers(s.dtype, bits, np.zeros(bits.shape, np.bool_))
            case Loop():
                self.loop(s, lanes)
            case If():
                self.branch(s, lanes)
            case Elected():
                if (elected := lanes.threads == 0).any():
                    self.body(s.body, lanes.only(elected))
            case GlobalLoad():
                self.global_load(s, lanes)
            case GlobalStore():
                self.global_store(s, lanes)
            case CopyAsync():
                self.copy_async(s, lanes)
            case CommitCopies():
                self.shared.commit_copies(lanes.threads)
            case WaitCopies():
                self.shared.wait_copies(s.pending, lanes.threads)
            case SharedLoad():
                size = s.width * s.target.dtype.nbytes
                raw = self.shared.load(self.each(s.source.byte_offset, lanes), size, lanes.threads)
                self.write(s.target, bits_of(raw, s.target.dtype), lanes)
            case SharedStore():
                raw = np.ascontiguousarray(self.read(s.source, s.width, lanes).T).view(np.uint8)
                self.shared.store(self.each(s.target.byte_offset, lanes), raw, lanes.threads)
            case MatrixLoad():
                named = naming(s.width, s.target.dtype.nbytes, lanes.threads)
                rows = self.each(s.source.byte_offset, lanes)[named]
                self.write(s.target, spread(s, self.shared.load(rows, ROW_BYTES, lanes.threads[named])), lanes)
            case MatrixStore():
                named = naming(s.width, s.source.dtype.nbytes, lanes.threads)
                rows = self.each(s.target.byte_offset, lanes)[named]
                self.shared.store(rows, gathered(s, self.read(s.source, s.width, lanes)), lanes.threads[named])
            case Compute():
                self.write(s.target, self.compute(s, lanes)[None, :], lanes)
            case Index():
                values = self.each(s.value, lanes).astype(np.float32)[None, :]
                self.write(s.target, encoded(values, s.target.dtype), lanes)
            case Fill():
                first = {OpKind.AMAX: -np.inf, OpKind.AMIN: np.inf, OpKind.PROD: 1.0}.get(s.kind, 0.0)
                values = np.full((s.elems, len(lanes.threads)), first, np.float32)
                self.write(Reg(s.name, s.dtype, Expr()), encoded(values, s.dtype), lanes)
            case Accumulate():
                self.accumulate(s, lanes)
            case AccumulateRun(of_sizes=True):
                sizes = np.abs(decoded(self.read(s.source, s.width, lanes), s.source.dtype))
                most = folded(s.kind, decoded(self.read(s.target, 1, lanes)[0], DType.F32), sizes.max(0))
                self.write(s.target, encoded(most, DType.F32)[None, :], lanes)
            case AccumulateRun():
                for i in range(s.width):
                    one = Reg(s.source.name, s.source.dtype, s.source.offset + i)
                    self.accumulate(Accumulate(s.kind, s.target, one), lanes)
            case Opaque():
                pass
            case Shuffle():
                self.shuffle(s, lanes)
            case RemoteStore() | ClusterArrive() | ClusterWait():
                raise KernelFault("blocks_run_one_after_another", "a cluster: the emulator runs those")
            case Convert():
                values = decoded(self.read(s.source, s.width, lanes), s.source.dtype)
                self.write(s.target, encoded(values, s.target.dtype), lanes)
            case TmaLoad():
                self.tma_load(s, lanes)
            case TmaStore():
                self.tma_store(s, lanes)
            case BulkLoad():
                self.bulk_load(s, lanes)
            case BulkStore():
                self.bulk_store(s, lanes)
            case InitBarriers():
                self.everybody(lanes)
                for name in s.tensor_maps:
                    self.mapped(name)
                self.shared.init_barriers(s.byte_offset, s.count)
            case ExpectBytes():
                self.shared.expect(self.one(s.barrier.byte_offset, lanes), s.nbytes, self.issuer(lanes))
            case AddBytes() | Arrive() | SyncPart() | SetRegisters():
                raise KernelFault("one_thread_loads", "parts of a block: the emulator runs those")
            case WaitBarrier():
                at, parity = self.one(s.barrier.byte_offset, lanes), self.one(s.parity, lanes)
                self.shared.wait(at, parity, lanes.threads)
            case Sync():
                self.everybody(lanes)
                self.shared.sync()
            case FenceAsync():
                self.shared.fence(lanes.threads)
            case CommitStores():
                self.shared.commit(lanes.threads)
            case WaitStores():
                self.shared.wait_stores(lanes.threads)
            case _:
                raise NotImplementedError(f"{s}: tensor memory, which the emulator knows")

    # Control ---------------------------------------------------------------------------------------------------------

    def loop(self, s: Loop, lanes: _Lanes) -> None:
        trip = self.one(s.trip, lanes)
        if not 0 <= trip <= s.var.extent:
            raise KernelFault("loops_stay_in_their_extent", f"{trip} iterations of {s.var}, which has {s.var.extent}")
        inner = _Lanes(lanes.threads, dict(lanes.variables))
        for i in range(trip):
            inner.variables[s.var.name] = i
            self.body(s.body, inner)

    def branch(self, s: If, lanes: _Lanes) -> None:
        holds = self.all_hold(s.conditions, lanes)
        for body, these in ((s.then, holds), (s.orelse, ~holds)):
            if these.all():
                self.body(body, lanes)
            elif these.any():
                self.body(body, lanes.only(these))

    def everybody(self, lanes: _Lanes) -> None:
        if len(lanes.threads) != self.kernel.threads:
            raise KernelFault("block_barriers_are_reached_by_all", f"{len(lanes.threads)} of {self.kernel.threads}")

    def issuer(self, lanes: _Lanes) -> int:
        if len(lanes.threads) != 1:
            raise KernelFault("bulk_copies_are_issued_once", f"{len(lanes.threads)} threads issue it")
        return int(lanes.threads[0])

    # Expressions -----------------------------------------------------------------------------------------------------

    def each(self, e: Expr, lanes: _Lanes, **more: int) -> Array:
        """The value of an expression in every lane. Kernels compute in unsigned integers: none may be negative."""
        found = self.value(e, lanes, **more)
        return np.full(lanes.threads.shape, found, np.int64) if isinstance(found, int) else found

    def one(self, e: Expr, lanes: _Lanes) -> int:
        """The value of an expression that all lanes agree on."""
        found = self.value(e, lanes)
        if isinstance(found, int):
            return found
        if (found != found[0]).any():
            raise KernelFault("threads_agree", f"{e} differs between threads")
        return int(found[0])

    def value(self, e: Expr, lanes: _Lanes, **more: int) -> Array | int:
        """The value of an expression; an int where nothing in it differs between lanes."""
        try:
            found = e.evaluate({**lanes.variables, **more} if more else lanes.variables)
        except KeyError as error:
            raise KernelFault("variables_are_in_scope", f"{error} in {e}") from None
        least = int(found.min(initial=0)) if isinstance(found, np.ndarray) else found
        if least < 0:
            raise KernelFault("indices_are_not_negative", f"{e} is {least}")
        return np.asarray(found, np.int64) if isinstance(found, np.ndarray) else int(found)

    def all_hold(self, conditions: Sequence[Less], lanes: _Lanes, **more: int) -> Array:
        holds = np.ones(lanes.threads.shape, np.bool_)
        for c in conditions:
            left, right = sides(c)
            if holds.all():
                holds = self.each(left, lanes, **more) < self.each(right, lanes, **more)
            elif holds.any():
                some = lanes.only(holds)
                holds[holds] = self.each(left, some, **more) < self.each(right, some, **more)
        return holds

    # Registers -------------------------------------------------------------------------------------------------------

    def place(self, reg: Reg, width: int, lanes: _Lanes) -> tuple[_Registers, Any]:
        registers = self.registers.get(reg.name)
        if registers is None or registers.dtype is not reg.dtype:
            raise KernelFault("registers_are_declared", f"{reg.name} of {reg.dtype}")
        at = self.one(reg.offset, lanes)
        if at + width > len(registers.bits):
            raise KernelFault("registers_are_inside", f"{width} at {reg.name}[{at}], which has {len(registers.bits)}")
        if len(lanes.threads) == self.kernel.threads:
            return registers, slice(at, at + width)
        return registers, np.ix_(np.arange(at, at + width), lanes.threads)

    def read(self, reg: Reg, width: int, lanes: _Lanes) -> Array:
        """Bits [lane of the vector, thread]."""
        registers, place = self.place(reg, width, lanes)
        if not registers.written[place].all():
            raise KernelFault("registers_are_written_before_read", f"{width} at {reg.name}[{reg.offset}]")
        found: Array = registers.bits[place]
        return found

    def write(self, reg: Reg, bits: Array, lanes: _Lanes) -> None:
        registers, place = self.place(reg, len(bits), lanes)
        registers.bits[place] = bits
        registers.written[place] = True

    def compute(self, s: Compute, lanes: _Lanes) -> Array:
        dtypes = [x.dtype for x in s.operands if isinstance(x, Reg)]
        bits = [self.read(x, 1, lanes)[0] for x in s.operands if isinstance(x, Reg)]
        if s.kind in MOVES and dtypes == [s.target.dtype]:
            same: Array = bits[0]
            return same
        values = iter([decoded(b, d) for b, d in zip(bits, dtypes, strict=True)])
        operands = [
            np.full(lanes.threads.shape, x.value, np.float32) if isinstance(x, Literal) else next(values)
            for x in s.operands
        ]
        return encoded(computed(s.kind, operands), s.target.dtype)

    def accumulate(self, s: Accumulate, lanes: _Lanes) -> None:
        holds = self.all_hold(s.guards, lanes)
        if holds.any():
            some = lanes if holds.all() else lanes.only(holds)
            pair = [decoded(self.read(r, 1, some)[0], r.dtype) for r in (s.target, s.source)]
            self.write(s.target, encoded(folded(s.kind, *pair), s.target.dtype)[None, :], some)

    def shuffle(self, s: Shuffle, lanes: _Lanes) -> None:
        """A lane reads what the lane at that distance has before the step."""
        self.everybody(lanes)
        for element in range(s.elems):
            reg = Reg(s.name, s.dtype, Expr((), element))
            for mask in s.masks:
                values = decoded(self.read(reg, 1, lanes)[0], s.dtype)
                other = values[lanes.threads ^ mask]
                self.write(reg, encoded(folded(s.kind, values, other), s.dtype)[None, :], lanes)

    # Global memory ---------------------------------------------------------------------------------------------------

    def tensor(self, name: str, dtype: DType) -> GlobalTensor:
        found = self.tensors.get(name)
        if found is None or found.dtype is not dtype:
            raise KernelFault("parameters_are_passed", f"{name} of {dtype}")
        return found

    def pieces(self, s: Access, lanes: _Lanes) -> list[tuple[int, int, Array]]:
        """Accesses that the threads make: (first lane of the vector, width, which threads)."""
        inside = self.all_hold(shared_guards(s), lanes)
        head = None if isinstance(s, CopyAsync) else s.head
        if s.tail is None and head is None:
            return [(0, s.width, inside)]
        # The first and the last lane decide: they are inside, and so are those between, or each is looked at.
        first, last = (() if c is None else (c,) for c in (head, s.tail))
        whole = inside & self.all_hold(first, lanes, lane=0) & self.all_hold(last, lanes, lane=s.width - 1)
        rest = inside & ~whole
        ones = [(i, 1, rest & self.all_hold((*first, *last), lanes, lane=i)) for i in range(s.width)]
        return [(0, s.width, whole), *ones]

    def guarded_offsets(self, s: Access, lanes: _Lanes) -> Array:
        """The offset in every lane where the guards hold; elsewhere it has no meaning, and 0 here."""
        inside = self.all_hold(shared_guards(s), lanes)
        offsets = np.zeros(len(lanes.threads), np.int64)
        if inside.any():
            offsets[inside] = self.each(s.offset, lanes.only(inside))
        return offsets

    def loaded(self, s: GlobalLoad | CopyAsync, lanes: _Lanes) -> Array:
        """Bits [lane of the vector, thread]; zeros where nothing is read."""
        tensor, offsets = self.tensor(s.tensor, s.target.dtype), self.guarded_offsets(s, lanes)
        bits = np.zeros((s.width, len(lanes.threads)), BITS[s.target.dtype])
        for first, width, these in self.pieces(s, lanes):
            if these.any():
                bits[first : first + width, these] = tensor.load(offsets[these] + first, width)
        return bits

    def global_load(self, s: GlobalLoad, lanes: _Lanes) -> None:
        self.write(s.target, self.straddled(s, lanes) if s.straddles else self.loaded(s, lanes), lanes)

    def straddled(self, s: GlobalLoad, lanes: _Lanes) -> Array:
        """Words at any address: conditions are asked around them."""
        tensor, offsets = self.tensor(s.tensor, s.target.dtype), self.each(s.offset, lanes)
        return tensor.load_straddling(offsets, s.width, None if s.skipped is None else self.each(s.skipped, lanes))

    def copy_async(self, s: CopyAsync, lanes: _Lanes) -> None:
        """Its address is a multiple of all of its bytes, however few of them are read (PTX ISA, cp.async)."""
        tensor, nbytes = self.tensor(s.tensor, s.target.dtype), s.target.dtype.nbytes
        inside = self.all_hold(shared_guards(s), lanes)
        starts = tensor.align + self.guarded_offsets(s, lanes)[inside] * nbytes
        if (starts % (s.width * nbytes)).any():
            raise KernelFault("global_access_is_aligned", f"cp.async of {s.width * nbytes} bytes from {s.tensor}")
        raw = np.ascontiguousarray(self.loaded(s, lanes).T).view(np.uint8)
        self.shared.begin_copy(self.each(s.target.byte_offset, lanes), raw, lanes.threads)

    def global_store(self, s: GlobalStore, lanes: _Lanes) -> None:
        tensor, offsets = self.tensor(s.tensor, s.source.dtype), self.guarded_offsets(s, lanes)
        bits = self.read(s.source, s.width, lanes)
        threads = lanes.threads + self.first_thread
        for first, width, these in self.pieces(s, lanes):
            if these.any():
                tensor.store(offsets[these] + first, bits[first : first + width, these], threads[these])

    # Bulk copies -----------------------------------------------------------------------------------------------------

    def tma_load(self, s: TmaLoad, lanes: _Lanes) -> None:
        thread, mapped = self.issuer(lanes), self.mapped(s.tensor_map)
        box = mapped.box(tuple(self.one(c, lanes) for c in s.coordinates), is_store=False)
        contents = np.zeros(mapped.tile_elems, BITS[mapped.map.dtype])
        contents[box.inside] = mapped.tensor.load(box.offsets[box.inside], 1)[0]
        addresses = self.tile(mapped, self.one(s.target.byte_offset, lanes), s.nbytes)
        at = self.one(s.barrier.byte_offset, lanes)
        self.shared.begin_load(at, addresses, contents.view(np.uint8), thread)

    def tma_store(self, s: TmaStore, lanes: _Lanes) -> None:
        thread, mapped = self.issuer(lanes), self.mapped(s.tensor_map)
        box = mapped.box(tuple(self.one(c, lanes) for c in s.coordinates), is_store=True)
        addresses = self.tile(mapped, self.one(s.source.byte_offset, lanes), s.nbytes)
        kept = addresses.reshape(mapped.tile_elems, mapped.nbytes)[box.inside].reshape(-1)
        self.shared.begin_store(kept, partial(self.finish, mapped.tensor, box.offsets[box.inside], thread), thread)

    def bulk_load(self, s: BulkLoad, lanes: _Lanes) -> None:
        thread, tensor = self.issuer(lanes), self.tensor(s.tensor, s.target.dtype)
        offsets = self.run_of(tensor, self.one(s.offset, lanes), s.nbytes)
        contents = np.ascontiguousarray(tensor.load(offsets, 1)[0]).view(np.uint8)
        addresses = self.tile_of_bytes(self.one(s.target.byte_offset, lanes), s.nbytes, 16)
        self.shared.begin_load(self.one(s.barrier.byte_offset, lanes), addresses, contents, thread)

    def bulk_store(self, s: BulkStore, lanes: _Lanes) -> None:
        thread, tensor = self.issuer(lanes), self.tensor(s.tensor, s.source.dtype)
        offsets = self.run_of(tensor, self.one(s.offset, lanes), s.nbytes)
        addresses = self.tile_of_bytes(self.one(s.source.byte_offset, lanes), s.nbytes, 16)
        self.shared.begin_store(addresses, partial(self.finish, tensor, offsets, thread), thread)

    def finish(self, tensor: GlobalTensor, offsets: Array, thread: int, contents: Array) -> None:
        """The last act of a bulk store: what was read from shared memory goes to the tensor."""
        bits = np.ascontiguousarray(contents).view(BITS[tensor.dtype])
        tensor.store(offsets, bits[None, :], np.full(len(bits), self.first_thread + thread))

    def mapped(self, name: str) -> MappedTensor:
        if name not in self.maps:
            raise KernelFault("parameters_are_passed", name)
        return self.maps[name]

    def tile(self, mapped: MappedTensor, at: int, nbytes: int) -> Array:
        """Where the bytes of a box lie in shared memory, in the order of the box."""
        if nbytes != mapped.tile_elems * mapped.nbytes:
            raise KernelFault("tiles_have_the_bytes_of_their_box", f"{nbytes}, the box {mapped.map.box}")
        base = self.shared.base
        return swizzled(self.tile_of_bytes(at, nbytes, 128) + base, mapped.map.swizzle) - base

    def tile_of_bytes(self, at: int, nbytes: int, align: int) -> Array:
        if (self.shared.base + at) % align:
            raise KernelFault("shared_access_is_aligned", f"bulk copy at byte {at}, aligned to {align}")
        return np.arange(at, at + nbytes)

    def run_of(self, tensor: GlobalTensor, offset: int, nbytes: int) -> Array:
        """The elements of a 1-D bulk copy; its size and address are multiples of 16 bytes (PTX ISA, cp.async.bulk)."""
        if nbytes % 16 or (tensor.align + offset * tensor.dtype.nbytes) % 16:
            raise KernelFault("bulk_copies_are_aligned", f"{nbytes} bytes at {tensor.name}[{offset}]")
        return np.arange(offset, offset + nbytes // tensor.dtype.nbytes)
