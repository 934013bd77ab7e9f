"""Tile2d: transposes and permutes through a two-dimensional tile in shared memory.

P is the run of dimensions contiguous in the transposed inputs, Q the one contiguous in the outputs, the rest is batch.
An input is transposed by a permute, or because its memory is in another order; what lies in the outputs' order is
loaded by vectors beside it, ahead of the tile's barrier or where it is used.
A block moves tiles of `tile_in` (along P) by `tile_out` (along Q) elements; a thread transposes blocks of `vector_in`
by `vector_out` in registers:

    source -> [shared tile, rows of Q] -> registers (vectors along P)
           -> permute -> pointwise, with inputs in the outputs' order -> [shared tile, rows of P] -> outputs

In place of the first shared tile there may be tensor memory (`tile2d_tmem`), or nothing.

Loops of the threaded tensors: tile | thread | step | P inside the vector block | Q inside it (before the permute Q, P).
Where rows begin at any address (odd pitches), a tile's run of them is shifted to the boundaries of a warp's accesses;
or rows are shifted as wholes, and what tiles then share, a halo of less than a sector, is loaded by both.
Elements narrower than a register then come as words that straddle two aligned ones, go to shared memory by themselves,
and leave as aligned words, of which those at a run's ends are cut (CUB, batched memory copies). Or rows lie in the
shared tile as they do in memory, from a multiple of a vector on, and are loaded by aligned vectors, past the registers
too; reading a column then takes each row's own phase into account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.arch import BANK_BYTES, WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import BANKS, DIRECT, EARLY, MATH, ODD, PHASES, VECTOR, is_mapped, send, set_cache, turn
from search.space.schedulers.pointwise_body import inline_body, is_packed_cast
from search.space.schedulers.tile2d_facts import Tile2dFacts
from search.space.schedulers.tile2d_matrix import MATRIX, fragment_loops, fragment_types, is_direct, stores_matrices
from search.space.schedulers.tile2d_sources import Chain, add_chain, cache_rest, loads_by_vector, through_tmem
from search.space.schedulers.tile2d_space import tile2d_space
from search.space.schedulers.tile2d_tiles import (
    TileAxes,
    box_width,
    row_pitch,
    set_copy_allocation,
    set_tile_allocation,
)
from search.space.schedulers.tile2d_tmem import exchange_of_point, exchanged_loops, exchanged_types
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from search.space.space import Space

P = ParallelType


@dataclass(frozen=True, slots=True)
class Tile2d:
    """The two-dimensional tile scheduler; `sm_count` sizes the grid of persistent schedules."""

    sm_count: int
    name: str = "tile2d"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions that only move and compute, with an input that has another dimension innermost."""
        return refusal_by(lambda sf: self._taken(transposed_space(sf), arch), fusion)

    def _taken(self, found: TransposedSpace | str, arch: Arch) -> TransposedSpace | str:
        if isinstance(found, str) or not Tile2dFacts(found, arch, self.sm_count).is_too_small:
            return found
        return f"a tile of {found.extent_in} x {found.extent_out} elements has fewer than a block has threads"

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return tile2d_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _Tile2dTrace(TraceBuilder(fusion, point[MATH]), point, self.sm_count).build()


@dataclass
class _Tile2dTrace:
    b: TraceBuilder
    point: Mapping[str, Any]
    sm_count: int
    chains: list[Chain] = field(default_factory=list)
    vectorized: set[str] = field(default_factory=set)
    """Operands loaded a vector at a time; the others are loaded element by element."""

    def __post_init__(self) -> None:
        found = transposed_space(self.b.sf)
        assert isinstance(found, TransposedSpace), "refused fusions have no points"
        self.space = found
        self.axes = TileAxes(self.b, found, self.point, self.sm_count)
        self.lanes_in = self.point["threads"] // self.point["lanes_out"]
        self.lead = self.axes.lead
        self.matrices = self.point.get("move") == MATRIX
        self.by_engine = is_mapped(self.point["load"])
        self.exchange = exchange_of_point(self.point)

    def build(self) -> ScheduleTrace:
        b, p, space = self.b, self.point, self.space
        load, is_staged = p["load"], p["store"] != VECTOR
        outputs = b.sf.outputs
        self.chains = [add_chain(b, source, load) for source in space.sources]
        if self.exchange is not None:
            self.chains = [through_tmem(b, chain, p["tmem_rounds"]) for chain in self.chains]
        operands = cache_rest(b, self.chains)
        stored, staged = [], []
        for name in outputs:
            b.do(steps.CacheOutput(name, f"{name}_r", MemoryType.LOCAL))
            stored.append(f"{name}_r")
            if is_staged:
                staged.append(send(b, name, p["store"]))
        for name in (c.block for c in self.chains if self.matrices and load != DIRECT):
            b.do(steps.SetMemory(name, MemoryType.LOCAL, CopyVia.LDMATRIX))
        for name in staged if stores_matrices(p) else ():
            b.do(steps.SetMemory(name, MemoryType.SHARED, CopyVia.STMATRIX))
        before = {n for c in self.chains for n in c.tensors}
        ends = staged if is_staged else list(outputs)
        apart = before | {*outputs, *staged}
        after = [op.output for op in b.sf.ops if op.output not in apart]
        along_q = not (self.matrices and is_direct(p))
        self.vectorized = {n for n in operands if along_q and loads_by_vector(b, n, p["vector_out"])}

        self.block_loops([*reversed(after), *reversed(ends)], staged)
        for chain in self.chains:
            if chain.shared and self.by_engine:
                self.tile_copy(chain.shared, load=True)
            elif chain.shared:
                self.fetch_loops(chain)
        if is_staged:
            for name in outputs:
                self.tile_copy(name, load=False)
        self.parallelize(after, ends)
        self.inline(after, operands, stored, staged)
        loaded = [c.fetched or c.shared or c.block for c in self.chains if not self.by_engine]
        set_cache(b, loaded, p["cache_load"])
        set_cache(b, [] if is_staged else list(outputs), p["cache_store"])
        return b.trace()

    # Loops -----------------------------------------------------------------------------------------------------------

    def block_loops(self, names: list[str], staged: list[str]) -> None:
        """[tile.., thread, step, P, Q] of what is in the outputs' order; of what is loaded to be transposed Q, P."""
        b, p, lead = self.b, self.point, self.lead
        blocks = [chain.block for chain in self.chains]
        dims = {name: chain.dims for chain in self.chains for name in chain.tensors}
        plain, is_shifted = self.plain, p["shift_store"]
        stop_here = [] if is_shifted else plain
        in_two = bool(stop_here or staged or self.matrices or self.exchange)

        def to_tiles(tv: str) -> None:
            self.axes.to_tiles(tv, dims.get(tv, ()), shift="target" if is_shifted and tv not in plain else "")

        def to_blocks(tv: str) -> None:
            if not in_two:
                to_tiles(tv)
            self.to_blocks(tv)

        if in_two:
            b.alike([*names, *blocks, *self.passing, *stop_here], to_tiles)
        if is_shifted:
            b.alike(plain, to_tiles)
        for name in staged:
            set_tile_allocation(b, name, p["store_layout"], phase_rows=1, word=p["vector_out"])
        if self.matrices:
            for is_fragment in (True, False):
                own = [n for n in (*names, *blocks) if self.is_fragment(n) is is_fragment]
                b.alike(own, lambda tv: fragment_loops(b, tv, lead, p, is_fragment=self.is_fragment(tv)))
            return
        if self.exchange is not None:
            exchanged_loops(b, self.chains, names, lead, p, self.exchange)
            return
        b.alike([*names, *blocks], to_blocks)
        b.alike(blocks, lambda tv: b.reorder(tv, [*range(lead + 2), lead + 3, lead + 2]))

    @property
    def plain(self) -> list[str]:
        """The tensors of whole tiles that are not shifted: what the copy engine moves, and rows that threads load where
        the outputs' rows are not shifted either."""
        p, outputs = self.point, self.b.sf.outputs
        fetched = [n for c in self.chains if c.shared for n in (c.fetched, c.shared) if n]
        is_plain = self.by_engine or not (p["shift_load"] or p["shift_store"] or p["layout"] == PHASES)
        return [*(fetched if is_plain else ()), *(outputs if p["store"] != VECTOR else ())]

    @property
    def passing(self) -> list[str]:
        """The tensors by which sources pass through tensor memory, but for the registers that they come back to."""
        return [n for c in self.chains if c.in_tmem for n in (c.fetched, *c.in_tmem, *c.between)]

    def to_blocks(self, tv: str) -> None:
        """[tile.., P, Q] -> [tile.., thread, step, P in the vector block, Q in it]."""
        b, p, lead = self.b, self.point, self.lead
        b.split(tv, lead + 1, p["vector_out"])
        b.split(tv, lead + 1, p["lanes_out"])
        b.split(tv, lead, p["vector_in"])
        b.split(tv, lead, self.lanes_in)
        step_p, lane_p, in_p, step_q, lane_q, in_q = range(lead, lead + 6)
        b.reorder(tv, [*range(lead), lane_p, lane_q, step_p, step_q, in_p, in_q])
        b.merge(tv, lead)
        b.merge(tv, lead + 1)

    def is_fragment(self, tv: str) -> bool:
        """Whether a tensor is moved by matrices."""
        op = self.b.sf.producer(tv)
        return op is not None and op.via.is_matrix

    def fetch_loops(self, chain: Chain) -> None:
        """Loads of whole rows of a source, and the stores of them to its shared tile."""
        b, p, last = self.b, self.point, self.lead + 2
        b.alike([chain.shared, *filter(None, (chain.fetched,))], lambda tv: self.row_loops(tv, chain))
        bank = BANK_BYTES // b.tensor(chain.shared).dtype.nbytes
        if p["layout"] == BANKS and not p["shift_load"] and p["load_vector"] > bank:
            b.split(chain.shared, last, bank)

    def row_loops(self, tv: str, chain: Chain) -> None:
        """[tile.., thread, step, lane] of whole rows, threads along P first; a shared tile is laid out on the way.

        Of shifted rows a warp loads pieces of its own length, so that each begins on a multiple of it; or they lie in
        the tile as in memory, so that words do.
        """
        b, p, lead = self.b, self.point, self.lead
        word, nbytes = max(p["load_vector"], p["vector_in"]), b.tensor(tv).dtype.nbytes
        allocate, in_words = tv == chain.shared, p["layout"] == PHASES
        is_shifted = p["shift_load"] and not in_words
        pitch = row_pitch(p["layout"], p["tile_in"], nbytes, word) if allocate and is_shifted else 0
        if in_words:
            self.axes.to_places(tv, chain.dims, chain.source)
        elif is_shifted:
            self.axes.to_tiles(tv, chain.dims, shift="source", pitch=pitch)
        elif tv not in self.plain:
            self.axes.to_tiles(tv, chain.dims)
        b.reorder(tv, [*range(lead), lead + 1, lead])
        if not is_shifted:
            if allocate:
                rows, past = p["vector_out"], word
                if in_words:
                    rows, past = self.axes.rows_apart(chain.source), self.axes.begins
                set_tile_allocation(b, tv, p["layout"], phase_rows=rows, word=past)
            b.split(tv, lead + 1, p["load_vector"])
            b.merge(tv, lead)
            b.split(tv, lead, p["threads"])
            b.reorder(tv, [*range(lead), lead + 1, lead, lead + 2])
            return
        b.split(tv, lead + 1, p["load_vector"])
        b.split(tv, lead + 1, WARP_THREADS)
        b.split(tv, lead, p["threads"] // WARP_THREADS)
        step_q, warp, step_p, lane, vector = range(lead, lead + 5)
        b.reorder(tv, [*range(lead), warp, lane, step_q, step_p, vector])
        b.merge(tv, lead)
        b.merge(tv, lead + 1)

    def tile_copy(self, tv: str, *, load: bool) -> None:
        """Loops of a tensor-map copy: [tile.., box, rows, box columns], the engine's axes Bulk."""
        b, p, lead = self.b, self.point, self.lead
        if load:
            b.reorder(tv, [*range(lead), lead + 1, lead])
        rows, columns = lead, lead + 1
        layout = p["layout"] if load else p["store_layout"]
        extent = b.tensor(tv).loop[columns].extent
        width = box_width(b, tv, layout, extent)
        if width < extent:
            b.split(tv, columns, width)
            b.reorder(tv, [*range(lead), columns, rows, columns + 1])
        if load:
            set_copy_allocation(b, tv, layout)

    # Parallel types and inlining -------------------------------------------------------------------------------------

    def parallelize(self, after: list[str], ends: list[str]) -> None:
        b, lead = self.b, self.lead
        tile = [P.BIDX, *[P.SERIAL] * (lead - 1), P.TIDX, P.UNROLL]
        blocks = [chain.block for chain in self.chains]
        if self.exchange is not None:
            exchanged_types(b, self.chains, tile)
            blocks = []
        fragments = [n for n in (*after, *ends, *blocks) if self.matrices and (n in blocks or self.is_fragment(n))]
        others = [n for n in (*reversed(after), *reversed(ends), *blocks) if n not in fragments]
        b.parallelize_alike([*others, *self.plain], [*tile, P.UNROLL, P.UNROLL])
        b.vectorize(n for n in others if n not in blocks and (n in (*ends, *self.vectorized) or is_packed_cast(b, n)))
        b.vectorize(n for n in others if n in blocks)
        for name in fragments:
            b.parallelize(name, [*tile, *fragment_types(b, name, lead)])
        for chain in self.chains:
            for name in (chain.fetched, chain.shared) if chain.shared and not self.by_engine else ():
                if name:
                    by_elements = name == chain.shared and self.point["layout"] == ODD
                    words = [P.UNROLL] * (len(b.tensor(name).loop) - lead - 3)
                    b.parallelize(name, [*tile, *words, P.UNROLL if by_elements else P.VECTORIZE])
            if (
                chain.fetched
                and chain.shared
                and not self.point["shift_load"]
                and not self.space.loads_by(self.point["load_vector"])
            ):
                b.do(steps.Straddle(chain.fetched))

        by_engine = [c.shared for c in self.chains if c.shared] if self.by_engine else []
        for name in (*by_engine, *(b.sf.outputs if self.point["store"] != VECTOR else ())):
            boxes = [P.UNROLL] * (len(b.tensor(name).loop) - lead - 2)
            b.parallelize(name, [*tile[:lead], *boxes, P.BULK, P.BULK])

    def inline(self, after: list[str], operands: list[str], stored: list[str], staged: list[str]) -> None:
        b, p, lead = self.b, self.point, self.lead
        lanes_at = lead + 3
        permuted = [c.permuted for c in self.chains if c.permuted]
        between = [n for n in after if n not in (*operands, *stored, *permuted)]
        inline_body(b, between, stored, lanes_at)
        b.inline(operands, lead + (1 if p["operands"] == EARLY else 2))
        whole: list[str] = []
        others: list[str] = []
        for name in permuted:
            if name not in stored:
                readers = [op.output for op in b.sf.consumers(name)]
                is_whole = any(r in stored or is_packed_cast(b, r) for r in readers)
                (whole if is_whole else others).append(name)
        b.inline(whole, lanes_at)
        b.inline(others, lanes_at + 1)
        is_direct = p["load"] == DIRECT and self.exchange is None
        b.inline((c.block for c in self.chains), lead + 1 if is_direct else lead + 2)
        b.inline((n for c in self.chains for n in c.in_tmem), lead)
        b.inline((n for c in self.chains for n in (c.fetched, *c.between) if n), lead + 1)
        shared = [c.shared for c in self.chains if c.shared]
        b.inline((*shared, *staged), lead)
        turn(b, shared, p, (p["threads"],))
