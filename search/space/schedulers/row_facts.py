"""What the knobs and constraints of the row scheduler read of a fusion: numbers of its rows, registers of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS, Arch, sms_for_clusters
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType
from compiler.schedule import steps
from compiler.schedule.online import online_sums
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.groups import (
    ALIGNED,
    BULK,
    CP_ASYNC,
    IN_WORDS,
    STREAMS,
    VALUES,
    has_its_own_places,
    is_copied,
    load_knob,
)
from search.space.knobs import Knob, powers_of_two
from search.space.schedulers.row_passes import bytes_between_passes, costly_values, passes_of, repeated_values
from search.space.schedulers.row_shape import VECTORS, RowOperand, RowShape
from search.space.schedulers.row_words import in_words

SENT_ROW_BYTES = 32 * 1024
"""Bytes of what is stored of a row above which bulk copies do not store it: it takes the room of other blocks. H200:
layer norms of 8 KiB took 1.8 % less, softmaxes of 16 KiB 0.6 %, norms that store 32 KiB as long, 80 KiB 8 % more."""

SHIFTED_VECTORS = 3
"""Widths of vectors that are tried along shifted rows, the widest ones: what lies along the row and has another phase,
a weight, is loaded element by element, the more sectors apart the wider a vector is."""

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

PARKED_ROW_BYTES = 32 * 1024
"""Parts of rows below, in bytes of a block, are not parked: registers have room for three such blocks or more."""

OTHER_REGISTERS = 8
"""Registers of a thread beside its part of a row, at the least: addresses, partial results, temporaries. ptxas makes do
with so few where it is told to; what spills is found when it is compiled."""

SHIFTED_REGISTER_BYTES = 8
"""Registers that a vector along a shifted row takes besides, for each element, times the bytes of one: conditions of
its lanes, and its elements as f32. H200, bf16: caps that left less spilled 12 to 300 bytes a thread."""

EXACT_THREADS = 3
"""Numbers of threads beside powers of two that are tried: those by which a row is cut without a rest."""

CLUSTER_ROW_BYTES = 16 * 1024
"""Rows below are not spread over a cluster: a block holds them, and an exchange between blocks costs 0.2 to 0.5 us."""

RELOAD_ROW_BYTES = 32 * 1024
"""Rows below are not read twice: a block holds them in registers, and is one of several on its multiprocessor."""

LONG_ROW_BYTES = 512 * 1024
"""Rows below are not spread over sixteen blocks: eight have at most 64 KiB each, so that three of them share a
multiprocessor, and clusters of sixteen find room on fewer multiprocessors (`compiler.arch.sms_for_clusters`)."""

FEW_ROWS = 2
"""Rows for each multiprocessor below which rows of any length may be spread: a block for each would leave some idle."""


def steps_of(cols: int, point: Mapping[str, Any]) -> int:
    """Vectors of a row that a thread has."""
    return -(-cols // int(point["vector"] * point["threads"] * point["cluster"]))


def parked_steps(steps: Any, quarters: Any) -> Any:
    """Of the steps of a thread, how many lie in shared memory."""
    return steps * quarters // 4


def persistent_grid(sm_count: int, blocks_per_sm: int, cluster: int) -> int:
    """Clusters of so many blocks that stay on a card, `blocks_per_sm` on every multiprocessor that they can use."""
    return max(1, blocks_per_sm * sms_for_clusters(sm_count, cluster) // cluster)


@dataclass(frozen=True)
class RowFacts:
    """Numbers of a fusion that constraints read.

    `streamed`: bytes of one element of every streamed input; `operand_bytes`: of the inputs that all rows share;
    `costly`: values that are worth keeping; `waiting`: bytes of one place of a row that wait for a later pass where
    every value that is read again is kept, 0 where those are the costly ones; `value_bytes`: by what is kept of them,
    bytes of an element of each; `placed`: streamed inputs that may lie in tensor memory; `passes`: over a row;
    `online_passes`: where sums are folded along with maxima, 0 where none can be.
    """

    rows: RowShape
    arch: Arch
    sm_count: int
    streamed: int
    operand_bytes: int
    costly: int
    waiting: int
    value_bytes: Mapping[str, tuple[int, ...]]
    placed: tuple[RowOperand, ...]
    passes: int
    online_passes: int

    @cached_property
    def narrowest(self) -> int:
        """Bytes of the smallest element that streams."""
        return min((o.nbytes for o in self.rows.streams), default=4)

    @property
    def uses_of_tmem(self) -> tuple[str, ...]:
        """What may be kept in tensor memory from pass to pass."""
        if not (self.arch.has_tmem and self.passes > 1):
            return ()
        able = {STREAMS: bool(self.placed), VALUES: any(self.value_bytes.values())}
        return tuple(word for word, is_able in able.items() if is_able)

    @cached_property
    def placed_widths(self) -> tuple[int, ...]:
        """Bytes of the elements of inputs in tensor memory, each once."""
        return tuple(sorted({o.nbytes for o in self.placed}))

    @cached_property
    def staged(self) -> tuple[RowOperand, ...]:
        """Inputs that bulk copies can bring."""
        return tuple(o for o in self.rows.loaded if self.rows.is_staged(o))

    def staged_bytes(self, load: Any, vector: Any) -> Any:
        """Bytes of one place of a row that lie in shared memory."""
        copied = self._copied_bytes
        by_threads = np.select([vector == v for v in copied], list(copied.values()), 0)
        return np.where(is_copied(load), by_threads, sum(o.nbytes for o in self.staged))

    @cached_property
    def sent_bytes(self) -> int:
        """Bytes of one place of a row that bulk copies store, 0 where they are not tried."""
        able = sum(o.nbytes for o in self.rows.streams if self.rows.is_sent(o)) if self.arch.has_tma else 0
        return able if able * self.rows.cols <= SENT_ROW_BYTES else 0

    @cached_property
    def _copied_bytes(self) -> dict[int, int]:
        """By vector: bytes of one place of a row that threads can copy past their registers."""
        loaded = self.rows.loaded
        return {v: sum(o.nbytes for o in loaded if self.rows.is_copied(o, v)) for v in self.vectors}

    @cached_property
    def is_brought(self) -> bool:
        """Whether some rows can be brought to shared memory: by bulk copies, or by threads, past their registers."""
        return self._is_run or self._is_copied

    @property
    def load_knob(self) -> Knob:
        """By which of the two."""
        return load_knob({BULK: self._is_run or not self._is_copied, CP_ASYNC: self._is_copied})

    @property
    def _is_run(self) -> bool:
        return self.arch.has_tma and bool(self.staged)

    @cached_property
    def _is_copied(self) -> bool:
        return any(self.rows.is_copied(o, v) for o in self.rows.loaded for v in self.vectors)

    def parked_bytes(self, vector: Any) -> Any:
        """Bytes of one place of a row that can be parked in shared memory."""
        return self.staged_bytes(CP_ASYNC, vector)

    @cached_property
    def vectors(self) -> tuple[int, ...]:
        """Elements by which some streamed operand can be moved: the two widest, and the widest word of the operand
        that takes the fewest, so that a thread need not hold many of those."""
        able = [[v for v in VECTORS if self.rows.width(o, v) == v] for o in self.rows.streams]
        fit = sorted({v for vectors in able for v in vectors})
        fewest = min((max(vectors, default=1) for vectors in able), default=1)
        return tuple(sorted({fewest, *fit[-2:]}))

    @cached_property
    def shifted_vectors(self) -> tuple[int, ...]:
        """Elements of vectors that shifted rows can be cut into, of rows of two vectors or more."""
        able = [v for v in VECTORS if 1 < v <= self.rows.cols // 2 and self.rows.aligned(v) is not None]
        return tuple(able[-SHIFTED_VECTORS:])

    @cached_property
    def word_vectors(self) -> tuple[int, ...]:
        """Elements of vectors that are aligned, and that some operand is loaded by in words that straddle two."""
        able = [v for v in VECTORS if 1 < v <= self.rows.cols // 2 and in_words(self.rows, v) is not None]
        return tuple(able[-SHIFTED_VECTORS:])

    def places(self, vector: Any, begin: Any) -> Any:
        """Places along a row, those included that a shift adds."""
        return self.rows.cols + np.where(self.is_shifted(vector, begin), vector, 0)

    def is_shifted(self, vector: Any, begin: Any) -> Any:
        """Where rows are shifted: of those that come in words, if the stream that vectors are aligned to begins at any
        element of one."""
        moved = [v for v in self.word_vectors if self.rows.aligned(v) is not None]
        return (begin == ALIGNED) | (begin == IN_WORDS) & np.isin(vector, moved)

    def threads(self) -> tuple[int, ...]:
        """Powers of two, and the largest numbers of whole warps that divide the vectors of a row without a rest."""
        powers = powers_of_two(self.arch.max_threads_per_block)
        counts = [self.rows.cols // v for v in self.vectors if self.rows.cols % v == 0]
        warps = range(powers[-1], 2 * WARP_THREADS, -WARP_THREADS)
        exact = [n for n in warps if n not in powers and any(count % n == 0 for count in counts)]
        return tuple(sorted({*powers, *exact[:EXACT_THREADS]}))

    def threads_end_with_the_row(self) -> Constraint:
        """What tells threads along a row that are too many."""
        return Constraint(
            "tile_exceeds_the_problem",
            ("vector", "threads", "cluster"),
            lambda vector, threads, cluster: (
                (vector * threads * cluster < 2 * self.rows.cols)
                | ((threads == 1) & (cluster == 1) & (vector == min(self.vectors)))
            ),
            "Threads along a row are not twice its vectors.",
        )

    def blocks_have_warps(self, most: int) -> list[Constraint]:
        """What tells blocks of few threads. `most`: the rows from which on a block of fewer may have no more."""
        return [
            Constraint(
                "threads_cover_the_tile",
                ("threads", "rows"),
                lambda threads, count: (threads * count >= 2 * WARP_THREADS) | (count >= most),
                "A block has two warps where rows suffice.",
            ),
            Constraint(
                "threads_cover_the_tile",
                ("threads", "rows", "cluster"),
                lambda threads, count, cluster: (cluster == 1) | (count == 1) & (threads >= 4 * WARP_THREADS),
                "A cluster has one row, and blocks of four warps.",
            ),
        ]

    def brought_rows(self, count: int) -> list[Constraint]:
        """What rows in shared memory ask of a block that goes through `count` rows."""
        return [
            Constraint(
                "threads_cover_the_tile",
                ("keep", "rows", "load"),
                lambda keep, rows, load: (keep != "shared") | is_copied(load) | (count % rows == 0),
                "Threads read no row from shared memory that is not there: the rows of a block divide all of them.",
            ),
            Constraint(
                "redundant_load",
                ("keep", "load", "vector"),
                lambda keep, load, vector: (keep != "shared") | (self.staged_bytes(load, vector) > 0),
                "Some rows are brought to shared memory: threads copy 4, 8 or 16 bytes at a time past their registers.",
            ),
        ]

    @property
    def is_few(self) -> bool:
        """True where clusters of eight blocks, one for each row, leave multiprocessors idle."""
        return self.rows.rows * self.arch.max_cluster_portable <= self.sm_count

    @property
    def clusters(self) -> tuple[int, ...]:
        """Blocks that a row is spread over: one where rows are short and many; the most where rows are long, or too few
        for clusters of eight to fill the card."""
        if not self.arch.has_tma or (self.row_bytes < CLUSTER_ROW_BYTES and self.rows.rows >= FEW_ROWS * self.sm_count):
            return (1,)
        is_large = self.row_bytes >= LONG_ROW_BYTES or self.is_few
        most = self.arch.max_cluster if is_large else self.arch.max_cluster_portable
        return tuple(1 << bit for bit in range(most.bit_length()))

    @property
    def row_bytes(self) -> int:
        return self.rows.cols * max(self.streamed, 1)

    @property
    def is_reloaded(self) -> bool:
        """True if a row may be read from memory in every pass: it has one pass, is long, or fits no block."""
        part = -(-self.rows.cols // self.arch.max_threads_per_block)
        fits = part * self.streamed <= 4 * MAX_ROW_REGISTERS and part <= max(MAX_STEPS * max(self.vectors), MAX_SINGLES)
        return self.passes == 1 or self.row_bytes >= RELOAD_ROW_BYTES or not fits


def row_facts(fusion: Fusion, rows: RowShape, arch: Arch, sm_count: int) -> RowFacts:
    """The numbers of a fusion that the row scheduler does not refuse."""
    b = TraceBuilder(fusion)
    rank = len(rows.shape)
    loads = [o for o in rows.operands if not o.is_output and o.in_rows]
    costly, repeated = (set(values(b, rows.folded, rank)) for values in (costly_values, repeated_values))
    streams = [o.name for o in rows.loaded]
    waiting = 0 if costly == repeated else bytes_between_passes(b, rows.folded, rank, repeated, streams)
    return RowFacts(
        rows,
        arch,
        sm_count,
        streamed=sum(o.nbytes for o in rows.loaded),
        operand_bytes=sum(o.nbytes for o in loads if o not in rows.loaded),
        costly=len(costly),
        waiting=waiting,
        value_bytes=_value_bytes(fusion, rows, {"yes": bool(costly), "all": waiting > 0}) if arch.has_tmem else {},
        placed=tuple(o for o in rows.loaded if has_its_own_places(b.tensor(o.name if o.is_direct else o.read))),
        passes=passes_of(b, rows.folded, rank).count,
        online_passes=_online_passes(fusion, rows),
    )


def _value_bytes(fusion: Fusion, rows: RowShape, offered: Mapping[str, bool]) -> dict[str, tuple[int, ...]]:
    """By what is kept, bytes of an element of each value that may lie in tensor memory. Values that are stored as well
    are in registers first, as they are in every schedule."""
    b = TraceBuilder(fusion)
    outputs = (o.name for o in rows.operands if o.is_output)
    b.do(*(steps.CacheOutput(name, f"{name}_r", MemoryType.LOCAL) for name in outputs))
    values = {"yes": costly_values, "all": repeated_values}
    kept = {word: sorted(values[word](b, rows.folded, len(rows.shape))) for word, is_able in offered.items() if is_able}
    found = {word: [t for t in map(b.tensor, names) if has_its_own_places(t)] for word, names in kept.items()}
    return {word: tuple(t.dtype.nbytes for t in tensors) for word, tensors in found.items()}


def _online_passes(fusion: Fusion, rows: RowShape) -> int:
    b = TraceBuilder(fusion)
    if not (found := online_sums(b.sf)):
        return 0
    b.do(*(steps.Online(maximum, sums) for maximum, sums in found.items()))
    return passes_of(b, rows.folded, len(rows.shape)).count
