"""Column: reductions that keep the dimension along which the inputs are contiguous, and what is computed around them.

The loops of every tensor of the iteration space, folded dimensions merged into one (`rows`), the kept ones along the
memory into another (`columns`):

    batch and column slab (blocks) | blocks of a cluster | steps | thread row | thread column | row in flight | lane
            kept                          folded          folded    folded         kept            folded       kept

A thread keeps one accumulator a lane; it loads all its rows of a step before it folds them, from memory, at any address
(`column_words`), or from shared memory: a ring, or all rows of the block (`column_staging`). Threads of a column, and
the blocks of a cluster, fold together at the end. A fusion with several reductions, one after the other, passes over
the rows once for each (`column_passes`); between passes they may stay in tensor memory (`column_tmem`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import VIEWS, OpKind
from compiler.ir.tensor import TensorOp
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import (
    MATH,
    SHARED,
    WORDS,
    ThreadLoops,
    cap,
    cut_by_words,
    fold_online,
    is_mapped,
    move_by_words,
    place_in_tmem,
    set_cache,
    turn,
)
from search.space.schedulers.column_form import ColumnForm, column_form, is_load, with_accesses_of
from search.space.schedulers.column_passes import (
    cache_registers,
    is_column,
    is_full,
    is_reduction,
    split_passes,
)
from search.space.schedulers.column_space import column_space
from search.space.schedulers.column_staging import stage_each, stageable, tile_types
from search.space.schedulers.column_tmem import put_in_tmem
from search.space.schedulers.column_words import straddling
from search.space.schedulers.pointwise_body import complete_vectors, narrows_in_pairs, widens_in_pairs
from search.space.space import Space

P = ParallelType


@dataclass(frozen=True, slots=True)
class Column:
    """The column scheduler; `sm_count` says when the grid is large enough without clusters."""

    sm_count: int
    name: str = "column"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions with reductions that keep the contiguous dimension of their inputs."""
        return refusal_by(column_form, fusion)

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return column_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _ColumnTrace(TraceBuilder(fusion, point[MATH]), point).build()


@dataclass
class _ColumnTrace:
    b: TraceBuilder
    point: Mapping[str, Any]

    def __post_init__(self) -> None:
        found = column_form(self.b.sf)
        assert isinstance(found, ColumnForm), "refused fusions have no points"
        fold_online(self.b, self.point)
        cache_registers(self.b)
        self.in_tmem = put_in_tmem(self.b, self.point)
        """Tensors in tensor memory, and the register tensors that are put there."""
        self.passes = split_passes(self.b, self.point["reuse"], frozenset(self.in_tmem))
        self.form = with_accesses_of(found, self.b.sf)
        self.loads = {op.output for op in self.b.sf.ops if is_load(self.b.sf, op)}
        """Register tensors that are read from memory, or from a shared copy of it."""
        self.words: tuple[str, ...] = ()
        """Those of them that come in words that straddle aligned ones."""
        if self.point["load"] == WORDS:
            self.words = straddling(self.form, self.b.sf, self.point["columns"], self.point["vector"])
        self.staged: list[str] = []
        self.whole_steps: frozenset[str] = frozenset()
        self.cluster = int(self.point["cluster"])
        self.row_at = 4 + (self.cluster > 1)
        """Position of the rows in flight: right of blocks, cluster, steps and threads."""

    def build(self) -> ScheduleTrace:
        b, p, form = self.b, self.point, self.form
        if is_mapped(p["load"]):
            self.staged = stage_each(b, stageable(form, b.sf, p["columns"]), p["load"], stays=p["reuse"] == SHARED)
        self.loops()
        b.parallelize_alike(self.staged, tile_types(p))
        self.inline()
        turn(b, self.staged, p, (p["threads_x"], p["threads_y"]))
        set_cache(b, self.last_reads(), p["cache_load"])
        set_cache(b, [a.first for a in form.stores], p["cache_store"])
        cap(b, p["resident"], p["threads_x"] * p["threads_y"])
        return b.trace()

    def last_reads(self) -> list[str]:
        """The loads of the last pass that reads an input: what earlier ones bring should stay in the cache."""
        last: dict[str, str] = {}
        for a in sorted(self.form.loads, key=lambda a: self.passes.of.get(a.first, 0)):
            last[a.tensor] = a.first
        return [first for first in last.values() if is_load(self.b.sf, self.producer(first))]

    def producer(self, name: str) -> TensorOp:
        """The operator that makes a register tensor."""
        op = self.b.sf.producer(name)
        assert op is not None, "what is loaded is loaded by an operator"
        return op

    # Loops -----------------------------------------------------------------------------------------------------------

    def loops(self) -> None:
        """The loops of all tensors of threads, and their types: those of the first reduction, the reference, and what
        others have of them. The lane axis: words of a global access, pairs of a cast next to one, else unrolled."""
        b, vector = self.b, self.point["vector"]
        ops = sorted((op for op in b.sf.ops if op.output not in self.staged), key=self.is_less_than_the_space)
        names = [op.output for op in ops]
        b.alike([*names, *self.staged], self.to_slabs)
        b.alike(names, self.to_threads)
        b.alike(self.staged, self.to_tiles)
        by_tmem = {op.output: words for op in ops if (words := self.words_in_tmem(op))}
        for name, words in by_tmem.items():
            cut_by_words(b, name, self.row_at, words)
        lanes = {op.output: self.word(op) for op in ops}
        in_words = b.split_words(lanes, vector)
        whole_first = sorted(names, key=lambda n: 1 < lanes[n] < vector)
        b.alike([*whole_first, *self.staged], lambda tv: b.parallelize(tv, self.types(tv)), steps.ParallelizeLike)
        b.vectorize_words(in_words)
        b.do(*(steps.Straddle(n) for n in names if n in self.words))
        b.vectorize(n for n in names if n not in by_tmem and (lanes[n] == vector > 1 or n in self.words))
        for name in by_tmem:
            move_by_words(b, name)
        step, thread_row, thread = range(self.row_at - 3, self.row_at)
        for name in self.in_tmem:
            place_in_tmem(
                b, name, ThreadLoops(thread, thread_row, step), self.point["tmem_pattern"], self.point["tmem_dimsep"]
            )

    def words_in_tmem(self, op: TensorOp) -> int:
        """Words by which a tensor goes to tensor memory, or comes from it; 0 for another tensor."""
        if not op.via.is_tmem:
            return 0
        return int(self.point["tmem_store" if op.output in self.in_tmem else "tmem_load"])

    def is_less_than_the_space(self, op: TensorOp) -> tuple[bool, bool]:
        """Orders operators: reductions first, then others that make tensors with all axes."""
        return is_column(self.b.sf, self.b.tensor(op.output)), not is_reduction(op)

    def to_slabs(self, tv: str) -> None:
        """S -> [block, slab, step, (block of the cluster), rows of the step]; of a tensor over the kept dimensions
        [block, slab]."""
        b, p, which = self.b, self.point, self.point["columns"]
        batch, columns = self.form.batch(which), self.form.columns(which)
        if is_column(b.sf, b.tensor(tv)):
            b.reorder(tv, [self.form.kept.index(d) for d in (*batch, *columns)])
        else:
            b.reorder(tv, [*batch, *columns, *self.form.folded])
            b.merge(tv, len(batch) + len(columns), len(self.form.folded))
        b.merge(tv, len(batch), len(columns))
        b.split(tv, len(batch), p["threads_x"] * p["vector"])
        b.merge(tv, 0, len(batch) + 1)
        if not is_column(b.sf, b.tensor(tv)):
            rows = p["rows"] * p["threads_y"]
            b.split(tv, 2, rows * self.cluster)
            if self.cluster > 1:
                b.split(tv, 3, rows)

    def to_threads(self, tv: str) -> None:
        """[block, slab, step, (cluster), rows] -> [block, (cluster), step, thread row, thread column, row, lane];
        [block, slab] -> [block, thread column, lane]."""
        b, p = self.b, self.point
        b.split(tv, 1, p["vector"])
        if is_column(b.sf, b.tensor(tv)):
            return
        cluster = [4] if self.cluster > 1 else []
        row = 4 + len(cluster)
        b.split(tv, row, p["threads_y"])
        block, tx, lane, step = range(4)
        b.reorder(tv, [block, *cluster, step, row + 1, tx, row, lane])

    def to_tiles(self, tv: str) -> None:
        """[block, slab, step, (cluster), rows] -> [block, (cluster), step, rows of the step, columns of the slab]."""
        cluster = [3] if self.cluster > 1 else []
        self.b.reorder(tv, [0, *cluster, 2, 3 + len(cluster), 1])

    def types(self, tv: str) -> list[P]:
        """The types of these loops, lanes one after the other."""
        if is_column(self.b.sf, self.b.tensor(tv)):
            return [P.BIDX, P.TIDX, P.UNROLL]
        cluster = [P.CLUSTER] if self.cluster > 1 else []
        return [P.BIDX, *cluster, P.SERIAL, P.TIDY, P.TIDX, P.UNROLL, P.UNROLL]

    def word(self, op: TensorOp) -> int:
        """Elements by which a tensor is moved, or converted; 1 for what is computed one by one."""
        vector = int(self.point["vector"])
        if self.b.tensor(op.output).loop[-1].is_broadcast:
            return 1
        if op.output in self.words or op.via.is_tmem:
            return vector
        if self.accesses_memory(op):
            found = next(a for a in self.form.accesses if a.first == op.output)
            return int(self.form.width(found, self.point["columns"], vector))
        return vector if self.is_packed(op) else 1

    def accesses_memory(self, op: TensorOp) -> bool:
        """True for an operator that moves data from or to global memory, or from a shared copy of it."""
        moves = op.kind in VIEWS or op.kind is OpKind.COPY
        return moves and (op.output in self.loads or self.is_global(op.output))

    def is_global(self, name: str) -> bool:
        return self.b.tensor(name).memory is MemoryType.GLOBAL

    def is_packed(self, op: TensorOp) -> bool:
        """True for a cast between f32 and less that reads what was loaded, or is stored and not read otherwise.

        It has instructions for two values. Others stay in the loop over lanes, of which a row then has only one.
        """
        b = self.b
        if op.kind is not OpKind.CAST:
            return False
        source = op.tensor_inputs[0]
        dtypes = b.tensor(source).dtype, b.tensor(op.output).dtype
        if narrows_in_pairs(*dtypes):
            return all(self.is_global(c.output) for c in b.sf.consumers(op.output))
        made = b.sf.producer(source)
        return widens_in_pairs(*dtypes) and made is not None and (made.output in self.loads or made.via.is_tmem)

    # Inlining --------------------------------------------------------------------------------------------------------

    def inline(self) -> None:
        """Where tensors are computed: once a block, ahead of a step's rows, for all lanes of a row, or lane by lane."""
        b = self.b
        self.whole_steps = self.complete_steps()
        positions: dict[int, list[str]] = {}
        for op in b.sf.ops:
            if not self.is_global(op.output):
                positions.setdefault(self.position(op), []).append(op.output)
        for position, names in sorted(positions.items()):
            b.inline(names, position)

    def position(self, op: TensorOp) -> int:
        """How many loops of its consumers a tensor is computed in."""
        b, name = self.b, op.output
        if name in self.staged:
            return self.row_at - (3 if self.point["reuse"] == SHARED else 2)
        if is_reduction(op) or not is_full(b.sf, b.tensor(name)) or name in self.passes.kept:
            return 1
        if name in self.loads or name in self.whole_steps:
            return self.row_at
        return self.row_at + (1 if any(self.is_global(c.output) for c in b.sf.consumers(name)) else 2)

    def complete_steps(self) -> frozenset[str]:
        """Of columns in tensor memory, what goes there and comes back, and what is read both before and after: tensors
        whose readers begin when a thread has computed its rows of a step."""
        if not self.in_tmem:
            return frozenset()
        b = self.b
        ops = [op for op in b.sf.ops if is_full(b.sf, b.tensor(op.output)) or is_reduction(op)]
        there_and_back = {*self.in_tmem.values(), *(op.output for op in ops if op.via.is_tmem)}
        return frozenset(complete_vectors(ops, {*self.loads, *there_and_back}) - self.loads)
