"""Knobs and constraints of the row scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import (
    APART,
    AS_THEY_ARE,
    BULK,
    EARLY,
    ELECTED,
    IN_WORDS,
    LATE,
    NO_TMEM,
    ONLINE,
    PARKED,
    RESIDENT,
    STREAMING,
    STREAMS,
    VALUES,
    TmemUse,
    block_fits,
    fit,
    fold_knob,
    hint_knob,
    is_copied,
    keep_values_knob,
    math_knob,
    register_constraints,
    ring_constraints,
    ring_knobs,
    rows_begin_knob,
    staging_knob,
    store_knob,
    tmem_constraints,
    tmem_knobs,
    without_hints,
)
from search.space.knobs import Knob, powers_of_two
from search.space.schedulers.row_facts import (
    EXACT_THREADS,
    FEW_REGISTERS,
    MAX_ROW_REGISTERS,
    MAX_SINGLES,
    MAX_STEPS,
    OTHER_REGISTERS,
    PARKED_ROW_BYTES,
    SHIFTED_REGISTER_BYTES,
    RowFacts,
    parked_steps,
    row_facts,
)
from search.space.schedulers.row_shape import RowShape, row_shape
from search.space.schedulers.row_worthwhile import copies, persistence, redundant, rings, stores
from search.space.space import Space

UNROLLS = (1, 2, 4, 8)

MAX_TURNS = 64
"""Turns of a loop over a row beyond which more threads, or more unrolled steps, read it: but for rows that are longer
than all of them can be."""


def row_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the row scheduler does not refuse."""
    found = row_shape(start(fusion))
    assert isinstance(found, RowShape), "refused fusions have no space"
    f = row_facts(fusion, found, arch, sm_count)
    return Space(
        "row",
        _knobs(fusion, f),
        (
            *_shape(f),
            *_memory(f),
            *_tensor_memory(f),
            *persistence(f),
            *ring_constraints(rings(f)),
            *copies(f),
            *stores(f),
            *redundant(f),
        ),
    )


def _knobs(fusion: Fusion, f: RowFacts) -> tuple[Knob, ...]:
    is_reloaded = f.is_reloaded or f.online_passes == 1 or bool(f.uses_of_tmem)
    return (
        staging_knob("keep", {"registers": True, "shared": f.is_brought, "reload": is_reloaded}),
        f.load_knob,
        store_knob(bulk=f.sent_bytes > 0),
        Knob("vector", tuple(sorted({*f.vectors, *f.shifted_vectors, *f.word_vectors}))),
        rows_begin_knob(f.shifted_vectors, f.word_vectors),
        Knob("threads", _threads(f)),
        Knob("rows", powers_of_two(256)),
        Knob("cluster", f.clusters),
        Knob("unroll", UNROLLS),
        fold_knob(online=f.online_passes > 0),
        Knob("blocks_per_sm", (0, 1, 2, 3) if f.is_brought else (0,)),
        *ring_knobs(3 if f.is_brought else 1),
        Knob("operands", (EARLY, LATE) if f.operand_bytes else (EARLY,)),
        keep_values_knob(f.costly, f.waiting),
        Knob("resident", RESIDENT),
        hint_knob("cache_load", STREAMING),
        hint_knob("cache_store", STREAMING, is_offered=any(o.is_output for o in f.rows.streams)),
        math_knob(fusion),
        Knob("parked", PARKED if f.passes > 1 and f.row_bytes >= PARKED_ROW_BYTES else PARKED[:1]),
        *tmem_knobs(f.uses_of_tmem, "tmem_pattern", "tmem_dimsep"),
    )


def _tensor_memory(f: RowFacts) -> list[Constraint]:
    """Rows that are brought once and read again from tensor memory, where they would be read again from memory; and
    values that are computed once."""
    if not f.uses_of_tmem:
        return []
    axes = ("threads", "rows", "vector", "cluster", "unroll", "rows_begin")

    def steps(threads: Any, vector: Any, cluster: Any, unroll: Any, begin: Any) -> Any:
        return -(-f.places(vector, begin) // (vector * threads * cluster * unroll)) * vector * unroll

    def part(threads: Any, _: Any, *knobs: Any) -> Any:
        return steps(threads, *knobs) * sum(o.nbytes for o in f.placed)

    def of_values(threads: Any, _: Any, vector: Any, cluster: Any, unroll: Any, begin: Any, kept: Any) -> Any:
        nbytes = looked_up("value_bytes", lambda word: sum(f.value_bytes.get(word, ())), kept)
        return steps(threads, vector, cluster, unroll, begin) * nbytes

    def run(_: Any, __: Any, vector: Any, ___: Any, unroll: Any, *____: Any) -> Any:
        return vector * unroll

    def moved(tmem: Any, vector: Any) -> Any:
        able = [v for v in f.vectors if all(f.rows.width(o, v) == v for o in f.placed)]
        return (tmem != STREAMS) | np.isin(vector, able)

    threads = ("threads", "rows")
    widths = tuple(sorted({n for found in f.value_bytes.values() for n in found}))
    knobs = ("blocks_per_sm", ("resident",))
    uses = {
        STREAMS: TmemUse(STREAMS, f.arch, threads, axes, f.placed_widths, part, run, *knobs),
        VALUES: TmemUse(VALUES, f.arch, threads, (*axes, "keep_values"), widths, of_values, run, *knobs),
    }
    return [
        *tmem_constraints(*(uses[what] for what in f.uses_of_tmem)),
        Constraint(
            "redundant_tmem",
            ("tmem", "keep", "rows_begin"),
            lambda tmem, keep, begin: (
                (tmem == NO_TMEM) | (keep == "reload") & (begin == AS_THEY_ARE) | (tmem == VALUES) & (keep == "shared")
            ),
            "A row that is kept nowhere else is kept in tensor memory, and values beside one that is not in registers.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "keep_values", "fold"),
            lambda tmem, values, fold: (tmem != VALUES) | (values != "no") & (fold == APART),
            "Some values are kept in tensor memory: none that is measured from a running maximum.",
        ),
        *without_hints("cache_load", "cache_store"),
        Constraint(
            "redundant_tmem",
            ("tmem", "blocks_per_sm"),
            lambda tmem, blocks: (tmem == NO_TMEM) | (blocks == 0),
            "Blocks that stay load ahead to shared memory.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "keep_values"),
            lambda tmem, values: (tmem != STREAMS) | (values == "no"),
            "With a row in tensor memory no values are kept.",
        ),
        Constraint(
            "tmem_access_moves_whole_words",
            ("tmem", "vector"),
            moved,
            "All of a row's inputs are loaded by vectors, which go to tensor memory as they are.",
        ),
    ]


def _threads(f: RowFacts) -> tuple[int, ...]:
    return tuple(sorted({*f.threads(), *_threads_of_shifted_rows(f)}))


def _threads_of_shifted_rows(f: RowFacts) -> list[int]:
    """Whole warps that cover the widest vectors of a shifted row in so many steps, where they leave few without one."""
    moved = (*f.shifted_vectors, *f.word_vectors)
    if not moved:
        return []
    widest = max(moved)
    count = -(-(f.rows.cols + widest) // widest)
    able = {-(-count // (WARP_THREADS * n)) * WARP_THREADS: n for n in range(MAX_STEPS, 0, -1)}
    most = f.arch.max_threads_per_block
    fit = [t for t, n in able.items() if t <= most and t & (t - 1) and t * n * 3 <= count * 4]
    return sorted(fit, key=lambda t: t * able[t])[:EXACT_THREADS]


def _shape(f: RowFacts) -> list[Constraint]:
    """How threads cover rows."""
    rows = f.rows.rows
    most = max(_threads(f)) * f.clusters[-1] * UNROLLS[-1]
    shifted, words = list(f.shifted_vectors), list(f.word_vectors)

    def begun(begin: Any, vector: Any) -> Any:
        moved = np.where(begin == IN_WORDS, np.isin(vector, words), np.isin(vector, shifted))
        return np.where(begin == AS_THEY_ARE, np.isin(vector, f.vectors), moved)

    def steps_fit(keep: Any, vector: Any, threads: Any, cluster: Any, unroll: Any, begin: Any) -> Any:
        once = vector * threads * cluster
        steps = -(-f.places(vector, begin) // once)
        few = (steps <= MAX_TURNS * unroll) | (threads * cluster * unroll == most)
        looped = (steps > unroll) & few
        short = (steps <= MAX_STEPS) | (steps * vector <= MAX_SINGLES)
        return np.where(keep == "registers", short, (looped | (keep == "shared") & (steps == unroll)))

    def reloaded(keep: Any, threads: Any, fold: Any, tmem: Any = NO_TMEM) -> Any:
        once = (fold == ONLINE) & (f.online_passes == 1) | (f.passes == 1)
        again = f.is_reloaded & (threads >= 4 * WARP_THREADS)
        return (keep != "reload") | once | again | (tmem == STREAMS)

    return [
        Constraint(
            "redundant_vector",
            ("rows_begin", "vector"),
            begun,
            "A vector is as wide as addresses allow where rows begin, or where they are shifted to.",
        ),
        Constraint(
            "redundant_rows_begin",
            ("rows_begin", "keep"),
            lambda begin, keep: (begin == AS_THEY_ARE) | (keep != "shared"),
            "Shifted rows, and words that straddle aligned ones, are loaded by threads.",
        ),
        f.threads_end_with_the_row(),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "vector", "threads", "cluster", "unroll", "rows_begin"),
            steps_fit,
            "A thread has few enough steps to unroll, and a loop has more than one iteration.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("threads", "rows"),
            lambda threads, count: (count == 1) | (threads * count <= 512) & (count < 2 * rows),
            "A block has several rows where they are short.",
        ),
        *f.blocks_have_warps(rows),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "threads", "fold", *(("tmem",) if f.uses_of_tmem else ())),
            reloaded,
            "A row that every pass reads again, of memory, is long: four warps or more read it.",
        ),
        block_fits(f.arch, "threads", "rows"),
    ]


def _memory(f: RowFacts) -> list[Constraint]:
    """Registers and shared memory."""
    cols = f.rows.cols

    def held(
        keep: Any,
        vector: Any,
        threads: Any,
        cluster: Any,
        unroll: Any,
        operands: Any,
        values: Any,
        begin: Any,
        load: Any,
        parked: Any,
    ) -> Any:
        """Registers of a thread that hold parts of rows."""
        once = vector * threads * cluster
        steps = np.where(keep == "registers", -(-f.places(vector, begin) // once), unroll)
        streamed = np.where(keep == "shared", f.streamed - f.staged_bytes(load, vector), f.streamed)
        streamed = np.where(values == "all", np.maximum(streamed, f.waiting), streamed)
        shared = np.where(operands == LATE, 0, f.operand_bytes)
        kept = np.where(values == "yes", 4 * f.costly, 0)
        past = parked_steps(steps, np.where(keep == "registers", parked, 0)) * f.parked_bytes(vector)
        return -(-vector * (steps * (streamed + shared + kept) - past) // 4)

    def needed(*knobs: Any) -> Any:
        """Registers of a thread in all, at the least."""
        vector, begin = (knobs[budget.index(name)] for name in ("vector", "rows_begin"))
        shift = np.where(f.is_shifted(vector, begin), vector * SHIFTED_REGISTER_BYTES // f.narrowest, 0)
        return held(*knobs) + OTHER_REGISTERS + shift

    def smem(keep: Any, load: Any, count: Any, cluster: Any, stages: Any, *knobs: Any) -> Any:
        vector, threads, unroll, store = knobs
        once = vector * threads * unroll
        part = np.where(is_copied(load), -(-cols // (once * cluster)) * once, -(-cols // cluster))
        staged = np.where(keep == "shared", part * f.staged_bytes(load, vector) * stages, 0)
        need = (staged + np.where(store == BULK, sent(vector, threads * unroll, cluster), 0)) * count
        return fit(f.arch, need)

    def sent(vector: Any, threads: Any, cluster: Any) -> Any:
        """Bytes of a row that a block has in shared memory until bulk copies have stored it."""
        once = vector * threads
        return -(-cols // (once * cluster)) * once * f.sent_bytes

    def inside(keep: Any, vector: Any, threads: Any, cluster: Any, unroll: Any, load: Any, fill: Any) -> Any:
        whole = cols % (vector * threads * cluster * unroll) == 0
        runs = (cols % (vector * threads) == 0) & (fill == ELECTED)
        guarded = np.where(cluster == 1, cols % vector == 0, runs)
        return (keep != "shared") | is_copied(load) | whole | guarded

    budget = (
        "keep",
        "vector",
        "threads",
        "cluster",
        "unroll",
        "operands",
        "keep_values",
        "rows_begin",
        "load",
        "parked",
    )

    def parks(keep: Any, vector: Any, threads: Any, cluster: Any, begin: Any, parked: Any) -> Any:
        steps = -(-cols // (vector * threads * cluster))
        part = steps * vector * threads * f.parked_bytes(vector)
        few = (parked_steps(steps, parked) > 0) & (part >= PARKED_ROW_BYTES) & (begin == AS_THEY_ARE)
        return (parked == 0) | (keep == "registers") & few & (f.parked_bytes(vector) > 0)

    def parked_smem(keep: Any, vector: Any, threads: Any, rows: Any, cluster: Any, parked: Any, store: Any) -> Any:
        steps = -(-cols // (vector * threads * cluster))
        need = parked_steps(steps, parked) * vector * threads * rows * f.parked_bytes(vector)
        need = need + np.where(store == BULK, sent(vector, threads, cluster) * rows, 0)
        return (keep != "registers") | fit(f.arch, need)

    def kept(fold: Any, keep: Any, vector: Any, threads: Any, cluster: Any, values: Any, begin: Any) -> Any:
        most = "all" if f.waiting else "yes" if f.costly else "no"
        elems = -(-f.places(vector, begin) // (vector * threads * cluster)) * vector
        few = elems * (f.waiting or 4 * f.costly) // 4 <= FEW_REGISTERS
        return (keep != "registers") | (fold == ONLINE) | (values == most) | ~few

    return [
        Constraint(
            "redundant_keep_values",
            ("fold", "keep", "vector", "threads", "cluster", "keep_values", "rows_begin"),
            kept,
            "The few values of a thread that are read again are kept.",
        ),
        Constraint(
            "redundant_parked",
            ("keep", "vector", "threads", "cluster", "rows_begin", "parked"),
            parks,
            "Some steps of a long row in registers are parked in shared memory, by threads, past their registers.",
        ),
        Constraint(
            "redundant_parked",
            ("keep_values", "parked"),
            lambda values, parked: (parked == 0) | (values == "no"),
            "What is parked is the row as it was loaded; values that are kept are in registers.",
        ),
        Constraint(
            "redundant_parked",
            ("resident", "parked"),
            lambda resident, parked: (parked == 0) | (resident > 0),
            "Steps are parked to make room in the registers for so many threads.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("keep", "vector", "threads", "rows", "cluster", "parked", "store"),
            parked_smem,
            "What the threads of a block park fits its shared memory.",
        ),
        Constraint(
            "registers_in_flight",
            budget,
            lambda *knobs: held(*knobs) <= MAX_ROW_REGISTERS,
            "A thread's part of a row stays in registers.",
        ),
        *register_constraints(f.arch, budget, needed),
        Constraint(
            "shared_memory_fits_the_block",
            ("keep", "load", "rows", "cluster", "stages", "vector", "threads", "unroll", "store"),
            smem,
            "Rows of a block, times stages, fit its shared memory.",
        ),
        *f.brought_rows(f.rows.rows),
        Constraint(
            "staged_rows_are_cut_evenly",
            ("keep", "vector", "threads", "cluster", "unroll", "load", "fill"),
            inside,
            "Bulk copies bring whole vectors; to blocks of a cluster whole steps, as many to each where a warp asks.",
        ),
    ]
