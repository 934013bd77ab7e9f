"""Knobs and constraints of the inner-outer scheduler: those of rows, as far as groups of rows leave a choice.

The kinds of constraint are those of `flat_space`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.copy_paths import CP_ASYNC
from search.space.schedulers.flat_space import SMEM_SLACK_BYTES
from search.space.schedulers.inner_outer_facts import (
    HELD,
    LATE,
    MAX_HELD_REGISTERS,
    InnerOuterFacts,
    inner_outer_facts,
    inner_outer_shape,
)
from search.space.schedulers.pointwise_body import math_knob
from search.space.schedulers.register_limits import launchable_registers
from search.space.schedulers.rings import ELECTED, Rings, ring_constraints, ring_knobs
from search.space.schedulers.row_facts import (
    BULK,
    CACHE_LOADS,
    CACHE_STORES,
    EXACT_THREADS,
    RESIDENT,
    blocks_of,
    register_cap,
)
from search.space.schedulers.row_shape import RowShape
from search.space.schedulers.row_worthwhile import copies
from search.space.space import Space

MAX_ROWS = 32
"""Most rows that a block goes through at once: each thread row has partial results of all columns of its own."""


def inner_outer_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the inner-outer scheduler does not refuse."""
    found = inner_outer_shape(start(fusion))
    assert isinstance(found, RowShape), "refused fusions have no space"
    f = inner_outer_facts(fusion, found, arch, sm_count)
    rings = Rings(arch, ("keep",), lambda keep: keep == "shared", ("threads", "rows"))
    return Space(
        "inner_outer",
        _knobs(fusion, f),
        (*_shape(f), *_memory(f), *ring_constraints(rings), *copies(f.row), *_redundant(f)),
    )


def _knobs(fusion: Fusion, f: InnerOuterFacts) -> tuple[Knob, ...]:
    row = f.row
    is_staged = bool(row.load_paths)
    stores = any(o.is_output for o in row.rows.streams)
    return (
        Knob("keep", ("registers", "shared") if is_staged else ("registers",)),
        Knob("load", row.load_paths or (BULK,)),
        Knob("vector", row.vectors),
        Knob("threads", _threads(f)),
        Knob("rows", tuple(1 << bit for bit in range(MAX_ROWS.bit_length()))),
        Knob("cluster", f.clusters),
        *ring_knobs((1, 2, 3, 4) if is_staged else (1,), persistent=False),
        Knob("operands", (HELD, LATE) if row.operand_bytes else (HELD,)),
        Knob("keep_values", ("no", *["yes"] * (row.costly > 0), *["all"] * (row.waiting > 0))),
        Knob("resident", RESIDENT),
        Knob("cache_load", CACHE_LOADS),
        Knob("cache_store", CACHE_STORES if stores else CACHE_STORES[:1]),
        math_knob(fusion),
    )


def _threads(f: InnerOuterFacts) -> tuple[int, ...]:
    """Powers of two, and the largest numbers of whole warps that divide the vectors of a row without a rest."""
    cols, most = f.row.rows.cols, f.row.arch.max_threads_per_block
    powers = [1 << bit for bit in range(most.bit_length())]
    counts = [cols // v for v in f.row.vectors if cols % v == 0]
    exact = [
        WARP_THREADS * w for w in range(most // WARP_THREADS, 2, -1) if any(n % (WARP_THREADS * w) == 0 for n in counts)
    ]
    return tuple(sorted({*powers, *[n for n in exact if n not in powers][:EXACT_THREADS]}))


def _shape(f: InnerOuterFacts) -> list[Constraint]:
    """How threads cover rows."""
    cols, rows = f.row.rows.cols, f.rows_of_a_group
    least, most = min(f.row.vectors), f.row.arch.max_threads_per_block

    def covered(vector: Any, threads: Any, cluster: Any) -> Any:
        return (vector * threads * cluster < 2 * cols) | ((threads == 1) & (cluster == 1) & (vector == least))

    return [
        Constraint(
            "tile_exceeds_the_problem",
            ("vector", "threads", "cluster"),
            covered,
            "Threads along a row are not twice its vectors.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("vector", "threads", "cluster"),
            f.fits_steps,
            "A thread has few enough steps to unroll.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("threads", "rows"),
            lambda threads, count: (count == 1) | (threads * count <= 512) & (2 * count <= rows),
            "A block has several rows at once where they are short, and goes through its group in two rounds or more.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("threads", "rows"),
            lambda threads, count: (threads * count >= 64) | (4 * count > rows) | (2 * count > MAX_ROWS),
            "A block has two warps where rows suffice.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("threads", "rows", "cluster"),
            lambda threads, count, cluster: (cluster == 1) | (count == 1) & (threads >= 4 * WARP_THREADS),
            "A cluster has one row, and blocks of four warps.",
        ),
        Constraint(
            "block_fits_the_architecture",
            ("threads", "rows"),
            lambda threads, count: threads * count <= most,
            f"A block has at most {most} threads.",
        ),
    ]


def _memory(f: InnerOuterFacts) -> list[Constraint]:
    """Registers and shared memory."""
    row, cols = f.row, f.row.rows.cols

    def held(keep: Any, load: Any, operands: Any, values: Any, vector: Any, threads: Any, cluster: Any) -> Any:
        """Registers of a thread that hold its part of a row and of the partial results."""
        passing = row.streamed - (row.staged_bytes(load, vector) if row.passes == 1 else 0)
        streamed = np.where(keep == "shared", passing, row.streamed)
        streamed = np.where(values == "all", np.maximum(streamed, row.waiting), streamed)
        shared = np.where(operands == LATE, 0, row.operand_bytes)
        kept = np.where(values == "yes", 4 * row.costly, 0)
        own = -(-f.places(vector, threads, cluster) * (streamed + shared + kept) // 4)
        return own + f.partial_registers(vector, threads, cluster)

    budget = ("keep", "load", "operands", "keep_values", "vector", "threads", "cluster")

    def launched(count: Any, *knobs: Any) -> Any:
        threads = knobs[budget.index("threads")]
        return held(*knobs) + f.other_registers <= launchable_registers(row.arch, threads * count)

    def capped(resident: Any, count: Any, *knobs: Any) -> Any:
        threads = knobs[budget.index("threads")]
        return (resident == 0) | (held(*knobs) + f.other_registers <= register_cap(resident, threads * count))

    def several(resident: Any, threads: Any, count: Any) -> Any:
        blocks = blocks_of(resident, threads * count)
        inside = (blocks * threads * count <= row.arch.max_threads_per_sm) & (blocks <= row.arch.max_blocks_per_sm)
        return (resident == 0) | (blocks >= 2) & inside

    def smem(keep: Any, load: Any, count: Any, stages: Any, vector: Any, threads: Any, cluster: Any) -> Any:
        places = f.places(vector, threads, cluster) * threads
        part = np.where(load == CP_ASYNC, places, -(-cols // cluster))
        staged = np.where(keep == "shared", part * row.staged_bytes(load, vector) * count * stages, 0)
        folded = np.where(count > 1, places * count * f.partials, 0)
        return staged + folded + SMEM_SLACK_BYTES <= row.arch.smem_per_block_optin_bytes

    def inside(keep: Any, load: Any, fill: Any, vector: Any, threads: Any, cluster: Any) -> Any:
        whole = f.places(vector, threads, cluster) * threads * cluster == cols
        runs = (cols % (vector * threads) == 0) & (fill == ELECTED)
        guarded = np.where(cluster == 1, cols % vector == 0, runs)
        return (keep != "shared") | (load == CP_ASYNC) | whole | guarded

    return [
        Constraint(
            "registers_in_flight",
            budget,
            lambda *knobs: held(*knobs) <= MAX_HELD_REGISTERS,
            "A thread's part of a row and the partial results of its columns stay in registers.",
        ),
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("rows", *budget),
            launched,
            "A thread's part of a row and of the partial results fit the registers that it can be launched with.",
        ),
        Constraint(
            "registers_in_flight",
            ("resident", "rows", *budget),
            capped,
            "A cap leaves room for a thread's part of a row and of the partial results.",
        ),
        Constraint(
            "registers_in_flight",
            ("resident", "threads", "rows"),
            several,
            "A cap lets two blocks or more share a multiprocessor.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("keep", "load", "rows", "stages", "vector", "threads", "cluster"),
            smem,
            "Rows of a block, times stages, and the partial results of its thread rows fit its shared memory.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "rows", "load"),
            lambda keep, count, load: (keep != "shared") | (load == CP_ASYNC) | (f.rows_of_a_group % count == 0),
            "Threads read no row from shared memory that is not there: the rows of a block divide its group.",
        ),
        Constraint(
            "redundant_load",
            ("keep", "load", "vector"),
            lambda keep, load, vector: (keep != "shared") | (row.staged_bytes(load, vector) > 0),
            "Some rows are brought to shared memory: threads copy 4, 8 or 16 bytes at a time past their registers.",
        ),
        Constraint(
            "staged_rows_are_cut_evenly",
            ("keep", "load", "fill", "vector", "threads", "cluster"),
            inside,
            "Bulk copies bring whole vectors; to blocks of a cluster whole steps, as many to each where a warp asks.",
        ),
    ]


def _redundant(f: InnerOuterFacts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value."""
    unstaged = len(f.row.staged) < len(f.row.rows.loaded)
    return [
        Constraint(
            "persistent_blocks_prefetch",
            ("keep", "stages"),
            lambda keep, n: (keep != "shared") | (n > 1),
            "Rows come to shared memory before the block is done with those before them.",
        ),
        Constraint(
            "redundant_keep_values",
            ("keep", "keep_values"),
            lambda keep, values: (keep == "registers") | (values == "no"),
            "Values are kept with the row.",
        ),
        Constraint(
            "redundant_cache_load",
            ("keep", "cache_load"),
            lambda keep, cache: (keep != "shared") | (cache == "default") | unstaged,
            "Bulk copies take no thread cache hint.",
        ),
    ]
