"""Products of matrices by warps that hold what they multiply, with what is done to their elements.

    left, right -> [shared tiles] -> fragments, in registers -> product, in registers -> elementwise -> outputs

All threads of a block bring tiles of both operands, by the copy engine, by cp.async or through registers, stage by
stage along what is summed; each warp loads fragments of them and multiplies those. So every architecture does it that
has tensor cores, and operands of any pitch. Loops of the result: blocks' tiles | warps down, across | lane | 16 rows |
8 columns | two rows, two columns of a register each.

Every element is summed in one order, whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import (
    MMA_K_BYTES,
    MMA_SYNC_COLUMNS,
    MMA_SYNC_ROWS,
    REGISTER_BYTES,
    WARP_THREADS,
    Arch,
)
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from search.space.groups import MATH
from search.space.schedulers.brought_space import stage_depth
from search.space.schedulers.by_space import BySpace
from search.space.schedulers.pointwise_body import cache_registers, inline_body, is_packed_cast
from search.space.schedulers.product_facts import ProductShape, lies_in_pairs, product_shape
from search.space.schedulers.product_operands import K, ProductOperand
from search.space.schedulers.product_tiles import BroughtTiles, Tiles
from search.space.schedulers.warp_product_space import warp_product_space
from search.space.space import Space

P = ParallelType
_HALF, _PAIR, _QUARTER = MMA_SYNC_ROWS // 2, 2, 4


@dataclass(frozen=True, slots=True)
class WarpProduct(BySpace):
    """The scheduler of products by warps."""

    name: str = "warp_product"

    def found(self, fusion: Fusion, arch: Arch) -> Space | str:
        """Fusions of one product of inputs, and what is elementwise of its result."""
        return warp_product_space(fusion, arch)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _WarpProductTrace(TraceBuilder(fusion, point[MATH]), point).build()


@dataclass
class _WarpProductTrace:
    b: TraceBuilder
    point: Mapping[str, Any]

    def __post_init__(self) -> None:
        found = product_shape(self.b.sf)
        assert isinstance(found, ProductShape), "refused fusions have no points"
        self.shape = found
        self.sides = {side.name: side for side in found.sides}
        self.more = found.tensors[1:]
        self.nbytes = found.dtype.nbytes
        p = self.point
        threads = ((P.TIDZ, p["warps_down"]), (P.TIDY, p["warps_across"]), (P.TIDX, WARP_THREADS))
        self.brought = BroughtTiles(p["load"], threads)
        self.down = p["tile_rows"] // MMA_SYNC_ROWS // p["warps_down"]
        self.across = p["tile_columns"] // MMA_SYNC_COLUMNS // p["warps_across"]

    def build(self) -> ScheduleTrace:
        b, p, tv = self.b, self.point, self.shape.tensor
        loaded, registers = cache_registers(b)
        for name in self.sides:
            self.brought.placed(b, name)
            b.do(steps.CacheInput(self.brought.shared(name), f"{name}_f", MemoryType.LOCAL))
        tiles = Tiles(
            rows=p["tile_rows"],
            columns=p["tile_columns"],
            k=stage_depth(self.shape),
            raster=p["raster"],
            strip=p["raster_group"],
        )
        pre = tiles.loops(b, self.shape)
        held = tuple(name for side in self.sides.values() for name in self.fragment(side))
        brought = tuple(dict.fromkeys((*self.sides, *map(self.brought.shared, self.sides))))
        result = tuple(op.output for op in b.sf.ops if op.output not in (*self.shape.tensors, *brought, *held))
        b.do(steps.Propagate(tv, (*brought, *held, *self.more, *result)))
        for side in self.sides.values():
            self.brought.cut(b, side, pre, 1 if side in self.shape.rows else 2)
        self.pieces(held, result)
        for side in self.sides.values():
            b.alike(self.fragment(side), self.left_fragment if side in self.shape.rows else self.right_fragment)
            self.loads(side)
        beside = [name for name in loaded if name in result]
        self.registers(result, beside)
        b.inline(self.shape.tensors, 1)
        between = [name for name in result if name not in (*beside, *registers, *b.sf.outputs)]
        inline_body(b, between, registers, 7)
        b.inline(beside, 7)
        for side in self.sides.values():
            self.inline_fragment(side)
        b.inline(brought, 2)
        if p["stages"] > 1:
            for name in self.sides:
                b.do(steps.CircularBuffer(name, p["stages"], -1))
        return b.trace()

    # Operands --------------------------------------------------------------------------------------------------------

    def fragment(self, side: ProductOperand) -> tuple[str, ...]:
        """The tensors of an operand that lanes hold: what is loaded, what is computed of it, what else that reads."""
        return (f"{side.name}_f", *side.chain, *side.beside)

    def left_fragment(self, tv: str) -> None:
        """[tile, k, k / instruction | warps | lane | pieces | the other's pieces and columns | what a lane holds of a
        piece]: two halves along k, two of the rows, a register."""
        b = self.b
        self.cut_along_k(tv)
        b.split(tv, 7, _HALF)
        b.reorder(tv, [*range(5), 8, 11, 5, 6, 9, 10, 7, 12])
        b.merge(tv, 5)

    def right_fragment(self, tv: str) -> None:
        """The same with rows of the other; two pieces of columns at a time where there are, two halves along k, a
        register."""
        b = self.b
        self.cut_along_k(tv)
        if self.across % _PAIR == 0:
            b.split(tv, 6, _PAIR)
            b.reorder(tv, [*range(5), 9, 11, 5, 8, 6, 7, 10, 12])
        else:
            b.reorder(tv, [*range(5), 8, 10, 5, 7, 6, 9, 11])
        b.merge(tv, 5)

    def cut_along_k(self, tv: str) -> None:
        """What an instruction takes along k, the loop at 9: halves, lanes, elements of a register."""
        self.b.split(tv, 9, REGISTER_BYTES // self.nbytes)
        self.b.split(tv, 9, _QUARTER)

    def loads(self, side: ProductOperand) -> None:
        """By ldmatrix what is multiplied as it is, where elements of 16 bits lie in the tile, or others side by side
        along k; else by lanes, words along k. What is computed of it follows."""
        b, tv = self.b, f"{side.name}_f"
        pre = [P.BIDX, P.SERIAL, P.UNROLL, P.TIDZ, P.TIDY, P.TIDX]
        count = 2 if side in self.shape.columns and self.across % _PAIR else 3
        others = len(b.tensor(tv).loop) - len(pre) - count
        if not side.chain and (self.nbytes == 2 or side.major == K):
            b.merge(tv, len(pre) + others, count)
            b.do(steps.SetMemory(tv, MemoryType.LOCAL, CopyVia.LDMATRIX))
            b.parallelize(tv, [*pre, *[P.UNROLL] * others, P.VECTORIZE])
            return
        b.parallelize_alike(self.fragment(side), [*pre, *[P.UNROLL] * (others + count)])
        words = (tv,) if side.major == K and self.nbytes < REGISTER_BYTES else ()
        b.vectorize((*words, *(name for name in side.chain if is_packed_cast(b, name))))

    def inline_fragment(self, side: ProductOperand) -> None:
        """What is loaded, and made of it, for one instruction along k; what does not change along k, for all."""
        b, loaded = self.b, f"{side.name}_f"
        if not side.chain:
            b.inline((loaded,), 3)
            return
        lane = len(b.tensor(loaded).loop) - 1
        inline_body(b, [loaded, *side.chain[:-1]], [side.chain[-1]], lane)
        b.inline((side.chain[-1],), 3)
        for name in side.beside:
            t = b.tensor(name)
            b.inline((name,), 1 if t.logical[-1].is_broadcast else lane)

    # The result ------------------------------------------------------------------------------------------------------

    def pieces(self, held: tuple[str, ...], result: tuple[str, ...]) -> None:
        """[tile, k, k / instruction | warps down, across | pieces of rows, of columns | 16 rows, 8 columns, k]."""
        b, tv = self.b, self.shape.tensor
        b.split(tv, 4, MMA_K_BYTES // self.nbytes)
        b.split(tv, 3, MMA_SYNC_COLUMNS)
        b.split(tv, 3, self.across)
        b.split(tv, 2, MMA_SYNC_ROWS)
        b.split(tv, 2, self.down)
        b.reorder(tv, [0, 1, 8, 2, 5, 3, 6, 4, 7, 9])
        b.do(steps.Propagate(tv, (*held, *result)))

    def registers(self, result: tuple[str, ...], beside: list[str]) -> None:
        """[.. | lane | pieces | two rows, two columns] of the product and of what is computed of it."""
        b, tv = self.b, self.shape.tensor
        b.split(tv, 8, _PAIR)
        b.split(tv, 7, _HALF)
        b.reorder(tv, [0, 1, 2, 3, 4, 8, 9, 5, 6, 7, 10, 11])
        b.merge(tv, 5)
        inside = [P.TIDZ, P.TIDY, P.TIDX, P.UNROLL, P.UNROLL]
        b.parallelize(tv, [P.BIDX, P.SERIAL, P.UNROLL, *inside, P.MMA, P.MMA, P.MMA])
        if self.more:
            b.do(steps.Propagate(tv, self.more), steps.ParallelizeLike(tv, self.more))
        b.do(steps.Propagate(tv, result))
        pairs = [x for x in (*beside, *b.sf.outputs) if x in result and lies_in_pairs(b.sf, x, self.shape.n_dims[-1])]
        types = [P.BIDX, *inside, P.UNROLL, P.UNROLL]
        b.parallelize_alike(sorted(result, key=lambda name: name in pairs), types)
        b.vectorize((*(name for name in result if is_packed_cast(b, name)), *pairs))
