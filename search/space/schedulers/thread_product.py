"""Products of matrices by threads, one after the other element along what is summed, with what is done to the result.

    left, right -> [shared tiles] -> columns and rows of them, in registers -> product, in registers -> outputs

For what no tensor core multiplies exactly: f32, each term added by a fused product. Threads lie in a rectangle, x along
the columns of a tile and y along its rows; each has some rows and columns, as far apart as there are threads. Loops of
the result: blocks' tiles | thread of the rows, of the columns | row | column.

Every element is summed in one order, whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from search.space.groups import MATH
from search.space.schedulers.brought_space import stage_depth
from search.space.schedulers.by_space import BySpace
from search.space.schedulers.pointwise_body import cache_registers, inline_body
from search.space.schedulers.product_facts import ProductShape, product_shape
from search.space.schedulers.product_operands import K
from search.space.schedulers.product_tiles import BroughtTiles, Tiles
from search.space.schedulers.thread_product_space import WORD_ELEMS, thread_product_space
from search.space.space import Space

P = ParallelType
_AROUND = [P.BIDX, P.SERIAL, P.UNROLL, P.TIDY, P.TIDX]


@dataclass(frozen=True, slots=True)
class ThreadProduct(BySpace):
    """The scheduler of products by threads."""

    name: str = "thread_product"

    def found(self, fusion: Fusion, arch: Arch) -> Space | str:
        """Fusions of products of f32 inputs, and what is elementwise of their results."""
        return thread_product_space(fusion, arch)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        b, p = TraceBuilder(fusion, point[MATH]), point
        shape = product_shape(b.sf)
        assert isinstance(shape, ProductShape), "refused fusions have no points"
        sides, tv, more = {side.name: side for side in shape.sides}, shape.tensor, shape.tensors[1:]
        brought = BroughtTiles(p["load"], ((P.TIDY, p["threads_down"]), (P.TIDX, p["threads_across"])))
        loaded, registers = cache_registers(b)
        beside = [name for name in loaded if name not in sides]
        for name in sides:
            brought.placed(b, name)
            b.do(steps.CacheInput(brought.shared(name), f"{name}_f", MemoryType.LOCAL))
        held, tiles = tuple(f"{name}_f" for name in sides), tuple(map(brought.shared, sides))
        result = tuple(op.output for op in b.sf.ops if op.output not in (tv, *more, *sides, *tiles, *held))
        tiling = Tiles(
            rows=p["tile_rows"],
            columns=p["tile_columns"],
            k=stage_depth(shape),
            raster=p["raster"],
            strip=p["raster_group"],
        )
        pre = tiling.loops(b, shape)
        b.do(steps.Propagate(tv, tuple(dict.fromkeys((*sides, *tiles, *held, *more, *result)))))
        for side in sides.values():
            brought.cut(b, side, pre, 1 if side in shape.rows else 2)
        # [tile, k, k / word | thread of the rows, of the columns | row, column | word along k]
        b.split(tv, 4, WORD_ELEMS)
        b.split(tv, 3, p["threads_across"])
        b.split(tv, 2, p["threads_down"])
        b.reorder(tv, [0, 1, 6, 3, 5, 2, 4, 7])
        b.parallelize(tv, [*_AROUND, P.UNROLL, P.UNROLL, P.UNROLL])
        if more:
            b.do(steps.Propagate(tv, more), steps.ParallelizeLike(tv, more))
        b.do(steps.Propagate(tv, (*held, *result)))
        for name, side in zip(held, sides.values(), strict=True):
            b.parallelize(name, [*_AROUND, P.UNROLL, P.UNROLL, P.VECTORIZE if side.major == K else P.UNROLL])
        b.parallelize_alike(result, [P.BIDX, P.TIDY, P.TIDX, P.UNROLL, P.UNROLL])
        b.inline(shape.tensors, 1)
        between = [name for name in result if name not in (*beside, *registers, *b.sf.outputs)]
        inline_body(b, between, registers, 4)
        b.inline(beside, 4)
        b.inline(held, 3)
        b.inline(tuple(dict.fromkeys((*sides, *tiles))), 2)
        for name in sides if p["stages"] > 1 else ():
            b.do(steps.CircularBuffer(name, p["stages"], -1))
        return b.trace()
