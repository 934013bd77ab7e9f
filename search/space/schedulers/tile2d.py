"""Tile2d: transposes and permutes through a two-dimensional tile in shared memory.

P is the run of dimensions contiguous in the input, Q the one contiguous in the output, the rest is batch. A block moves
tiles of `tile_in` (along P) by `tile_out` (along Q) elements; a thread transposes blocks of `vector_in` by `vector_out`
in registers:

    input  -> [shared tile, rows of Q] -> registers (vectors along P)
           -> permute -> pointwise -> [shared tile, rows of P] -> output

Loops of the threaded tensors: tile | thread | step | P inside the vector block | Q inside it (before the permute Q, P).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.arch import Arch
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import VIEWS
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.flat_space import MAX_BOX
from search.space.schedulers.pointwise_body import inline_body, is_packed_cast, set_cache, set_grades
from search.space.schedulers.tile2d_space import SPANS, tile2d_space
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from search.space.space import Space

P = ParallelType
CHUNK_BYTES = 16
LINE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Tile2d:
    """The two-dimensional tile scheduler; `sm_count` sizes the grid of persistent schedules."""

    sm_count: int
    name: str = "tile2d"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions of one output whose one full-shape input is permuted with another dimension innermost."""
        try:
            found = transposed_space(start(fusion))
        except Unsupported as e:
            return str(e)
        return found if isinstance(found, str) else None

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return tile2d_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _Tile2dTrace(TraceBuilder(fusion), point, self.sm_count).build()


@dataclass
class _Tile2dTrace:
    b: TraceBuilder
    point: Mapping[str, Any]
    sm_count: int
    vectorized: set[str] = field(default_factory=set)
    """Operands loaded a vector at a time; the others are loaded element by element."""

    def __post_init__(self) -> None:
        found = transposed_space(self.b.sf)
        assert isinstance(found, TransposedSpace), "refused fusions have no points"
        self.space = found
        self.source = found.source
        self.output = self.b.sf.outputs[0]
        self.permuted = self.b.sf.consumers(self.source)[0].output
        self.dims = self.b.sf.consumers(self.source)[0].dims
        p = self.point
        self.lanes_in = p["threads"] // p["lanes_out"]
        self.lead = 2 if p["blocks_per_sm"] else 1

    def build(self) -> ScheduleTrace:
        b, p, source, output = self.b, self.point, self.source, self.output
        load, store = p["load"], p["store"]
        block, shared_in, fetched = f"{source}_r", f"{source}_s", f"{source}_g"
        if load == "vector":
            b.do(steps.CacheInput(source, fetched, MemoryType.LOCAL))
            b.do(steps.CacheInput(fetched, shared_in, MemoryType.SHARED))
        elif load == "tma":
            b.do(steps.CacheInput(source, shared_in, MemoryType.SHARED, CopyVia.TMA))
        b.do(steps.CacheInput(source if load == "direct" else shared_in, block, MemoryType.LOCAL))
        for name in b.sf.inputs:
            if name != source and any(op.kind not in VIEWS for op in b.sf.consumers(name)):
                b.do(steps.CacheInput(name, f"{name}_r", MemoryType.LOCAL))
        stored = f"{output}_r"
        b.do(steps.CacheOutput(output, stored, MemoryType.LOCAL))
        shared_out = f"{output}_s"
        if store == "tma":
            b.do(steps.CacheOutput(output, shared_out, MemoryType.SHARED, CopyVia.TMA))
        set_grades(b, p["math"])
        before = [n for n in (fetched, shared_in, block) if n in b.sf.by_name]
        end = shared_out if store == "tma" else output
        after = [op.output for op in b.sf.ops if op.output not in before and op.output not in (output, shared_out)]
        operands = [n for n in after if n != self.permuted and self.is_loaded(n)]
        self.vectorized = {n for n in operands if self.loads_by_vector(n)}

        self.block_loops(block, rows_last=True)
        for name in (*after, end):
            self.block_loops(name, rows_last=False, allocate=name == shared_out)
        if load == "vector":
            self.fetch_loops(fetched, allocate=False)
            self.fetch_loops(shared_in, allocate=True)
        elif load == "tma":
            self.tile_copy(shared_in, load=True)
        if store == "tma":
            self.tile_copy(output, load=False)
        self.parallelize(block, after, end, [n for n in (fetched, shared_in) if n in before])
        self.inline(block, after, operands, stored, before, shared_out if store == "tma" else None)
        set_cache(b, [block] if load == "direct" else [fetched] if load == "vector" else [], p["cache_load"])
        set_cache(b, [output] if store == "register" else [], p["cache_store"])
        return b.trace()

    def is_loaded(self, name: str) -> bool:
        """True for a register tensor that is read from an input other than the transposed one."""
        op = self.b.sf.producer(name)
        return op is not None and any(x in self.b.sf.inputs for x in op.tensor_inputs)

    def loads_by_vector(self, name: str) -> bool:
        """True if every vector of `vector_out` elements of an operand is contiguous and aligned in memory."""
        op, width = self.b.sf.producer(name), self.point["vector_out"]
        assert op is not None, "operands are loaded"
        source = self.b.tensor(op.tensor_inputs[0])
        assert source.allocation is not None, "a global tensor always has an allocation"
        dims = op.dims if op.kind in VIEWS else tuple(range(len(source.logical)))
        strides = {d: s or 0 for d, s in zip(dims, source.allocation.strides, strict=True)}
        last = len(self.space.shape) - 1
        whole = strides.get(last) == 1 and source.logical[dims.index(last)].extent % width == 0
        aligned = source.align % (width * source.dtype.nbytes) == 0
        return whole and aligned and all(s % width == 0 for d, s in strides.items() if d != last)

    # Loops -----------------------------------------------------------------------------------------------------------

    def to_tiles(self, tv: str) -> None:
        """[tile, P in the tile, Q in the tile], with persistent blocks [block, iteration, P, Q]."""
        b, space, p = self.b, self.space, self.point
        if self.is_source_order(tv):
            b.reorder(tv, self.dims)
        for at, group in enumerate(space.groups):
            b.merge(tv, at, len(group))
        count = len(space.groups)
        b.reorder(tv, [*space.batch, space.row, space.column])
        b.split(tv, count - 1, p["tile_out"])
        b.split(tv, count - 2, p["tile_in"])
        batch = list(range(count - 2))
        row, row_in, column, column_in = range(count - 2, count + 2)
        tiles = [row, column] if p["tile_order"] == "columns_inner" else [column, row]
        b.reorder(tv, [*batch, *tiles, row_in, column_in])
        b.merge(tv, 0, count)
        if p["blocks_per_sm"]:
            b.split(tv, 0, p["blocks_per_sm"] * self.sm_count)
            b.reorder(tv, [1, 0, 2, 3])

    def is_source_order(self, tv: str) -> bool:
        """True for the tensors before the permute."""
        return tv.startswith(f"{self.source}_")

    def block_loops(self, tv: str, *, rows_last: bool, allocate: bool = False) -> None:
        """[tile.., thread, step, P, Q] or, with `rows_last`, [tile.., thread, step, Q, P]."""
        b, p, lead = self.b, self.point, self.lead
        self.to_tiles(tv)
        if allocate:
            self.set_tile_allocation(tv, p["store_layout"], 1)
        b.split(tv, lead + 1, p["vector_out"])
        b.split(tv, lead + 1, p["lanes_out"])
        b.split(tv, lead, p["vector_in"])
        b.split(tv, lead, self.lanes_in)
        step_p, lane_p, in_p, step_q, lane_q, in_q = range(lead, lead + 6)
        last = [in_q, in_p] if rows_last else [in_p, in_q]
        b.reorder(tv, [*range(lead), lane_p, lane_q, step_p, step_q, *last])
        b.merge(tv, lead)
        b.merge(tv, lead + 1)

    def fetch_loops(self, tv: str, *, allocate: bool) -> None:
        """Loads of whole rows of the input: [tile.., thread, step, lane], threads along P first."""
        b, p, lead = self.b, self.point, self.lead
        self.to_tiles(tv)
        b.reorder(tv, [*range(lead), lead + 1, lead])
        if allocate:
            self.set_tile_allocation(tv, p["layout"], p["vector_out"])
        b.split(tv, lead + 1, p["load_vector"])
        b.merge(tv, lead)
        b.split(tv, lead, p["threads"])
        b.reorder(tv, [*range(lead), lead + 1, lead, lead + 2])

    def set_tile_allocation(self, tv: str, layout: str, phase_rows: int) -> None:
        """Lays a tile, whose last two axes are rows and the contiguous elements of a row, out in shared memory.

        Swizzles cut the row into pieces of the span, one box each: [piece, row, element], with the 16-byte chunk of an
        element xored with the row number; the hardware's for spans under 128 bytes change phase every 128 bytes.
        `block` is the 128-byte swizzle whose phase changes every `phase_rows` rows, which makes columns of vector
        blocks free of conflicts.
        """
        b = self.b
        axes = b.tensor(tv).loop
        nbytes, count = b.tensor(tv).dtype.nbytes, len(axes)
        row, element, extent = count - 2, count - 1, axes[-1].extent
        if layout == "pad":
            pitch = extent + CHUNK_BYTES // nbytes
            b.do(steps.SetAllocationDomain(tv, tuple(range(count)), (), (*[None] * row, pitch, 1)))
            return
        if layout == "none":
            b.do(steps.SetAllocationDomain(tv, tuple(range(count))))
            return
        span = SPANS.get(layout, min(LINE_BYTES, extent * nbytes))
        phase = phase_rows if layout == "block" else LINE_BYTES // span
        cut = span // nbytes < extent
        if cut:
            b.split(tv, element, span // nbytes)
            b.reorder(tv, [*range(row), element, row, count])
        self.swizzle_allocation(tv, span, phase)
        if cut:
            b.reorder(tv, [*range(row), element, row, count])
            b.merge(tv, element)

    def swizzle_allocation(self, tv: str, span: int, phase: int) -> None:
        """Allocates the loop axes as they stand, the last two swizzled: chunk xor (row / phase) mod (span's chunks)."""
        b = self.b
        count = len(b.tensor(tv).loop)
        row, element = count - 2, count - 1
        transforms = (
            steps.Split(tv, element, CHUNK_BYTES // b.tensor(tv).dtype.nbytes),
            steps.Split(tv, row, phase),
            steps.Split(tv, row, span // CHUNK_BYTES),
            steps.Swizzle(tv, row + 1, row + 3),
        )
        b.do(steps.SetAllocationDomain(tv, tuple(range(count)), transforms))

    def tile_copy(self, tv: str, *, load: bool) -> None:
        """Loops of a tensor-map copy: [tile.., box, rows, box columns], the engine's axes Bulk."""
        b, p, lead = self.b, self.point, self.lead
        self.to_tiles(tv)
        if load:
            b.reorder(tv, [*range(lead), lead + 1, lead])
        rows, columns = lead, lead + 1
        layout = p["layout"] if load else p["store_layout"]
        extent = b.tensor(tv).loop[columns].extent
        width = self.box_width(tv, layout, extent)
        if width < extent:
            b.split(tv, columns, width)
            b.reorder(tv, [*range(lead), columns, rows, columns + 1])
        if load:
            if layout in SPANS:
                self.swizzle_allocation(tv, SPANS[layout], LINE_BYTES // SPANS[layout])
            else:
                b.do(steps.SetAllocationDomain(tv, tuple(range(len(b.tensor(tv).loop)))))
        box = [P.UNROLL] if width < extent else []
        b.parallelize(tv, [P.BIDX, *[P.SERIAL] * (lead - 1), *box, P.BULK, P.BULK])

    def box_width(self, tv: str, layout: str, extent: int) -> int:
        """Elements of a box along the contiguous dimension: the swizzle's span, else the row up to the box limit."""
        if layout in SPANS:
            return int(SPANS[layout] // self.b.tensor(tv).dtype.nbytes)
        return min(extent, MAX_BOX)

    # Parallel types and inlining -------------------------------------------------------------------------------------

    def parallelize(self, block: str, after: list[str], end: str, fetches: list[str]) -> None:
        b, lead = self.b, self.lead
        tile = [P.BIDX, *[P.SERIAL] * (lead - 1)]
        b.parallelize(block, [*tile, P.TIDX, P.UNROLL, P.UNROLL, P.VECTORIZE])
        for name in (*after, end):
            vector = name == end or is_packed_cast(b, name) or name in self.vectorized
            b.parallelize(name, [*tile, P.TIDX, P.UNROLL, P.UNROLL, P.VECTORIZE if vector else P.UNROLL])
        if self.point["load"] == "vector":
            for name in fetches:
                b.parallelize(name, [*tile, P.TIDX, P.UNROLL, P.VECTORIZE])

    def inline(
        self, block: str, after: list[str], operands: list[str], stored: str, before: list[str], shared_out: str | None
    ) -> None:
        b, p, lead = self.b, self.point, self.lead
        lanes_at = lead + 3
        between = [n for n in after if n not in operands and n != stored and n != self.permuted]
        inline_body(b, between, [stored], lanes_at)
        for name in operands:
            b.inline(name, lead + 2)
        if self.permuted != stored:
            readers = [op.output for op in b.sf.consumers(self.permuted)]
            whole = stored in readers or any(is_packed_cast(b, r) for r in readers)
            b.inline(self.permuted, lanes_at if whole else lanes_at + 1)
        b.inline(block, lead + 1 if p["load"] == "direct" else lead + 2)
        if p["load"] == "vector":
            b.inline(before[0], lead + 1)
        if p["load"] != "direct":
            shared = f"{self.source}_s"
            b.inline(shared, lead)
            if p["stages"] > 1:
                b.do(steps.CircularBuffer(shared, p["stages"]))
        if shared_out is not None:
            b.inline(shared_out, lead)
