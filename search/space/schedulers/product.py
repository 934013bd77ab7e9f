"""Products of matrices on tensor cores, with what is done to their elements.

    left, right -> [shared rings, by the copy engine] -> product, in registers -> elementwise -> outputs

Warps of their own bring tiles of both operands, stage by stage along what is summed; warp groups that compute ask the
tensor cores for the products of a stage, and work on the result where the instructions leave it. Loops of the result:
blocks' tiles | steps of columns | warp group | 64 rows | thread | 8 columns, two rows, two columns of a register each.

Every element is summed in one order, whatever runs beside it: of parts that blocks have one block adds up what the
others left in scratch memory, or what those of its cluster sent it. Parts are a block's each, or what falls to blocks
that have equal shares of all steps of all tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arch import (
    FRAGMENT_COLUMNS,
    FRAGMENT_LANES,
    MMA_K_BYTES,
    SETMAXNREG_LEAST,
    SMEM_LINE_BYTES,
    WGMMA_ROWS,
    Arch,
)
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import BufferKind, CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from search.space.groups import MATH, ROWS, TMA, send
from search.space.schedulers.by_space import BySpace
from search.space.schedulers.pointwise_body import cache_registers, inline_body, is_packed_cast
from search.space.schedulers.product_facts import ProductShape, lies_in_pairs, product_shape
from search.space.schedulers.product_folds import ProductFolds, product_folds
from search.space.schedulers.product_parts import MEMORY, SLICE
from search.space.schedulers.product_space import (
    COOPERATIVE,
    OF_THREE_GROUPS,
    PING_PONG,
    SHARED_REGISTERS,
    SINGLE,
    ProductFacts,
    product_space,
)
from search.space.schedulers.product_tiles import (
    NONE,
    PATTERN_ROWS,
    Tiles,
    boxes,
    line_bytes,
    swizzled,
    whole_columns,
)
from search.space.space import Space

P = ParallelType
_PAIR = FRAGMENT_COLUMNS // FRAGMENT_LANES
_WARP_ROWS = 16
_PRODUCER_REGISTERS, _FEWER_REGISTERS, _MANY_REGISTERS = 40, 32, 208
"""Registers of a thread that loads, if threads that compute hold fewer than the last for their part of the result; the
second where three groups compute."""


@dataclass(frozen=True, slots=True)
class Product(BySpace):
    """The scheduler of products. `sm_count` sizes persistent grids."""

    sm_count: int
    name: str = "product"

    def found(self, fusion: Fusion, arch: Arch) -> Space | str:
        """Fusions of one product whose operands tensor maps can bring, and what is elementwise of its result."""
        return product_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return ProductTrace(TraceBuilder(fusion, point[MATH]), point, self.sm_count).build()


@dataclass
class ProductTrace:
    """The steps of a point. `sm_count`: of the card, for blocks that stay."""

    b: TraceBuilder
    point: Mapping[str, Any]
    sm_count: int

    def __post_init__(self) -> None:
        found = product_shape(self.b.sf, folds_too=True)
        assert isinstance(found, ProductShape), "refused fusions have no points"
        self.shape, p = found, self.point
        self.swap, self.consumers = p["swap"], p["consumers"]
        self.parts = p.get("parts", 1)  # products in tensor memory, and points of before, have whole sums
        self.sums_in = p.get("sums_in", MEMORY)
        self.is_dealt = p.get("dealt", False)
        facts = ProductFacts(found, self.sm_count)
        self.group_rows = int(facts.rows_of_a_group(self.consumers, p["tile_rows"]))
        self.has_three_groups = bool(facts.has_three_groups(self.consumers, p["tile_rows"]))
        self.accumulators = int(facts.accumulators(self.consumers, p["tile_rows"], p["tile_columns"]))
        sides = (found.rows, found.columns)
        self.of_rows, self.of_columns = reversed(sides) if self.swap else sides
        self.operands = tuple(side.name for side in found.sides)
        self.more = found.tensors[1:]
        self.folds = found.folds
        self.folded: tuple[str, ...] = ()  # what is folded of the result, made for that alone, or made of it
        self.pairs = (found.m_dims if self.swap else found.n_dims)[-1]

    def build(self) -> ScheduleTrace:
        b, p = self.b, self.point
        loaded, registers = cache_registers(b)
        operands = self.operands
        beside = [name for name in loaded if name not in operands]
        if self.folds is not None:
            again = product_folds(b.sf, self.shape.tensors)
            assert isinstance(again, ProductFolds), "registers change nothing of what is folded"
            self.folds = again
        outputs = [o.name for o in self.shape.outputs]
        staged = [send(b, name, TMA) for name in outputs] if p["store"] == TMA else []
        self.placed()
        blocks = self.sm_count * p["blocks_per_sm"] // (1 if p["paired"] == NONE else 2)
        tiles = Tiles(
            rows=p["tile_rows"],
            columns=p["tile_columns"],
            k=p["k_lines"] * SMEM_LINE_BYTES // self.shape.dtype.nbytes,
            swap=self.swap,
            raster=p["raster"],
            strip=p["raster_group"],
            paired=p["paired"],
            turns=2 if self.consumers == PING_PONG else 1,
            blocks=0 if self.is_dealt else blocks,
            is_dealt=self.is_dealt,
        )
        pre = tiles.loops(b, self.shape)
        self.brought = [*pre, P.BIDY if self.sums_in == MEMORY else P.CLUSTER] if self.parts > 1 else pre
        if self.parts > 1:
            b.do(steps.Split(self.shape.tensor, len(pre), self.parts, False))
        others = tuple(op.output for op in b.sf.ops if op.output != self.shape.tensor)
        b.do(steps.Propagate(self.shape.tensor, others))
        for own, sides in ((1, self.of_rows), (2, self.of_columns)):
            for side in sides:
                whole_columns(b, self.shape, side.name, len(self.brought) + 2)
                boxes(b, side, side.name, self.brought, own, (P.UNROLL, P.BULK, P.BULK))
        apart = (*operands, *self.more, *(outputs if staged else ()))
        if self.folds is not None:
            self.folded = tuple(name for name in others if name in self.folds.only | self.folds.across)
        result = [name for name in others if name not in (*apart, *self.folded)]
        self.fragments(pre, result, staged)
        if result:
            self.types_of(pre, result, beside, staged)
        if self.folds is not None:
            self.fold(pre, self.folds)
        for name, shared in zip(outputs, staged, strict=False):
            self.stores(name, shared, pre)
        self.inline(pre, beside, [name for name in registers if name in result], result, staged)
        self.turn()
        if self.is_dealt:
            b.do(steps.Deal(self.shape.tensor, blocks))
        return b.trace()

    def placed(self) -> None:
        """The memory of the operands."""
        for name in self.operands:
            self.b.do(steps.SetMemory(name, MemoryType.SHARED, CopyVia.TMA))

    # The result ------------------------------------------------------------------------------------------------------

    def fragments(self, pre: list[P], result: Sequence[str], staged: Sequence[str]) -> None:
        """[.. tiles, steps, group, 64 rows, thread, 8 columns, ..] of what is computed of the result, and those loops
        of the product itself that the instructions take."""
        b, tv, at, own = self.b, self.shape.tensor, len(pre), len(self.brought)
        columns = self.point["tile_columns"]
        width = columns // self.parts if self.sums_in == SLICE else columns
        each = min(self.point["store_columns"], columns) if staged else width
        b.split(tv, own + 2, each if self.folds is None else each // FRAGMENT_COLUMNS)
        b.do(steps.Propagate(tv, (*result, *self.folded)))
        for name in staged:
            self.staged_tile(name, at)
        b.split(tv, own + (4 if self.folds is None else 6), MMA_K_BYTES // self.shape.dtype.nbytes)
        if self.folds is None:
            b.split(tv, own + 3, FRAGMENT_COLUMNS)
            b.split(tv, own + 4, _PAIR)
        for piece, size in enumerate((self.group_rows, WGMMA_ROWS, _WARP_ROWS, PATTERN_ROWS)):
            b.split(tv, own + 1 + piece, size)
        # k | group, 64 rows, warp, half, line | step, 8 columns, pair, side | k of a stage, of an instruction
        b.reorder(tv, [*range(own + 1), *(own + i for i in (1, 2, 3, 5, 8, 10, 6, 7, 4, 9, 11))])
        b.merge(tv, own + 3, 3)
        b.parallelize(tv, [*self.brought, P.SERIAL, self.group_type, P.UNROLL, P.TIDX, P.UNROLL, *[P.MMA] * 5])
        if self.more:
            b.do(steps.Propagate(tv, self.more), steps.ParallelizeLike(tv, self.more))
        b.do(steps.Propagate(tv, (*result, *self.folded)))
        in_matrices = self.is_in_matrices(staged)

        def by_steps(name: str) -> None:
            b.reorder(name, [*range(at), at + 3, *range(at, at + 3), *range(at + 4, at + 7)])

        def first(name: str) -> None:
            by_steps(name)
            if in_matrices:
                b.split(name, at + 4, _PAIR)
                b.merge(name, at + 5, 3)

        b.alike(result, first)
        if self.folds is not None:
            b.alike([name for name in self.folded if name in self.folds.only.union(self.folds.names)], by_steps)

    def types_of(self, pre: list[P], result: Sequence[str], beside: Sequence[str], staged: Sequence[str]) -> None:
        """How the loops of the result are carried out; words of what is read and stored, and of packed casts."""
        b = self.b
        pairs = [name for name in (*beside, *b.sf.outputs) if name in result and lies_in_pairs(b.sf, name, self.pairs)]
        in_words = b.split_words(dict.fromkeys(pairs, _PAIR), b.tensor(result[-1]).loop[-1].extent)
        inside = 2 if self.is_in_matrices(staged) else 3
        types = [*pre, self.step_type, self.group_type, P.UNROLL, P.TIDX, *[P.UNROLL] * inside]
        b.parallelize_alike(sorted(result, key=lambda name: name in pairs), types)
        b.vectorize_words(in_words)
        whole = [name for name in result if name in staged or is_packed_cast(b, name)]
        b.vectorize((*whole, *(() if in_words else pairs)))

    def fold(self, pre: list[P], folds: ProductFolds) -> None:
        """[.. tiles, step, group, 64 rows, thread, 8 columns, rows, pair] of what is folded, and what is made for that
        alone; of what is made of it the same without columns."""
        b, at = self.b, len(pre)
        inside = [self.group_type, P.UNROLL, P.TIDX]
        before = [name for name in self.folded if name in folds.only]
        behind = [name for name in self.folded if name in folds.across and name not in folds.names]
        b.parallelize_alike([*folds.names, *before], [*pre, P.UNROLL, *inside, *[P.UNROLL] * 3])
        b.parallelize_alike(behind, [*pre, *inside, P.UNROLL])
        b.inline(before, at + 7)
        b.inline(folds.names, at - (self.consumers == PING_PONG))
        b.inline(behind, at + 3)

    @property
    def step_type(self) -> P:
        """How the steps of a tile's columns are told apart: a block's slice of a sum each, or one after another."""
        return P.CLUSTER if self.sums_in == SLICE else P.UNROLL

    @property
    def group_type(self) -> P:
        """How the groups that have parts of one tile are told apart."""
        return P.TIDY if self.consumers == COOPERATIVE else P.SERIAL

    def is_in_matrices(self, staged: Sequence[str]) -> bool:
        """Whether lanes put down matrices of 16-bit elements together."""
        return bool(staged) and all(self.b.tensor(name).dtype.nbytes == 2 for name in staged)

    def staged_tile(self, tv: str, at: int) -> None:
        """A shared tile of [.. tiles, rows, step, columns]: lines of each group's rows, swizzled."""
        nbytes = self.b.tensor(tv).dtype.nbytes
        length = self.stored_line_bytes(nbytes)
        pieces = len(self.folds.pieces) if self.folds is not None else 1
        whole: tuple[steps.Transform, ...] = (steps.Merge(tv, at + 2),) * (pieces - 1)
        transforms = (
            *whole,
            steps.Split(tv, at + 2, length // nbytes),
            steps.Split(tv, at + 1, self.group_rows),
            steps.Reorder(tv, ((at + 3, at + 2), (at + 2, at + 3))),
            *swizzled(tv, at + 3, length, nbytes),
        )
        columns = range(at + 2, at + 2 + pieces)
        self.b.do(steps.SetAllocationDomain(tv, (*range(at), at + 1, at, *columns), transforms))

    def stored_line_bytes(self, nbytes: int) -> int:
        """Of a line in which columns, of so many bytes each, wait to be stored."""
        return line_bytes(self.point["store_columns"] * nbytes)

    def stores(self, tv: str, shared: str, pre: list[P]) -> None:
        """[.. tiles, step, group, lines, rows, line] of an output that the copy engine stores from the shared tile."""
        b, at = self.b, len(pre)
        nbytes = b.tensor(shared).dtype.nbytes
        whole_columns(b, self.shape, tv, at + 1)
        b.split(tv, at + 1, self.point["store_columns"])
        b.split(tv, at + 2, self.stored_line_bytes(nbytes) // nbytes)
        b.split(tv, at, self.group_rows)
        b.reorder(tv, [*range(at), at + 2, at, at + 3, at + 1, at + 4])
        b.parallelize(tv, [*pre, self.step_type, self.group_type, P.UNROLL, P.BULK, P.BULK])
        if nbytes == 2:
            b.do(steps.SetMemory(shared, MemoryType.SHARED, CopyVia.STMATRIX))

    def inline(
        self, pre: list[P], beside: list[str], registers: list[str], result: Sequence[str], staged: Sequence[str]
    ) -> None:
        """Each as deep as its readers' loops are its own."""
        b, at = self.b, len(pre)
        b.inline(self.shape.tensors, at - (self.consumers == PING_PONG))
        if registers:
            lane = len(b.tensor(registers[0]).loop) - 1
            b.inline(staged, at + 1)
            between = [name for name in result if name not in (*beside, *staged, *registers, *b.sf.outputs)]
            inline_body(b, between, registers, lane)
            b.inline(beside, lane)
        b.inline(self.operands, len(self.brought) + 1)

    # The rings -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Rings of both operands, filled by warps of their own."""
        b, p = self.b, self.point
        if p["in_flight"]:
            for name in self.shape.tensors:
                b.do(steps.ProductsInFlight(name, p["in_flight"]))
        if p["paired"] != NONE:
            for shared in self.of_columns if p["paired"] == ROWS else self.of_rows:
                b.do(steps.Multicast(shared.name))
        options: dict[str, Any] = {
            "kind": BufferKind.WARP_SPECIALIZED,
            "on": P.TIDX if self.consumers == SINGLE else P.TIDY,
        }
        if self.consumers != SINGLE:
            few = self.accumulators < _MANY_REGISTERS
            of_two = (_PRODUCER_REGISTERS, 232) if few else (SETMAXNREG_LEAST, SHARED_REGISTERS)
            options["registers"] = (_FEWER_REGISTERS, OF_THREE_GROUPS) if self.has_three_groups else of_two
        for name in self.operands:
            b.do(steps.CircularBuffer(name, p["stages"], -1, **options))
