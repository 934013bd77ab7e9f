"""Knobs and constraints of the scheduler of products by warps.

tile_rows, tile_columns    of the result, of a block
warps_down, warps_across   of a block, along the rows and along the columns of a tile
load                       how tiles come to shared memory: "tma", "cp_async", or "vector", through registers
raster, raster_group       as in `product_space`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import (
    BARRIER_BYTES,
    CP_ASYNC_BYTES,
    MMA_K_BYTES,
    MMA_SYNC_COLUMNS,
    MMA_SYNC_ROWS,
    SMEM_LINE_BYTES,
    WARP_THREADS,
    Arch,
)
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.legality.mma import BESIDE_ACCUMULATORS
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import CP_ASYNC, SHALLOW, TMA, VECTOR, launchable_registers, math_knob
from search.space.knobs import Knob
from search.space.schedulers.product_facts import K, ProductShape, product_shape
from search.space.schedulers.product_tiles import COLUMNS, ROWS
from search.space.space import Space

TILE_ROWS = (16, 32, 64, 128, 256)
TILE_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)
WARPS = (1, 2, 4)


def instruction_of(dtype: DType) -> Instruction:
    """The instruction of a warp."""
    summed = DType.I32 if dtype is DType.I8 else DType.F32
    depth = MMA_K_BYTES // dtype.nbytes
    return Instruction(MmaUnit.MMA_SYNC, MMA_SYNC_ROWS, MMA_SYNC_COLUMNS, depth, dtype, summed)


@dataclass(frozen=True)
class WarpProductFacts:
    """What constraints read of a product."""

    shape: ProductShape
    arch: Arch

    @property
    def word_bytes(self) -> tuple[int, int]:
        """Of words that threads load of each operand."""
        return self.shape.left.word_bytes, self.shape.right.word_bytes

    @property
    def chunks(self) -> int:
        """Stages along what is summed."""
        return -(-self.shape.k * self.shape.left.dtype.nbytes // SMEM_LINE_BYTES)

    def registers(self, rows: Any, columns: Any, down: Any, across: Any) -> Any:
        """Of a thread: its part of the result, and of both operands for one instruction along k."""
        result = rows * columns // (down * across * WARP_THREADS)
        return result + rows // (MMA_SYNC_ROWS * down) * 4 + columns // (MMA_SYNC_COLUMNS * across) * 2

    def loads(self) -> tuple[str, ...]:
        """How tiles may come."""
        copied = all(n in CP_ASYNC_BYTES for n in self.word_bytes)
        mapped = self.shape.left.is_mapped and self.shape.right.is_mapped and self.arch.has_tma
        return (*((TMA,) if mapped else ()), *((CP_ASYNC,) if copied else ()), VECTOR)


def warp_product_space(fusion: Fusion, arch: Arch) -> Space | str:
    """The space of a product; a reason where there is none."""
    shape = product_shape(start(fusion))
    if isinstance(shape, str):
        return shape
    made = instruction_of(shape.left.dtype)
    if not made.is_known or not made.is_on(arch):
        return f"products of {shape.left.dtype}, which no instruction of {arch.name} makes of registers"
    f = WarpProductFacts(shape, arch)
    knobs = (
        Knob("load", f.loads()),
        Knob("tile_rows", TILE_ROWS),
        Knob("tile_columns", TILE_COLUMNS),
        Knob("warps_down", WARPS),
        Knob("warps_across", WARPS),
        Knob("stages", SHALLOW),
        Knob("raster", (ROWS, COLUMNS)),
        Knob("raster_group", (1, 2, 4, 8, 16)),
        math_knob(fusion),
    )
    return Space("warp_product", knobs, (*_tiles(f), *_stages(f), *_order(f))).reachable


def _tiles(f: WarpProductFacts) -> list[Constraint]:
    line = SMEM_LINE_BYTES // f.shape.left.dtype.nbytes
    majors = f.shape.left.major == K, f.shape.right.major == K

    def lines(rows: Any, columns: Any) -> Any:
        return (majors[0] | (rows % line == 0)) & (majors[1] | (columns % line == 0))

    def registers(load: Any, rows: Any, columns: Any, down: Any, across: Any) -> Any:
        threads = down * across * WARP_THREADS
        left, right = f.word_bytes
        words = [n * SMEM_LINE_BYTES // max(of, 4) for n, of in ((rows, left), (columns, right))]
        passing = np.where(load == VECTOR, sum(words) * max(left, right, 4) // 4 // threads, 0)
        needed = np.maximum(f.registers(rows, columns, down, across), passing + rows * columns // threads)
        return needed + BESIDE_ACCUMULATORS <= launchable_registers(f.arch, threads)

    def words(load: Any, rows: Any, columns: Any, down: Any, across: Any) -> Any:
        threads = down * across * WARP_THREADS
        left, right = f.word_bytes
        whole = (rows * SMEM_LINE_BYTES % (left * threads) == 0) & (columns * SMEM_LINE_BYTES % (right * threads) == 0)
        return (load == TMA) | whole

    def large(rows: Any, columns: Any) -> Any:
        least = [max(tiles[0], 0 if k else line) for tiles, k in zip((TILE_ROWS, TILE_COLUMNS), majors, strict=True)]
        return ((rows < 2 * f.shape.m) | (rows == least[0])) & ((columns < 2 * f.shape.n) | (columns == least[1]))

    warps = ("tile_rows", "tile_columns", "warps_down", "warps_across")
    return [
        Constraint(
            "product_rows_are_whole_instructions",
            warps,
            lambda rows, columns, down, across: (
                (rows % (MMA_SYNC_ROWS * down) == 0) & (columns % (MMA_SYNC_COLUMNS * across) == 0)
            ),
            "A warp has whole instructions of 16 rows and 8 columns.",
        ),
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("load", *warps),
            registers,
            "Results, fragments and words on their way fit, with 32 registers beside.",
        ),
        Constraint(
            "product_tiles_are_whole_lines",
            ("tile_rows", "tile_columns"),
            lines,
            "Where rows of an operand lie side by side, a tile has whole lines of 128 bytes of them.",
        ),
        Constraint(
            "product_words_are_whole", ("load", *warps), words, "Threads have equal numbers of words of a tile."
        ),
        Constraint(
            "tile_exceeds_the_problem", ("tile_rows", "tile_columns"), large, "A tile is not twice the problem."
        ),
    ]


def _stages(f: WarpProductFacts) -> list[Constraint]:
    def memory(rows: Any, columns: Any, stages: Any) -> Any:
        needed = (rows + columns) * SMEM_LINE_BYTES * stages + BARRIER_BYTES * stages
        return needed <= f.arch.smem_per_block_optin_bytes

    return [
        Constraint(
            "shared_memory_fits_the_block",
            ("tile_rows", "tile_columns", "stages"),
            memory,
            "Stages fit the shared memory of a block.",
        ),
        Constraint(
            "redundant_stages",
            ("load", "stages"),
            lambda load, stages: (stages == 1) | ((load != VECTOR) & (stages <= f.chunks)),
            "Stages are filled ahead by copies, and hold no more than there is to sum along.",
        ),
    ]


def _order(f: WarpProductFacts) -> list[Constraint]:
    def strips(raster: Any, group: Any, rows: Any, columns: Any) -> Any:
        along = np.where(raster == ROWS, -(-f.shape.m // rows), -(-f.shape.n // columns))
        return (group == 1) | (along % group == 0)

    return [
        Constraint(
            "product_strips_are_whole",
            ("raster", "raster_group", "tile_rows", "tile_columns"),
            strips,
            "Strips of tiles are whole.",
        ),
        Constraint(
            "redundant_raster",
            ("raster", "raster_group"),
            lambda raster, group: (group > 1) | (raster == ROWS),
            "Strips of one tile row are the order of columns.",
        ),
    ]
