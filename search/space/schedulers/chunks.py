"""Chunks: permutes inside runs of memory, of which a shared tile holds some whole.

Where the dimensions that a permute moves are short, neither side has rows that are worth a tile of their own; but what
one index of the dimensions before them has, a chunk, is a run of memory on both sides. A block copies a few chunks to
shared memory as they lie, and its threads store the outputs' elements in the order of theirs, gathering from there:

    source -> [shared tile, as in memory] -> permute -> pointwise -> outputs

Loops of the threaded tensors: tile | thread | turn | step | lane. `chunks` of them are cut among the threads without
rest; the next step does the same to the next so many, at places that differ by a constant: which place of a chunk an
element has is worked out once for all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import BANK_BYTES, Arch
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import VIEWS
from compiler.schedule import steps
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from search.space.groups import MATH, PAD, is_run, set_cache, stage
from search.space.schedulers.chunks_facts import ChunkSource, ChunkSpace, chunk_space
from search.space.schedulers.chunks_space import chunks_space
from search.space.schedulers.pointwise_body import inline_body, is_packed_cast
from search.space.space import Space

P = ParallelType
LANE = 4
"""Where the lanes stand among the axes."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The scheduler of permutes inside runs of memory."""

    name: str = "chunks"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions of which every permuted input keeps its outermost dimensions, and the rest as a run of memory
        of which three fit the shared memory of a multiprocessor."""
        try:
            found = chunk_space(start(fusion))
        except Unsupported as e:
            return str(e)
        if isinstance(found, str):
            return found
        if chunks_space(fusion, arch) is None:
            return f"no number of threads cuts runs of {found.elems} elements without rest, or three do not fit an SM"
        return None

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        found = chunks_space(fusion, arch)
        assert found is not None, "refused fusions have no space"
        return found

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _ChunksTrace(TraceBuilder(fusion, point[MATH]), point).build()


@dataclass
class _ChunksTrace:
    b: TraceBuilder
    point: Mapping[str, Any]

    def __post_init__(self) -> None:
        found = chunk_space(self.b.sf)
        assert isinstance(found, ChunkSpace), "refused fusions have no points"
        self.found = found

    def build(self) -> ScheduleTrace:
        b, p = self.b, self.point
        shared: dict[str, ChunkSource] = {}
        for source in self.found.sources:
            tile = stage(b, source.name, p["load"])
            shared[tile] = source
            if not source.is_view:
                b.do(steps.CacheInput(tile, f"{source.name}_r", MemoryType.LOCAL))
        beside = self.load_beside()
        outputs = b.sf.outputs
        stored = [f"{name}_r" for name in outputs]
        for name, register in zip(outputs, stored, strict=True):
            b.do(steps.CacheOutput(name, register, MemoryType.LOCAL))
        threaded = [op.output for op in b.sf.ops if op.output not in shared]
        vector = p["vector"]
        from_last = [*reversed(threaded)]
        from_last.sort(key=lambda name: 1 < beside.get(name, vector) < vector)
        b.alike(from_last, self.to_threads)
        in_words = b.split_words(beside, vector)
        for tile, source in shared.items():
            self.tile_copy(tile, source)
        b.parallelize_alike(from_last, [P.BIDX, P.TIDX, P.UNROLL, P.UNROLL, P.UNROLL])
        b.vectorize_words(in_words)
        moved = [name for name in threaded if name in beside or name in outputs or is_packed_cast(b, name)]
        b.vectorize(name for name in moved if beside.get(name, vector) == vector)
        between = [n for n in threaded if n not in (*beside, *stored, *outputs)]
        inline_body(b, between, stored, LANE)
        b.inline(beside, 2)
        b.inline(shared, 1)
        set_cache(b, list(outputs), p["cache_store"])
        return b.trace()

    def load_beside(self) -> dict[str, int]:
        """Loads what is no source into registers. Returns each register tensor with the elements of its words."""
        b, space = self.b, self.found.space
        sources = {source.name for source in self.found.sources}
        found: dict[str, int] = {}
        for o in (o for o in space.operands if not o.is_output and o.name not in sources):
            if any(op.kind not in VIEWS for op in b.sf.consumers(o.name)) and f"{o.name}_r" not in b.sf.by_name:
                b.do(steps.CacheInput(o.name, f"{o.name}_r", MemoryType.LOCAL))
            loaded = f"{o.name}_r" if o.first == o.name else o.first
            repeats = not space.stride(o, len(space.groups) - 1)
            found[loaded] = 1 if repeats else space.lanes(o, "1d", self.point["vector"])
        return found

    def to_threads(self, tv: str) -> None:
        """[tile, thread, turn, step, lane]."""
        b, p, batch = self.b, self.point, self.found.batch
        b.merge(tv, 0, batch)
        b.split(tv, 0, p["steps"] * p["chunks"])
        b.split(tv, 1, p["chunks"])
        b.merge(tv, 2, len(b.tensor(tv).loop) - 2)
        b.split(tv, 2, p["vector"])
        b.split(tv, 2, p["threads"])
        b.reorder(tv, [0, 3, 2, 1, 4])

    def tile_copy(self, tv: str, source: ChunkSource) -> None:
        """[tile, run] or, copied by threads, [tile, thread, turn, word]: the tile as it lies in memory, or its rows
        longer by a word."""
        b, p = self.b, self.point
        b.reorder(tv, source.order)
        b.merge(tv, 0, source.batch)
        b.split(tv, 0, p["steps"] * p["chunks"])
        axes = len(b.tensor(tv).loop)
        if p["layout"] == PAD:
            pitch = b.tensor(tv).loop[-1].extent + max(p["load_vector"], BANK_BYTES // source.nbytes)
            b.do(steps.SetAllocationDomain(tv, tuple(range(axes)), (), (*[None] * (axes - 2), pitch, 1)))
        b.merge(tv, 1, axes - 1)
        if p["layout"] != PAD:
            b.do(steps.SetAllocationDomain(tv, (0, 1)))
        if is_run(p["load"]):
            b.parallelize(tv, [P.BIDX, P.BULK])
            return
        b.split(tv, 1, p["load_vector"])
        b.split(tv, 1, p["threads"])
        b.reorder(tv, [0, 2, 1, 3])
        b.parallelize(tv, [P.BIDX, P.TIDX, P.UNROLL, P.VECTORIZE])
