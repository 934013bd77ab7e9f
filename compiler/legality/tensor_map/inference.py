"""Rules on what a tensor map is inferred from: the view of the global tensor, its boxes, the holes of a tile.

A refused schedule is *impossible* for any tensor map, or merely *not recognised*; the message says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from compiler.analysis.id.conditions import at_most, is_multiple
from compiler.analysis.id.graph import Group
from compiler.analysis.tma.domain import loop_groups
from compiler.analysis.tma.fttc import Correctness, box_correctness
from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy, coordinates
from compiler.errors import Kept, Violation
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Resize
from compiler.ir.ops import POINTWISE, REDUCTIONS, OpKind
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, model_rule
from compiler.legality.tensor_map.encoding import UNIT_BYTES, at, each_dim, element_bytes, encode_breach, maps

_Found = Iterator[Violation | Kept]


@model_rule
def tma_box_is_inferred(s: Schedule) -> _Found:
    """Every axis of the view lies in the tile, outside it, or is cut into boxes; tile axes and others are transformed
    apart (nvFuser, TMA: "Step 2: define box", "Step 5")."""
    yield from _breaches(s, "tma_box_is_inferred")


@model_rule
def tma_domain_is_a_view(s: Schedule) -> _Found:
    """Only splits and merges lie between the TMA domain and the global tensor's allocation domain: a swizzle of tile
    axes with others has no tensor map (nvFuser, TMA: "Step 1: define TMA domain")."""
    yield from _breaches(s, "tma_domain_is_a_view")


@model_rule
def tma_domain_is_equivalent_to_the_allocation(s: Schedule) -> _Found:
    """The consumer's loop covers every axis of the global tensor's allocation domain once (nvFuser, TMA: "Step 1:
    define TMA domain")."""
    yield from _breaches(s, "tma_domain_is_equivalent_to_the_allocation")


@model_rule
def tma_view_splits_divide(s: Schedule) -> _Found:
    """A split that views the global tensor, and boxes nothing, leaves no holes (nvFuser, TMA: "Step 1: define TMA
    domain"; divisibility of split)."""
    yield from _breaches(s, "tma_view_splits_divide")


@model_rule
def tma_merges_contiguous_axes(s: Schedule) -> _Found:
    """A merge that views the global tensor is one of neighbours in memory, the outer one contiguous (nvFuser, TMA:
    "Step 1: define TMA domain"; divisibility of split: merging discontiguous axes)."""
    yield from _breaches(s, "tma_merges_contiguous_axes")


@model_rule
def tma_inner_dimension_is_contiguous(s: Schedule) -> _Found:
    """The innermost axis of the view is contiguous: dimension 0 has no stride of its own (CUDA driver API,
    cuTensorMapEncodeTiled: globalStrides)."""
    yield from _breaches(s, "tma_inner_dimension_is_contiguous")


@model_rule
def tma_inner_dimension_is_dense(s: Schedule) -> _Found:
    """The innermost dimension has an element stride of one: without interleave the first element stride is not heeded
    (CUDA driver API, cuTensorMapEncodeTiled: elementStrides)."""
    yield from _breaches(s, "tma_inner_dimension_is_dense")


@model_rule
def tma_strided_tile_fills_its_box(s: Schedule) -> _Found:
    """A strided tile has the ceil(box / element stride) elements that the copy engine moves; an outer split that leaves
    holes can ask for more (nvFuser, TMA modelling: "What is TMA?")."""
    yield from _breaches(s, "tma_strided_tile_fills_its_box")


@model_rule
def tma_stores_start_inside(s: Schedule) -> Iterator[Violation]:
    """No box of a store starts at a negative coordinate, as one cut out of padding on the left would; loads fill what
    lies outside (PTX ISA, cp.async.bulk.tensor)."""
    for c, i, least, _ in _padded_starts(s):
        if not c.is_load and least < 0:
            yield Violation(
                "tma_stores_start_inside",
                at(c, i, "coordinate"),
                least,
                0,
                "Pad on the right alone, or store by threads.",
            )


@model_rule
def tma_inner_coordinates_are_multiples_of_16_bytes(s: Schedule) -> Iterator[Violation]:
    """The innermost coordinate is a multiple of 16 bytes: anything else was an illegal instruction on an H200. Boxes
    are, so only padding on the left can break it."""
    for c, i, _, start in _padded_starts(s):
        if i == 0 and not (start * c.global_tensor.dtype.nbytes).divisible_by(UNIT_BYTES):
            yield Violation(
                "tma_inner_coordinates_are_multiples_of_16_bytes",
                at(c, 0, "coordinate"),
                str(start),
                f"a multiple of {UNIT_BYTES} bytes",
                "Pad by whole 16 bytes.",
            )


@model_rule
def tma_stores_write_no_holes(s: Schedule) -> _Found:
    """A store writes no hole over an element of another tile: where the element stride does not divide the box and is
    smaller, and the tensor is larger than the box, no predicate could keep it from that (nvFuser, TMA modelling:
    Theorem 6, read for stores)."""
    for c, i, d in each_dim(s):
        if c.is_load or not _leaves_holes(d):
            continue
        breach = Violation(
            "tma_stores_write_no_holes",
            at(c, i, "element stride"),
            str(d.element_stride_size),
            f"a divisor of the box, {d.box_size}",
            "Stride the box by a divisor of it.",
        )
        yield from at_most(d.size, d.box_size.value).require(breach)


@model_rule
def tma_store_rows_are_multiples_of_16_bytes(s: Schedule) -> _Found:
    """A store clips the innermost dimension at 16 bytes and not at the element, so a row that ends inside 16 bytes is
    written on: seen on an H200 (driver 580), where a store of 100745222 bytes wrote the 10 bytes behind them."""
    for c, dims in maps(s):
        row = dims[0].size * element_bytes(c)
        if not c.is_load:
            yield from is_multiple(row, Size(UNIT_BYTES)).require(
                encode_breach(
                    "tma_store_rows_are_multiples_of_16_bytes",
                    at(c, 0, "size"),
                    f"{row} bytes",
                    f"a multiple of {UNIT_BYTES}",
                    "Store by threads.",
                )
            )


@model_rule
def weak_tiles_are_not_summed(s: Schedule) -> _Found:
    """No sum runs over the holes of a tile that cannot all be zero: along an axis cut by an element stride that does
    not divide its box, through the same cut (nvFuser, TMA modelling: Definition 2, Theorem 6)."""
    for c, i, d in each_dim(s):
        if not c.is_load or not _leaves_holes(d) or (reader := _sum_over(s, c, d)) is None:
            continue
        breach = Violation(
            "weak_tiles_are_not_summed",
            at(c, i, "element stride"),
            f"{d.element_stride_size}, summed by {reader}",
            f"a divisor of the box, {d.box_size}",
            "Stride the box by a divisor of it, or sum over elements alone.",
        )
        yield from at_most(d.size, d.box_size.value).require(breach)


def _breaches(s: Schedule, rule: str) -> _Found:
    found = chain((c.breaches for c in s.tensor_maps.values()), (r.breaches for r in s.bulk_runs.values()))
    yield from (b for breaches in found for b in breaches if b.rule == rule)


def _padded_starts(s: Schedule) -> Iterator[tuple[TensorMapCopy, int, int, Expr]]:
    """Of copies whose schedule pads an axis: each dimension, the least coordinate of its boxes, and that coordinate."""
    for c, _ in maps(s):
        if any(isinstance(step.expr.example, Resize) for step in c.path):
            _, others = loop_groups(s.graph, s.sf.tensor(c.op.output))
            index = {g: var(Var(f"g{g}", s.graph.size(g).value)) for g in others}
            for i, start in enumerate(coordinates(c, s.graph, index)):
                yield c, i, start.lo, start


def _leaves_holes(d: MapDim) -> bool:
    """Whether tiles of the dimension have holes that no predicate fills, if the tensor is larger than the box."""
    box = d.box_size.value
    return box_correctness(box + 1, box, d.element_stride_size.value) is Correctness.WEAK


def _sum_over(s: Schedule, c: TensorMapCopy, d: MapDim) -> str | None:
    """A sum of the shared tensor, or of what is computed from its elements one by one, that runs over the places of the
    tile along `d`."""
    stride = d.element_stride
    waiting, seen = [c.shared_tensor.name], set[str]()
    while waiting:
        name = waiting.pop()
        for op in s.sf.consumers(name):
            if op.output in seen:
                continue
            seen.add(op.output)
            reader = s.sf.tensor(op.output)
            if op.kind in REDUCTIONS and stride is not None and _reduces(s, reader, {*d.tile, stride}):
                return op.output
            if op.kind in POINTWISE or op.kind is OpKind.COPY:
                waiting.append(op.output)
    return None


def _reduces(s: Schedule, t: TensorView, cut: set[Group]) -> bool:
    """Whether a reduction axis of `t` is split into the pieces of the same cut."""
    pieces = (e.outputs for e in t.exprs)
    return any(all(a.is_reduction for a in made) and {s.graph.group(a) for a in made} == cut for made in pieces)
