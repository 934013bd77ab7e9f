"""Knobs and constraints of the inner-outer scheduler: those of rows, as far as groups of rows leave a choice.

The kinds of constraint are those of `flat_space`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import (
    ELECTED,
    HELD,
    LATE,
    RESIDENT,
    STREAMING,
    Rings,
    block_fits,
    fit,
    hint_knob,
    is_copied,
    keep_values_knob,
    kept_with_the_row,
    math_knob,
    no_hint,
    register_constraints,
    ring_constraints,
    ring_knobs,
    staging_knob,
)
from search.space.knobs import Knob, powers_of_two
from search.space.schedulers.inner_outer_facts import (
    MAX_HELD_REGISTERS,
    InnerOuterFacts,
    inner_outer_facts,
    inner_outer_shape,
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
    return (
        staging_knob("keep", {"registers": True, "shared": row.is_brought, "reload": False}),
        row.load_knob,
        Knob("vector", row.vectors),
        Knob("threads", row.threads()),
        Knob("rows", powers_of_two(MAX_ROWS)),
        Knob("cluster", f.clusters),
        *ring_knobs(4 if row.is_brought else 1, persistent=False),
        Knob("operands", (HELD, LATE) if row.operand_bytes else (HELD,)),
        keep_values_knob(row.costly, row.waiting),
        Knob("resident", RESIDENT),
        hint_knob("cache_load", STREAMING),
        hint_knob("cache_store", STREAMING, is_offered=any(o.is_output for o in row.rows.streams)),
        math_knob(fusion),
    )


def _shape(f: InnerOuterFacts) -> list[Constraint]:
    """How threads cover rows."""
    rows = f.rows_of_a_group
    return [
        f.row.threads_end_with_the_row(),
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
        *f.row.blocks_have_warps(min(rows // 4, MAX_ROWS // 2) + 1),
        block_fits(f.row.arch, "threads", "rows"),
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

    def smem(keep: Any, load: Any, count: Any, stages: Any, vector: Any, threads: Any, cluster: Any) -> Any:
        places = f.places(vector, threads, cluster) * threads
        part = np.where(is_copied(load), places, -(-cols // cluster))
        staged = np.where(keep == "shared", part * row.staged_bytes(load, vector) * count * stages, 0)
        folded = np.where(count > 1, places * count * f.partials, 0)
        return fit(row.arch, staged + folded)

    def inside(keep: Any, load: Any, fill: Any, vector: Any, threads: Any, cluster: Any) -> Any:
        whole = f.places(vector, threads, cluster) * threads * cluster == cols
        runs = (cols % (vector * threads) == 0) & (fill == ELECTED)
        guarded = np.where(cluster == 1, cols % vector == 0, runs)
        return (keep != "shared") | is_copied(load) | whole | guarded

    return [
        Constraint(
            "registers_in_flight",
            budget,
            lambda *knobs: held(*knobs) <= MAX_HELD_REGISTERS,
            "A thread's part of a row and the partial results of its columns stay in registers.",
        ),
        *register_constraints(row.arch, budget, lambda *knobs: held(*knobs) + f.other_registers),
        Constraint(
            "shared_memory_fits_the_block",
            ("keep", "load", "rows", "stages", "vector", "threads", "cluster"),
            smem,
            "Rows of a block, times stages, and the partial results of its thread rows fit its shared memory.",
        ),
        *row.brought_rows(f.rows_of_a_group),
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
        kept_with_the_row(),
        no_hint("cache_load", ("keep",), lambda keep: keep == "shared", but_others=unstaged),
    ]
