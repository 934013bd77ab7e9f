"""Knobs and constraints of the scheduler of products by warps, beside those of `brought_space`.

tile_rows, tile_columns    of the result, of a block
warps_down, warps_across   of a block, along the rows and along the columns of a tile
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import MMA_SYNC_COLUMNS, MMA_SYNC_ROWS, WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.legality.mma import BESIDE_ACCUMULATORS
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import launchable_registers, math_knob
from search.space.knobs import Knob
from search.space.schedulers.brought_space import TILE, BroughtFacts, prologue_refusal
from search.space.schedulers.product_facts import ProductShape, product_shape
from search.space.space import Space

TILE_ROWS = (16, 32, 64, 128, 256)
TILE_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)
WARP_COUNTS = (1, 2, 4)
_LEFT_WORDS, _RIGHT_WORDS = 4, 2
"""Registers of a lane for the operands of one instruction (PTX ISA, mma: fragments of A and B)."""


def instruction_of(shape: ProductShape) -> Instruction:
    """The instruction of a warp."""
    return shape.instruction(MmaUnit.MMA_SYNC, MMA_SYNC_ROWS, MMA_SYNC_COLUMNS)


def warp_product_space(fusion: Fusion, arch: Arch) -> Space | str:
    """The space of a product; a reason where there is none."""
    shape = product_shape(start(fusion))
    if isinstance(shape, str):
        return shape
    made = instruction_of(shape)
    if not made.is_known or not made.is_on(arch):
        return f"products of {shape.multiplied}, which no instruction of {arch.name} makes of registers"
    if (why := prologue_refusal(shape)) is not None:
        return why
    warps = ("warps_down", "warps_across")
    f = BroughtFacts(shape, arch, warps, lambda down, across: down * across * WARP_THREADS, (TILE_ROWS, TILE_COLUMNS))
    knobs = (*f.knobs((1, 2, 4, 8, 16)), *(Knob(name, WARP_COUNTS) for name in warps), math_knob(fusion))
    space = Space("warp_product", knobs, (*_warps(f), *f.constraints())).reachable
    if len(shape.tensors) > 1 and not space.has_legal:
        return f"{len(shape.tensors)} products at once, too much for the registers of threads"
    return space


def _warps(f: BroughtFacts) -> list[Constraint]:
    def registers(load: Any, rows: Any, columns: Any, down: Any, across: Any) -> Any:
        threads = f.count(down, across)
        left = len(f.shape.rows) * (rows // (MMA_SYNC_ROWS * down)) * _LEFT_WORDS
        right = len(f.shape.columns) * (columns // (MMA_SYNC_COLUMNS * across)) * _RIGHT_WORDS
        held = len(f.shape.tensors) * rows * columns // threads
        needed = held + np.maximum(left + right, f.passing(load, rows, columns, threads))
        return needed + BESIDE_ACCUMULATORS <= launchable_registers(f.arch, threads)

    return [
        Constraint(
            "product_rows_are_whole_instructions",
            (*TILE, *f.threads),
            lambda rows, columns, down, across: (
                (rows % (MMA_SYNC_ROWS * down) == 0) & (columns % (MMA_SYNC_COLUMNS * across) == 0)
            ),
            "A warp has whole instructions of 16 rows and 8 columns.",
        ),
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("load", *TILE, *f.threads),
            registers,
            "Results, fragments or words on their way, and 32 registers beside, fit.",
        ),
    ]
