"""Knobs and constraints of the row scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CachePolicy
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.flat_space import SMEM_SLACK_BYTES
from search.space.schedulers.pointwise_body import math_grades
from search.space.schedulers.row_passes import bytes_between_passes, costly_values, passes_of, repeated_values
from search.space.schedulers.row_shape import VECTORS, RowOperand, RowShape, row_shape
from search.space.space import Space

KEEPS = ("registers", "shared", "reload")

MAX_ROW_REGISTERS = 48
"""Registers of a thread that hold its part of a row: what is computed of it takes as many again, and 128 in all leave
room for 512 threads a multiprocessor (65536 registers)."""

FEW_REGISTERS = 16
"""Registers of a thread up to which values that are read again are kept: the compiler then keeps them unasked, and both
values of the knob make one kernel."""

MAX_STEPS = 16
"""Unrolled steps of a thread: more only lengthen the code. A thread has loads enough in flight long before (nvFuser,
normalization: 10 to 12 vectors)."""

MAX_SINGLES = 32
"""Elements of a thread that are unrolled where they are moved one by one, or by two: rows of an odd pitch."""

OTHER_REGISTERS = 8
"""Registers of a thread beside its part of a row, at the least: addresses, partial results, temporaries. ptxas makes do
with so few where it is told to; what spills is found when it is compiled."""

RESIDENT = (0, 1024, 1536, 2048)
"""Threads of a multiprocessor that a cap on registers makes room for; 0 for no cap."""

REGISTERS_PER_SM = 65536

MAX_REGISTERS = 248
"""Largest cap in units of 8: a thread has at most 255."""

WARP = 32

EXACT_THREADS = 3
"""Numbers of threads beside powers of two that are tried: those by which a row is cut without a rest."""

CLUSTER_ROW_BYTES = 16 * 1024
"""Rows below are not spread over a cluster: a block holds them, and an exchange between blocks costs 0.2 to 0.5 us."""

RELOAD_ROW_BYTES = 32 * 1024
"""Rows below are not read twice: a block holds them in registers, and is one of several on its multiprocessor."""

FEW_ROWS = 2
"""Rows for each multiprocessor below which rows of any length may be spread: a block for each would leave some idle."""

CACHE_LOADS = (CachePolicy.DEFAULT.value, CachePolicy.STREAMING.value)
CACHE_STORES = (CachePolicy.DEFAULT.value, CachePolicy.STREAMING.value)


def row_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the row scheduler does not refuse."""
    found = row_shape(start(fusion))
    assert isinstance(found, RowShape), "refused fusions have no space"
    f = _facts(fusion, found, arch, sm_count)
    return Space("row", _knobs(fusion, f), (*_shape(f), *_memory(f), *_persistence(f), *_redundant(f)))


def steps_of(cols: int, point: Mapping[str, Any]) -> int:
    """Vectors of a row that a thread has."""
    return -(-cols // int(point["vector"] * point["threads"] * point["cluster"]))


def blocks_of(resident: Any, threads: Any) -> Any:
    """Blocks of so many threads that come nearest to the threads asked of a multiprocessor."""
    return (resident + threads // 2) // threads


def register_cap(resident: Any, threads: Any) -> Any:
    """Registers of a thread with which those blocks fit, in units of 8 (cuda_occupancy.h)."""
    blocks = np.maximum(blocks_of(resident, threads), 1)
    return np.minimum(REGISTERS_PER_SM // (blocks * threads) // 8 * 8, MAX_REGISTERS)


@dataclass(frozen=True)
class _Facts:
    """Numbers of a fusion that constraints read.

    `streamed`: bytes of one element of every streamed input; `operand_bytes`: of the inputs that all rows share;
    `costly`: values that are worth keeping; `waiting`: bytes of one place of a row that wait for a later pass where
    every value that is read again is kept, 0 where those are the costly ones; `passes`: over a row.
    """

    rows: RowShape
    arch: Arch
    sm_count: int
    streamed: int
    operand_bytes: int
    costly: int
    waiting: int
    passes: int

    @property
    def staged(self) -> tuple[RowOperand, ...]:
        """Inputs that bulk copies can bring."""
        return tuple(o for o in self.rows.loaded if self.rows.is_staged(o))

    @property
    def staged_bytes(self) -> int:
        return sum(o.nbytes for o in self.staged)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Elements by which some streamed operand can be moved: the two widest, and the widest word of the operand
        that takes the fewest, so that a thread need not hold many of those."""
        able = [[v for v in VECTORS if self.rows.width(o, v) == v] for o in self.rows.streams]
        fit = sorted({v for vectors in able for v in vectors})
        fewest = min((max(vectors, default=1) for vectors in able), default=1)
        return tuple(sorted({fewest, *fit[-2:]}))

    @property
    def row_bytes(self) -> int:
        return self.rows.cols * max(self.streamed, 1)

    @property
    def is_reloaded(self) -> bool:
        """True if a row may be read from memory in every pass: it has one pass, is long, or fits no block."""
        part = -(-self.rows.cols // self.arch.max_threads_per_block)
        fits = part * self.streamed <= 4 * MAX_ROW_REGISTERS and part <= max(MAX_STEPS * max(self.vectors), MAX_SINGLES)
        return self.passes == 1 or self.row_bytes >= RELOAD_ROW_BYTES or not fits


def _facts(fusion: Fusion, rows: RowShape, arch: Arch, sm_count: int) -> _Facts:
    b = TraceBuilder(fusion)
    rank = len(rows.shape)
    loads = [o for o in rows.operands if not o.is_output and o.in_rows]
    costly, repeated = (set(values(b, rows.folded, rank)) for values in (costly_values, repeated_values))
    streams = [o.name for o in rows.loaded]
    return _Facts(
        rows,
        arch,
        sm_count,
        streamed=sum(o.nbytes for o in rows.loaded),
        operand_bytes=sum(o.nbytes for o in loads if o not in rows.loaded),
        costly=len(costly),
        waiting=0 if costly == repeated else bytes_between_passes(b, rows.folded, rank, repeated, streams),
        passes=passes_of(b, rows.folded, rank).count,
    )


def _powers(most: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(most.bit_length()))


def _threads(f: _Facts) -> tuple[int, ...]:
    """Powers of two, and the largest numbers of whole warps that divide the vectors of a row without a rest."""
    powers = _powers(f.arch.max_threads_per_block)
    vectors = [f.rows.cols // v for v in f.vectors if f.rows.cols % v == 0]
    warps = range(f.arch.max_threads_per_block // WARP, 2, -1)
    exact = [WARP * w for w in warps if any(n % (WARP * w) == 0 for n in vectors) and WARP * w not in powers]
    return tuple(sorted((*powers, *exact[:EXACT_THREADS])))


def _knobs(fusion: Fusion, f: _Facts) -> tuple[Knob, ...]:
    able = {"registers": True, "shared": f.arch.has_tma and bool(f.staged), "reload": f.is_reloaded}
    keeps = tuple(k for k in KEEPS if able[k])
    large = f.arch.has_tma and (f.row_bytes >= CLUSTER_ROW_BYTES or f.rows.rows < FEW_ROWS * f.sm_count)
    clusters = (1, 2, 4, 8) if large else (1,)
    return (
        Knob("keep", keeps),
        Knob("vector", f.vectors),
        Knob("threads", _threads(f)),
        Knob("rows", _powers(256)),
        Knob("cluster", clusters),
        Knob("unroll", (1, 2, 4, 8)),
        Knob("blocks_per_sm", (0, 1, 2, 3) if "shared" in keeps else (0,)),
        Knob("stages", (1, 2, 3) if "shared" in keeps else (1,)),
        Knob("operands", ("early", "late") if f.operand_bytes else ("early",)),
        Knob("keep_values", ("no", *["yes"] * (f.costly > 0), *["all"] * (f.waiting > 0))),
        Knob("resident", RESIDENT),
        Knob("cache_load", CACHE_LOADS),
        Knob("cache_store", CACHE_STORES if any(o.is_output for o in f.rows.streams) else CACHE_STORES[:1]),
        Knob("math", math_grades(TraceBuilder(fusion))),
    )


def _shape(f: _Facts) -> list[Constraint]:
    """How threads cover rows."""
    cols, rows = f.rows.cols, f.rows.rows
    least = min(f.vectors)

    def covered(vector: Any, threads: Any, cluster: Any) -> Any:
        whole = vector * threads * cluster
        return (whole < 2 * cols) | ((threads == 1) & (cluster == 1) & (vector == least))

    def steps_fit(keep: Any, vector: Any, threads: Any, cluster: Any, unroll: Any) -> Any:
        once = vector * threads * cluster
        steps = -(-cols // once)
        looped = (steps > unroll) & (steps <= 64 * unroll)
        short = (steps <= MAX_STEPS) | (steps * vector <= MAX_SINGLES)
        return np.where(keep == "registers", short, (looped | (keep == "shared") & (steps == unroll)))

    def block(threads: Any, count: Any) -> Any:
        return (count == 1) | (threads * count <= 512) & (count < 2 * rows)

    def small(threads: Any, count: Any) -> Any:
        return (threads * count >= 64) | (count >= rows)

    def spread(threads: Any, count: Any, cluster: Any) -> Any:
        return (cluster == 1) | (count == 1) & (threads >= 128)

    return [
        Constraint(
            "tile_exceeds_the_problem",
            ("vector", "threads", "cluster"),
            covered,
            "Threads along a row are not twice its vectors.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "vector", "threads", "cluster", "unroll"),
            steps_fit,
            "A thread has few enough steps to unroll, and a loop has more than one iteration.",
        ),
        Constraint(
            "tile_exceeds_the_problem", ("threads", "rows"), block, "A block has several rows where they are short."
        ),
        Constraint("threads_cover_the_tile", ("threads", "rows"), small, "A block has two warps where rows suffice."),
        Constraint(
            "threads_cover_the_tile",
            ("threads", "rows", "cluster"),
            spread,
            "A cluster has one row, and blocks of four warps.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "threads"),
            lambda keep, threads: (keep != "reload") | (f.passes == 1) | (threads >= 4 * WARP),
            "A row that is read in every pass is long: four warps or more read it.",
        ),
        Constraint(
            "block_fits_the_architecture",
            ("threads", "rows"),
            lambda threads, count: threads * count <= f.arch.max_threads_per_block,
            "A block has at most 1024 threads.",
        ),
    ]


def _memory(f: _Facts) -> list[Constraint]:
    """Registers and shared memory."""
    cols = f.rows.cols

    def held(keep: Any, vector: Any, threads: Any, cluster: Any, unroll: Any, operands: Any, values: Any) -> Any:
        """Registers of a thread that hold parts of rows."""
        steps = np.where(keep == "registers", -(-cols // (vector * threads * cluster)), unroll)
        streamed = np.where(keep == "shared", f.streamed - f.staged_bytes, f.streamed)
        streamed = np.where(values == "all", np.maximum(streamed, f.waiting), streamed)
        shared = np.where(operands == "late", 0, f.operand_bytes)
        kept = np.where(values == "yes", 4 * f.costly, 0)
        return -(-steps * vector * (streamed + shared + kept) // 4)

    def registers(*knobs: Any) -> Any:
        return held(*knobs) <= MAX_ROW_REGISTERS

    def capped(resident: Any, count: Any, keep: Any, vector: Any, threads: Any, *knobs: Any) -> Any:
        need = held(keep, vector, threads, *knobs) + OTHER_REGISTERS
        return (resident == 0) | (need <= register_cap(resident, threads * count))

    def several(resident: Any, threads: Any, count: Any) -> Any:
        blocks = blocks_of(resident, threads * count)
        inside = (blocks * threads * count <= f.arch.max_threads_per_sm) & (blocks <= f.arch.max_blocks_per_sm)
        return (resident == 0) | (blocks >= 2) & inside

    def smem(keep: Any, count: Any, cluster: Any, stages: Any) -> Any:
        need = -(-cols // cluster) * f.staged_bytes * count * stages
        return (keep != "shared") | (need + SMEM_SLACK_BYTES <= f.arch.smem_per_block_optin_bytes)

    def inside(keep: Any, vector: Any, threads: Any, cluster: Any, unroll: Any) -> Any:
        return (keep != "shared") | (cols % (vector * threads * cluster * unroll) == 0)

    budget = ("keep", "vector", "threads", "cluster", "unroll", "operands", "keep_values")

    def kept(keep: Any, vector: Any, threads: Any, cluster: Any, values: Any) -> Any:
        most = "all" if f.waiting else "yes" if f.costly else "no"
        elems = -(-cols // (vector * threads * cluster)) * vector
        few = elems * (f.waiting or 4 * f.costly) // 4 <= FEW_REGISTERS
        return (keep != "registers") | (values == most) | ~few

    return [
        Constraint(
            "redundant_keep_values",
            ("keep", "vector", "threads", "cluster", "keep_values"),
            kept,
            "The few values of a thread that are read again are kept.",
        ),
        Constraint("registers_in_flight", budget, registers, "A thread's part of a row stays in registers."),
        Constraint(
            "registers_in_flight",
            ("resident", "rows", *budget),
            capped,
            "A cap leaves room for a thread's part of a row.",
        ),
        Constraint(
            "registers_in_flight",
            ("resident", "threads", "rows"),
            several,
            "A cap lets two blocks or more share a multiprocessor.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("keep", "rows", "cluster", "stages"),
            smem,
            "Rows of a block, times stages, fit its shared memory.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("keep", "rows"),
            lambda keep, count: (keep != "shared") | (f.rows.rows % count == 0),
            "Threads read no row from shared memory that is not there: the rows of a block divide the rows.",
        ),
        Constraint(
            "reads_stay_inside_the_allocation",
            ("keep", "vector", "threads", "cluster", "unroll"),
            inside,
            "The steps of the threads end where the row in shared memory ends.",
        ),
    ]


def _persistence(f: _Facts) -> list[Constraint]:
    """Blocks that stay for several rows."""

    def filled(blocks: Any, count: Any, cluster: Any) -> Any:
        return (blocks == 0) | (blocks * f.sm_count // cluster * 2 <= -(-f.rows.rows // count))

    def resident(blocks: Any, threads: Any, count: Any) -> Any:
        return blocks * threads * count <= f.arch.max_threads_per_sm

    return [
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "rows", "cluster"),
            filled,
            "Every persistent block has two rows or more.",
        ),
        Constraint(
            "persistent_blocks_are_resident",
            ("blocks_per_sm", "threads", "rows"),
            resident,
            "Persistent blocks fit their multiprocessors.",
        ),
        Constraint(
            "persistent_blocks_have_a_use",
            ("blocks_per_sm", "keep"),
            lambda blocks, keep: (blocks == 0) | (keep == "shared"),
            "A block stays to load the next row ahead; else blocks of one row overlap better (norms, H200: 8 %).",
        ),
    ]


def _redundant(f: _Facts) -> list[Constraint]:
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
            "redundant_stages",
            ("keep", "blocks_per_sm", "stages"),
            lambda keep, blocks, n: np.where((keep == "shared") & (blocks > 0), n > 1, n == 1),
            "Stages overlap the rows of one block.",
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
            lambda keep, operands: (keep == "registers") | (operands == "early"),
            "Outside of registers operands are loaded with the row.",
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
