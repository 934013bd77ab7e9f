"""Knobs and constraints of the scheduler of products.

consumers       "cooperative": two warp groups have halves of one tile's rows, of 192 three have thirds; "ping_pong":
                two have tiles of their own, and one computes while the other stores; "single": one has a tile
tile_rows, tile_columns   of the result, of a block, or of a group that has a tile of its own
k_lines         what a stage holds of the dimension that is summed along, in lines of 128 bytes: few rows are a matter
                of how many bytes are on their way, and long stages take fewer barriers for them
in_flight       groups of instructions that are under way while the next stage is waited for
paired          blocks that lie together: pairs along "rows" or "columns" of tiles, of which one copy brings the operand
                that they share
raster, raster_group      tiles in order: strips of so many tile rows, or tile columns, one after the other
swap            the rows of instructions are columns of the result: of few rows, they have as few columns as there are
store_columns   of a tile, those that are stored at a time
parts           of what is summed along, in blocks of which one adds up what all have; 1 where there are tiles enough
sums_in         where they meet: in "memory", or in a cluster, whose "first" block goes on with all, or each with its
                "slice"
dealt           whether blocks that stay have equal shares of all stages of all tiles, not tiles (stream-K): what has
                several of them is added up by the one that has the first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import (
    BARRIER_BYTES,
    MMA_K_BYTES,
    SMEM_LINE_BYTES,
    WARPGROUP_THREADS,
    WGMMA_ROWS,
    Arch,
)
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.legality.mma import BESIDE_ACCUMULATORS, BESIDE_RESULTS
from compiler.schedule.start import start
from search.space.constraints import Constraint, measured
from search.space.groups import DEEP, RASTERS, ROWS, SHALLOW, TMA, VECTOR, math_knob, raster_constraints, store_knob
from search.space.knobs import Knob
from search.space.schedulers.product_facts import ProductShape, operand_refusal, product_shape
from search.space.schedulers.product_operands import K, lines_are
from search.space.schedulers.product_parts import MEMORY, PARTS, SUMS_IN, parts_constraints, sent_bytes
from search.space.schedulers.product_shares import dealt_constraints
from search.space.schedulers.product_tiles import NONE, PAIRS
from search.space.space import Space

COOPERATIVE, PING_PONG, SINGLE = CONSUMERS = ("cooperative", "ping_pong", "single")

TILE_ROWS = (64, 128, 192, 256)
TILE_COLUMNS = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
STAGES = (*SHALLOW[1:], *DEEP)

SHARED_REGISTERS, OF_THREE_GROUPS = 240, 160
"""Of a thread that computes, where two groups do, and where three do: the block's registers less 24, or 32, for each
thread that loads."""

THREE_GROUPS_ROWS, THREE_GROUPS_AT_LAUNCH = 3 * WGMMA_ROWS, 128
"""Rows of a tile that three groups share, and registers of each of their threads before they are given those of the
ones that load."""

BLOCKS_PER_SM = (0, 1, 2)
K_LINES = (1, 2, 4)

SHORT_LINE_BYTES = SMEM_LINE_BYTES // 2
"""Of the shortest lines in which operands' rows, and results, lie side by side; shorter ones are many small boxes."""

FEW = 512
"""Rows, or columns, of a result that is small beside its operands: how it is stored hardly counts."""


def instruction_of(shape: ProductShape, columns: int) -> Instruction:
    """The instruction of a warp group for so many columns."""
    return shape.instruction(MmaUnit.WGMMA, WGMMA_ROWS, columns)


@dataclass(frozen=True)
class ProductFacts:
    """A product and the card's multiprocessors, which size the grid of persistent schedules."""

    shape: ProductShape
    sm_count: int

    @property
    def tile_columns(self) -> tuple[int, ...]:
        """Columns that a tile may have: what is folded of them says how many there are."""
        return TILE_COLUMNS if self.shape.folds is None else (self.shape.folds.columns,)

    @property
    def nbytes(self) -> int:
        """Of an element of an operand."""
        return self.shape.dtype.nbytes

    def rows(self, swap: Any) -> Any:
        """Of the result as instructions have it."""
        return np.where(swap, self.shape.n, self.shape.m)

    def columns(self, swap: Any) -> Any:
        return np.where(swap, self.shape.m, self.shape.n)

    def has_three_groups(self, consumers: Any, tile_rows: Any) -> Any:
        """Whether three warp groups share a tile."""
        return (consumers == COOPERATIVE) & (tile_rows == THREE_GROUPS_ROWS)

    def rows_of_a_group(self, consumers: Any, tile_rows: Any) -> Any:
        halves = np.where(consumers == COOPERATIVE, tile_rows // 2, tile_rows)
        return np.where(self.has_three_groups(consumers, tile_rows), WGMMA_ROWS, halves)

    def accumulators(self, consumers: Any, tile_rows: Any, tile_columns: Any) -> Any:
        """Registers of a thread that hold its part of all results."""
        held = self.rows_of_a_group(consumers, tile_rows) * tile_columns // WARPGROUP_THREADS
        return len(self.shape.tensors) * held

    def tiles_rows(self, swap: Any, tile_rows: Any) -> Any:
        return -(-self.rows(swap) // tile_rows)

    def tiles_columns(self, swap: Any, tile_columns: Any) -> Any:
        return -(-self.columns(swap) // tile_columns)

    def tiles(self, swap: Any, tile_rows: Any, tile_columns: Any) -> Any:
        """Of all results of a batch."""
        return self.shape.batch * self.tiles_rows(swap, tile_rows) * self.tiles_columns(swap, tile_columns)

    def tiles_along(self, side: Any, swap: Any, tile_rows: Any, tile_columns: Any) -> Any:
        """Tiles along "rows", or along "columns"."""
        return np.where(side == ROWS, self.tiles_rows(swap, tile_rows), self.tiles_columns(swap, tile_columns))

    @property
    def is_plain(self) -> bool:
        """Whether every output can leave by a tensor map, its columns side by side as the result has them."""
        return all(o.is_mapped for o in self.shape.outputs)

    @property
    def is_turned(self) -> bool:
        """The same of outputs whose columns are the rows of the result."""
        return all(o.is_mapped_turned for o in self.shape.outputs)

    @property
    def is_staged(self) -> bool:
        """Whether outputs can wait in shared memory for the copy engine."""
        mapped = bool(self.shape.outputs) and (self.is_plain or self.is_turned)
        return mapped and all(o.dtype.nbytes in (2, 4) for o in self.shape.outputs)

    def lines(self) -> int:
        """Lines of 128 bytes along what is summed."""
        return -(-self.shape.k * self.nbytes // SMEM_LINE_BYTES)

    def stages(self, each: Any) -> Any:
        """Stages of so many lines that the sum takes."""
        return -(-self.lines() // each)

    @property
    def parts(self) -> tuple[int, ...]:
        """Into how many parts the sum of a product can be cut, where the largest tiles leave multiprocessors without
        one."""
        sides = (self.shape.m, self.shape.n), (self.shape.n, self.shape.m)
        fewest = min(-(-a // TILE_ROWS[-1]) * -(-b // TILE_COLUMNS[-1]) for a, b in sides) * self.shape.batch
        short = [n for n in PARTS if len(self.shape.tensors) == 1 and fewest * n <= self.sm_count]
        return tuple(n for n in short if any(self.have_stages(n, each) for each in K_LINES))

    @property
    def can_deal(self) -> bool:
        """Whether stages can be dealt to blocks: those of one sum."""
        return len(self.shape.tensors) == 1

    def have_stages(self, parts: Any, each: Any) -> Any:
        """Whether none of so many parts of a sum is without a stage."""
        stages = self.stages(each)
        return (parts - 1) * -(-stages // parts) < stages

    def staging_bytes(self, consumers: Any, tile_rows: Any, store: Any, store_columns: Any) -> Any:
        """Shared memory in which the result waits to be stored."""
        nbytes = sum(o.dtype.nbytes for o in self.shape.outputs)
        tiles = np.where(consumers == PING_PONG, 2, 1)
        return np.where(store == TMA, tiles * tile_rows * store_columns * nbytes, 0)

    def block_bytes(
        self, swap: Any, consumers: Any, rows: Any, columns: Any, lines: Any, stages: Any, store: Any, wide: Any
    ) -> Any:
        """Shared memory of a block."""
        tiles = np.where(swap, len(self.shape.columns), len(self.shape.rows)) * rows
        tiles = tiles + np.where(swap, len(self.shape.rows), len(self.shape.columns)) * columns
        operands = tiles * lines * SMEM_LINE_BYTES * stages
        staged = self.staging_bytes(consumers, rows, store, wide)
        return operands + staged + BARRIER_BYTES * (2 * len(self.shape.sides) * stages + 2)


def product_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space | str:
    """The space of a product; a reason where there is none."""
    shape = product_shape(start(fusion), folds_too=True)
    if isinstance(shape, str):
        return shape
    facts = ProductFacts(shape, sm_count)
    if (why := _refusal(facts, arch)) is not None:
        return why
    knobs = (
        Knob("consumers", CONSUMERS),
        Knob("tile_rows", TILE_ROWS),
        Knob("tile_columns", facts.tile_columns),
        Knob("k_lines", K_LINES),
        Knob("stages", STAGES),
        Knob("in_flight", (0, 1)),
        Knob("paired", PAIRS),
        Knob("raster", RASTERS),
        Knob("raster_group", (1, 2, 4, 8, 16)),
        Knob("blocks_per_sm", BLOCKS_PER_SM),
        store_knob(tma=facts.is_staged),
        Knob("store_columns", (32, 64, 128, 256) if facts.is_staged else (32,)),
        Knob("swap", (False, True) if shape.folds is None else (shape.folds.pieces == shape.m_dims[-3:],)),
        Knob("parts", (1, *facts.parts)),
        *((Knob("sums_in", SUMS_IN if shape.folds is None else SUMS_IN[:2]),) if facts.parts else ()),
        *((Knob("dealt", (False, True)),) if facts.can_deal else ()),
        math_knob(fusion),
    )
    constraints = (
        *_tiles(facts, arch),
        *product_epilogue(facts, SHORT_LINE_BYTES),
        *_grid(facts),
        *(parts_constraints(facts, PING_PONG) if facts.parts else ()),
        *(dealt_constraints(facts, PING_PONG) if facts.can_deal else ()),
        *_redundant(facts),
        *measured("H100 SXM", arch, _worthwhile(facts)),
    )
    space = Space("product", knobs, constraints).reachable
    if shape.folds is not None and not space.has_legal:
        return f"folds of {shape.folds.columns} columns of a product, of which there is no tile"
    return space


def _refusal(f: ProductFacts, arch: Arch) -> str | None:
    """Why no instruction makes the product."""
    shape, dtype = f.shape, f.shape.dtype
    if arch.capability != (9, 0):
        return f"products on {arch.name}, for which this version has no instruction"
    if dtype in (DType.F8E4M3, DType.F8E5M2):
        return (
            f"products of {dtype}, whose sums keep 14 bits in the instructions of warp groups; those of warps keep all"
        )
    if not instruction_of(shape, TILE_COLUMNS[0]).is_known:
        return f"products of {shape.multiplied}, which no instruction of this version makes"
    return operand_refusal(shape, transposes=dtype.nbytes == 2)


def _tiles(f: ProductFacts, arch: Arch) -> list[Constraint]:
    """What instructions and their registers allow."""
    known = [n for n in f.tile_columns if instruction_of(f.shape, n).is_known]

    def registers(consumers: Any, rows: Any, columns: Any) -> Any:
        shared = np.where(f.has_three_groups(consumers, rows), OF_THREE_GROUPS, SHARED_REGISTERS)
        most = np.where(consumers == SINGLE, arch.max_registers_per_thread, shared)
        return f.accumulators(consumers, rows, columns) + BESIDE_ACCUMULATORS <= most

    def memory(
        swap: Any,
        consumers: Any,
        rows: Any,
        columns: Any,
        lines: Any,
        stages: Any,
        store: Any,
        wide: Any,
        parts: Any = 1,
        sums_in: Any = MEMORY,
    ) -> Any:
        needed = f.block_bytes(swap, consumers, rows, columns, lines, stages, store, wide)
        return needed + sent_bytes(parts, sums_in, rows, columns) <= arch.smem_per_block_optin_bytes

    def resident(
        blocks: Any, swap: Any, consumers: Any, rows: Any, columns: Any, lines: Any, stages: Any, store: Any, wide: Any
    ) -> Any:
        needed = (
            f.block_bytes(swap, consumers, rows, columns, lines, stages, store, wide)
            + arch.smem_reserved_per_block_bytes
        )
        held = f.accumulators(consumers, rows, columns) + BESIDE_ACCUMULATORS
        threads = 2 * WARPGROUP_THREADS
        alone = (needed * blocks <= arch.smem_per_sm_bytes) & (held * threads * blocks <= arch.registers_per_sm)
        return (blocks < 2) | alone & (consumers == SINGLE)

    return [
        Constraint(
            "product_rows_are_whole_instructions",
            ("consumers", "tile_rows"),
            lambda consumers, rows: f.rows_of_a_group(consumers, rows) % WGMMA_ROWS == 0,
            "A warp group has whole instructions of 64 rows.",
        ),
        Constraint(
            "mma_shape_exists",
            ("tile_columns",),
            lambda columns: np.isin(columns, known),
            "Instructions have 8 to 256 columns, in steps of 8; of integers above 32 in steps of 16.",
        ),
        Constraint(
            "accumulators_fit_the_registers",
            ("consumers", "tile_rows", "tile_columns"),
            registers,
            "A thread's part of the result, and 32 registers, are at most 240, 255 of one group, 160 of three.",
        ),
        Constraint(
            "mma_results_fit_the_registers_at_launch",
            ("consumers", "tile_rows", "tile_columns"),
            lambda consumers, rows, columns: (
                ~f.has_three_groups(consumers, rows) | (columns // 2 + BESIDE_RESULTS <= THREE_GROUPS_AT_LAUNCH)
            ),
            "Threads of a block of three groups and one that loads have 128 registers each where it begins.",
        ),
        whole_lines(f, SHORT_LINE_BYTES),
        Constraint(
            "shared_memory_fits_the_block",
            (
                *("swap", "consumers", "tile_rows", "tile_columns", "k_lines", "stages", "store", "store_columns"),
                *(("parts", "sums_in") if f.parts else ()),
            ),
            memory,
            "Stages, what waits to be stored, and parts of sums that are sent fit the shared memory of a block.",
        ),
        Constraint(
            "persistent_blocks_are_resident",
            (
                "blocks_per_sm",
                "swap",
                "consumers",
                "tile_rows",
                "tile_columns",
                "k_lines",
                "stages",
                "store",
                "store_columns",
            ),
            resident,
            "Two blocks of one group that computes, of few registers and stages, share a multiprocessor.",
        ),
    ]


def whole_lines(f: ProductFacts, least: int = SMEM_LINE_BYTES) -> Constraint:
    """What operands ask of tiles whose rows lie side by side in them: lines of `least` bytes or more."""
    line = least // f.nbytes
    left, right = (all(side.major == K for side in of) for of in (f.shape.rows, f.shape.columns))

    def whole(swap: Any, rows: Any, columns: Any) -> Any:
        of_rows = np.where(swap, right, left) | (rows % line == 0)
        of_columns = np.where(swap, left, right) | (columns % line == 0)
        return of_rows & of_columns

    return Constraint("product_tiles_are_whole_lines", ("swap", "tile_rows", "tile_columns"), whole, lines_are(least))


def product_epilogue(f: ProductFacts, least: int = SMEM_LINE_BYTES) -> list[Constraint]:
    """How results leave the registers; of the copy engine in lines of `least` bytes or more."""
    line = min((least // o.dtype.nbytes for o in f.shape.outputs), default=1)
    return [
        Constraint(
            "product_is_stored_in_boxes",
            ("store", "swap"),
            lambda store, swap: (store != TMA) | np.where(swap, f.is_turned, f.is_plain),
            "Columns of the result, as instructions have it, lie side by side in every output.",
        ),
        Constraint(
            "product_stores_whole_lines",
            ("store", "store_columns", "tile_columns"),
            lambda store, wide, columns: (
                (store != TMA) | ((columns % np.minimum(wide, columns) == 0) & (wide % line == 0) & (wide <= columns))
            ),
            f"What is stored at a time is whole lines of {least} bytes of the tile's columns.",
        ),
        Constraint(
            "redundant_store_columns",
            ("store", "store_columns"),
            lambda store, wide: (store != VECTOR) | (wide == 32),
            "Columns are stored in steps from shared memory alone.",
        ),
    ]


def _grid(f: ProductFacts) -> list[Constraint]:
    """Tiles, clusters and blocks."""

    def pairs(consumers: Any, paired: Any, swap: Any, rows: Any, columns: Any) -> Any:
        return (paired == NONE) | (f.tiles_along(paired, swap, rows, columns) % 2 == 0)

    def along(raster: Any, swap: Any, rows: Any, columns: Any, paired: Any) -> Any:
        tiles = f.tiles_along(raster, swap, rows, columns)
        return np.where(paired == raster, tiles // 2, tiles)

    def fills(blocks: Any, consumers: Any, swap: Any, rows: Any, columns: Any, dealt: Any = False) -> Any:
        each = np.where(consumers == PING_PONG, 2, 1)
        return (blocks == 0) | dealt | (f.tiles(swap, rows, columns) > f.sm_count * blocks * each)

    return [
        Constraint(
            "product_pairs_are_whole",
            ("consumers", "paired", "swap", "tile_rows", "tile_columns"),
            pairs,
            "Tiles along pairs of blocks come in pairs.",
        ),
        *raster_constraints(("swap", "tile_rows", "tile_columns", "paired"), along),
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "consumers", "swap", "tile_rows", "tile_columns", *(("dealt",) if f.can_deal else ())),
            fills,
            "There are more tiles than persistent blocks, where these have tiles.",
        ),
    ]


def _redundant(f: ProductFacts) -> list[Constraint]:
    """What repeats another point, or leaves most of a tile empty."""
    lines = f.lines()

    def large(swap: Any, rows: Any, columns: Any) -> Any:
        wide = np.maximum(f.columns(swap), TILE_COLUMNS[0])
        return ((rows < 2 * f.rows(swap)) | (rows == TILE_ROWS[0])) & (columns < 2 * wide)

    return [
        Constraint(
            "tile_exceeds_the_problem", ("swap", "tile_rows", "tile_columns"), large, "A tile is not twice the problem."
        ),
        Constraint(
            "redundant_ping_pong",
            ("consumers", "blocks_per_sm"),
            lambda consumers, blocks: (consumers != PING_PONG) | (blocks > 0),
            "One group computes while another stores where blocks have several tiles.",
        ),
        Constraint(
            "redundant_in_flight",
            ("k_lines", "in_flight"),
            lambda each, groups: (groups == 0) | (lines > each),
            "There is a next stage to wait for.",
        ),
        Constraint(
            "product_groups_take_turns",
            ("consumers", "k_lines"),
            lambda consumers, each: (consumers != PING_PONG) | (lines > each),
            "Groups whose tiles are one stage each have no turns to take.",
        ),
        *product_repeats(f),
    ]


def product_repeats(f: ProductFacts) -> list[Constraint]:
    """What repeats another point of the same tile: stages beyond what there is to sum along."""
    lines = f.lines()
    return [
        Constraint(
            "redundant_stages",
            ("k_lines", "stages"),
            lambda each, stages: (stages <= -(-lines // each) + 1) | (stages == STAGES[0]),
            "Stages hold no more than there is to sum along, and one of the next tile.",
        ),
        Constraint(
            "redundant_k_lines",
            ("k_lines",),
            lambda each: (
                (each == 1) | (each * (SMEM_LINE_BYTES // MMA_K_BYTES) * MMA_K_BYTES <= lines * SMEM_LINE_BYTES)
            ),
            "A stage holds no more than there is to sum along.",
        ),
    ]


def _worthwhile(f: ProductFacts) -> list[Constraint]:
    """Results of many rows and columns leave by the copy engine where it can take them: 8192^3, gate and up, bias and
    residual took 2 to 20 % longer with the best stores by threads, whichever operand's rows the instructions had."""
    staged = f.is_staged and min(f.shape.m, f.shape.n) > FEW
    return [
        Constraint(
            "product_leaves_in_boxes",
            ("store", "swap"),
            lambda store, swap: (store == TMA) | (not staged),
            "Results of more than 512 rows and columns are stored by the copy engine where tensor maps have them.",
        )
    ]
