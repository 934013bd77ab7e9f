"""Points of the row scheduler that repeat another or cannot be fast: persistent blocks, rings, paths without a use.

The kinds of constraint are those of `flat_space`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import sms_for_clusters
from search.space.constraints import Constraint, measured
from search.space.groups import (
    APART,
    BULK,
    EARLY,
    VALUES,
    Rings,
    copied_rings,
    is_copied,
    kept_with_the_row,
    no_hint,
    persistent_blocks_fit,
)
from search.space.schedulers.row_facts import RowFacts

MOST_SENT = 16
"""Rows of a block that bulk copies store: as many copies are asked for by one thread, one after the other."""


def persistence(f: RowFacts) -> list[Constraint]:
    """Blocks that stay for several rows."""

    def filled(blocks: Any, count: Any, cluster: Any) -> Any:
        usable = np.select([cluster == c for c in f.clusters], [sms_for_clusters(f.sm_count, c) for c in f.clusters])
        return (blocks == 0) | (blocks * usable // cluster * 2 <= -(-f.rows.rows // count))

    has_a_use = Constraint(
        "persistent_blocks_have_a_use",
        ("blocks_per_sm", "keep"),
        lambda blocks, keep: (blocks == 0) | (keep == "shared"),
        "A block stays to load the next row ahead; else blocks of one row overlap better (norms: 8 %).",
    )
    return [
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "rows", "cluster"),
            filled,
            "Every persistent block has two rows or more.",
        ),
        persistent_blocks_fit(f.arch, "threads", "rows"),
        Constraint(
            "cluster_is_needed",
            ("keep", "cluster"),
            lambda keep, cluster: (keep != "reload") | (cluster <= f.arch.max_cluster_portable) | f.is_few,
            "A row that stays nowhere is spread over sixteen blocks only where clusters of eight do not fill the card.",
        ),
        *measured("H200", f.arch, [has_a_use]),
    ]


def rings(f: RowFacts) -> Rings:
    """The rows of a persistent block that bulk copies bring."""

    return Rings(
        f.arch,
        ("keep", "blocks_per_sm"),
        lambda keep, blocks: (keep == "shared") & (blocks > 0),
        ("threads", "rows"),
        "blocks_per_sm",
    )


def copies(f: RowFacts) -> list[Constraint]:
    """Rows that threads bring to shared memory themselves."""
    return [
        copied_rings(("load",), lambda load: is_copied(load)),
        Constraint(
            "redundant_load",
            ("keep", "load"),
            lambda keep, load: (keep == "shared") | (load == f.load_knob.values[0]),
            "Only rows in shared memory are brought there.",
        ),
    ]


def stores(f: RowFacts) -> list[Constraint]:
    """Rows that bulk copies store from shared memory."""
    all_sent = sum(o.nbytes for o in f.rows.streams if o.is_output) == f.sent_bytes

    return [
        Constraint(
            "redundant_rows_begin",
            ("store", "rows_begin", "vector"),
            lambda store, begin, vector: (store != BULK) | ~f.is_shifted(vector, begin),
            "Rows that bulk copies store begin at multiples of a vector.",
        ),
        Constraint(
            "sent_rows_are_whole",
            ("store", "keep", "blocks_per_sm", "cluster"),
            lambda store, keep, blocks, cluster: (store != BULK) | (keep != "reload") & (blocks == 0) & (cluster == 1),
            "A row leaves shared memory at once, and its block with it: one that stays would wait for the copies.",
        ),
        Constraint(
            "few_copies_a_block",
            ("store", "rows"),
            lambda store, rows: (store != BULK) | (rows <= MOST_SENT),
            "One thread asks for every row: few of them.",
        ),
        no_hint("cache_store", ("store",), lambda store: store == BULK, but_others=not all_sent),
    ]


def redundant(f: RowFacts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value."""
    unstaged = len(f.staged) < len(f.rows.loaded)
    return [
        Constraint(
            "redundant_unroll",
            ("keep", "unroll"),
            lambda keep, unroll: (keep != "registers") | (unroll == 1),
            "A row in registers is unrolled whole.",
        ),
        Constraint(
            "persistent_blocks_prefetch",
            ("blocks_per_sm", "stages"),
            lambda blocks, n: (blocks == 0) | (n > 1),
            "A persistent block asks for its next rows before it is done with these.",
        ),
        Constraint(
            "redundant_resident",
            ("blocks_per_sm", "resident"),
            lambda blocks, resident: (blocks == 0) | (resident == 0),
            "The grid of persistent blocks says how many share a multiprocessor.",
        ),
        Constraint(
            "redundant_operands",
            ("keep", "operands"),
            lambda keep, operands: (keep == "registers") | (operands == EARLY),
            "Outside of registers operands are loaded with the row.",
        ),
        kept_with_the_row(*(("tmem", VALUES) if VALUES in f.uses_of_tmem else ())),
        Constraint(
            "redundant_keep_values",
            ("fold", "keep_values"),
            lambda fold, values: (fold == APART) | (values == "no"),
            "What is measured from a running maximum is no value that a later pass could use.",
        ),
        no_hint("cache_load", ("keep",), lambda keep: keep == "shared", but_others=unstaged),
    ]
