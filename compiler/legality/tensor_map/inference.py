"""Rules on what a tensor map is inferred from: the view of the global tensor, its boxes, the holes of a tile.

A refused schedule is *impossible* for any tensor map, or merely *not recognised*; the message says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.analysis.id.conditions import are_equal, at_most, is_multiple, split_divides
from compiler.analysis.id.graph import Group
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.domain import MixedAxis, NoAxes, loop_groups
from compiler.analysis.tma.fttc import Correctness, box_correctness
from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy, coordinates
from compiler.analysis.tma.view import ApartInMemory, ForeignTransform, NotReached
from compiler.arch import BULK_BYTES
from compiler.errors import Kept, Violation
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Resize
from compiler.ir.ops import POINTWISE, REDUCTIONS, OpKind
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, model_rule
from compiler.legality.tensor_map.encoding import at, each_dim, element_bytes, encode_breach, maps

_Found = Iterator[Violation | Kept]
_Copy = TensorMapCopy | BulkRun


def _copies(s: Schedule) -> Iterator[_Copy]:
    """Every bulk copy: 1-D ones see the global tensor as tensor maps do."""
    yield from s.tensor_maps.values()
    yield from s.bulk_runs.values()


def breaches(copy: _Copy) -> tuple[Violation | Kept, ...]:
    """What the rules on its view find wrong with one copy."""
    view = (*_uneven(copy), *_not_boxed(copy), *_no_view(copy), *_not_reached(copy), *_apart(copy))
    return (*view, *_overfull(copy), *_inner_apart(copy), *_inner_strided(copy))


def _told(copy: _Copy, found: Violation | Kept) -> Violation | Kept:
    """The breach, saying whether no tensor map does it (`impossible`) or none was recognised."""
    if isinstance(found, Kept) or copy.view is None:
        return found
    text = found.message or f"found {found.found}, expected {found.limit}"
    if copy.view.has_unlike_tiles:
        return replace(found, message=f"impossible: {text}; its tiles are no shifts of each other")
    return replace(found, message=f"not recognised: {text}")


@model_rule
def tma_box_is_inferred(s: Schedule) -> _Found:
    """Every axis of the view lies in the tile, outside it, or is cut into boxes; tile axes and others are transformed
    apart (nvFuser, TMA: "Step 2: define box", "Step 5")."""
    for copy in _copies(s):
        yield from _not_boxed(copy)


def _not_boxed(copy: _Copy) -> _Found:
    match copy.view.fault if copy.view is not None else None:
        case NoAxes(tensor):
            found = f"{tensor} has no axis that elements lie along"
            breach = Violation("tma_box_is_inferred", copy.where, found, "one axis or more", "Copy by threads.", found)
            yield _told(copy, breach)
        case MixedAxis(axis):
            breach = Violation(
                "tma_box_is_inferred",
                copy.where,
                str(axis),
                "an axis wholly in the tile, wholly outside, or cut into boxes",
                "Box that axis by an inner split, and transform tile axes and other axes apart.",
                f"{axis} is partly Bulk, and not as an inner split of it",
            )
            yield _told(copy, breach)


@model_rule
def tma_domain_is_a_view(s: Schedule) -> _Found:
    """Only splits and merges lie between the TMA domain and the global tensor's allocation domain: a swizzle of tile
    axes with others has no tensor map (nvFuser, TMA: "Step 1: define TMA domain")."""
    for copy in _copies(s):
        yield from _no_view(copy)


def _no_view(copy: _Copy) -> _Found:
    fault = copy.view.fault if copy.view is not None else None
    if isinstance(fault, ForeignTransform):
        breach = Violation(
            "tma_domain_is_a_view",
            copy.where,
            f"a {fault.kind}",
            "splits and merges",
            "Transform tile axes and other axes apart.",
            f"a {fault.kind} joins tile axes and others on the way to the global tensor's allocation",
        )
        yield _told(copy, breach)


@model_rule
def tma_domain_is_equivalent_to_the_allocation(s: Schedule) -> _Found:
    """The consumer's loop covers every axis of the global tensor's allocation domain once (nvFuser, TMA: "Step 1:
    define TMA domain")."""
    for copy in _copies(s):
        yield from _not_reached(copy)


def _not_reached(copy: _Copy) -> _Found:
    fault = copy.view.fault if copy.view is not None else None
    if isinstance(fault, NotReached):
        breach = Violation(
            "tma_domain_is_equivalent_to_the_allocation",
            copy.where,
            str(fault.axis),
            "an axis that the consumer's loop is made of",
            "Schedule the consumer from its logical axes alone.",
        )
        yield _told(copy, breach)


@model_rule
def tma_view_splits_divide(s: Schedule) -> _Found:
    """A split that views the global tensor, and boxes nothing, leaves no holes (nvFuser, TMA: "Step 1: define TMA
    domain"; divisibility of split)."""
    for copy in _copies(s):
        yield from _uneven(copy)


def _uneven(copy: _Copy) -> _Found:
    for split in copy.view.splits if copy.view is not None else ():
        breach = Violation(
            "tma_view_splits_divide",
            copy.where,
            str(split.source.size),
            f"a multiple of {split.inner.size}",
            "Split evenly, or box that axis by this split.",
            f"{split.source} is viewed as two axes by a split by {split.inner.size} that leaves holes",
        )
        yield from (_told(copy, one) for one in split_divides(split).require(breach))


@model_rule
def tma_merges_contiguous_axes(s: Schedule) -> _Found:
    """A merge that views the global tensor is one of neighbours in memory, the outer one contiguous (nvFuser, TMA:
    "Step 1: define TMA domain"; divisibility of split: merging discontiguous axes)."""
    for copy in _copies(s):
        yield from _apart(copy)


def _apart(copy: _Copy) -> _Found:
    fault = copy.view.fault if copy.view is not None else None
    if isinstance(fault, ApartInMemory):
        breach = Violation(
            "tma_merges_contiguous_axes",
            copy.where,
            f"{fault.outer} merged with {fault.inner}",
            "neighbours in the global tensor's allocation, the outer one contiguous",
            "Box one of them, or leave them apart.",
        )
        yield _told(copy, breach)


@model_rule
def tma_inner_dimension_is_contiguous(s: Schedule) -> _Found:
    """The innermost axis of the view is contiguous: dimension 0 has no stride of its own (CUDA driver API,
    cuTensorMapEncodeTiled: globalStrides)."""
    for copy in _copies(s):
        yield from _inner_apart(copy)


def _inner_apart(copy: _Copy) -> _Found:
    inner = copy.view.axes[-1] if copy.view is not None and copy.view.axes else None
    if inner is not None and not inner.is_contiguous:
        breach = Violation(
            "tma_inner_dimension_is_contiguous",
            copy.where,
            str(inner.stride),
            1,
            "Declare the innermost axis contiguous, or copy by threads.",
            "the innermost axis in global memory is not declared contiguous, and a tensor map has no stride for it",
        )
        yield _told(copy, breach)


@model_rule
def tma_inner_dimension_is_dense(s: Schedule) -> _Found:
    """The innermost dimension has an element stride of one: without interleave the first element stride is not heeded
    (CUDA driver API, cuTensorMapEncodeTiled: elementStrides)."""
    for copy in _copies(s):
        yield from _inner_strided(copy)


def _inner_strided(copy: _Copy) -> _Found:
    step = copy.view.inner_stride if copy.view is not None and isinstance(copy, TensorMapCopy) else None
    if step is not None:
        breach = Violation(
            "tma_inner_dimension_is_dense",
            copy.where,
            str(step),
            1,
            "Take every element of the innermost dimension.",
            f"an element stride of {step} in the innermost dimension, where the copy engine takes every element",
        )
        yield _told(copy, breach)


@model_rule
def tma_strided_tile_fills_its_box(s: Schedule) -> _Found:
    """A strided tile has the ceil(box / element stride) elements that the copy engine moves; an outer split that leaves
    holes can ask for more (nvFuser, TMA modelling: "What is TMA?")."""
    for copy in _copies(s):
        yield from _overfull(copy)


def _overfull(copy: _Copy) -> _Found:
    for one in copy.view.strided if copy.view is not None else ():
        breach = Violation(
            "tma_strided_tile_fills_its_box",
            copy.where,
            str(one.tile),
            str(one.moved),
            "Split the box by the element stride, as an inner split.",
            f"a tile of {one.tile} elements, where every {one.stride}th of a box of {one.box} are {one.moved}",
        )
        yield from (_told(copy, found) for found in are_equal(one.tile, one.moved).require(breach))


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
        if i == 0 and not (start * c.global_tensor.dtype.nbytes).divisible_by(BULK_BYTES):
            yield Violation(
                "tma_inner_coordinates_are_multiples_of_16_bytes",
                at(c, 0, "coordinate"),
                str(start),
                f"a multiple of {BULK_BYTES} bytes",
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
            yield from is_multiple(row, Size(BULK_BYTES)).require(
                encode_breach(
                    "tma_store_rows_are_multiples_of_16_bytes",
                    at(c, 0, "size"),
                    f"{row} bytes",
                    f"a multiple of {BULK_BYTES}",
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
