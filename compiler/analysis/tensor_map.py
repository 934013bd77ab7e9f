"""The tensor map of a bulk copy, inferred from its consumer's schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from compiler.analysis.id_graph import Group, IdGraph
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView


class Correctness(StrEnum):
    """What the holes of a tile hold (nvFuser, TMA modelling: Definitions 1 and 2, Theorem 6)."""

    STRONG = "strong"
    STRONG_WITH_PREDICATE = "strong_with_predicate"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class MapDim:
    """One dimension of a tensor map. Tuples of groups stand for their merge, outermost first.

    `partitioned` is split into a coordinate and `box` (empty: an implicit box of one); the box into `tile` and
    `element_stride` (None: dense, and `tile` is `box`). `stride`: elements of the global tensor from one index to the
    next.
    """

    partitioned: tuple[Group, ...]
    box: tuple[Group, ...]
    tile: tuple[Group, ...]
    element_stride: Group | None
    size: Size
    stride: Size
    box_size: Size
    tile_size: Size
    element_stride_size: Size


@dataclass(frozen=True, slots=True)
class TensorMapCopy:
    """A tensor-map copy: `dims` innermost first, swizzle span in bytes (0: none), and what inference found wrong.

    `bulk` and `non_bulk`: every group of the consumer's schedule that is wholly inside, or wholly outside, the tile.
    `dims` is None where no tensor map was found; `breaches` then says why.
    """

    op: TensorOp
    global_tensor: TensorView
    shared_tensor: TensorView
    is_load: bool
    dims: tuple[MapDim, ...] | None
    swizzle: int
    correctness: Correctness | None
    bulk: frozenset[Group]
    non_bulk: frozenset[Group]
    breaches: tuple[Violation | Kept, ...]

    @property
    def tile_elems(self) -> int:
        """Elements of one tile at the binding."""
        return prod(d.tile_size.value for d in self.dims or ())


def infer_tensor_map(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> TensorMapCopy:
    """The tensor map of `op` (via tma)."""
    raise NotImplementedError
