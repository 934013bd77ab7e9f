"""Occupancy: how many blocks and threads share a multiprocessor, and so its registers.

blocks_per_sm    persistent blocks of a multiprocessor, each of which goes through several tiles; 0: a block a tile
resident         threads of a multiprocessor that a cap on their registers makes room for: blocks that have 2048, 1536
                 or 1024 in all leave each of them 32, 40 or 64 registers; 0: no cap
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from compiler.arch import MAX_REGISTER_CAP, REGISTER_UNIT, REGISTERS_PER_SM, Arch
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint

RESIDENT = (0, 1024, 1536, 2048)

MOST_FIRST = (0, *reversed(RESIDENT[1:]))
"""The same, the closest caps first. A point of a scheduler that has them so keeps its number, and its journal."""

KNOBS = {"blocks_per_sm": (0, 1, 2, 3, 4, 8), "resident": RESIDENT}


def launchable_registers(arch: Arch, threads: Any) -> Any:
    """Registers of a thread with which a block of `threads` can be launched: the block's share of the register file,
    at most 255 (CUDA guide, technical specifications per compute capability; launch bounds make ptxas keep to it)."""
    share = arch.registers_per_block // np.maximum(threads, 1) // REGISTER_UNIT * REGISTER_UNIT
    return np.minimum(share, arch.max_registers_per_thread)


def blocks_of(resident: Any, threads: Any) -> Any:
    """Blocks of so many threads that come nearest to the threads asked of a multiprocessor."""
    return (resident + threads // 2) // threads


def register_cap(resident: Any, threads: Any) -> Any:
    """Registers of a thread with which those blocks fit, in units of 8 (cuda_occupancy.h)."""
    blocks = np.maximum(blocks_of(resident, threads), 1)
    return np.minimum(REGISTERS_PER_SM // (blocks * threads) // REGISTER_UNIT * REGISTER_UNIT, MAX_REGISTER_CAP)


def blocks_promised(resident: Any, threads: Any) -> Any:
    """Blocks that launch bounds say there is room for (`compiler.analysis.memory.resources.blocks_with_room`)."""
    blocks = REGISTERS_PER_SM // np.maximum(threads * register_cap(resident, threads), 1)
    return np.where(resident > 0, np.maximum(blocks, 1), 1)


def block_fits(arch: Arch, *threads: str) -> Constraint:
    """`threads`: the knobs whose product is the threads of a block."""
    return Constraint(
        "block_fits_the_architecture",
        threads,
        lambda *extents: reduce(mul, extents) <= arch.max_threads_per_block,
        f"A block has at most {arch.max_threads_per_block} threads.",
    )


def persistent_blocks_fit(arch: Arch, *threads: str) -> Constraint:
    """`threads` as in `block_fits`."""
    return Constraint(
        "persistent_blocks_are_resident",
        ("blocks_per_sm", *threads),
        lambda *extents: reduce(mul, extents) <= arch.max_threads_per_sm,
        "Persistent blocks fit their multiprocessors.",
    )


def register_constraints(arch: Arch, axes: tuple[str, ...], needed: Callable[..., Any]) -> list[Constraint]:
    """What threads of `threads` by `rows` need of the register file. `needed` of the knobs `axes`, `threads` among
    them: registers of a thread, at the least."""

    at = axes.index("threads")

    def several(resident: Any, threads: Any, count: Any) -> Any:
        blocks = blocks_of(resident, threads * count)
        inside = (blocks * threads * count <= arch.max_threads_per_sm) & (blocks <= arch.max_blocks_per_sm)
        return (resident == 0) | (blocks >= 2) & inside

    return [
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("rows", *axes),
            lambda count, *knobs: needed(*knobs) <= launchable_registers(arch, count * knobs[at]),
            "What a thread holds fits the registers that it can be launched with.",
        ),
        Constraint(
            "registers_in_flight",
            ("resident", "rows", *axes),
            lambda resident, count, *knobs: (
                (resident == 0) | (needed(*knobs) <= register_cap(resident, count * knobs[at]))
            ),
            "A cap leaves room for what a thread holds.",
        ),
        Constraint(
            "registers_in_flight",
            ("resident", "threads", "rows"),
            several,
            "A cap lets two blocks or more share a multiprocessor.",
        ),
    ]


def cap(b: TraceBuilder, resident: int, threads: int) -> None:
    """Caps the registers of the threads of such a block, so that those asked of a multiprocessor fit."""
    if resident:
        b.do(steps.CapRegisters(int(register_cap(resident, threads))))


def persist(b: TraceBuilder, tv: str, blocks: int) -> None:
    """[tile, ..] -> [block, iteration, ..] of so many blocks that stay."""
    b.split(tv, 0, blocks)
    b.reorder(tv, [1, 0, *range(2, len(b.tensor(tv).loop))])
