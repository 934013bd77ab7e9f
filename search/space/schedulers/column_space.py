"""Knobs and constraints of the column scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, BULK_SMEM_ALIGN, TENSOR_MAP_BOX, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.online import online_sums
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint, measured
from search.space.expressions import looked_up
from search.space.groups import (
    APART,
    MOST_FIRST,
    NO_TMEM,
    READ_AGAIN,
    SHARED,
    STREAMING,
    TMA,
    VALUES,
    VECTOR,
    WORDS,
    Rings,
    block_fits,
    boxes_fit,
    fit,
    fold_knob,
    hint_knob,
    inner_boxes_are_whole,
    is_mapped,
    launchable_registers,
    load_knob,
    math_knob,
    no_hint,
    register_cap,
    ring_constraints,
    ring_knobs,
    tmem_knobs,
)
from search.space.knobs import Knob, powers_of_two
from search.space.schedulers.column_facts import ColumnFacts
from search.space.schedulers.column_form import ColumnForm, column_form, with_accesses_of
from search.space.schedulers.column_passes import cache_registers, reuses
from search.space.schedulers.column_tmem import columns_in_tmem, passes_that_load
from search.space.schedulers.column_words import word_constraints
from search.space.space import Space

MAX_EXACT_THREADS = 128
MAX_EXACT_ROWS = 16
"""Up to so many columns, or rows, a block may also take exactly all of them."""

MIN_THREADS = 64
"""Below two warps a block, blocks run out before the threads of a multiprocessor do (32 blocks, 2048 threads: CUDA
guide, technical specifications)."""

FEW_COLUMNS = 512
"""Below so many columns in a row, columns of several batches may lie side by side in a block."""

MAX_BLOCKS_PER_SM = 16
"""Beyond so many blocks for each multiprocessor without clusters, a cluster only adds its exchange."""

MAX_TILE_BYTES = 4 * 128
"""Register bytes of the rows that a thread loads ahead, or keeps, and of its accumulators."""

MAX_BOXES = 64
"""Copies by which one thread asks for all rows of a block: more take longer to issue than rows to arrive (27 ns each,
`search.cost.model`)."""

LONG_TILE_BYTES = 16 * 1024
"""Rows and columns of a block that keeps them, in bytes, beyond which they are spread over more blocks of a cluster,
however many blocks there are: of small ones some load while others fold or store. Measured on an H200, softmax over the
middle of 64x1000x1023 bf16, kept in registers: 99 us with blocks of 16 KiB, 110 with 32, 140 with 64; of 64x1000x1024,
in shared memory: 67 us with 32 KiB, 68 with 64."""

FIXED_REGISTERS = 12
"""Addresses, indices and counters of a thread: what compiled kernels of this form use beside their tile."""


def column_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the column scheduler does not refuse."""
    b = TraceBuilder(fusion)
    found = column_form(b.sf)
    assert isinstance(found, ColumnForm), "refused fusions have no space"
    cache_registers(b)
    facts = ColumnFacts(b.sf, with_accesses_of(found, b.sf), arch, sm_count, reuses(b.sf))
    return Space(
        "column",
        _knobs(fusion, facts),
        (
            *_memory(facts),
            *_staging(facts),
            *columns_in_tmem(facts),
            *_redundant(facts),
            *measured("H200", facts.arch, _worthwhile(facts)),
        ),
    )


def _with_exact(powers: tuple[int, ...], extents: Iterable[int], most: int) -> tuple[int, ...]:
    """Powers of two, and those of the extents that are short."""
    return tuple(sorted({*powers, *(n for n in extents if n <= most)}))


def _knobs(fusion: Fusion, f: ColumnFacts) -> tuple[Knob, ...]:
    few = f.columns("inner") < FEW_COLUMNS and f.form.extent(f.form.batch("inner")) > 1
    choices = ("inner", "all") if few else ("inner",)
    aligned = tuple(v for v in powers_of_two(16) if any(f.useful(c, v) for c in choices))
    words = tuple(v for v in powers_of_two(16) if any(f.straddles(c, v) for c in choices))
    vectors = tuple(sorted({*aligned, *words}))
    is_staged = f.arch.has_tma and any(f.staged(c) for c in choices)
    lanes = [int(-(-f.columns(c) // max(v for v in aligned if f.useful(c, v)))) for c in choices]
    return (
        Knob("columns", choices),
        load_knob({VECTOR: True, WORDS: bool(words), TMA: is_staged}),
        Knob("vector", vectors),
        Knob("threads_x", _with_exact(powers_of_two(128), lanes, MAX_EXACT_THREADS)),
        Knob("threads_y", powers_of_two(min(512, 2 * f.rows - 1))),
        Knob("rows", _with_exact(powers_of_two(min(32, 2 * f.rows - 1)), (f.rows,), MAX_EXACT_ROWS)),
        Knob("cluster", powers_of_two(min(f.most_blocks, f.rows))),
        *ring_knobs(4 if is_staged else 1, persistent=False),
        Knob("reuse", (*f.reuses, SHARED) if f.is_staged_once else f.reuses),
        fold_knob(online=bool(online_sums(f.sf))),
        hint_knob("cache_load", STREAMING, is_offered=bool(f.form.loads)),
        hint_knob("cache_store", STREAMING, is_offered=bool(f.form.stores)),
        math_knob(fusion),
        Knob("resident", MOST_FIRST if f.pass_count > 1 else MOST_FIRST[:2]),
        *tmem_knobs(f.uses_of_tmem, "tmem_pattern", "tmem_dimsep"),
    )


def _memory(f: ColumnFacts) -> list[Constraint]:
    """What a block can have."""

    def shared(vector: Any, tx: Any, ty: Any, cluster: Any) -> Any:
        blocks = np.where(cluster > 1, cluster, 0)
        partials = np.where(ty > 1, ty, 0) + blocks
        return vector * tx * partials * f.accumulators <= f.arch.smem_per_block_optin_bytes

    def resident(reuse: Any, rows: Any, ty: Any, cluster: Any) -> Any:
        return np.isin(reuse, (READ_AGAIN, SHARED)) | (rows * ty * cluster >= f.rows) | (f.pass_count == 1)

    return [
        block_fits(f.arch, "threads_x", "threads_y"),
        Constraint(
            "partials_fit_shared_memory",
            ("vector", "threads_x", "threads_y", "cluster"),
            shared,
            "Partial results of all threads lie in shared memory.",
        ),
        Constraint(
            "register_axes_are_unrolled",
            ("reuse", "rows", "threads_y", "cluster"),
            resident,
            "What is kept from pass to pass is in registers: a thread takes all its rows at once.",
        ),
    ]


def _staging(f: ColumnFacts) -> list[Constraint]:
    """Rows that tensor maps bring."""
    least = min((f.sf.tensor(n).dtype.nbytes for n in f.staged("inner") or f.staged("all")), default=1)
    kept = ("tmem",) if f.uses_of_tmem else ()

    def box(load: Any, vector: Any, tx: Any, ty: Any, rows: Any) -> Any:
        return ~is_mapped(load) | (vector * tx <= TENSOR_MAP_BOX) & (ty * rows <= TENSOR_MAP_BOX)

    def inner(load: Any, vector: Any, tx: Any) -> Any:
        return ~is_mapped(load) | (vector * tx * least % BULK_BYTES == 0)

    def whole(load: Any, vector: Any, tx: Any, ty: Any, rows: Any) -> Any:
        return ~is_mapped(load) | (vector * tx * ty * rows * least % BULK_SMEM_ALIGN == 0)

    def smem(
        reuse: Any, load: Any, which: Any, vector: Any, tx: Any, ty: Any, rows: Any, stages: Any, n: Any, *tmem: Any
    ) -> Any:
        turning = ty * rows * stages * passes_that_load(f, *tmem)
        held = np.where(reuse == SHARED, f.shared_rows(rows, ty, n), turning)
        tile = vector * tx * held * f.staged_bytes(which)
        partials = vector * tx * (ty + n) * f.accumulators
        return ~is_mapped(load) | fit(f.arch, tile + partials)

    def turns(reuse: Any, load: Any, ty: Any, rows: Any, cluster: Any, stages: Any) -> Any:
        ring = (stages > 1) & (ty * rows * cluster * stages <= f.rows)
        return ~is_mapped(load) | (reuse == SHARED) | ring

    def boxes(reuse: Any, ty: Any, rows: Any, cluster: Any) -> Any:
        return (reuse != SHARED) | (f.shared_rows(rows, ty, cluster) <= MAX_BOXES * ty * rows)

    rings = Rings(f.arch, ("load",), is_mapped, ("threads_x", "threads_y"))
    return [
        Constraint(
            "redundant_load",
            ("load", "columns"),
            lambda load, which: ~is_mapped(load) | (f.staged_bytes(which) > 0),
            "Some input has rows of a multiple of 16 bytes, and columns that are one run: a tensor map brings it.",
        ),
        boxes_fit(("load", "vector", "threads_x", "threads_y", "rows"), box),
        inner_boxes_are_whole(("load", "vector", "threads_x"), inner),
        Constraint(
            "staged_loads_are_long",
            ("load", "vector", "threads_x", "threads_y", "rows"),
            whole,
            "Tiles of a step lie behind each other, each from a multiple of 128 bytes on (CUDA guide, tensor copies).",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("reuse", "load", "columns", "vector", "threads_x", "threads_y", "rows", "stages", "cluster", *kept),
            smem,
            "Tiles, times stages, or all rows of a block, and partial results fit its shared memory.",
        ),
        Constraint(
            "redundant_load",
            ("reuse", "load", "threads_y", "rows", "cluster", "stages"),
            turns,
            "A ring has two stages or more, and each of them a step.",
        ),
        Constraint(
            "redundant_stages",
            ("reuse", "load", "stages"),
            lambda reuse, load, stages: (reuse != SHARED) | is_mapped(load) & (stages == 1),
            "Rows that stay in shared memory are brought by tensor maps, and no ring turns.",
        ),
        Constraint(
            "few_boxes",
            ("reuse", "threads_y", "rows", "cluster"),
            boxes,
            "One thread asks for all rows of a block in a few copies.",
        ),
        no_hint("cache_load", ("load",), is_mapped),
        *ring_constraints(rings),
    ]


def _redundant(f: ColumnFacts) -> list[Constraint]:
    """Choices that only repeat another point."""

    def vector(which: Any, width: Any, load: Any) -> Any:
        def useful(name: str) -> Any:
            return looked_up(f"useful_{name}", partial(f.useful, name), width)

        return (load == WORDS) | f.by_choice(which, useful)

    def capped(threads_of_sm: Any, tx: Any, ty: Any) -> Any:
        # ptxas never gives a block more than it can launch with (CUDA guide, launch bounds).
        most = f.arch.registers_per_sm // np.maximum(tx * ty, 1)
        return (threads_of_sm == 0) | (register_cap(threads_of_sm, tx * ty) < most)

    return [
        Constraint(
            "redundant_vector", ("columns", "vector", "load"), vector, "No stream moves so many columns as one word."
        ),
        *word_constraints(f.form, f.sf),
        Constraint(
            "redundant_reuse",
            ("fold", "reuse"),
            lambda fold, reuse: (fold == APART) | (reuse != "values"),
            "What is measured from a running maximum is no value that a later pass could use.",
        ),
        Constraint(
            "redundant_register_cap",
            ("resident", "threads_x", "threads_y"),
            capped,
            "The size of the block caps registers already.",
        ),
    ]


def _worthwhile(f: ColumnFacts) -> list[Constraint]:
    """What cannot be fast: spills, idle threads, exchanges for nothing."""
    passing = ("tmem",) if f.uses_of_tmem else ()

    def tile(vector: Any, rows: Any, reuse: Any, load: Any, tmem: Any = NO_TMEM) -> Any:
        """Bytes of the rows of a thread, what is kept of them, or on its way, and its accumulators."""
        kept = np.select([reuse == name for name in f.reuses], [f.kept(name) for name in f.reuses], 0)
        kept = np.where(tmem == VALUES, np.maximum(kept, sum(f.tmem_widths.get(VALUES, ()))), kept)
        loaded = np.where(load == WORDS, 2 * f.loaded, f.loaded)  # both words that one straddles
        return vector * (rows * np.maximum(loaded, kept) + f.accumulators + f.constants + 4)

    def registers(vector: Any, rows: Any, reuse: Any, load: Any, resident: Any, tx: Any, ty: Any, *tmem: Any) -> Any:
        capped = 4 * np.maximum(register_cap(resident, tx * ty) - FIXED_REGISTERS, 0)
        limit = np.where(resident == 0, MAX_TILE_BYTES, capped)
        return (tile(vector, rows, reuse, load, *tmem) <= limit) | (vector * rows == 1) & (resident == 0)

    def launched(vector: Any, rows: Any, reuse: Any, load: Any, tx: Any, ty: Any, *tmem: Any) -> Any:
        most = 4 * launchable_registers(f.arch, tx * ty)
        return (tile(vector, rows, reuse, load, *tmem) <= most) | (vector * rows == 1) & (tx * ty <= MIN_THREADS)

    def covers(which: Any, vector: Any, tx: Any) -> Any:
        return (vector * tx < 2 * f.columns(which)) & ((tx == 1) | (vector * (tx // 2) < f.columns(which)))

    def enough(which: Any, vector: Any, tx: Any, ty: Any) -> Any:
        # All that there is, where a block cannot have more.
        whole = (vector * tx >= f.columns(which)) & (ty >= f.rows)
        return (tx * ty >= MIN_THREADS) | whole

    def split(reuse: Any, which: Any, vector: Any, tx: Any, cluster: Any, tmem: Any = NO_TMEM) -> Any:
        stays = ((reuse != READ_AGAIN) | (tmem != NO_TMEM)) & (f.pass_count > 1)
        long = stays & (_tile(vector, tx, cluster // 2) > LONG_TILE_BYTES)
        return (cluster == 1) | long | (f.blocks(which, vector, tx) * cluster <= MAX_BLOCKS_PER_SM * f.sm_count)

    def sixteen(reuse: Any, vector: Any, tx: Any, cluster: Any) -> Any:
        portable = f.arch.max_cluster_portable
        return (cluster <= portable) | (reuse != READ_AGAIN) & (_tile(vector, tx, portable) > LONG_TILE_BYTES)

    def _tile(vector: Any, tx: Any, cluster: Any) -> Any:
        """Bytes of a slab that a block of a cluster reads."""
        return -(-f.rows // np.maximum(cluster, 1)) * vector * tx * f.loaded

    def sectors(which: Any, vector: Any, tx: Any) -> Any:
        narrow = np.minimum(vector * tx, f.columns(which)) * f.element_bytes
        return (narrow >= 32) | (vector * tx >= f.columns(which))

    return [
        Constraint(
            "registers_in_flight",
            ("vector", "rows", "reuse", "load", "resident", "threads_x", "threads_y", *passing),
            registers,
            "Rows in flight, what is kept of them and accumulators stay in registers.",
        ),
        Constraint(
            "tile_fits_the_registers_of_a_thread",
            ("vector", "rows", "reuse", "load", "threads_x", "threads_y", *passing),
            launched,
            "What a thread holds of its rows fits the registers that it can be launched with.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("columns", "vector", "threads_x"),
            covers,
            "A slab of columns is not twice as wide as all columns.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("threads_y", "rows", "cluster"),
            lambda ty, rows, cluster: (ty * rows * cluster < 2 * f.rows) | (ty * rows * cluster == 1),
            "The rows of a step are not twice all rows.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("columns", "vector", "threads_x", "threads_y"),
            enough,
            "A block has two warps at least, unless it has all columns and rows.",
        ),
        Constraint(
            "scattered_access",
            ("columns", "vector", "threads_x"),
            sectors,
            "A row of a slab is a sector of 32 bytes at least, or all columns.",
        ),
        Constraint(
            "cluster_is_needed",
            ("reuse", "columns", "vector", "threads_x", "cluster", *passing),
            split,
            "Clusters split a fold where columns do not fill the card, or rows would fill a block that keeps them.",
        ),
        Constraint(
            "cluster_is_needed",
            ("reuse", "vector", "threads_x", "cluster"),
            sixteen,
            "Rows are spread over sixteen blocks where they would fill eight: they find room on fewer multiprocessors.",
        ),
    ]
