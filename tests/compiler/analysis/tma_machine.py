"""An executable definition of the copy engine (nvFuser, TMA modelling: "What is TMA?"), and what a schedule means.

The engine: N-D, every dimension guarded on both sides. Memory is flat, one entry an element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.analysis.id.group_index import walk
from compiler.analysis.tma.tensor_map import coordinates
from compiler.ir.algebra import backward, forward
from compiler.ir.domain import ScheduledFusion, logical_correspondence
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Resize, Split
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import TensorView
from tests.compiler.analysis.explicit_copies import Inferred

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Descriptor:
    """Size, stride, box and element stride of each dimension, innermost first, in elements."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    box: tuple[int, ...]
    element_stride: tuple[int, ...]

    @property
    def tile(self) -> tuple[int, ...]:
        return tuple(-(-b // e) for b, e in zip(self.box, self.element_stride, strict=True))

    def elements(self, x: Sequence[int]) -> Iterator[int | None]:
        """Where each place of the tile at `x` lies in memory, dimension 0 fastest; None outside the tensor."""
        for outermost_first in product(*(range(t) for t in reversed(self.tile))):
            at = [c + i * e for c, i, e in zip(x, reversed(outermost_first), self.element_stride, strict=True)]
            inside = all(0 <= a < n for a, n in zip(at, self.size, strict=True))
            yield sum(a * s for a, s in zip(at, self.stride, strict=True)) if inside else None


def load(memory: Ints, d: Descriptor, x: Sequence[int]) -> Ints:
    """The tile as it lies in shared memory."""
    return np.array([0 if at is None else memory[at] for at in d.elements(x)], dtype=np.int64)


def store(memory: Ints, d: Descriptor, x: Sequence[int], tile: Ints) -> None:
    """Writes the tile. A start below zero is illegal (PTX ISA)."""
    assert all(c >= 0 for c in x), f"a store at {x}"
    for at, value in zip(d.elements(x), tile, strict=True):
        if at is not None:
            memory[at] = value


@dataclass(frozen=True)
class Tile:
    """One issue of the copy: its box starts at `start`; place p of the tile holds the element at `address[p]` of global
    memory, or nothing (-1)."""

    start: tuple[int, ...]
    address: Ints


@dataclass(frozen=True)
class Meaning:
    """What a schedule copies, told by its transforms alone; `places`: where each Bulk index lies in the tile, -1 where
    behind it; `memory`: entries of global memory."""

    descriptor: Descriptor
    tiles: tuple[Tile, ...]
    places: Ints
    memory: int


def descriptor_of(found: Inferred) -> Descriptor:
    columns = [tuple(d[i] for d in found.dims) for i in range(4)]
    return Descriptor(*columns)


def addresses(sf: ScheduledFusion, output: str) -> tuple[list[IterDomain], list[IterDomain], Ints, int]:
    """Bulk axes and other axes of a bulk copy's output; where in the global tensor each (other, Bulk) index reads or
    writes, -1 at holes; how far the global tensor reaches."""
    consumer = sf.tensor(output)
    op = sf.producer(output)
    assert op is not None
    outside = consumer if consumer.memory.value == "global" else sf.tensor(op.tensor_inputs[0])
    types = list(zip(consumer.loop, consumer.types, strict=True))
    bulk = [a for a, t in types if t is ParallelType.BULK]
    others = [a for a, t in types if t is not ParallelType.BULK]
    index = backward({a: var(Var(a.name, a.extent)) for a in consumer.loop}, consumer.exprs)
    grid = np.indices([a.extent for a in (*others, *bulk)], dtype=np.int64).reshape(len(types), -1)
    values = {a.name: row for a, row in zip((*others, *bulk), grid, strict=True)}
    valid = np.ones(grid.shape[1] if types else 1, dtype=bool)
    for e in consumer.exprs:
        if isinstance(e, Split | Resize):
            at = index[e.source].evaluate(values)
            valid &= (at >= 0) & (at < e.source.extent)
    pairs = {a: a for a in consumer.logical} if outside is consumer else logical_correspondence(op, outside, consumer)
    offset, reach = Expr(), 0
    for a, stride in zip(outside.logical, logical_strides(outside), strict=True):
        if a in pairs and not a.is_broadcast:
            offset = offset + index[pairs[a]] * stride
            reach += (a.extent - 1) * stride
    flat = np.where(valid, offset.evaluate(values), -1).astype(np.int64)
    return bulk, others, flat.reshape(prod(a.extent for a in others), prod(a.extent for a in bulk)), reach + 1


def inside_tile(consumer: TensorView, values: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Which Bulk indices lie in the tile; the rest are holes of splits of Bulk axes alone, no affair of the copy."""
    index = backward({a: var(Var(a.name, a.extent)) for a in consumer.loop}, consumer.exprs)
    bulk = set(consumer.bulk_axes)
    inside = np.ones(prod(a.extent for a in consumer.bulk_axes), dtype=bool)
    for e in reversed(consumer.exprs):
        if all(a in bulk for a in e.outputs if a.extent > 1):
            bulk.update(e.inputs)
            if isinstance(e, Split):
                inside &= np.asarray(index[e.source].evaluate(values)) < e.source.extent
    return inside


def logical_strides(t: TensorView) -> tuple[int, ...]:
    """At the binding: as given, or those of a dense allocation."""
    if t.runtime_strides:
        return t.runtime_strides
    assert t.allocation is not None
    if t.allocation.axes == t.logical:
        out, step = [], 1
        for a in reversed(t.logical):
            out.append(step)
            step *= 1 if a.is_broadcast else a.extent
        return tuple(reversed(out))
    base = {a: var(Var(a.name, a.extent)) for a in t.logical}
    index = forward(base, (*t.exprs, *t.allocation.exprs))
    flat = Expr()
    for a in t.allocation.axes:
        flat = flat * a.extent + index[a]
    zero = {a.name: 0 for a in t.logical}
    return tuple(flat.evaluate({**zero, a.name: 1}) if a.extent > 1 else 1 for a in t.logical)


def meaning(found: Inferred) -> Meaning:
    """Starts of the boxes and places in the tile are the analysis'; which element is meant is the schedule's."""
    copy, graph = found.copy, found.graph
    assert copy.dims is not None
    bulk, others, flat, reach = addresses(found.sf, copy.op.output)
    names = {a: Var(a.name, a.extent) for a in (*others, *bulk)}
    own = {graph.group(a): var(names[a]) for a in others}
    starts = coordinates(copy, graph, own)
    index = walk(graph, copy.path, {graph.group(a): var(names[a]) for a in (*bulk, *others)})
    place = Expr()
    for d in reversed(copy.dims):
        at = Expr()
        for g in d.tile:
            at = at * graph.size(g).value + index[g]
        place = place * d.tile_size.value + at
    bulk_grid = np.indices([a.extent for a in bulk], dtype=np.int64).reshape(len(bulk), flat.shape[1])
    values = dict(zip((a.name for a in bulk), bulk_grid, strict=True)) | {a.name: 0 for a in others}
    places = np.where(inside_tile(found.sf.tensor(copy.op.output), values), place.evaluate(values), -1).astype(np.int64)
    tiles = []
    for row, chosen in enumerate(product(*(range(a.extent) for a in others))):
        by_name = {a.name: i for a, i in zip(others, chosen, strict=True)}
        tiles.append(Tile(tuple(int(x.evaluate(by_name)) for x in starts), flat[row]))
    return Meaning(descriptor_of(found), tuple(tiles), places, reach)
