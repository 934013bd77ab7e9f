"""Copies between registers and tensor memory: what each thread of a warp reaches, and the hardware pattern that it is.

Lane and column of an access are index expressions over the loops of the tensor that the copy writes (nvFuser, tensor
memory). The thread's number in its warp and the numbers of its registers are taken apart into bits, since the patterns
are linear in those; what is left is where the access begins, and says which warp may make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.analysis.id.conditions import kept
from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.id.linear import index_of, reach
from compiler.analysis.tmem.allocation import TmemLayout
from compiler.analysis.tmem.patterns import Pattern
from compiler.analysis.tmem.recognition import AccessPlace, not_recognised, outside_subpartition, recognise
from compiler.analysis.tmem.warps import TmemWarps, warps_of
from compiler.arch import TMEM_ACCESS_REGISTERS, TMEM_COLUMN_BITS
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.form import remembered
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.inline import compute_position, producer_position


@dataclass(frozen=True, slots=True)
class TmemAccess:
    """One copy between registers and tensor memory: the pattern it has (None: none), 4-byte words a thread moves.

    `half_offset`: columns between the halves of 16x32bx2. `lane` and `column` (counted in elements) are where an
    element lies: `t0` to `t4` are the bits of a thread's number in its warp, `w0` to `w2` number the warps, `v..` is
    the vector and `i..` are the loops; None where that was not worked out.
    """

    output: str
    tensor: str
    pattern: Pattern | None
    words: int
    breaches: tuple[Violation | Kept, ...]
    half_offset: int | None = None
    lane: Expr | None = None
    column: Expr | None = None


def access_of(
    sf: ScheduledFusion, graph: IdGraph, op: TensorOp, layout: TmemLayout, block: Mapping[ParallelType, Size]
) -> TmemAccess:
    """What a copy marked st_tmem or ld_tmem does to the tensor in tensor memory whose layout is given."""
    out = sf.tensor(op.output)
    own = max(compute_position(out), producer_position(sf, out))
    return _access(graph, out, own, layout, tuple(block.items()))


@remembered(64)
def _access(
    graph: IdGraph, out: TensorView, own: int, layout: TmemLayout, threads: tuple[tuple[ParallelType, Size], ...]
) -> TmemAccess:
    """The access by the loops of `out`, of which those left of `own` are other tensors' too."""
    where = f"{out.name}: access to {layout.tensor.name}"
    bits = _vector_extent(out) * layout.tensor.dtype.nbits
    words = bits // TMEM_COLUMN_BITS
    warps = warps_of(graph, dict(threads), out)
    breaches = (*_width(where, bits), *warps.breaches)
    if warps.warp is None or any(isinstance(b, Violation) for b in breaches):
        return TmemAccess(out.name, layout.tensor.name, None, words, breaches)
    place = _place(graph, out, own, layout, warps)
    if place is None:
        lost = not_recognised(where, "its loops do not lead to every allocated axis")
        return TmemAccess(out.name, layout.tensor.name, None, words, (*breaches, lost))
    found = recognise(where, place, layout.tensor.dtype.nbits)
    breaches += (*found.breaches, *_guards(where, place, warps))
    if found.match is None:
        return TmemAccess(out.name, layout.tensor.name, None, words, breaches, lane=place.lane, column=place.column)
    breaches += tuple(outside_subpartition(where, place, warps.warp, found.match))
    return TmemAccess(
        out.name,
        layout.tensor.name,
        found.match.shape.pattern,
        found.match.registers,
        breaches,
        found.match.half_offset if found.match.shape.has_half_offset else None,
        place.lane,
        place.column,
    )


def _vector_extent(t: TensorView) -> int:
    axis = t.vector_axis
    return 1 if axis is None or axis.is_broadcast else axis.extent


def _width(where: str, bits: int) -> Iterator[Violation]:
    """Bytes of one access (PTX ISA, tcgen05.ld: .num)."""
    if bits % TMEM_COLUMN_BITS:
        yield Violation(
            "tmem_access_moves_whole_words",
            where,
            bits // 8,
            "a multiple of 4 bytes",
            "Vectorize until an access fills whole columns of 4 bytes.",
            f"one access moves {bits // 8} bytes a thread, expected a multiple of 4",
        )
        return
    words = bits // TMEM_COLUMN_BITS
    if words > TMEM_ACCESS_REGISTERS or words & (words - 1):
        yield Violation(
            "tmem_access_width_is_a_power_of_two",
            where,
            words * 4,
            "a power of two from 4 to 512 bytes",
            "Split the vector axis by a power of two, 128 words at most.",
            f"one access moves {words * 4} bytes a thread, expected a power of two from 4 to 512",
        )


# Where an access goes ------------------------------------------------------------------------------------------------


def _place(graph: IdGraph, out: TensorView, own: int, layout: TmemLayout, warps: TmemWarps) -> AccessPlace | None:
    known: dict[Group, Expr] = {}
    vector: list[Var] = []
    loops: list[Var] = []
    for position, (axis, type_) in enumerate(zip(out.loop, out.types, strict=True)):
        group = graph.group(axis)
        name = f"i{position}"
        if group in warps.index:
            known[group] = warps.index[group]
        elif type_ is ParallelType.VECTORIZE and not axis.is_broadcast:
            known[group] = _by_bits(axis, "v", vector)
        elif type_.is_loop and position >= own and axis.symbolic is None:
            known[group] = _by_bits(axis, name, loops)
        elif not axis.is_trivial or group not in known:
            known[group] = index_of(axis, name)
    lanes, columns = graph.groups(layout.lanes.axes), graph.groups(layout.columns.axes)
    reached = reach(graph, known, (*lanes, *columns))
    if reached is None:
        return None
    sizes = reached.sizes | layout.lanes.sizes_in_strides | layout.columns.sizes_in_strides
    return AccessPlace(
        reached.offset(lanes, layout.lanes.strides),
        reached.offset(columns, layout.columns.strides),
        tuple(vector),
        tuple(loops),
        sizes,
    )


def _by_bits(axis: IterDomain, name: str, bits: list[Var]) -> Expr:
    """The index of an axis by its bits, as far as its extent is a multiple of powers of two; they are added to `bits`,
    the lowest first."""
    count = (axis.extent & -axis.extent).bit_length() - 1
    own = [Var(f"{name}.{i}", 2) for i in range(count)]
    bits += own
    index = var(Var(name, axis.extent >> count)) * (1 << count)
    for i, bit in enumerate(own):
        index = index + var(bit) * (1 << i)
    return index


def _guards(where: str, place: AccessPlace, warps: TmemWarps) -> Iterator[Kept]:
    """The sizes at whose present values the access was worked out."""
    for size in sorted(place.sizes | warps.sizes, key=str):
        condition = kept(True, f"{size} == {size.value}")
        yield Kept(
            "tmem_access_keeps_its_sizes",
            where,
            condition.formula,
            f"{where}: lanes and columns were worked out for {size} = {size.value}",
        )
