"""Knobs and constraints of the column scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CachePolicy
from compiler.schedule.online import online_sums
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.column_form import ColumnForm, column_form, with_accesses_of
from search.space.schedulers.column_passes import (
    cache_registers,
    is_full,
    is_reduction,
    kept_tensors,
    passes_of,
    reuses,
)
from search.space.schedulers.column_staging import MAX_BOX, UNIT_BYTES, stageable
from search.space.schedulers.flat_space import SMEM_SLACK_BYTES
from search.space.schedulers.pointwise_body import math_grades
from search.space.schedulers.rings import Rings, ring_constraints, ring_knobs
from search.space.space import Space

APART = "apart"
ONLINE = "online"
"""Sums of exponentials are folded in a pass after that of their maximum, or along with it."""

MAX_EXACT_THREADS = 64
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

FIXED_REGISTERS = 12
"""Addresses, indices and counters of a thread: what compiled kernels of this form use beside their tile."""


def column_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the column scheduler does not refuse."""
    b = TraceBuilder(fusion)
    found = column_form(b.sf)
    assert isinstance(found, ColumnForm), "refused fusions have no space"
    cache_registers(b)
    facts = _Facts(b.sf, with_accesses_of(found, b.sf), arch, sm_count, reuses(b.sf))
    return Space(
        "column", _knobs(b, facts), (*_memory(facts), *_staging(facts), *_redundant(facts), *_worthwhile(facts))
    )


@dataclass(frozen=True)
class _Facts:
    """Numbers of a fusion that constraints read."""

    sf: ScheduledFusion
    form: ColumnForm
    arch: Arch
    sm_count: int
    reuses: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Elements that one result folds."""
        return self.form.extent(self.form.folded)

    def columns(self, which: Any) -> Any:
        return self._by_choice(which, lambda name: self.form.extent(self.form.columns(name)))

    def batch(self, which: Any) -> Any:
        return self._by_choice(which, lambda name: self.form.extent(self.form.batch(name)))

    def _by_choice(self, which: Any, of: Any) -> Any:
        return np.where(which == "all", of("all"), of("inner"))

    def blocks(self, which: Any, vector: Any, tx: Any) -> Any:
        """Blocks without clusters."""
        return self.batch(which) * -(-self.columns(which) // (vector * tx))

    @property
    def element_bytes(self) -> int:
        """The widest element of a stream; of a fusion that reads and stores none, a word of a register."""
        return max((a.nbytes for a in self.form.streams), default=4)

    def useful(self, which: str, vector: int) -> bool:
        """True where some stream moves its vector as one word: otherwise fewer columns a thread do as well."""
        return vector == 1 or any(self.form.width(a, which, vector) == vector for a in self.form.streams)

    def staged(self, which: str) -> tuple[str, ...]:
        """Inputs that tensor maps can bring."""
        return stageable(self.form, self.sf, which)

    def staged_bytes(self, which: Any) -> Any:
        """Bytes of one element of all of them."""
        return self._by_choice(which, lambda name: sum(self.sf.tensor(n).dtype.nbytes for n in self.staged(name)))

    @property
    def loaded(self) -> int:
        """Bytes of one element of all full inputs."""
        return sum(a.nbytes for a in self.form.loads)

    def kept(self, reuse: str) -> int:
        """Bytes of one element of the tensors that stay in registers from pass to pass."""
        return sum(self.sf.tensor(name).dtype.nbytes for name in kept_tensors(self.sf, reuse))

    @property
    def accumulators(self) -> int:
        """Bytes of one element of all reductions."""
        return sum(self.sf.tensor(op.output).dtype.nbytes for op in self.sf.ops if is_reduction(op))

    @property
    def constants(self) -> int:
        """Bytes of one element of what is computed once a column, and read in every row."""
        names = [op.output for op in self.sf.ops if not is_reduction(op)]
        found = (
            self.sf.tensor(n)
            for n in names
            if any(is_full(self.sf, self.sf.tensor(c.output)) for c in self.sf.consumers(n))
        )
        return sum(t.dtype.nbytes for t in found if not is_full(self.sf, t))

    @property
    def pass_count(self) -> int:
        return 1 + max((max(p) // 2 for p in passes_of(self.sf).values() if p), default=0)


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(most.bit_length()) if 1 << bit <= most)


def _with_exact(powers: tuple[int, ...], extents: Iterable[int], most: int) -> tuple[int, ...]:
    """Powers of two, and those of the extents that are short."""
    return tuple(sorted({*powers, *(n for n in extents if n <= most)}))


def _knobs(b: TraceBuilder, f: _Facts) -> tuple[Knob, ...]:
    few = f.columns("inner") < FEW_COLUMNS and f.form.extent(f.form.batch("inner")) > 1
    choices = ("inner", "all") if few else ("inner",)
    vectors = tuple(v for v in _powers(16) if any(f.useful(c, v) for c in choices))
    lanes = [int(-(-f.columns(c) // max(v for v in vectors if f.useful(c, v)))) for c in choices]
    hints = (CachePolicy.DEFAULT.value, CachePolicy.STREAMING.value)
    return (
        Knob("columns", choices),
        Knob("load", ("vector", "tma") if f.arch.has_tma and any(f.staged(c) for c in choices) else ("vector",)),
        Knob("vector", vectors),
        Knob("threads_x", _with_exact(_powers(128), lanes, MAX_EXACT_THREADS)),
        Knob("threads_y", _powers(min(512, 2 * f.rows - 1))),
        Knob("rows", _with_exact(_powers(min(32, 2 * f.rows - 1)), (f.rows,), MAX_EXACT_ROWS)),
        Knob("cluster", _powers(min(f.arch.max_cluster_portable, f.rows))),
        *ring_knobs((1, 2, 3, 4) if f.arch.has_tma and any(f.staged(c) for c in choices) else (1,), persistent=False),
        Knob("reuse", f.reuses),
        Knob("fold", (APART, ONLINE) if online_sums(b.sf) else (APART,)),
        Knob("cache_load", hints if f.form.loads else hints[:1]),
        Knob("cache_store", hints if f.form.stores else hints[:1]),
        Knob("math", math_grades(b)),
        Knob("registers", (0, 32)),
    )


def _memory(f: _Facts) -> list[Constraint]:
    """What a block can have."""

    def threads(tx: Any, ty: Any) -> Any:
        return tx * ty <= f.arch.max_threads_per_block

    def shared(vector: Any, tx: Any, ty: Any, cluster: Any) -> Any:
        blocks = np.where(cluster > 1, cluster, 0)
        partials = np.where(ty > 1, ty, 0) + blocks
        return vector * tx * partials * f.accumulators <= f.arch.smem_per_block_optin_bytes

    def resident(reuse: Any, rows: Any, ty: Any, cluster: Any) -> Any:
        return (reuse == "read_again") | (rows * ty * cluster >= f.rows) | (f.pass_count == 1)

    return [
        Constraint(
            "block_fits_the_architecture", ("threads_x", "threads_y"), threads, "A block has at most 1024 threads."
        ),
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


def _staging(f: _Facts) -> list[Constraint]:
    """Rows that tensor maps bring."""
    least = min((f.sf.tensor(n).dtype.nbytes for n in f.staged("inner") or f.staged("all")), default=1)

    def able(load: Any, which: Any) -> Any:
        return (load != "tma") | (f.staged_bytes(which) > 0)

    def box(load: Any, vector: Any, tx: Any, ty: Any, rows: Any) -> Any:
        return (load != "tma") | (vector * tx <= MAX_BOX) & (ty * rows <= MAX_BOX)

    def inner(load: Any, vector: Any, tx: Any) -> Any:
        return (load != "tma") | (vector * tx * least % UNIT_BYTES == 0)

    def smem(load: Any, which: Any, vector: Any, tx: Any, ty: Any, rows: Any, stages: Any, cluster: Any) -> Any:
        tile = vector * tx * ty * rows * f.staged_bytes(which) * stages * np.where(f.pass_count > 1, f.pass_count, 1)
        partials = vector * tx * (ty + cluster) * f.accumulators
        need = tile + partials + SMEM_SLACK_BYTES
        return (load != "tma") | (need <= f.arch.smem_per_block_optin_bytes)

    def turns(load: Any, ty: Any, rows: Any, cluster: Any, stages: Any) -> Any:
        return (load != "tma") | (stages > 1) & (ty * rows * cluster * stages <= f.rows)

    rings = Rings(f.arch, ("load",), lambda load: load == "tma", ("threads_x", "threads_y"))
    return [
        Constraint(
            "redundant_load",
            ("load", "columns"),
            able,
            "Some input has rows of a multiple of 16 bytes, and columns that are one run: a tensor map brings it.",
        ),
        Constraint(
            "tensor_map_boxes_are_1_to_256",
            ("load", "vector", "threads_x", "threads_y", "rows"),
            box,
            "A box has at most 256 elements in a dimension.",
        ),
        Constraint(
            "tensor_map_inner_box_is_a_multiple_of_16_bytes",
            ("load", "vector", "threads_x"),
            inner,
            "The inner box is a multiple of 16 bytes.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("load", "columns", "vector", "threads_x", "threads_y", "rows", "stages", "cluster"),
            smem,
            "Tiles, times stages, and partial results fit the block's shared memory.",
        ),
        Constraint(
            "redundant_load",
            ("load", "threads_y", "rows", "cluster", "stages"),
            turns,
            "A ring has two stages or more, and each of them a step.",
        ),
        Constraint(
            "redundant_cache_load",
            ("load", "cache_load"),
            lambda load, cache: (load != "tma") | (cache == CachePolicy.DEFAULT.value),
            "Bulk copies take no thread cache hint.",
        ),
        *ring_constraints(rings),
    ]


def _redundant(f: _Facts) -> list[Constraint]:
    """Choices that only repeat another point."""

    def vector(which: Any, width: Any) -> Any:
        return f._by_choice(which, lambda name: np.vectorize(lambda v: f.useful(name, int(v)), otypes=[bool])(width))

    def capped(registers: Any, tx: Any, ty: Any) -> Any:
        # ptxas never gives a block more than it can launch with (CUDA guide, launch bounds).
        most = f.arch.registers_per_sm // np.maximum(tx * ty, 1)
        return (registers == 0) | (registers < most)

    return [
        Constraint("redundant_vector", ("columns", "vector"), vector, "No stream moves so many columns as one word."),
        Constraint(
            "redundant_reuse",
            ("fold", "reuse"),
            lambda fold, reuse: (fold == APART) | (reuse != "values"),
            "What is measured from a running maximum is no value that a later pass could use.",
        ),
        Constraint(
            "redundant_register_cap",
            ("registers", "threads_x", "threads_y"),
            capped,
            "The size of the block caps registers already.",
        ),
    ]


def _worthwhile(f: _Facts) -> list[Constraint]:
    """What cannot be fast: spills, idle threads, exchanges for nothing."""

    def registers(vector: Any, rows: Any, reuse: Any, cap: Any) -> Any:
        kept = np.select([reuse == name for name in f.reuses], [f.kept(name) for name in f.reuses], 0)
        tile = vector * (rows * np.maximum(f.loaded, kept) + f.accumulators + f.constants + 4)
        limit = np.where(cap == 0, MAX_TILE_BYTES, 4 * np.maximum(cap - FIXED_REGISTERS, 0))
        return (tile <= limit) | (vector * rows == 1) & (cap == 0)

    def covers(which: Any, vector: Any, tx: Any) -> Any:
        return (vector * tx < 2 * f.columns(which)) & ((tx == 1) | (vector * (tx // 2) < f.columns(which)))

    def rows_inside(ty: Any, rows: Any, cluster: Any) -> Any:
        return (ty * rows * cluster < 2 * f.rows) | (ty * rows * cluster == 1)

    def enough(which: Any, vector: Any, tx: Any, ty: Any) -> Any:
        # All that there is, where a block cannot have more.
        whole = (vector * tx >= f.columns(which)) & (ty >= f.rows)
        return (tx * ty >= MIN_THREADS) | whole

    def split(which: Any, vector: Any, tx: Any, cluster: Any) -> Any:
        return (cluster == 1) | (f.blocks(which, vector, tx) * cluster <= MAX_BLOCKS_PER_SM * f.sm_count)

    def sectors(which: Any, vector: Any, tx: Any) -> Any:
        narrow = np.minimum(vector * tx, f.columns(which)) * f.element_bytes
        return (narrow >= 32) | (vector * tx >= f.columns(which))

    return [
        Constraint(
            "registers_in_flight",
            ("vector", "rows", "reuse", "registers"),
            registers,
            "Rows in flight, what is kept of them and accumulators stay in registers.",
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
            rows_inside,
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
            ("columns", "vector", "threads_x", "cluster"),
            split,
            "Clusters split a fold where columns alone do not fill the card.",
        ),
    ]
