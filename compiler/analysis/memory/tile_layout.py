"""The index map from a copy engine's tile to the shared tensor's allocation: what is the same in every tile, and where
tiles start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.id.group_index import walk
from compiler.analysis.memory.allocation import AllocatedLayout
from compiler.analysis.memory.swizzle import Offsets, can_enumerate, offsets_of
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain

MAX_POINTS = 1 << 18
"""Elements of all tiles together that are enumerated where no proof is found: 256 KiB of single bytes, more than shared
memory holds (227 KiB, CUDA C++ programming guide, "Compute Capabilities")."""


_NO_TILES: Offsets = np.zeros((0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class MovedTile:
    """What the bulk copy that writes `output` moves at once to or from the tensor `shared`.

    `dims`: for each dimension, innermost first, the groups whose merge it is, outermost first, and its elements;
    `swizzle`: the span in bytes by which the copy shuffles it, None for a 1-D run, which nothing shuffles.
    """

    output: str
    shared: str
    dtype: DType
    dims: tuple[tuple[tuple[Group, ...], int], ...]
    swizzle: int | None

    @property
    def elems(self) -> int:
        return prod(n for _, n in self.dims)


@dataclass(frozen=True, slots=True)
class NotRecognised:
    """Why the map was not found."""

    reason: str


@dataclass(frozen=True)
class TileLayout:
    """A tile in an allocation.

    `variables`: the tile's indices, innermost first, as the copy engine walks them; `row`: elements of its innermost
    dimension, 0 of a run, whose rows no mode shuffles. `inside`: elements from a tile's start to its element, None
    where no one expression serves all tiles; `tiles` are then the offsets themselves, [tiles, elements] in the order of
    the engine. `start`: every tile starts at a multiple of so many elements, 0 where all start at 0. `unknown`: axes of
    unknown size that shape the map.
    """

    layout: AllocatedLayout
    variables: tuple[Var, ...]
    row: int
    inside: Expr | None
    tiles: Offsets
    start: int
    unknown: tuple[IterDomain, ...]

    @property
    def elems(self) -> int:
        """Elements of one tile."""
        return prod(v.extent for v in self.variables)

    @property
    def run(self) -> int:
        """Elements that stay side by side wherever the tile's order is broken, if its elements fill a run of their own
        size in some order; else 0."""
        if self.inside is not None and (self.elems > MAX_POINTS or not can_enumerate(self.inside)):
            return 0
        tile = offsets_of(self.inside, self.variables) if self.inside is not None else self.tiles[0]
        if not np.array_equal(np.sort(tile) - tile.min(), np.arange(self.elems)):
            return 0
        breaks = np.flatnonzero(np.diff(tile) != 1) + 1
        return gcd(self.elems, *breaks.tolist())

    @property
    def outermost(self) -> IterDomain | None:
        """The outermost allocated axis, whose extent shapes nothing but the size of the allocation."""
        return next((a for a in self.layout.axes if not a.is_trivial), None)

    @property
    def stride(self) -> int:
        """Elements from one index of the outermost axis to the next."""
        pairs = zip(self.layout.axes, self.layout.strides, strict=True)
        return next((s for a, s in pairs if not a.is_trivial), 1)


def lay_out_tile(
    graph: IdGraph, copy: MovedTile, layout: AllocatedLayout, loops: Sequence[tuple[Group, Var]]
) -> TileLayout | NotRecognised:
    """The map for the tile of `copy` into an allocation. `loops`: the axes that choose a tile, with their indices."""
    tile: dict[Group, Var] = {}
    for d, (groups, _) in enumerate(copy.dims):
        for i, g in enumerate(reversed(groups)):
            tile[g] = Var(f"t{d}" if len(groups) == 1 else f"t{d}_{i}", graph.size(g).value)
    variables = tuple(tile.values())
    if prod(v.extent for v in variables) != copy.elems:
        return NotRecognised("the dimensions of its tensor map share axes")
    outside: dict[Group, Var] = {}
    for g, v in loops:
        if g not in tile:
            outside.setdefault(g, v)
    offset = offset_along(graph, layout, {g: var(v) for g, v in (*tile.items(), *outside.items())})
    if isinstance(offset, NotRecognised):
        return offset
    row = 0 if copy.swizzle is None else copy.dims[0][1] if copy.dims else 1
    unknown = tuple(_unknown(layout, (graph.axis(g) for g in tile)))
    return _separate(offset, variables, tuple(outside.values()), layout, row, unknown)


def offset_along(graph: IdGraph, layout: AllocatedLayout, known: dict[Group, Expr]) -> Expr | NotRecognised:
    """Elements from the start of an allocation, given indices of groups from which its axes follow."""
    known = {**dict.fromkeys(graph.ones, Expr()), **known}
    placed = [(graph.group(a), s, a) for a, s in zip(layout.axes, layout.strides, strict=True) if a.extent > 1]
    path, lost = graph.path(tuple(known), tuple(g for g, _, _ in placed))
    if lost:
        names = ", ".join(str(a) for g, _, a in placed if g in lost)
        return NotRecognised(f"{names} of the allocation does not follow from the loops of the copy")
    index = walk(graph, path, known)
    total = Expr()
    for g, stride, _ in placed:
        total = total + index[g] * stride
    return total


def _separate(
    offset: Expr,
    variables: tuple[Var, ...],
    outside: tuple[Var, ...],
    layout: AllocatedLayout,
    row: int,
    unknown: tuple[IterDomain, ...],
) -> TileLayout | NotRecognised:
    """Splits an offset into a part of the tile's indices and one of the others'; by enumeration where it must be."""
    own = frozenset(variables)
    inner, outer = [], []
    for term in offset.terms:
        used = Expr((term,)).variables
        if used <= own:
            inner.append(term)
        elif used.isdisjoint(own):
            outer.append(term)
        else:
            break
    else:
        start = Expr(tuple(outer), offset.const)
        return TileLayout(layout, variables, row, Expr(tuple(inner)), _NO_TILES, _step(start, variables), unknown)
    moving = tuple(v for v in outside if v in offset.variables)
    elems, tiles = prod(v.extent for v in variables), prod(v.extent for v in moving)
    if elems * tiles > MAX_POINTS:
        return NotRecognised(f"{tiles} tiles of {elems} elements are too many to look at one by one")
    if not can_enumerate(offset):
        return NotRecognised("its indices leave 64 bits")
    points = offsets_of(offset, (*variables, *moving)).reshape(tiles, elems)
    return TileLayout(layout, variables, row, None, points, int(np.gcd.reduce(points[:, 0])), unknown)


def _step(start: Expr, tile: tuple[Var, ...]) -> int:
    """The greatest common divisor of where tiles start; a smaller one only where they are too many to look at."""
    step = gcd(start.const, *(c for _, c in start.terms))
    moving = tuple(sorted(start.variables, key=str))
    if step >= prod(v.extent for v in tile) or not moving:
        return step
    if prod(v.extent for v in moving) > MAX_POINTS or not can_enumerate(start):
        return step
    return int(np.gcd.reduce(offsets_of(start, moving)))


def _unknown(layout: AllocatedLayout, tile: Iterator[IterDomain]) -> Iterator[IterDomain]:
    """Axes of unknown size that strides or the tile depend on: all but the outermost of the allocation."""
    axes = [a for a in layout.axes if not a.is_trivial]
    yield from dict.fromkeys(a for a in (*axes[1:], *tile) if a.symbolic is not None)
