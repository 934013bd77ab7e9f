"""Copies between registers and tensor memory: what each thread of a warp reaches, and the hardware pattern that it is.

Lane and column of an access are index expressions over the loops of the tensor that the copy writes (nvFuser, tensor
memory). The thread's number in its warp and the numbers of its registers are taken apart into bits, since the patterns
are linear in those; what is left is where the access begins, and says which warp may make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.id.linear import index_of, reach
from compiler.analysis.tmem.allocation import TmemLayout
from compiler.analysis.tmem.patterns import Pattern, PatternMatch, is_access_width
from compiler.analysis.tmem.recognition import AccessPlace, Beginning, Recognised, beginning, recognise
from compiler.analysis.tmem.warps import TmemWarps, warps_of
from compiler.arch import TMEM_COLUMN_BITS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.inline import compute_position, producer_position


@dataclass(frozen=True, slots=True)
class TmemAccess:
    """One copy between registers and tensor memory: `bits` that a thread moves, and by which `warps`.

    `found` and `begins`: the pattern, and where it begins; None where width or warps are such that there is none.
    `is_lost`: the loops do not lead to every allocated axis. `sizes`: unknown sizes at whose present values lanes and
    columns were worked out. `lane` and `column` (counted in elements) are where an element lies: `t0` to `t4` are the
    bits of a thread's number in its warp, `w0` to `w2` number the warps, `v..` is the vector and `i..` are the loops;
    None where that was not worked out.
    """

    output: str
    tensor: str
    bits: int
    warps: TmemWarps
    is_lost: bool = False
    found: Recognised | None = None
    begins: Beginning | None = None
    sizes: frozenset[Size] = frozenset()
    lane: Expr | None = None
    column: Expr | None = None
    loop_bits: tuple[tuple[int, int], ...] = ()
    """Bits of loops that number registers, as the pattern has them: the position of the loop, and which bit it is."""

    @property
    def where(self) -> str:
        """The access, as messages name it."""
        return f"{self.output}: access to {self.tensor}"

    @property
    def match(self) -> PatternMatch | None:
        """The pattern with its registers, None where it has none."""
        return self.found.match if self.found is not None else None

    @property
    def pattern(self) -> Pattern | None:
        """The pattern, None where it has none."""
        return self.match.shape.pattern if self.match is not None else None

    @property
    def words(self) -> int:
        """4-byte words that a thread moves at once: registers of its pattern where it has one."""
        return self.match.registers if self.match is not None else self.bits // TMEM_COLUMN_BITS

    @property
    def half_offset(self) -> int | None:
        """Columns between the halves of 16x32bx2."""
        return self.match.half_offset if self.match is not None and self.match.shape.has_half_offset else None


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
    bits = _vector_extent(out) * layout.tensor.dtype.nbits
    warps = warps_of(graph, dict(threads), out)
    plain = TmemAccess(out.name, layout.tensor.name, bits, warps)
    if warps.warp is None or bits % TMEM_COLUMN_BITS or not is_access_width(bits // TMEM_COLUMN_BITS):
        return plain
    place = _place(graph, out, own, layout, warps)
    if place is None:
        return replace(plain, is_lost=True)
    found = recognise(place, layout.tensor.dtype.nbits)
    begins = beginning(place, warps.warp, found.match) if found.match is not None else None
    sizes = place.sizes | warps.sizes
    taken = tuple(place.loop_bits[i] for i in found.match.loops) if found.match is not None else ()
    ends = (place.lane, place.column)
    return TmemAccess(out.name, layout.tensor.name, bits, warps, False, found, begins, sizes, *ends, taken)


def _vector_extent(t: TensorView) -> int:
    axis = t.vector_axis
    return 1 if axis is None or axis.is_broadcast else axis.extent


# Where an access goes ------------------------------------------------------------------------------------------------


def _place(graph: IdGraph, out: TensorView, own: int, layout: TmemLayout, warps: TmemWarps) -> AccessPlace | None:
    known: dict[Group, Expr] = {}
    vector: list[Var] = []
    loops: list[Var] = []
    loop_bits: list[tuple[int, int]] = []
    for position, (axis, type_) in enumerate(zip(out.loop, out.types, strict=True)):
        group = graph.group(axis)
        name = f"i{position}"
        if group in warps.index:
            known[group] = warps.index[group]
        elif type_ is ParallelType.VECTORIZE and not axis.is_broadcast:
            known[group] = _by_bits(axis, "v", vector)
        elif type_.is_loop and position >= own and axis.symbolic is None:
            known[group] = _by_bits(axis, name, loops)
            loop_bits += ((position, bit) for bit in range(len(loops) - len(loop_bits)))
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
        tuple(loop_bits),
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
