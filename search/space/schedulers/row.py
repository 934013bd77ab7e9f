"""Row: fusions whose reductions fold neighbours in memory, normalizations among them, a row (or several) to a block.

The loops of a tensor of the whole iteration space, and of one over the kept dimensions:

    row block (and a row block of a persistent block) | row of the block
    ... | block of the cluster | thread | step | unrolled step | lane

A row is read in passes, each of which ends with reductions (`row_passes`). Between passes it stays in registers, packed
as it was loaded, or the last steps of each thread in shared memory instead (`steps.Park`); or in shared memory, where
bulk copies put it, the next rows' ahead of time; or it is loaded again. Threads store what they finish, or bulk copies
do once a row is in shared memory. Rows of any pitch may be shifted so that vectors are aligned, and what begins at
other phases comes in words that straddle two (`row_words`).
Sums of exponentials may be folded along with their maximum, in its pass (`compiler.schedule.online`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import REDUCTIONS
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import (
    AS_THEY_ARE,
    BULK,
    EARLY,
    IN_WORDS,
    MATH,
    STREAMS,
    VALUES,
    ThreadLoops,
    cap,
    cut_by_words,
    fold_online,
    has_its_own_places,
    is_copied,
    move_by_words,
    persist,
    place_in_tmem,
    send,
    set_cache,
    stage,
    stage_in_tmem,
    turn,
)
from search.space.schedulers.pointwise_body import choosing, complete_vectors, is_packed_cast
from search.space.schedulers.row_facts import parked_steps, persistent_grid, steps_of
from search.space.schedulers.row_passes import compute_again, costly_values, repeated_values
from search.space.schedulers.row_shape import RowOperand, RowShape, in_rows, is_full, reads_a_view, row_shape
from search.space.schedulers.row_space import row_space
from search.space.schedulers.row_words import straddles
from search.space.space import Space

P = ParallelType


@dataclass(frozen=True, slots=True)
class Row:
    """The row scheduler; `sm_count` sizes the grid of persistent schedules."""

    sm_count: int
    name: str = "row"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions with reductions, where some streamed input is contiguous along what is folded."""
        return refusal_by(row_shape, fusion)

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return row_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return RowTrace(TraceBuilder(fusion, point[MATH]), point, self.sm_count).build()


@dataclass
class RowTrace:
    """The schedule of one point, under construction."""

    b: TraceBuilder
    point: Mapping[str, Any]
    sm_count: int
    loads: dict[str, RowOperand] = field(default_factory=dict)
    """Register tensor that is read from memory, or from a shared copy of it -> the operand."""
    staged: dict[str, str] = field(default_factory=dict)
    """Shared tensor -> the input that is brought to it."""
    copied: dict[str, RowOperand] = field(default_factory=dict)
    """Of those: the operands that threads copy by cp.async, each what it reads later."""
    stores: dict[str, RowOperand] = field(default_factory=dict)
    """Tensor that threads store to, an output or a shared copy of one -> the output."""
    sent: dict[str, str] = field(default_factory=dict)
    """Output that bulk copies store -> the shared tensor that they store from."""
    stored: list[str] = field(default_factory=list)
    """Register tensors that outputs are stored from."""
    in_tmem: dict[str, str] = field(default_factory=dict)
    """Tensor in tensor memory -> the registers that it is loaded to."""
    choosing: frozenset[str] = frozenset()
    """Register tensors that say where others are read."""
    values_there: set[str] = field(default_factory=set)
    """Values that go to tensor memory from the registers that they are computed in."""
    values_back: set[str] = field(default_factory=set)
    """Registers that they come back to, in every pass."""
    whole_steps: frozenset[str] = frozenset()
    """Beside values in tensor memory, tensors whose readers begin when a thread has computed a whole step of them."""

    def __post_init__(self) -> None:
        p = self.point
        self.rows = self.shape()
        self.rank = len(self.rows.shape)
        self.lead = 2 if p["blocks_per_sm"] else 1
        self.is_cluster = bool(p["cluster"] > 1)
        self.unroll: int = steps_of(self.rows.places, p) if p["keep"] == "registers" else p["unroll"]
        self.row_at = self.lead + 1
        self.step_at = self.row_at + self.is_cluster + 2
        self.lane_at = self.step_at + 1

    def shape(self) -> RowShape:
        """The rows of the fusion, shifted where the point says so."""
        found = row_shape(self.b.sf)
        assert isinstance(found, RowShape), "refused fusions have no points"
        if self.point["rows_begin"] != AS_THEY_ARE:
            found = found.aligned(self.point["vector"]) or found
        return found

    def build(self) -> ScheduleTrace:
        """All steps of the point. Raises InvalidStep."""
        b, p = self.b, self.point
        fold_online(b, p)
        self.cache()
        kept = {n for n in self.loads if self.is_kept(n)}
        if p["keep_values"] != "no":
            values = costly_values if p["keep_values"] == "yes" else repeated_values
            kept |= self.keep_values(values(b, self.rows.folded, self.rank))
        kept |= set(self.in_tmem)
        loads_once = p["keep"] != "registers"
        passes = compute_again(b, self.rows.folded, self.rank, kept, loads_once=loads_once)
        for name in list(self.loads):
            self.loads |= {copy: self.loads[name] for copy in passes if copy.startswith(f"{name}_p")}
        for name in list(self.values_back):
            self.values_back |= {copy for copy in passes if copy.startswith(f"{name}_p")}
        b.do(*(steps.Straddle(name) for name in self.loads if self.comes_in_words(name)))
        self.loops()
        self.inline(kept)
        self.cache_hints(passes)
        self.park(kept)
        cap(b, p["resident"], p["threads"] * p["rows"])
        return b.trace()

    # Memories --------------------------------------------------------------------------------------------------------

    def cache(self) -> None:
        """Register tensors next to global memory, and shared ones before those of bulk copies."""
        b = self.b
        for operand in self.rows.operands:
            if operand.is_output:
                register = f"{operand.name}_r"
                b.do(steps.CacheOutput(operand.name, register, MemoryType.LOCAL))
                self.stored.append(register)
                if self.is_sent(operand):
                    self.sent[operand.name] = send(b, operand.name, self.point["store"])
                self.stores[self.sent.get(operand.name, operand.name)] = operand
            elif operand.is_direct:
                source = operand.name
                if self.point["keep"] == "shared" and self.is_staged(operand):
                    shared = stage(b, source, self.point["load"])
                    if is_copied(self.point["load"]):
                        self.copied[shared] = operand
                    self.staged[shared] = source
                    source = shared
                b.do(steps.CacheInput(source, f"{operand.name}_r", MemoryType.LOCAL))
                self.loads[f"{operand.name}_r"] = operand
            else:
                self.loads[operand.read] = operand
        if self.point.get("tmem") == STREAMS:
            self.keep_in_tmem()

    def keep_values(self, names: list[str]) -> set[str]:
        """Those of these values that stay in registers: all, if they do not go to tensor memory. None of what is one
        value for several rows goes there."""
        if self.point.get("tmem") != VALUES:
            return set(names)
        for name in (n for n in names if has_its_own_places(self.b.tensor(n))):
            there, back = stage_in_tmem(self.b, name)
            self.in_tmem[there] = back
            self.values_there.add(name)
            self.values_back.add(back)
        return set()

    def keep_in_tmem(self) -> None:
        """Puts tensor memory between the registers of streamed rows and what reads them."""
        streams = [n for n, o in self.loads.items() if o in self.rows.loaded]
        for name in (n for n in streams if has_its_own_places(self.b.tensor(n))):
            there, back = stage_in_tmem(self.b, name)
            self.in_tmem[there] = back
            self.loads[back] = self.loads[name]

    def is_staged(self, operand: RowOperand) -> bool:
        """Whether rows of the operand lie in shared memory."""
        if is_copied(self.point["load"]):
            return self.rows.is_copied(operand, self.point["vector"])
        return self.rows.is_staged(operand)

    def is_sent(self, operand: RowOperand) -> bool:
        """Whether bulk copies store the output."""
        return self.point.get("store") == BULK and self.rows.is_sent(operand)

    # Loops -----------------------------------------------------------------------------------------------------------

    def to_rows(self, tv: str) -> None:
        """[kept, folded], or [kept] of a tensor over the kept dimensions."""
        b, rows = self.b, self.rows
        full = is_full(b.tensor(tv), self.rank)
        if full:
            b.reorder(tv, rows.order)
        if full and rows.phase is not None:
            run = len(rows.kept)
            b.merge(tv, run, len(rows.folded))
            by, factors = (
                (tuple(at) for at in zip(*rows.phase.strides, strict=True)) if rows.phase.strides else ((), ())
            )
            places = tuple(rows.kept.index(d) for d in by)
            b.do(steps.Shift(tv, run, places, factors, rows.phase.modulus, rows.phase.start))
        b.merge(tv, 0, len(rows.kept))
        if full and rows.phase is None:
            b.merge(tv, 1, len(rows.folded))

    def to_blocks(self, tv: str) -> None:
        """[row block, (iteration,) row of the block, ...]."""
        self.to_rows(tv)
        b, p = self.b, self.point
        b.split(tv, 0, p["rows"])
        if p["blocks_per_sm"]:
            persist(b, tv, persistent_grid(self.sm_count, p["blocks_per_sm"], p["cluster"]))

    def loops(self) -> None:
        """The loops of all tensors, and their types: those of the first reduction, the reference, and what others have
        of them or otherwise."""
        b = self.b
        names = sorted((op.output for op in b.sf.ops), key=self.is_less_than_a_row)
        by_engine = [n for n in names if n in self.sent or (n in self.staged and n not in self.copied)]
        threaded = [n for n in names if n not in by_engine]
        blocks = [P.BIDX, *[P.SERIAL] * (self.lead - 1)]
        b.alike(names, self.to_blocks)
        if self.is_cluster:
            b.alike(by_engine, self.to_runs)
        self.row_loops(threaded, by_engine, [*blocks, P.TIDY])
        runs = [P.CLUSTER, P.UNROLL] if self.is_cluster else []
        b.parallelize_alike(by_engine, [*blocks, P.UNROLL, *runs, P.BULK])

    def is_less_than_a_row(self, tv: str) -> tuple[bool, bool]:
        """Orders tensors: reductions of whole rows first, then others with all axes."""
        op = self.b.sf.producer(tv)
        return not is_full(self.b.tensor(tv), self.rank), op is None or op.kind not in REDUCTIONS

    def row_loops(self, names: list[str], by_engine: list[str], types: list[P]) -> None:
        """The loops over the elements of a row, right of those that have `types`, and the types of all; narrower words
        than a vector are an axis of their own."""
        b, p, vector, at = self.b, self.point, self.point["vector"], len(types)
        full = [n for n in names if self.has_row(n)]
        b.alike(full, lambda tv: self.to_threads(tv, at))
        block = [at] if self.is_cluster else []
        thread, step = at + len(block), at + len(block) + 1
        lane = step + 2
        for name in names:
            if name in (*self.copied, *self.sent.values()):
                # As in memory, with places for steps that threads do not have.
                order = (*range(at), step, step + 1, *block, thread, lane)
                b.do(steps.SetAllocationDomain(name, order))
        by_tmem = {n: words for n in full if (words := self.words_in_tmem(n))}
        for name, words in by_tmem.items():
            cut_by_words(b, name, step + 1, words)
        widths = {n: self.access_width(n) for n in full}
        in_words = b.split_words(widths, vector)
        whole = sorted(names, key=lambda n: 1 < widths.get(n, 1) < vector)
        b.parallelize_alike(
            [*whole, *by_engine], [*types, *[P.CLUSTER] * self.is_cluster, P.TIDX, P.SERIAL, P.UNROLL, P.UNROLL]
        )
        b.vectorize_words(in_words)
        b.vectorize(n for n in full if widths[n] == vector > 1 and n not in by_tmem)
        for name in by_tmem:
            move_by_words(b, name)
        for name in self.in_tmem:
            place_in_tmem(b, name, ThreadLoops(thread, at - 1), p["tmem_pattern"], p["tmem_dimsep"])

    def words_in_tmem(self, tv: str) -> int:
        """Words by which a tensor goes to tensor memory, or comes from it; 0 for another tensor."""
        if tv in self.in_tmem:
            return int(self.point["tmem_store"])
        op = self.b.sf.producer(tv)
        return int(self.point["tmem_load"]) if op is not None and op.via is CopyVia.LD_TMEM else 0

    def has_row(self, tv: str) -> bool:
        """Whether a tensor has an axis for the elements of a row."""
        return is_full(self.b.tensor(tv), self.rank)

    def to_threads(self, tv: str, at: int) -> None:
        """[.., row] -> [.., (block of the cluster,) thread, step, unrolled step, lane]."""
        b, p = self.b, self.point
        if self.is_cluster:  # a block's run first, as in `to_runs`: each block reads what it loaded itself
            b.split(tv, at, p["vector"] * p["threads"])
            b.split(tv, at + 1, p["vector"])
            b.split(tv, at, p["cluster"])
        else:
            b.split(tv, at, p["vector"])
            b.split(tv, at, p["threads"])
        b.split(tv, at, self.unroll)
        step, unrolled = at, at + 1
        block = [at + 2] if self.is_cluster else []
        thread, lane = at + 2 + self.is_cluster, at + 3 + self.is_cluster  # the lane keeps its place
        b.reorder(tv, [*range(at), *block, thread, step, unrolled, lane])

    def access_width(self, tv: str) -> int:
        """Elements by which a tensor is moved, or converted; 1 for what is computed one by one."""
        vector = int(self.point["vector"])
        if tv in self.in_tmem:
            return vector
        operand = self.loads.get(tv) or self.stores.get(tv) or self.copied.get(tv)
        if self.comes_in_words(tv):
            return vector
        if operand is not None:
            return self.rows.width(operand, vector) if operand.in_rows else 1
        return vector if is_packed_cast(self.b, tv) and self.is_in_rows(tv) else 1

    def comes_in_words(self, tv: str) -> bool:
        """Whether a tensor is loaded in words that straddle two aligned ones."""
        operand = self.loads.get(tv)
        if operand is None or self.point["rows_begin"] != IN_WORDS:
            return False
        return straddles(self.rows, operand, self.point["vector"])

    def to_runs(self, tv: str) -> None:
        """[.., row] -> [.., block of the cluster, step, run] of a bulk copy."""
        b, p, at = self.b, self.point, self.row_at
        b.split(tv, at, p["vector"] * p["threads"])
        b.split(tv, at, p["cluster"])
        b.reorder(tv, [*range(at), at + 1, at, at + 2])

    def is_in_rows(self, tv: str) -> bool:
        t = self.b.tensor(tv)
        reference = [d for d in self.rows.folded if d < len(t.logical)]
        return is_full(t, self.rank) and in_rows(t, reference)

    # Inlining --------------------------------------------------------------------------------------------------------

    def inline(self, kept: set[str]) -> None:
        """Positions, consumers first where they matter: shared rows, what a row has once, what is kept of it, and what
        each pass computes element by element."""
        b = self.b
        reductions = {op.output for op in b.sf.ops if op.kind in REDUCTIONS}
        whole = self.whole_vectors(reductions, kept)
        self.choosing = choosing(b)
        self.whole_steps = self.complete_steps(reductions) if self.values_there else frozenset()
        positions: dict[int, list[str]] = {}
        for op in b.sf.ops:
            if op.output not in self.sent and op.output not in self.stores:
                positions.setdefault(self.position(op.output, reductions, kept, whole), []).append(op.output)
        for position, names in sorted(positions.items()):
            b.inline(names, position)
        turn(b, self.staged, self.point, (self.point["threads"], self.point["rows"]))

    def position(self, name: str, reductions: set[str], kept: set[str], whole: set[str]) -> int:
        """How many loops of its consumers a tensor is computed in."""
        if name in self.staged or name in self.sent.values():
            return self.lead
        if name in self.choosing and name not in self.loads:
            return self.row_at if self.point["keep"] == "registers" or not self.is_in_rows(name) else self.step_at
        if name in reductions or not self.is_in_rows(name):
            return self.row_at
        if name in self.loads:
            return self.load_position(name)
        if name in self.whole_steps:
            return self.step_at
        if name in kept:
            return self.row_at
        return self.lane_at if name in self.stored or name in whole else self.lane_at + 1

    def is_kept(self, name: str) -> bool:
        """Whether what is loaded stays in registers; of a late operand every pass loads its own."""
        p = self.point
        return bool(p["keep"] == "registers" and (self.loads[name].in_kept or p["operands"] != "late"))

    def load_position(self, name: str) -> int:
        """Where a load stands: before all passes, before the unrolled steps, or right where it is used."""
        if self.point["keep"] != "registers":
            return self.step_at
        operand = self.loads[name]
        if operand.in_kept or self.point["operands"] == EARLY:
            return self.row_at
        return self.lane_at

    def whole_vectors(self, reductions: set[str], kept: set[str]) -> set[str]:
        """Tensors of which all lanes are computed before any reader begins.

        A vector access or a packed cast reads them, or their readers stand in different lane loops.
        """
        b = self.b
        lanes = [op for op in b.sf.ops if self.is_in_rows(op.output) or op.output in reductions]
        moved = (*self.loads, *self.stores, *self.staged, *self.sent, *self.in_tmem, *self.values_back)
        lanes = [op for op in lanes if op.output not in moved]
        whole = {op.output for op in lanes if self.is_read_by_vectors(op.output, reductions)}
        whole |= kept | set(self.stored) | self.values_there
        return complete_vectors(lanes, whole)

    def complete_steps(self, reductions: set[str]) -> frozenset[str]:
        """Values on their way to tensor memory and back, and what is read both before and after that way."""
        ops = [op for op in self.b.sf.ops if self.is_in_rows(op.output) or op.output in reductions]
        there_and_back = {*self.in_tmem, *self.values_there, *self.values_back}
        return frozenset(complete_vectors(ops, {*self.loads, *there_and_back}) - {*self.loads, *self.in_tmem})

    def is_read_by_vectors(self, name: str, reductions: set[str]) -> bool:
        """True if all lanes of a tensor must be there before one of its readers begins."""
        b = self.b
        readers = [op.output for op in b.sf.consumers(name)]
        ends = (*self.stored, *self.stores)
        return is_packed_cast(b, name) or any(
            r not in reductions and (r in ends or is_packed_cast(b, r)) for r in readers
        )

    def park(self, kept: set[str]) -> None:
        """Keeps the last steps of the rows that stay in registers in shared memory."""
        steps_in_registers = self.unroll - parked_steps(self.unroll, self.point.get("parked", 0))
        if steps_in_registers == self.unroll:
            return
        for name in self.loads:
            if name in kept and self.rows.is_copied(self.loads[name], self.point["vector"]):
                self.b.do(steps.Park(name, int(steps_in_registers * self.point["vector"])))

    # Hints -----------------------------------------------------------------------------------------------------------

    def cache_hints(self, passes: Mapping[str, int]) -> None:
        """Streams that are loaded in several passes get the hint in the last one alone: L2 keeps them until then."""
        p = self.point
        streams = [n for n, o in self.loads.items() if o.in_kept and o.in_rows and self.is_global_read(n)]
        last = {
            self.loads[n].name: max(passes.get(m, 0) for m in streams if self.loads[m] == self.loads[n])
            for n in streams
        }
        set_cache(self.b, [n for n in streams if passes.get(n, 0) == last[self.loads[n].name]], p["cache_load"])
        stored = [o for n, o in self.stores.items() if o.in_rows and not o.is_across and n == o.name]
        set_cache(self.b, [o.name for o in stored], p["cache_store"])

    def is_global_read(self, name: str) -> bool:
        op = self.b.sf.producer(name)
        return op is not None and (reads_a_view(op) or op.tensor_inputs[0] in self.b.sf.inputs)
