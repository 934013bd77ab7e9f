"""Flat: pointwise fusions in a one- or two-dimensional view of their iteration space, broadcast operands included.

The loops of every tensor, with the tile's rows and columns (rows only in the two-dimensional view):

    tile (blocks, iterations of a persistent block) | thread row, thread column | held step | column step | row | lane

A thread loads all its vectors before it computes. Loads and stores go by threads, or by bulk copies through shared
memory. Rows that begin at any element may be shifted so that vectors are aligned (`aligned_rows`). Blocks that read the
same of an operand may get it by one copy for all of a cluster (`multicasts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arch import TENSOR_MAP_BOX, Arch
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import (
    AS_THEY_ARE,
    IN_WORDS,
    MATH,
    TMA,
    VECTOR,
    ThreadLoops,
    cut_by_words,
    is_copied,
    is_kept_there,
    is_mapped,
    is_run,
    move_by_words,
    persist,
    place_in_tmem,
    send,
    set_cache,
    stage,
    stage_in_tmem,
    turn,
)
from search.space.schedulers.aligned_rows import lanes_along, phase_of, rows_apart, straddles
from search.space.schedulers.flat_space import flat_space
from search.space.schedulers.iteration_space import HELD, IterationSpace, Operand, iteration_space
from search.space.schedulers.multicasts import multicasts_of
from search.space.schedulers.pointwise_body import cache_registers, choosing, inline_body, is_packed_cast
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from search.space.space import Space

P = ParallelType


@dataclass(frozen=True, slots=True)
class Flat:
    """The flat scheduler; `sm_count` sizes the grid of persistent schedules."""

    sm_count: int
    name: str = "flat"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Fusions whose outputs differ in shape are not flat, nor are those that read an input in two ways.

        A transpose that the tile scheduler takes is left to it: without a shared tile one side would be scattered.
        """
        return refusal_by(_taken, fusion)

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return flat_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _FlatTrace(TraceBuilder(fusion, point[MATH]), point, self.sm_count).build()


def _taken(sf: ScheduledFusion) -> IterationSpace | str:
    transposed = transposed_space(sf)
    if isinstance(transposed, TransposedSpace) and transposed.is_wide:
        return "it transposes an input; tile2d moves it through shared memory"
    return iteration_space(sf)


@dataclass
class _FlatTrace:
    b: TraceBuilder
    point: Mapping[str, Any]
    sm_count: int

    def __post_init__(self) -> None:
        found = iteration_space(self.b.sf)
        assert isinstance(found, IterationSpace), "refused fusions have no points"
        self.space = found
        p = self.point
        self.two_d = p["view"] == "2d"
        self.cols = p["column_steps"] * p["threads_x"] * p["vector"]
        self.rows = p["threads_y"] * p["rows"]
        self.held = HELD.get(p["row_order"], 1)
        self.swept = found.swept_rows(p["row_order"]) // self.rows
        self.box = min(self.cols, TENSOR_MAP_BOX)
        self.phase = phase_of(found, p["vector"]) if p["rows_begin"] != AS_THEY_ARE else None
        row_group = found.outer_order(p["row_order"])[-1] if self.two_d else 0
        self.apart = rows_apart(self.phase, row_group) if self.phase is not None and p["rows"] > 1 else 1
        self.multicasts = multicasts_of(found) if p["multicast"] > 1 else None
        self.in_tmem: dict[str, str] = {}
        self.buffers: int = p.get("tmem_buffers", 1)

    def build(self) -> ScheduleTrace:
        b, p = self.b, self.point
        loaded, stored = cache_registers(b)
        staged_in = self.stage_loads() if p["load"] != VECTOR else {}
        if is_kept_there(p):
            self.in_tmem = dict(stage_in_tmem(b, n) for n in loaded if self.space.is_stream(self.operand(n)))
        sent = self.multicasts.stage(b, loaded) if self.multicasts is not None else {}
        staged_in |= sent
        staged_out = {send(b, name, p["store"]): name for name in b.sf.outputs if p["store"] != VECTOR}
        outputs = list(b.sf.outputs)
        copied = staged_in if is_copied(p["load"]) else {}
        threaded = [op.output for op in b.sf.ops if op.output not in staged_in or op.output in copied]
        if staged_out:
            threaded = [name for name in threaded if name not in outputs]
        words = self.words(loaded, staged_out)
        words |= {shared: words[register] for shared, register in copied.items()}
        copies = {name: TMA if name in sent else p["load"] for name in (() if copied else staged_in)}
        copies |= dict.fromkeys(outputs if staged_out else (), p["store"])
        in_boxes = [name for name, how in copies.items() if self.is_in_boxes(name, how)]
        b.alike((*reversed(threaded), *(name for name in copies if name not in in_boxes)), self.to_tiles)
        b.alike(in_boxes, self.to_boxes)
        for name in (*copied, *staged_out):
            self.set_tile_allocation(name, boxes=1 if name in copied else self.boxes)
        self.thread_loops(loaded, threaded, staged_in, staged_out, words, copies)
        self.tile_copies(copies, in_boxes)
        self.inline(loaded, stored, threaded, staged_in, staged_out)
        # What blocks or rows read again is to stay in the caches.
        direct = [n for n in loaded if n not in staged_in.values() and self.space.is_stream(self.operand(n))]
        set_cache(b, direct, p["cache_load"])
        again = [n for n in loaded if n not in staged_in.values() and n not in direct]
        set_cache(b, again, p["cache_broadcast"])
        if not staged_out:
            set_cache(b, outputs, p["cache_store"])
        return b.trace()

    def operand(self, loaded: str) -> Operand:
        """The input, as it is read, that a register tensor is loaded from, be it through shared memory."""
        operands = {o.first: o for o in self.space.operands if not o.is_output}
        while loaded not in operands:
            op = self.b.sf.producer(loaded)
            assert op is not None, "what is loaded is loaded from an input"
            loaded = op.tensor_inputs[0]
        return operands[loaded]

    def words(self, loaded: list[str], staged_out: dict[str, str]) -> dict[str, int]:
        """Elements of one access of every tensor that is loaded or stored by threads."""
        found = {name: self.lanes(self.operand(name)) for name in loaded}
        shared = {output: name for name, output in staged_out.items()}
        for o in self.space.operands:
            if o.is_output:
                found[shared.get(o.name, o.name)] = self.lanes(o)
        return found

    def lanes(self, operand: Operand) -> int:
        """Elements of one access of an operand."""
        view, most = self.point["view"], self.point["vector"]
        if self.straddles(operand):
            return int(most)
        if self.phase is not None:
            return lanes_along(self.space, operand, self.phase, most)
        return self.space.lanes(operand, view, most)

    def straddles(self, operand: Operand) -> bool:
        """Whether an operand comes in words that straddle two aligned ones."""
        in_words = self.point["rows_begin"] == IN_WORDS
        return in_words and self.phase is not None and straddles(self.space, operand, self.phase)

    # Staging through shared memory -----------------------------------------------------------------------------------

    def stage_loads(self) -> dict[str, str]:
        """Puts a shared tensor before the register copy of every stream. Returns shared tensor -> register copy."""
        sources = dict.fromkeys(o.name for o in self.space.stageable)
        shared = [stage(self.b, source, self.point["load"]) for source in sources]
        return {tile: self.b.sf.consumers(tile)[0].output for tile in shared}

    # Loops -----------------------------------------------------------------------------------------------------------

    def to_tiles(self, tv: str) -> None:
        """Merges and splits to [tile.., rows.., columns]."""
        b, space = self.b, self.space
        if not self.two_d:
            b.merge(tv, 0, len(space.shape))
            b.split(tv, 0, self.cols)
        else:
            for at, group in enumerate(space.groups):
                b.merge(tv, at, len(group))
            outer = len(space.groups) - 1
            if self.phase is not None:
                by, factors = zip(*self.phase.strides, strict=True) if self.phase.strides else ((), ())
                b.do(steps.Shift(tv, outer, by, factors, self.phase.modulus, self.phase.start))
            b.reorder(tv, [*space.outer_order(self.point["row_order"]), outer])
            inside = [1]
            if self.apart > 1:
                self.cut_rows_apart(tv, outer - 1)
                inside = [1, 2]
            else:
                b.split(tv, outer - 1, self.rows)
            if self.held > 1:
                self.hold(tv, outer)
                inside = [1, 2]
            if self.multicasts is not None:
                self.multicasts.gather(b, tv, self.point["row_order"], self.point["multicast"])
                inside = [1, 2]
            if self.swept:
                self.sweep(tv, outer)
            b.merge(tv, 0, outer + (self.swept > 0))
            columns = inside[-1] + 1
            b.split(tv, columns, self.cols)
            if parts := space.swept_parts(self.point["tile_order"]):
                b.split(tv, columns, -(-b.tensor(tv).loop[columns].extent // parts))
                b.reorder(tv, [columns, 0, columns + 1, *inside, columns + 2])
                b.merge(tv, 0, 3)
            else:
                tiles = [columns, 0] if self.point["tile_order"] == "rows_inner" else [0, columns]
                b.reorder(tv, [*tiles, *inside, columns + 1])
                b.merge(tv, 0)
        self.persist(tv)

    def cut_rows_apart(self, tv: str, at: int) -> None:
        """[.., rows, columns] -> [.., row tiles, thread rows, rows of a thread, columns]: those of a thread begin
        at the same phase."""
        self.b.split(tv, at, self.apart)
        self.b.split(tv, at, self.point["rows"])
        axes = range(len(self.b.tensor(tv).loop))
        self.b.reorder(tv, [*axes[: at + 1], at + 2, at + 1, *axes[at + 3 :]])
        self.b.merge(tv, at)
        self.b.split(tv, at, self.point["threads_y"])

    def hold(self, tv: str, outer: int) -> None:
        """[.., held group, row tiles, rows, columns] -> [.., row tiles, held tiles, rows, held steps, columns].

        Blocks that go on with what another has held are neighbours, so that they find it in the L2 cache.
        """
        at = outer - 2
        self.b.split(tv, at, self.held)
        tiles, steps, row_tiles, rows, columns = range(at, at + 5)
        self.b.reorder(tv, [*range(at), row_tiles, tiles, rows, steps, columns])

    def sweep(self, tv: str, outer: int) -> None:
        """[.., repeating group, .., row tiles, rows, columns] -> [.., sweeps, repeating group, .., swept tiles, rows,
        columns]: blocks use what broadcast operands have for the swept tiles again while it is in the L2 cache."""
        at, repeating = outer - 1, self.space.held_group
        assert repeating is not None, "orders of SWEPT have a group that an operand repeats along"
        self.b.split(tv, at, self.swept)
        axes = range(outer + 3)
        self.b.reorder(tv, [*axes[:repeating], at, *(a for a in axes[repeating:] if a != at)])

    def persist(self, tv: str) -> None:
        """[tile, ..] -> [block, iteration, ..] where blocks are persistent; [block, round, buffer, ..] where tiles are
        buffered in tensor memory."""
        if self.point["blocks_per_sm"] and self.multicasts is None:
            persist(self.b, tv, self.point["blocks_per_sm"] * self.sm_count)
        if self.buffers > 1:
            self.b.split(tv, 1, self.buffers)

    @property
    def boxes(self) -> int:
        """Boxes beside each other in a tile that is stored from shared memory."""
        return self.cols // self.box if is_mapped(self.point["store"]) else 1

    def thread_loops(
        self,
        loaded: list[str],
        threaded: list[str],
        staged_in: dict[str, str],
        staged_out: dict[str, str],
        words: Mapping[str, int],
        copies: Iterable[str],
    ) -> None:
        """All loops of the tensors of threads inside the tile, and their types, those of tiles for `copies` too. Lanes
        of a tensor that is moved in narrower words are two axes: word, lane."""
        b, p, vector = self.b, self.point, self.point["vector"]
        from_last = [*reversed(threaded)]
        from_last.sort(key=lambda name: 1 < words.get(name, vector) < vector)
        b.alike(from_last, self.to_threads)
        moved = dict.fromkeys(self.in_tmem, p.get("tmem_store", 1))
        moved |= dict.fromkeys(self.in_tmem.values(), p.get("tmem_load", 1))
        for name, count in moved.items():
            cut_by_words(b, name, self.own_at, count)
        in_words = b.split_words({name: words[name] for name in threaded if name in words}, vector)
        b.parallelize_alike([*from_last, *copies], [*self.tile_types, *self.thread_types, *self.held_types, P.UNROLL])
        b.vectorize_words(in_words)
        b.do(*(steps.Straddle(name) for name in loaded if self.straddles(self.operand(name))))
        ends = staged_out or b.sf.outputs
        whole = []
        for name in threaded:
            repeats = b.tensor(name).loop[-1].is_broadcast
            is_moved = (name in loaded and not repeats) or name in ends or name in staged_in
            if name not in moved and words.get(name, vector) == vector and (is_moved or is_packed_cast(b, name)):
                whole.append(name)
        b.vectorize(whole)
        for name in moved:
            move_by_words(b, name)
        tiles = self.lead - 1 if self.buffers > 1 else None
        loops = ThreadLoops(self.own_at - 1, self.lead if self.two_d else None, tiles)
        for name in self.in_tmem:
            place_in_tmem(b, name, loops, p["tmem_pattern"], p["tmem_dimsep"])

    @property
    def lead(self) -> int:
        """Leading axes of a tile: 1, or 2 where blocks are persistent, [block, iteration], or share what a multicast
        brings, [cluster, block of it]; 3 where tiles are buffered in tensor memory, [block, round, buffer]."""
        several = bool(self.point["blocks_per_sm"]) or self.multicasts is not None
        return 1 + several + (self.buffers > 1)

    @property
    def own_at(self) -> int:
        """Where the loops over what one thread has begin."""
        return self.lead + len(self.thread_types)

    @property
    def tile_types(self) -> list[P]:
        return [P.BIDX, P.CLUSTER if self.multicasts is not None else P.SERIAL, P.UNROLL][: self.lead]

    @property
    def thread_types(self) -> list[P]:
        return [P.TIDY, P.TIDX] if self.two_d else [P.TIDX]

    @property
    def held_types(self) -> list[P]:
        """Of what a thread has, but the lanes of a vector."""
        return [P.UNROLL] * (3 if self.held > 1 else 2 if self.two_d else 1)

    @property
    def lane_at(self) -> int:
        """Where the lanes stand among the axes of a tensor of threads."""
        return self.lead + len(self.thread_types) + len(self.held_types)

    def to_threads(self, tv: str) -> None:
        """[tile.., rows, columns] -> [tile.., thread row, thread column, column step, row, lane]."""
        b, p, lead = self.b, self.point, self.lead
        at = lead
        if self.two_d:
            at += 3 if self.held > 1 else 2
            if self.apart == 1:
                b.split(tv, lead, p["rows"])
        b.split(tv, at, p["vector"])
        b.split(tv, at, p["threads_x"])
        tile = list(range(lead))
        if self.two_d:
            ty, row, *held, step, tx, lane = range(lead, at + 3)
            b.reorder(tv, [*tile, ty, tx, *held, step, row, lane])
        else:
            step, tx, lane = range(lead, lead + 3)
            b.reorder(tv, [*tile, tx, step, lane])

    def set_tile_allocation(self, tv: str, boxes: int) -> None:
        """Lays a shared tile out as the boxes that the copy engine walks: [box, rows, box columns]."""
        b, lead = self.b, self.lead
        columns = len(b.tensor(tv).loop) - 1
        if boxes == 1:
            b.do(steps.SetAllocationDomain(tv, tuple(range(columns + 1))))
            return
        b.split(tv, columns, self.box)
        order = (*range(lead), columns, *range(lead, columns), columns + 1)
        b.do(steps.SetAllocationDomain(tv, order))
        b.merge(tv, columns)

    def is_in_boxes(self, tv: str, how: str) -> bool:
        """Whether a tile of the one-dimensional view is copied as rows of a box."""
        # Of a tensor that is one tile, the rows of the box would be one dimension with its columns.
        is_cut = not self.two_d and self.space.elems % self.box == 0 and self.space.elems > self.cols
        is_load = self.b.tensor(tv).memory is MemoryType.SHARED
        return is_mapped(how) and is_load and is_cut and 1 < self.cols // self.box <= TENSOR_MAP_BOX

    def to_boxes(self, tv: str) -> None:
        """The one-dimensional view as rows of one box width: [tile.., rows of the box, columns of the box]."""
        b = self.b
        b.merge(tv, 0, len(self.space.shape))
        b.split(tv, 0, self.box)
        b.split(tv, 0, self.cols // self.box)
        self.persist(tv)

    def tile_copies(self, copies: Mapping[str, str], in_boxes: Sequence[str]) -> None:
        """Loops of bulk copies of a tile inside it: [tile.., box, rows, columns] with the engine's axes last."""
        b, lead = self.b, self.lead
        cut = [n for n, how in copies.items() if is_mapped(how) and n not in in_boxes and self.cols > self.box]
        columns = lead + self.two_d
        order = [*range(lead), columns, *range(lead, columns), columns + 1]

        def cut_boxes(tv: str) -> None:
            b.split(tv, columns, self.box)
            b.reorder(tv, order)

        b.alike(cut, cut_boxes)
        by_types: dict[tuple[P, ...], list[str]] = {}
        for name, how in copies.items():
            axes = b.tensor(name).loop
            repeats = self.two_d and axes[-2].is_broadcast
            row = P.UNROLL if is_run(how) else P.SERIAL if repeats else P.BULK
            rows = [row] if self.two_d or name in in_boxes else []
            boxes = [P.UNROLL] if name in cut else []
            by_types.setdefault((*self.tile_types, *boxes, *rows, P.BULK), []).append(name)
        for types, names in by_types.items():
            b.parallelize_alike(names, types)

    # Inlining --------------------------------------------------------------------------------------------------------

    def inline(
        self,
        loaded: list[str],
        stored: list[str],
        threaded: list[str],
        staged_in: dict[str, str],
        staged_out: dict[str, str],
    ) -> None:
        """Where tensors are computed: tiles once, loads ahead of all columns, the rest with what is stored."""
        b, p = self.b, self.point
        ends = staged_out or b.sf.outputs
        in_tmem = [name for pair in self.in_tmem.items() for name in pair]
        first = choosing(b)
        between = [n for n in threaded if n not in (*loaded, *stored, *ends, *staged_in, *in_tmem, *first)]
        inline_body(b, between, stored, self.lane_at)
        b.inline((*dict.fromkeys((*loaded, *sorted(first))), *self.in_tmem.values()), self.own_at)
        # The tiles of a round are all there before the first is used.
        b.inline(self.in_tmem, self.lead - 1 if self.buffers > 1 else self.own_at)
        b.inline((*staged_in, *staged_out), self.lead)
        turn(b, staged_in, p, (p["threads_x"], p["threads_y"]))
