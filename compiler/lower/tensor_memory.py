"""Copies between registers and tensor memory as statements, and the allocation of a block.

The analysis has found the pattern of each copy and shown which lanes each warp reaches. An address is one for a whole
warp: where its first thread, its first register and the first turn of the loops that number registers stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import lane_variable, lanes_are_consecutive
from compiler.analysis.loops.loop_nest import THREAD_VARS, WARP_VAR
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.sync.block_parts import launched_block
from compiler.analysis.tmem.access import TmemAccess
from compiler.analysis.tmem.patterns import PatternMatch
from compiler.arch import REGISTER_BYTES, TMEM_COLUMN_BITS, WARP_THREADS
from compiler.copies.instruction import lanes
from compiler.dtypes import DType
from compiler.ir.algebra import Indices
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import IterDomain
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.lower.kernel_ir import Compute, Declare, Elected, If, Opaque, Stmt
from compiler.lower.nest import most_unrolled
from compiler.lower.operands import Barrier, Less, Reg, Shared, Tmem
from compiler.lower.sync_ir import Sync, WaitBarrier
from compiler.lower.thread_predicates import computing_threads, storing_threads
from compiler.lower.tmem_ir import (
    TmemAddress,
    TmemAllocate,
    TmemCommit,
    TmemCopy,
    TmemDeallocate,
    TmemFenceAfter,
    TmemLoad,
    TmemRelinquish,
    TmemShift,
    TmemStore,
    Unpack,
    WaitTmemLoads,
    WaitTmemStores,
)
from compiler.lower.tmem_meeting import meets_after_last_use
from compiler.lower.tmem_sync import TmemNeeds

# The allocation ------------------------------------------------------------------------------------------------------


def allocated(facts: Facts) -> tuple[Stmt, ...]:
    """The first warp allocates; the address is read after the barrier that follows.

    No fence of tcgen05 stands there: an allocation is not asynchronous, and no access begins before its address is
    known. A block of one warp needs no barrier either.
    """
    columns, at = facts.tmem_placement.columns, facts.smem.tmem_address
    return _by_first_warp(facts, (TmemAllocate(columns, at), TmemRelinquish()))


def address(facts: Facts) -> Stmt:
    """Every thread reads the address of the allocation."""
    return TmemAddress(facts.smem.tmem_address)


def freed(facts: Facts, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The first warp frees the allocation at the end of the body, once all that use it have met with their loads and
    stores done."""
    copies = (facts.sf.tensor(op.output) for op in facts.sf.ops if op.via.is_tmem)
    others = any(any(_holds_for_warps(facts, computing_threads(facts, t))[1:]) for t in copies)
    meeting = (Sync(),) if others and not meets_after_last_use(body) else ()
    return (*meeting, *_by_first_warp(facts, (TmemDeallocate(facts.tmem_placement.columns),)))


def warps(facts: Facts) -> int:
    """Warps of the block, those that only load among them."""
    x, y, z = launched_block(facts.sf, facts.indexing.nest)
    return -(-x * y * z // WARP_THREADS)


def _by_first_warp(facts: Facts, statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    count = warps(facts)
    return (If((Less(var(Var(WARP_VAR, count)), const(1)),), statements),) if count > 1 else statements


# Copies --------------------------------------------------------------------------------------------------------------


def lower_tmem_copy(facts: Facts, op: TensorOp, first: Expr) -> tuple[Stmt, ...]:
    """The statements of a copy: the instruction, by the warps that have a part of it, and where its registers are not
    the elements of a vector in order, the moves before or after it. `first`: column of the place that is in turn, of a
    tensor that has several.

    No bound of an index guards it: whole warps execute it, and places past an end are as good as others.
    """
    t = facts.sf.tensor(op.output)
    access = next(a for a in facts.tensor_memory.accesses if a.output == t.name)
    match = access.match
    assert match is not None, "legality refuses copies that have no pattern"
    is_store = op.via is CopyVia.ST_TMEM
    name = op.tensor_inputs[0] if is_store else t.name
    offset = facts.indexing.read_offset(op, name) if is_store else facts.indexing.write_offset(t)
    place = _place(facts, op, access)
    place = replace(place, column=place.column + first)
    registers = Reg(name, t.dtype, _element(facts, t, access, offset, 0))
    if _is_direct(facts, t, access, offset, facts.sf.tensor(name)):
        if not is_store and _has_words(t):
            registers = Reg(_words(t), DType.I32, _in_words(registers.offset, t.dtype))
        return _by_warps(facts, t, (_instruction(is_store, registers, place, match),))
    elements = Reg(f"{t.name}_elements", t.dtype, const(0))
    count = _elements(t, access)
    pairs = [
        (Reg(elements.name, t.dtype, const(n)), Reg(name, t.dtype, _element(facts, t, access, offset, n)))
        for n in range(count)
    ]
    declared = Declare(elements.name, t.dtype, count)
    if is_store:
        moves = tuple(_moved(one, other) for one, other in pairs)
        return (declared, *moves, *_by_warps(facts, t, (_instruction(is_store, elements, place, match),)))
    words = Reg(_words(t), DType.I32, const(0))
    loaded = _by_warps(facts, t, (_instruction(is_store, words, place, match), WaitTmemLoads()))
    return (
        Declare(words.name, words.dtype, match.registers),
        *loaded,
        Opaque(words.name, words.dtype, match.registers),
        declared,
        Unpack(elements, words, match.registers * REGISTER_BYTES),
        *(_moved(other, one) for one, other in pairs),
    )


def declared_words(facts: Facts, t: TensorView) -> tuple[Stmt, ...]:
    """The words that loads fill of a register tensor, where its elements are no words: what is made of them before they
    were waited for would be made of what was there before."""
    made = facts.sf.producer(t.name)
    if made is None or made.via is not CopyVia.LD_TMEM or not _has_words(t) or not loads_in_order(facts, made):
        return ()
    return (Declare(_words(t), DType.I32, _word_count(t)),)


def landed(t: TensorView) -> tuple[Stmt, ...]:
    """What loads have brought to a register tensor is there: uses of it stay behind."""
    if not _has_words(t):
        return (Opaque(t.name, t.dtype, layout_of(t).elems),)
    words, elements = Reg(_words(t), DType.I32, const(0)), Reg(t.name, t.dtype, const(0))
    return (
        Opaque(words.name, words.dtype, _word_count(t)),
        Unpack(elements, words, layout_of(t).elems * t.dtype.nbytes),
    )


def waits(facts: Facts, needs: TmemNeeds) -> list[Stmt]:
    """Waits of this warp for its own stores and loads; what uses the registers that were loaded stays behind."""
    out: list[Stmt] = [WaitTmemStores()] if needs.wait_stores else []
    if needs.wait_loads:
        arrived = (facts.sf.tensor(name) for name in sorted(needs.landed))
        out += [WaitTmemLoads(), *(s for t in arrived for s in landed(t))]
    return out


def _has_words(t: TensorView) -> bool:
    return t.dtype.nbytes != REGISTER_BYTES


def _words(t: TensorView) -> str:
    return f"{t.name}_words"


def _word_count(t: TensorView) -> int:
    return -(-layout_of(t).elems * t.dtype.nbytes // REGISTER_BYTES)


def _in_words(offset: Expr, dtype: DType) -> Expr:
    """The word that the element of a register tensor begins in."""
    if dtype.nbytes >= REGISTER_BYTES:
        return offset * (dtype.nbytes // REGISTER_BYTES)
    return offset // (REGISTER_BYTES // dtype.nbytes)


def by_tensor_cores(facts: Facts, op: TensorOp, barrier: Barrier, turn: Expr) -> tuple[Stmt, ...]:
    """A tile from shared memory, or rows that are shifted: one thread asks for it, all wait until it is there. `turn`:
    of the loops around."""
    copy = _tile_copy(facts, op) if op.via is CopyVia.CP_TMEM else _shift(facts, op)
    return (Elected((copy, TmemCommit(barrier))), WaitBarrier(barrier, turn % 2), TmemFenceAfter())


def _shift(facts: Facts, op: TensorOp) -> TmemShift:
    shift = facts.tmem_shifts[op.output]
    own = {f"i{i}": facts.indexing.nest.variable(facts.sf.tensor(op.output), i) for i in _loops(facts, op.output)}
    lane, column = replaced(shift.lane, own), replaced(shift.column, own)
    return TmemShift(Tmem(shift.source, lane, column + facts.tmem_placement.first[shift.source]))


def _loops(facts: Facts, name: str) -> range:
    return range(len(facts.sf.tensor(name).loop))


def _tile_copy(facts: Facts, op: TensorOp) -> TmemCopy:
    t, source = facts.sf.tensor(op.output), facts.sf.tensor(op.tensor_inputs[0])
    tile, plan = facts.tmem_tile_copies[t.name], next(p for p in facts.tensor_memory.tensors if p.tensor == t.name)
    columns, own = plan.layout.columns, facts.indexing.own(t)
    column = _offset(own, columns.axes, columns.strides) * t.dtype.nbytes // REGISTER_BYTES
    at = facts.indexing.read_offset(op, source.name) * source.dtype.nbytes + facts.smem.of(source.name).offset
    target = Tmem(t.name, Expr(), column + facts.tmem_placement.first[t.name])
    return TmemCopy(target, Shared(source.name, source.dtype, at), tile.row_bytes, tile.leading, tile.stride)


def loads_in_order(facts: Facts, op: TensorOp) -> bool:
    """Whether a load comes straight to the registers of the tensor that it makes, and is waited for by who uses it."""
    t = facts.sf.tensor(op.output)
    access = next(a for a in facts.tensor_memory.accesses if a.output == t.name)
    return _is_direct(facts, t, access, facts.indexing.write_offset(t), t)


def _is_direct(facts: Facts, t: TensorView, access: TmemAccess, offset: Expr, registers: TensorView) -> bool:
    """Whether the registers of an instruction are neighbours in a register tensor, in order. One that is indexed in
    local memory is none: words would be moved there before they have come."""
    if layout_of(registers).elems > most_unrolled(facts):
        return False
    if not _element(facts, t, access, offset, 0).divisible_by(max(1, REGISTER_BYTES // t.dtype.nbytes)):
        return False
    if access.match is not None and access.match.is_in_order:
        return lanes_are_consecutive(offset, lanes(t))
    places = [_element(facts, t, access, offset, n) for n in range(_elements(t, access))]
    return all(place == places[0] + n for n, place in enumerate(places))


def _elements(t: TensorView, access: TmemAccess) -> int:
    """Elements in the registers of a thread."""
    return access.words * TMEM_COLUMN_BITS // t.dtype.nbits


def _moved(target: Reg, source: Reg) -> Stmt:
    return Compute(OpKind.COPY, target, (source,), MathGrade.EXACT)


def _instruction(is_store: bool, registers: Reg, place: Tmem, match: PatternMatch) -> Stmt:
    half = match.half_offset if match.shape.has_half_offset else None
    form = (match.shape.pattern, match.registers // match.shape.least_registers, match.registers, half)
    return TmemStore(registers, place, *form) if is_store else TmemLoad(registers, place, *form)


def _by_warps(facts: Facts, t: TensorView, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The instruction by the warps that have a part of the tensor. Of warps that repeat the work of others one stores;
    threads of one warp that repeat each other's store the same values."""
    conditions = computing_threads(facts, t)
    if isinstance(body[0], TmemStore) and _keep_warps_whole(facts, storing := storing_threads(facts, t)):
        conditions = storing
    assert _keep_warps_whole(facts, conditions), "legality refuses copies by parts of warps"
    return (If(conditions, body),) if conditions else body


def _keep_warps_whole(facts: Facts, conditions: tuple[Less, ...]) -> bool:
    """Whether the threads of each warp agree on conditions on their indices."""
    return None not in _holds_for_warps(facts, conditions)


def _holds_for_warps(facts: Facts, conditions: tuple[Less, ...]) -> list[bool | None]:
    """Of each warp whether conditions on the indices of its threads hold; None where its threads do not agree."""
    x, y, z = launched_block(facts.sf, facts.indexing.nest)
    places = [{"tx": n % x, "ty": n // x % y, "tz": n // (x * y)} for n in range(x * y * z)]
    of_threads = [c for c in conditions if all(v.name in THREAD_VARS for v in c.left.variables)]
    holds = [all(c.left.evaluate(at) < c.right.const for c in of_threads) for at in places]
    each = (set(holds[n : n + WARP_THREADS]) for n in range(0, len(holds), WARP_THREADS))
    return [found.pop() if len(found) == 1 else None for found in each]


def _place(facts: Facts, op: TensorOp, access: TmemAccess) -> Tmem:
    """Where the copy of a warp begins."""
    plan = next(t for t in facts.tensor_memory.tensors if t.tensor == access.tensor)
    layout, nbits = plan.layout, plan.layout.tensor.dtype.nbits
    index = (
        facts.indexing.own(layout.tensor) if access.output == access.tensor else facts.indexing.read(op, plan.tensor)
    )
    first = _first_of_warp(facts, lanes(facts.sf.tensor(op.output)))
    lane = replaced(_offset(index, layout.lanes.axes, layout.lanes.strides), first)
    column = replaced(_offset(index, layout.columns.axes, layout.columns.strides), first)
    column = (
        column * (nbits // TMEM_COLUMN_BITS) if nbits >= TMEM_COLUMN_BITS else column // (TMEM_COLUMN_BITS // nbits)
    )
    return Tmem(plan.tensor, lane, column + facts.tmem_placement.first[plan.tensor])


def _offset(index: Indices, axes: tuple[IterDomain, ...], strides: tuple[int, ...]) -> Expr:
    total = Expr()
    for axis, stride in zip(axes, strides, strict=True):
        total = total + index[axis] * stride
    return total


def _first_of_warp(facts: Facts, width: int) -> dict[str, Expr]:
    """By name: the indices of the first thread of a warp, and the first element of its vector."""
    x, y, _ = launched_block(facts.sf, facts.indexing.nest)
    thread = var(Var(WARP_VAR, warps(facts))) * WARP_THREADS
    found = {"tx": thread % x, "ty": thread // x % y, "tz": thread // (x * y)}
    return found | {lane_variable(width).name: Expr()}


def replaced(e: Expr, by_name: Mapping[str, Expr]) -> Expr:
    """The expression with variables of these names replaced."""
    return e.substitute({v: by_name[v.name] for v in e.variables if v.name in by_name})


def _element(facts: Facts, t: TensorView, access: TmemAccess, offset: Expr, number: int) -> Expr:
    """Where in its register tensor element `number` of the words of an instruction is."""
    match, nbits = access.match, t.dtype.nbits
    assert match is not None, "legality refuses copies that have no pattern"
    register, place = divmod(number * nbits, TMEM_COLUMN_BITS)
    set_bits = [match.order[i] for i in range(len(match.order)) if register >> i & 1]
    of_vector = len(match.order) - len(match.loops)
    word = sum(1 << bit for bit in set_bits if bit < of_vector)
    at = {lane_variable(lanes(t)).name: const((word * TMEM_COLUMN_BITS + place) // nbits)}
    nest = facts.indexing.nest
    for i, (position, bit) in enumerate(access.loop_bits):
        (turn,) = nest.variable(t, position).variables
        at[turn.name] = at.get(turn.name, var(turn)) + ((1 << bit) if of_vector + i in set_bits else 0)
    return replaced(offset, at)
