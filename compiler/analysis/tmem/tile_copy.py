"""Copies of tiles from shared to tensor memory: the hardware shape of one, and how its rows lie in shared memory.

A tile is what the Bulk axes of the copy's result span: all 128 lanes by 16 or 32 bytes. Lane and byte of each of its
elements, and its place in shared memory, are linear in the bits of those axes. In shared memory the 16 bytes of a lane
lie together, eight lanes follow each other, and both the groups of eight lanes and the halves of 32 bytes are a fixed
distance apart (PTX ISA, tcgen05.cp; shared memory descriptor, no swizzle).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.id.linear import index_of, reach, slope
from compiler.analysis.memory.allocation import layout_of as shared_layout
from compiler.analysis.tmem.allocation import layout_of
from compiler.arch import TMEM_LANES
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorOp

_CHUNK = 16
"""Bytes of a lane that lie together in shared memory (PTX ISA, canonical layouts)."""
_GROUP = 8
"""Lanes that follow each other (PTX ISA, canonical layouts)."""

_Step = tuple[int, int, int]
"""Lanes, bytes along the columns and bytes of shared memory that a bit moves."""


@dataclass(frozen=True, slots=True)
class TmemTileCopy:
    """One copy: `row_bytes` of each of 128 lanes, 16 or 32; in shared memory `leading` bytes from the first 16 of them
    to the others, `stride` from eight lanes to the next. `fault`: why it is none."""

    output: str
    row_bytes: int = 0
    leading: int = _CHUNK
    stride: int = 0
    fault: str = ""


def infer_tile_copy(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> TmemTileCopy:
    """The tile of a copy from shared to tensor memory."""
    out, source = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    known: dict[Group, Expr] = {}
    bits: list[Var] = []
    for position, (axis, type_) in enumerate(zip(out.loop, out.types, strict=True)):
        if type_ is not ParallelType.BULK:
            known[graph.group(axis)] = index_of(axis, f"i{position}")
            continue
        count = axis.extent.bit_length() - 1
        if axis.extent != 1 << count:
            return TmemTileCopy(op.output, fault=f"{axis} is no power of two")
        own = [Var(f"b{position}.{i}", 2) for i in range(count)]
        bits += own
        known[graph.group(axis)] = sum((var(b) * (1 << i) for i, b in enumerate(own)), Expr())
    layout, shared = layout_of(out), shared_layout(source)
    domains = (graph.groups(layout.lanes.axes), graph.groups(layout.columns.axes), graph.groups(shared.axes))
    reached = reach(graph, known, [g for domain in domains for g in domain])
    if reached is None:
        return TmemTileCopy(op.output, fault="its loops do not lead to every allocated axis of both tensors")
    strides = (layout.lanes.strides, layout.columns.strides, shared.strides)
    lane, column, place = (reached.offset(d, s) for d, s in zip(domains, strides, strict=True))
    nbytes = out.dtype.nbytes
    places = (lane, column * nbytes, place * nbytes)
    first = [e.substitute({b: Expr() for b in bits}) for e in places]
    if first[0] != Expr() or not first[1].divisible_by(4) or not first[2].divisible_by(_CHUNK):
        return TmemTileCopy(op.output, fault=f"it begins at lane {first[0]}, byte {first[2]} of shared memory")
    steps = [tuple(slope(e, b).proved for e in places) for b in bits]
    return _shape(
        op.output,
        nbytes,
        [(a, c, s) for a, c, s in steps if a is not None and c is not None and s is not None],
        len(bits),
    )


def _shape(output: str, nbytes: int, steps: list[_Step], count: int) -> TmemTileCopy:
    if len(steps) != count:
        return TmemTileCopy(output, fault="its elements do not move by fixed steps")
    by_place = {(lane, byte): place for lane, byte, place in steps}
    lanes = [1 << i for i in range(TMEM_LANES.bit_length() - 1)]
    stride = by_place.get((_GROUP, 0), 0)
    wanted: dict[tuple[int, int], int] = {(n, 0): n * _CHUNK if n < _GROUP else n // _GROUP * stride for n in lanes}
    row = nbytes
    while row < _CHUNK:
        wanted[0, row] = row
        row *= 2
    leading = by_place.get((0, _CHUNK))
    if leading is not None:
        wanted[0, _CHUNK] = leading
    if by_place != wanted or stride % _CHUNK or (leading or 0) % _CHUNK:
        found = sorted(steps)
        return TmemTileCopy(output, fault=f"bits of its tile move by {found} (lanes, bytes of a lane, bytes of shared)")
    return TmemTileCopy(output, _CHUNK * (1 if leading is None else 2), leading or _CHUNK, stride)
