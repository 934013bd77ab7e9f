"""Products of matrices in tensor memory, with what is done to their elements.

    left, right -> [shared rings, by the copy engine] -> product, in tensor memory
                -> registers -> elementwise -> outputs

A warp brings tiles of both operands, stage by stage along what is summed; a thread of another warp asks for the
products of a stage (tcgen05.mma); four warps take the result to registers, in the fragments in which instructions of
warp groups leave it, so that it leaves them as theirs does (`product`). With two accumulators the products of the next
tile are under way meanwhile.

The kernels are compiled and proven in the emulator; what the cost model says of them rests on no measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from compiler.arch import MMA_K_BYTES, TCGEN05_HALF_ROWS, TCGEN05_ROWS, WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import BufferKind, CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from search.space.groups import ACCUMULATORS, MATH
from search.space.schedulers.by_space import BySpace
from search.space.schedulers.product import ProductTrace
from search.space.schedulers.product_space import SINGLE
from search.space.schedulers.product_tiles import NONE, PATTERN_ROWS
from search.space.schedulers.tensor_product_space import tensor_product_space
from search.space.space import Space

P = ParallelType
_MATRIX_COLUMNS, _PAIR, _HALF = 8, 2, 16
"""Of the fragments that a warp loads, 16 rows of 8 columns: a thread has pairs of neighbours."""

_MOST_PIECES = 16
"""Of 8 columns, that a thread loads at a time: 64 words."""


@dataclass(frozen=True, slots=True)
class ProductByOneThread(BySpace):
    """The scheduler of products in tensor memory. `sm_count` sizes persistent grids."""

    sm_count: int
    name: str = "tensor_product"

    def found(self, fusion: Fusion, arch: Arch) -> Space | str:
        """Fusions that `product` takes, on architectures with tensor memory."""
        return tensor_product_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        of_groups = {"consumers": SINGLE, "paired": NONE, "parts": 1}
        return _ByOneThreadTrace(TraceBuilder(fusion, point[MATH]), {**point, **of_groups}, self.sm_count).build()


@dataclass
class _ByOneThreadTrace(ProductTrace):
    def placed(self) -> None:
        """Products are left in tensor memory, and loaded from there."""
        super().placed()
        for name in self.shape.tensors:
            self.b.do(steps.CacheInput(name, _loaded(name), MemoryType.LOCAL, CopyVia.LD_TMEM))
            self.b.do(steps.SetMemory(name, MemoryType.TENSOR))

    @property
    def loaded(self) -> tuple[str, ...]:
        """What comes from tensor memory to registers."""
        return tuple(map(_loaded, self.shape.tensors))

    @property
    def group_type(self) -> P:
        """How tiles of as many rows as tensor memory has lanes are told apart: four warps take one after the other."""
        return P.UNROLL

    def fragments(self, pre: list[P], result: Sequence[str], staged: Sequence[str]) -> None:
        """[.. tiles, k, k of a stage, rows of several instructions, rows, columns, k] of the product, and [.. tiles,
        steps, lanes, half of a warp's lanes, thread, 8 columns, ..] of what is computed of it."""
        b, at, first = self.b, len(pre), self.loaded[0]
        columns, width = self.point["tile_columns"], self.point["store_columns"]
        width = width if columns % width == 0 else columns
        rest = [name for name in result if name != first]
        b.split(first, at + 1, width)
        b.do(steps.Propagate(first, tuple(rest)))
        for name in staged:
            self.staged_tile(name, at)
        b.split(first, at + 2, _MATRIX_COLUMNS)
        b.split(first, at + 3, _PAIR)
        for piece, size in enumerate(self.lanes):
            b.split(first, at + piece, size)
        # lanes, warp, halves, half, line | step, 8 columns, pair, side
        b.reorder(first, [*range(at), *(at + i for i in (5, 0, 2, 1, 4, 7, 6, 3, 8))])
        b.merge(first, at + 3, 3)
        b.do(steps.Propagate(first, tuple(rest)))
        self.loads(at)
        if self.is_in_matrices(staged):
            computed = [name for name in result if name not in self.loaded]

            def matrices(name: str) -> None:
                b.split(name, at + 4, _PAIR)
                b.merge(name, at + 5, 3)

            b.alike(computed, matrices)
        self.accumulators_of(pre)

    @property
    def lanes(self) -> tuple[int, ...]:
        """Rows of an instruction, of a warp, of the half of its lanes that a fragment has, and of half a fragment."""
        rows = self.point["tile_rows"]
        warp = _HALF if rows == TCGEN05_HALF_ROWS else WARP_THREADS
        return (min(rows, TCGEN05_ROWS), warp, _HALF, PATTERN_ROWS)

    def loads(self, at: int) -> None:
        """[.. thread, pieces, words] of what comes from tensor memory: as many words at a time as there are."""
        b, first = self.b, self.loaded[0]
        pieces = gcd(b.tensor(first).loop[at + 4].extent, _MOST_PIECES)

        def words(name: str) -> None:
            b.split(name, at + 4, pieces)
            b.merge(name, at + 5, 3)

        b.alike(self.loaded, words)

    def accumulators_of(self, pre: list[P]) -> None:
        """The loops of the products, and their places: a row a lane, of 64 rows 16 in each warp's lanes."""
        b, at, tv = self.b, len(pre), self.shape.tensor
        rows = min(self.point["tile_rows"], TCGEN05_ROWS)
        b.split(tv, at + 3, MMA_K_BYTES // self.shape.dtype.nbytes)
        b.split(tv, at + 1, rows)
        b.reorder(tv, [*range(at + 1), at + 4, at + 1, at + 2, at + 3, at + 5])
        if self.more:
            b.do(steps.Propagate(tv, self.more))
        axes = (*range(at), at + 3, at + 2, at + 4, at, at + 1, at + 5)
        for name in self.shape.tensors:
            if rows == TCGEN05_HALF_ROWS:
                strides = (*[None] * at, WARP_THREADS, 1, None, 1, None, None, None)
                b.do(steps.SetAllocationDomain(name, axes, (steps.Split(name, at, _HALF),), strides))
                b.do(steps.TmemDimsep(name, at + 2))
            else:
                b.do(steps.SetAllocationDomain(name, axes), steps.TmemDimsep(name, at + 1))
        b.parallelize_alike(self.shape.tensors, [*pre, P.SERIAL, P.UNROLL, P.UNROLL, P.MMA, P.MMA, P.MMA])

    def types_of(self, pre: list[P], result: Sequence[str], beside: Sequence[str], staged: Sequence[str]) -> None:
        """Those of `product` for what is computed of the result, and of the loads."""
        types = [*pre, P.UNROLL, P.UNROLL, P.UNROLL, P.TIDX, P.UNROLL, P.VECTORIZE]
        self.b.parallelize_alike(self.loaded, types)
        super().types_of(pre, [name for name in result if name not in self.loaded], beside, staged)

    def inline(
        self, pre: list[P], beside: list[str], registers: list[str], result: Sequence[str], staged: Sequence[str]
    ) -> None:
        """The loads by the thread that uses what they bring."""
        super().inline(pre, beside, registers, [name for name in result if name not in self.loaded], staged)
        self.b.inline(self.loaded, len(pre) + 4)

    def turn(self) -> None:
        """Rings of both operands, filled by a warp of its own, and places of results."""
        b, p = self.b, self.point
        for name in self.operands:
            b.do(steps.CircularBuffer(name, p["stages"], -1, kind=BufferKind.WARP_SPECIALIZED, on=P.TIDX))
        for name in self.shape.tensors if p[ACCUMULATORS] > 1 else ():
            b.do(steps.ProductsInFlight(name, p[ACCUMULATORS] - 1))


def _loaded(name: str) -> str:
    return f"{name}_l"
