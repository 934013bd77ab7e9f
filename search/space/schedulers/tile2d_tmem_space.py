"""Constraints of tiles transposed in tensor memory: threads, vectors and columns with which a pattern exchanges what is
transposed, in one round or in three."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import (
    REGISTER_BYTES,
    TMEM_COLUMNS,
    WARP_THREADS,
)
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import (
    BY_LANES,
    DIRECT,
    NO_TMEM,
    allocated_columns,
    columns_taken,
    exchange_of,
    unused_knobs,
)
from search.space.schedulers.tile2d_facts import Tile2dFacts
from search.space.schedulers.tile2d_matrix import LANES
from search.space.schedulers.tile2d_rounds import whole_exchange


def is_passed(f: Tile2dFacts) -> bool:
    """Whether blocks of a fusion's tiles can pass through tensor memory: where there is some."""
    return f.arch.has_tmem


def exchange_constraints(f: Tile2dFacts) -> list[Constraint]:
    """What an exchange through tensor memory asks of threads, of their vectors and of the columns of a block."""
    return [*unused_knobs(), *_ways(), *_threads(f), *_accesses(f), *_columns(f)] if is_passed(f) else []


def _looked_up(what: str, name: Any, *, whole: bool = False) -> Any:
    """A number of `LaneExchange`, of a pattern: 1 where it exchanges nothing, or leaves nothing with its thread."""

    def found(pattern: str) -> int:
        x = whole_exchange(pattern) if whole else exchange_of(pattern)
        return 1 if x is None else max(int(getattr(x, what)), 1)

    return looked_up(f"{what}_in_rounds" if whole else what, found, name)


def _exchanged(name: Any, rounds: Any) -> Any:
    """Threads that exchange with each other in so many rounds."""
    return np.where(rounds == 1, _looked_up("count", name), _looked_up("count", name, whole=True))


def _ways() -> list[Constraint]:
    """What goes through tensor memory, and how often."""
    return [
        Constraint(
            "redundant_tmem",
            ("tmem", "load", "move", "shift_store"),
            lambda tmem, load, move, shift: (tmem == NO_TMEM) | (load == DIRECT) & (move == LANES) & ~shift,
            "What threads load straight from memory passes through tensor memory, in rows as they are.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "tmem_pattern"),
            lambda tmem, name: (tmem == NO_TMEM) | (name != BY_LANES),
            "What is loaded as it was stored stays with its thread: another pattern gives it to others.",
        ),
        Constraint(
            "redundant_tmem_rounds",
            ("tmem_pattern", "tmem_rounds"),
            lambda name, rounds: (rounds == 1) | (_exchanged(name, rounds) == WARP_THREADS),
            "Three rounds exchange whole warps by patterns that exchange four threads at a time.",
        ),
    ]


def _threads(f: Tile2dFacts) -> list[Constraint]:
    def threads(tmem: Any, name: Any, rounds: Any, lanes: Any) -> Any:
        """Neighbours along Q among threads, at the least."""
        side_by_side = np.where(rounds == 1, _looked_up("inner", name), 1)
        whole = (lanes % (_exchanged(name, rounds) * side_by_side) == 0) & (lanes <= WARP_THREADS)
        return (tmem == NO_TMEM) | whole

    def blocks(tmem: Any, name: Any, rounds: Any, tile_in: Any, vin: Any, lanes: Any, threads: Any) -> Any:
        own = vin * _exchanged(name, rounds) * np.maximum(threads // lanes, 1)
        return (tmem == NO_TMEM) | (tile_in % own == 0)

    def unit(tmem: Any, name: Any, vin: Any) -> Any:
        unit = _looked_up("unit_bytes", name)
        whole = [(vin * n % unit == 0) & ((unit == 1) | (unit % n == 0)) for n in f.space.source_bytes]
        return (tmem == NO_TMEM) | reduce(np.logical_and, whole)

    return [
        Constraint(
            "tmem_access_has_a_hardware_pattern",
            ("tmem", "tmem_pattern", "tmem_rounds", "lanes_out"),
            threads,
            "Threads that exchange lie along a row of the outputs, inside a warp.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("tmem", "tmem_pattern", "tmem_rounds", "tile_in", "vector_in", "lanes_out", "threads"),
            blocks,
            "Threads have as many vectors of the tile's other side as they exchange.",
        ),
        Constraint(
            "tmem_words_hold_neighbours",
            ("tmem", "tmem_pattern", "vector_in"),
            unit,
            "What stays with its thread beside columns that move is a part of a vector.",
        ),
    ]


def _accesses(f: Tile2dFacts) -> list[Constraint]:
    sizes = f.space.source_bytes

    def moves(words: Any, run: Any) -> Any:
        """Whether accesses of so many words move a run of elements of each source, in whole elements."""
        moved = words * REGISTER_BYTES
        return reduce(np.logical_and, [(moved % n == 0) & (run * n % moved == 0) for n in sizes])

    def stored(tmem: Any, name: Any, rounds: Any, words: Any, vin: Any, vout: Any) -> Any:
        return (tmem == NO_TMEM) | moves(words, _exchanged(name, rounds) * vin * vout)

    def loaded(tmem: Any, name: Any, rounds: Any, words: Any, vin: Any, vout: Any) -> Any:
        lanes = _looked_up("count", name)
        return (tmem == NO_TMEM) | moves(words, _exchanged(name, rounds) // lanes * vin * vout)

    return [
        Constraint(
            "tmem_access_width_is_a_power_of_two",
            ("tmem", "tmem_pattern", "tmem_rounds", "tmem_store", "vector_in", "vector_out"),
            stored,
            "What a thread has of a step is moved by whole accesses.",
        ),
        Constraint(
            "tmem_access_width_is_a_power_of_two",
            ("tmem", "tmem_pattern", "tmem_rounds", "tmem_load", "vector_in", "vector_out"),
            loaded,
            "What a thread has of a lane is moved by whole accesses.",
        ),
    ]


def _columns(f: Tile2dFacts) -> list[Constraint]:
    def columns(tile_in: Any, tile_out: Any, threads: Any) -> Any:
        return columns_taken([threads], tile_in * tile_out // threads * f.bytes_in)

    def resident(tmem: Any, blocks: Any, *knobs: Any) -> Any:
        return (tmem == NO_TMEM) | (np.maximum(blocks, 1) * allocated_columns(columns(*knobs)) <= TMEM_COLUMNS)

    return [
        Constraint(
            "tmem_columns_fit",
            ("tmem", "tile_in", "tile_out", "threads"),
            lambda tmem, *knobs: (tmem == NO_TMEM) | (columns(*knobs) <= TMEM_COLUMNS),
            f"The tiles of a block take at most {TMEM_COLUMNS} columns of 4 bytes.",
        ),
        Constraint(
            "tmem_columns_are_shared_by_the_blocks_of_an_sm",
            ("tmem", "blocks_per_sm", "tile_in", "tile_out", "threads"),
            resident,
            f"Blocks that stay share the {TMEM_COLUMNS} columns of their multiprocessor: an allocation waits.",
        ),
    ]
