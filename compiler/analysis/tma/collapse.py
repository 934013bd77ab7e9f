"""The dimensions of the tensor map: axes of the view merged where one box of the merge is what they ask for together
(nvFuser, TMA: "Define box by compositing"; TMA inference: collapse)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.tma.roles import BoxedAxis, Piece, Roles, size_of
from compiler.analysis.tma.view import ViewAxis
from compiler.arch import TENSOR_MAP_BOX
from compiler.ir.size import Size


class AxisKind(Enum):
    """What an axis of the view is to the box."""

    PARTITIONED = "partitioned"
    COORDINATE = "coordinate"
    STRIDED_BOX = "strided box"
    DENSE_BOX = "dense box"


@dataclass(frozen=True, slots=True)
class RawDim:
    """A dimension: `boxed.box` is empty for an implicit box of one. `is_contiguous` and `stride` as in a ViewAxis."""

    boxed: BoxedAxis
    kind: AxisKind
    is_contiguous: bool
    stride: Size

    @property
    def partitioned(self) -> Piece:
        return self.boxed.partitioned


def raw_dims(roles: Roles, view: Sequence[ViewAxis]) -> tuple[RawDim, ...] | ViewAxis:
    """The axes of the view with what they are to the box; or the axis that is partly Bulk in a way that no box is."""
    found = []
    for axis in view:
        piece = (axis.group,)
        boxed = next((b for b in roles.boxed if b.partitioned == piece), None)
        if boxed is None:
            # An axis that is a box already, though another axis was found to be cut by it.
            boxed = next((BoxedAxis(piece, b.box, b.tile, b.stride) for b in roles.boxed if b.box == piece), None)
        if boxed is not None and boxed.is_partitioned:
            kind = AxisKind.PARTITIONED
        elif boxed is not None:
            kind = AxisKind.DENSE_BOX if boxed.stride is None else AxisKind.STRIDED_BOX
        elif roles.is_bulk(piece):
            boxed, kind = BoxedAxis(piece, piece, piece), AxisKind.DENSE_BOX
        elif roles.is_non_bulk(piece):
            boxed, kind = BoxedAxis(piece, (), ()), AxisKind.COORDINATE
        else:
            return axis
        found.append(RawDim(boxed, kind, axis.is_contiguous, axis.stride))
    return tuple(found)


def collapse(graph: IdGraph, raw: Sequence[RawDim], inner_limit: int | None) -> tuple[RawDim, ...]:
    """The dimensions, innermost first. `inner_limit`: elements of a swizzle's span, which the innermost box is not
    merged beyond; extents that are unknown are merged."""
    boxes = _merge_boxes(graph, list(raw), inner_limit)
    return tuple(reversed(_merge_coordinates(boxes)))


def _merge_boxes(graph: IdGraph, dims: list[RawDim], inner_limit: int | None) -> list[RawDim]:
    """Coordinates with coordinates, dense boxes with dense boxes, left to right."""
    i = 0
    while i + 1 < len(dims):
        outer, inner = dims[i], dims[i + 1]
        merges = outer.is_contiguous and outer.kind is inner.kind
        if merges and outer.kind is AxisKind.DENSE_BOX:
            size = size_of(graph, (*outer.boxed.box, *inner.boxed.box))
            limit = TENSOR_MAP_BOX if inner_limit is None or i + 2 < len(dims) else min(TENSOR_MAP_BOX, inner_limit)
            merges = size.coefficient <= limit
        elif outer.kind is not AxisKind.COORDINATE:
            merges = False
        if not merges:
            i += 1
            continue
        whole = (*outer.partitioned, *inner.partitioned)
        box = (*outer.boxed.box, *inner.boxed.box)
        dims[i : i + 2] = [RawDim(BoxedAxis(whole, box, box), outer.kind, inner.is_contiguous, inner.stride)]
    return dims


def _merge_coordinates(dims: list[RawDim]) -> list[RawDim]:
    """Coordinates with the whole box behind them, which makes one partitioned axis."""
    i = 0
    while i + 1 < len(dims):
        outer, inner = dims[i], dims[i + 1]
        boxes = inner.kind in (AxisKind.DENSE_BOX, AxisKind.STRIDED_BOX)
        if outer.is_contiguous and outer.kind is AxisKind.COORDINATE and boxes:
            whole = (*outer.partitioned, *inner.partitioned)
            boxed = BoxedAxis(whole, inner.boxed.box, inner.boxed.tile, inner.boxed.stride)
            dims[i : i + 2] = [RawDim(boxed, AxisKind.PARTITIONED, inner.is_contiguous, inner.stride)]
        i += 1
    return dims
