"""Knobs and constraints of the scheduler of products by threads, beside those of `brought_space`.

tile_rows, tile_columns        of the result, of a block
threads_down, threads_across   of a block, along the rows and along the columns of a tile
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS, Arch
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.legality.mma import BESIDE_ACCUMULATORS
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import block_fits, launchable_registers, math_knob
from search.space.knobs import Knob
from search.space.schedulers.brought_space import TILE, BroughtFacts
from search.space.schedulers.product_facts import product_shape
from search.space.space import Space

TILE_ROWS = (8, 16, 32, 64, 128)
TILE_COLUMNS = (16, 32, 64, 128)
THREADS_DOWN, THREADS_ACROSS = (4, 8, 16), (8, 16, 32)
WORD_ELEMS = 4
"""Elements along k that a thread has of each of its rows and columns at a time: a word of 16 bytes of f32."""


def thread_product_space(fusion: Fusion, arch: Arch) -> Space | str:
    """The space of a product; a reason where there is none."""
    shape = product_shape(start(fusion))
    if isinstance(shape, str):
        return shape
    if shape.dtype is not DType.F32 or shape.in_tf32:
        return f"products of {shape.multiplied}, which tensor cores make"
    if not shape.is_plain:
        return "what is done to an operand of f32 before it is multiplied, which a launch before stores"
    threads = ("threads_down", "threads_across")
    f = BroughtFacts(shape, arch, threads, lambda down, across: down * across, (TILE_ROWS, TILE_COLUMNS))
    counts = (Knob(threads[0], THREADS_DOWN), Knob(threads[1], THREADS_ACROSS))
    knobs = (*f.knobs((1, 4, 16)), *counts, math_knob(fusion))
    space = Space("thread_product", knobs, (*_threads(f), *f.constraints())).reachable
    if len(shape.tensors) > 1 and not space.has_legal:
        return f"{len(shape.tensors)} products at once, too much for the registers of threads"
    return space


def _threads(f: BroughtFacts) -> list[Constraint]:
    def registers(load: Any, rows: Any, columns: Any, down: Any, across: Any) -> Any:
        operands = (len(f.shape.rows) * (rows // down) + len(f.shape.columns) * (columns // across)) * WORD_ELEMS
        needed = len(f.shape.tensors) * rows * columns // f.count(down, across)
        needed = needed + np.maximum(operands, f.passing(load, rows, columns, f.count(down, across)))
        return needed + BESIDE_ACCUMULATORS <= launchable_registers(f.arch, f.count(down, across))

    return [
        block_fits(f.arch, *f.threads),
        Constraint(
            "product_rows_are_whole",
            (*TILE, *f.threads),
            lambda rows, columns, down, across: (rows % down == 0) & (columns % across == 0),
            "Threads have equal numbers of rows and columns.",
        ),
        Constraint(
            "product_blocks_are_of_warps",
            f.threads,
            lambda down, across: (down * across) % WARP_THREADS == 0,
            "A block has whole warps.",
        ),
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("load", *TILE, *f.threads),
            registers,
            "Results, rows and columns of a word or words on their way, and 32 registers beside, fit.",
        ),
    ]
