"""Knobs and constraints of the scheduler of products in tensor memory.

tile_rows, tile_columns   of the result, of a block: 64 or 128 rows of an instruction, 256 of two
accumulators    places of results in tensor memory: with two the next tile is multiplied while one is read
k_lines, stages, raster, raster_group, swap, store_columns, blocks_per_sm   as `product` has them
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import (
    SMEM_LINE_BYTES,
    TCGEN05_HALF_ROWS,
    TCGEN05_ROWS,
    TMEM_COLUMNS,
    TMEM_LEAST_COLUMNS,
    Arch,
)
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import ACCUMULATORS, RASTERS, TMA, math_knob, raster_constraints, store_knob
from search.space.knobs import Knob
from search.space.schedulers.product_facts import ProductShape, operand_refusal, product_shape
from search.space.schedulers.product_operands import K
from search.space.schedulers.product_space import (
    BLOCKS_PER_SM,
    SINGLE,
    STAGES,
    TILE_COLUMNS,
    ProductFacts,
    product_epilogue,
    product_repeats,
    whole_lines,
)
from search.space.space import Space

TILE_ROWS = (TCGEN05_HALF_ROWS, TCGEN05_ROWS, 2 * TCGEN05_ROWS)


def instruction_of(shape: ProductShape, rows: int, columns: int) -> Instruction:
    """The instruction of so many rows, at most 128, and columns."""
    return shape.instruction(MmaUnit.TCGEN05, min(rows, TCGEN05_ROWS), columns)


def tensor_product_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space | str:
    """The space of a product; a reason where there is none."""
    shape = product_shape(start(fusion))
    if isinstance(shape, str):
        return shape
    facts = ProductFacts(shape, sm_count)
    if (why := _refusal(facts, arch)) is not None:
        return why
    knobs = (
        Knob("tile_rows", TILE_ROWS),
        Knob("tile_columns", TILE_COLUMNS),
        Knob("k_lines", (1, 2, 4)),
        Knob("stages", STAGES),
        Knob(ACCUMULATORS, (1, 2)),
        Knob("raster", RASTERS),
        Knob("raster_group", (1, 2, 4, 8, 16)),
        Knob("blocks_per_sm", BLOCKS_PER_SM),
        store_knob(tma=facts.is_staged),
        Knob("store_columns", (32, 64, 128) if facts.is_staged else (32,)),
        Knob("swap", (False, True)),
        math_knob(fusion),
    )
    constraints = (*_tiles(facts, arch), *product_epilogue(facts), *_grid(facts))
    return Space("tensor_product", knobs, constraints).reachable


def _refusal(f: ProductFacts, arch: Arch) -> str | None:
    """Why no instruction makes the product."""
    shape = f.shape
    made = instruction_of(shape, TCGEN05_ROWS, TILE_COLUMNS[-1])
    if not arch.has_tmem:
        return f"products in tensor memory, which {arch.name} does not have"
    if not made.is_known or not made.is_on(arch):
        return f"products of {shape.multiplied}, which no instruction of tensor memory makes on {arch.name}"
    return operand_refusal(shape, transposes=made.transposes)


def _allocated(columns: Any) -> Any:
    """Columns of an allocation: a power of two from 32 on; more than there are where more are needed."""
    found: Any = 2 * TMEM_COLUMNS
    size = TMEM_COLUMNS
    while size >= TMEM_LEAST_COLUMNS:
        found = np.where(columns <= size, size, found)
        size //= 2
    return found


def _tiles(f: ProductFacts, arch: Arch) -> list[Constraint]:
    """What instructions, tensor memory and shared memory allow."""
    every = [(m, n) for m in TILE_ROWS for n in TILE_COLUMNS if instruction_of(f.shape, m, n).is_known]
    known = [m * (max(TILE_COLUMNS) + 1) + n for m, n in every]

    def fits(rows: Any, columns: Any, accumulators: Any, blocks: Any) -> Any:
        results = len(f.shape.tensors)
        needed = -(-rows // TCGEN05_ROWS) * columns * accumulators
        apart, together = results * _allocated(needed), _allocated(results * needed)
        return (apart <= TMEM_COLUMNS) & (together * np.maximum(1, blocks) <= TMEM_COLUMNS)

    def memory(swap: Any, rows: Any, columns: Any, lines: Any, stages: Any, store: Any, wide: Any, blocks: Any) -> Any:
        needed = f.block_bytes(swap, SINGLE, rows, columns, lines, stages, store, wide)
        each = (needed + arch.smem_reserved_per_block_bytes) * np.maximum(1, blocks)
        return (needed <= arch.smem_per_block_optin_bytes) & (each <= arch.smem_per_sm_bytes)

    return [
        Constraint(
            "mma_shape_exists",
            ("tile_rows", "tile_columns"),
            lambda rows, columns: np.isin(rows * (max(TILE_COLUMNS) + 1) + columns, known),
            "Instructions of 64 rows have columns by 8, of 128 rows by 16; of integers by 16, or 8 and 24 of 64 rows.",
        ),
        Constraint(
            "tmem_columns_fit",
            ("tile_rows", "tile_columns", ACCUMULATORS, "blocks_per_sm"),
            fits,
            f"Results, in all their places, have at most {TMEM_COLUMNS} columns on a multiprocessor.",
        ),
        whole_lines(f),
        Constraint(
            "shared_memory_fits_the_block",
            ("swap", "tile_rows", "tile_columns", "k_lines", "stages", "store", "store_columns", "blocks_per_sm"),
            memory,
            "Stages, and what waits to be stored, fit the shared memory of the blocks of a multiprocessor.",
        ),
    ]


def _grid(f: ProductFacts) -> list[Constraint]:
    """Tiles and blocks, and what repeats another point or leaves most of a tile empty."""

    line = SMEM_LINE_BYTES // f.nbytes if any(side.major != K for side in f.shape.sides) else 1

    def large(store: Any, swap: Any, rows: Any, columns: Any) -> Any:
        wide = np.maximum(f.columns(swap), TILE_COLUMNS[0])
        are_few = (rows < 2 * f.rows(swap)) | (rows <= max(line, TILE_ROWS[0]))
        least = np.where(store == TMA, 2 * TILE_COLUMNS[0], max(line, 2 * TILE_COLUMNS[0]))  # one box of the engine
        return are_few & ((columns < 2 * wide) | (columns <= least))

    return [
        *raster_constraints(("swap", "tile_rows", "tile_columns"), f.tiles_along),
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "swap", "tile_rows", "tile_columns"),
            lambda blocks, swap, rows, columns: (blocks == 0) | (f.tiles(swap, rows, columns) > f.sm_count * blocks),
            "There are more tiles than persistent blocks.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("store", "swap", "tile_rows", "tile_columns"),
            large,
            "A tile is not twice the problem, but for a line of an operand's rows that threads store.",
        ),
        Constraint(
            "redundant_accumulators",
            (ACCUMULATORS, "blocks_per_sm"),
            lambda accumulators, blocks: (accumulators == 1) | (blocks > 0),
            "A block that has one tile has one result.",
        ),
        *product_repeats(f),
    ]
