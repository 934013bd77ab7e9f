"""What each axis is to a tensor-map copy, and the colour that the pictures give it."""

from __future__ import annotations

from enum import StrEnum

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy
from compiler.ir.id_exprs import Split


class TmaRole(StrEnum):
    """The words of the TMA documents (nvFuser, TMA: definitions of box and tile), and two for what is left."""

    PARTITIONED = "partitioned"
    COORDINATE = "coordinate"
    BOX = "box"
    TILE = "tile"
    STRIDE = "stride"
    INSIDE = "inside"
    OUTSIDE = "outside"


COLOURS = {
    TmaRole.PARTITIONED: "#b3d1f5",
    TmaRole.COORDINATE: "#d8b083",
    TmaRole.BOX: "#8fd18a",
    TmaRole.TILE: "#4fae63",
    TmaRole.STRIDE: "#f0a3b5",
    TmaRole.INSIDE: "#dff2dc",
    TmaRole.OUTSIDE: "#f3e8da",
}
MEANINGS = {
    TmaRole.PARTITIONED: "partitioned",
    TmaRole.COORDINATE: "coordinate",
    TmaRole.BOX: "box",
    TmaRole.TILE: "tile of a strided box",
    TmaRole.STRIDE: "element stride",
    TmaRole.INSIDE: "inside the tile",
    TmaRole.OUTSIDE: "which tile",
}


def roles_of(graph: IdGraph, copy: TensorMapCopy) -> dict[Group, TmaRole]:
    """The role of every group that has one; a whole or dense box is a box before it is anything else."""
    found: dict[Group, TmaRole] = dict.fromkeys(copy.non_bulk, TmaRole.OUTSIDE) | dict.fromkeys(
        copy.bulk, TmaRole.INSIDE
    )
    for dim in copy.dims or ():
        found |= dict.fromkeys(dim.partitioned, TmaRole.PARTITIONED)
        found |= dict.fromkeys(coordinates_of(graph, copy, dim), TmaRole.COORDINATE)
    for dim in copy.dims or ():
        if dim.element_stride is not None:
            found |= dict.fromkeys(dim.tile, TmaRole.TILE) | {dim.element_stride: TmaRole.STRIDE}
        found |= dict.fromkeys(dim.box, TmaRole.BOX)
    return found


def coordinates_of(graph: IdGraph, copy: TensorMapCopy, dim: MapDim) -> tuple[Group, ...]:
    """What is left of the partitioned axes without the box: the box's position along this dimension.

    A coordinate axis may be one of those merged into the dimension, the outer result of the boxing split, or several
    results of nested splits; where the box is implicitly one, it is the whole dimension.
    """
    found: list[Group] = []
    waiting = list(reversed(dim.partitioned))
    inside = {*dim.box, *dim.tile, dim.element_stride}
    seen: set[Group] = set()
    while waiting:
        group = waiting.pop()
        if group in inside or group in seen or group in copy.bulk:
            continue
        seen.add(group)
        if group in copy.non_bulk:
            found.append(group)
            continue
        for e in graph.exprs:
            if isinstance(e.example, Split) and e.inputs == (group,):
                waiting += reversed(e.outputs)
    return tuple(found)
