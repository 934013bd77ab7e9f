"""Knobs and constraints of the scheduler of chunks."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint, measured
from search.space.groups import (
    BULK,
    CP_ASYNC,
    NO_LAYOUT,
    PAD,
    SMEM_SLACK_BYTES,
    STREAMING,
    hint_knob,
    is_copied,
    is_run,
    load_knob,
    math_knob,
    words_of_their_own,
)
from search.space.knobs import Knob
from search.space.schedulers.chunks_facts import LEAST_BLOCKS, STEPS, ChunksFacts, ChunkSpace, chunk_space
from search.space.schedulers.flat_worthwhile import MAX_REGISTER_BYTES, MIN_WORD_BYTES
from search.space.schedulers.tile2d_worthwhile import LEAST_TILE_BYTES
from search.space.space import Space

LAYOUTS = (NO_LAYOUT, PAD)
"""How a tile lies in shared memory: as in memory, or with rows longer by what a thread copies at a time, and by a bank
at least. Neighbours of a column then lie in banks of their own, or in more of them."""

MOST_ELEMS = 256
"""Elements of a thread, whose code stands in full: 2,000 instructions or so. Of tiles that reach beyond the last chunk
half: that code stands twice, and 68 elements of bytes then take all 255 registers (ptxas, sm_90a)."""


def chunks_space(fusion: Fusion, arch: Arch) -> Space | None:
    """The space of a fusion of chunks; None where there are none, or none that threads can cut without rest."""
    found = chunk_space(start(fusion))
    if not isinstance(found, ChunkSpace):
        return None
    facts = ChunksFacts(found, arch)
    loads = {CP_ASYNC: bool(facts.load_vectors), BULK: facts.has_bulk}
    if not (any(loads.values()) and facts.vectors and facts.chunks and facts.threads):
        return None
    knobs = (
        load_knob(loads),
        Knob("chunks", facts.chunks),
        Knob("steps", STEPS),
        Knob("vector", facts.vectors),
        Knob("threads", facts.threads),
        Knob("load_vector", facts.load_vectors or (1,)),
        Knob("layout", LAYOUTS if facts.load_vectors else LAYOUTS[:1]),
        hint_knob("cache_store", STREAMING),
        math_knob(fusion),
    )
    constraints = (*_cuts(facts), *_bulk(facts), *measured("H200", arch, _worthwhile(facts)))
    space = Space("chunks", knobs, constraints).reachable
    return space if space.has_legal else None


def _cuts(f: ChunksFacts) -> list[Constraint]:
    """How threads share a tile."""
    n = f.found.elems

    def fetched(load: Any, chunks: Any, steps: Any, threads: Any, width: Any) -> Any:
        return ~is_copied(load) | (chunks * steps * n % (width * threads) == 0)

    return [
        Constraint(
            "threads_cover_the_tile",
            ("chunks", "vector", "threads"),
            lambda chunks, vector, threads: f.turns(chunks, vector, threads) > 0,
            "Threads and their vectors divide the chunks that they share.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("load", "chunks", "steps", "threads", "load_vector"),
            fetched,
            "The words that threads copy divide among them.",
        ),
        words_of_their_own((f.load_vectors or (1,))[0], is_copied),
        Constraint(
            "threads_cover_the_tile",
            ("load", "load_vector", "layout"),
            lambda load, width, layout: (layout == NO_LAYOUT) | is_copied(load) & (f.row % width == 0),
            "Rows that are longer in shared memory hold whole words that threads copy.",
        ),
        Constraint(
            "registers_in_flight",
            ("chunks", "steps", "vector", "threads"),
            lambda chunks, steps, vector, threads: (
                f.turns(chunks, vector, threads) * steps * vector * f.bytes_beside
                + vector * (f.bytes_in + max(4, f.widest_out))
                <= MAX_REGISTER_BYTES
            ),
            "What a thread reads beside its tile stays in registers.",
        ),
    ]


def _bulk(f: ChunksFacts) -> list[Constraint]:
    """Runs that the copy engine brings."""
    n = f.found.elems

    def sixteen(load: Any, chunks: Any, steps: Any) -> Any:
        whole = [chunks * steps * n * s.nbytes % BULK_BYTES == 0 for s in f.found.sources]
        return ~is_run(load) | reduce(operator.and_, whole)

    return [
        Constraint(
            "bulk1d_splits_divide",
            ("load", "chunks", "steps"),
            lambda load, chunks, steps: ~is_run(load) | (f.found.chunks % (chunks * steps) == 0),
            "A 1-D bulk copy has no bounds check: tiles divide the chunks.",
        ),
        Constraint(
            "bulk1d_moves_multiples_of_16_bytes",
            ("load", "chunks", "steps"),
            sixteen,
            "A 1-D bulk copy moves whole runs of 16 bytes.",
        ),
    ]


def _worthwhile(f: ChunksFacts) -> list[Constraint]:
    """What cannot be fast."""
    n = f.found.elems
    least = min(LEAST_TILE_BYTES, f.found.chunks * n * f.bytes_in // 2)

    def size(chunks: Any, steps: Any, layout: Any, width: Any) -> Any:
        nbytes = chunks * steps * n * f.bytes_in
        room = nbytes + (layout == PAD) * chunks * steps * sum(f.padding(s, width) for s in f.found.sources)
        return (nbytes >= least) & (LEAST_BLOCKS * (room + SMEM_SLACK_BYTES) <= f.arch.smem_per_sm_bytes)

    def elems(chunks: Any, steps: Any, vector: Any, threads: Any) -> Any:
        most = np.where(f.found.chunks % (chunks * steps), MOST_ELEMS // 2, MOST_ELEMS)
        return f.turns(chunks, vector, threads) * steps * vector <= most

    return [
        Constraint(
            "tile_is_neither_small_nor_large",
            ("chunks", "steps", "layout", "load_vector"),
            size,
            "A tile has 8 KB or more, and three of them fit a multiprocessor: one is read while another is written.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("chunks", "steps"),
            lambda chunks, steps: chunks * steps < 2 * f.found.chunks,
            "A tile is not twice the problem.",
        ),
        Constraint(
            "few_vectors",
            ("chunks", "steps", "vector", "threads"),
            elems,
            "The code of a thread's elements, which stands in full, is short.",
        ),
        Constraint(
            "wide_words",
            ("vector",),
            lambda vector: (vector * f.narrowest_out >= MIN_WORD_BYTES) | (vector == f.vectors[-1]),
            "A word is 4 bytes or more where outputs let it.",
        ),
    ]
