"""Columns in tensor memory from pass to pass: they are read once, or a value that costs a special function is computed
once, whatever registers and shared memory have room for.

    input -> registers of a step -> tensor memory of all steps of the block -> registers of a step, in every pass

Threads of a block are lanes, all rows of a thread are columns: a thread finds there what it has put down itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.groups import (
    APART,
    NO_TMEM,
    READ_AGAIN,
    SHARED,
    STREAMS,
    VALUES,
    TmemUse,
    stage_in_tmem,
    tmem_constraints,
    without_hints,
)
from search.space.schedulers.column_facts import ColumnFacts
from search.space.schedulers.column_passes import kept_in_tmem


def put_in_tmem(b: TraceBuilder, point: Mapping[str, Any]) -> dict[str, str]:
    """Puts tensor memory between what is kept and what reads it. Tensor in tensor memory -> the registers before it."""
    return {stage_in_tmem(b, name)[0]: name for name in kept_in_tmem(b.sf, point.get("tmem", NO_TMEM))}


def columns_in_tmem(f: ColumnFacts) -> list[Constraint]:
    """What goes there, and for which blocks it has room."""
    if not f.uses_of_tmem:
        return []
    axes = ("threads_x", "threads_y", "vector", "rows", "cluster")

    def run(_: Any, __: Any, vector: Any, rows: Any, *___: Any) -> Any:
        return vector * rows

    def use(what: str) -> TmemUse:
        widths = f.tmem_widths[what]

        def part(_: Any, ty: Any, vector: Any, rows: Any, cluster: Any) -> Any:
            return -(-f.rows // (rows * ty * cluster)) * rows * vector * sum(widths)

        elements = tuple(sorted(set(widths)))
        return TmemUse(what, f.arch, axes[:2], axes, elements, part, run, capped=("resident",))

    return [
        *tmem_constraints(*map(use, f.uses_of_tmem)),
        Constraint(
            "redundant_tmem",
            ("tmem", "reuse"),
            lambda tmem, reuse: (tmem == NO_TMEM) | (reuse == READ_AGAIN) | (tmem == VALUES) & (reuse == SHARED),
            "Columns that are kept nowhere else are kept in tensor memory, and values beside those that are in no"
            " registers.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "fold"),
            lambda tmem, fold: (tmem != VALUES) | (fold == APART),
            "What is measured from a running maximum is no value that a later pass could use.",
        ),
        *without_hints("cache_load", "cache_store"),
    ]


def passes_that_load(f: ColumnFacts, tmem: Any = NO_TMEM) -> Any:
    """How many passes load columns: one, where those that several read are in tensor memory."""
    return np.where(tmem == STREAMS, 1, f.pass_count)
