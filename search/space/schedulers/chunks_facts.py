"""Which fusions permute dimensions inside runs of memory alone, and the numbers that the knobs of chunks read of them.

A chunk is what one index of the leading dimensions has: a run of memory in every source and in the outputs, in another
order in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd, prod
from typing import Any

import numpy as np

from compiler.arch import BANK_BYTES, BULK_BYTES, MAX_WORD_BYTES, WARP_THREADS, Arch
from compiler.ir.domain import ScheduledFusion, extents
from compiler.ir.ops import VIEWS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from search.space.groups import copies_by
from search.space.schedulers.iteration_space import IterationSpace, Operand, iteration_space
from search.space.schedulers.row_shape import chosen_refusal
from search.space.schedulers.transposed_space import view_strides

LEAST_BLOCKS = 3
"""Blocks of an SM at a time: a block moves one tile, and reads nothing while it writes (see `tile2d_worthwhile`)."""

SHORT_RUN_BYTES = 64
"""Runs that sources and outputs have in common: of longer ones warps move whole sectors wherever they lie, and threads
that copy them from place to place need no shared memory."""


VECTORS = (1, 2, 4, 8, 16)
CHUNKS = (1, 2, 4, 8, 16, 32)
STEPS = (1, 2, 4, 8, 16)

LEAST_THREADS, MOST_THREADS = 96, 512
CANDIDATES = 2
"""Numbers of threads that are tried for each number of vectors: those that fill their warps best."""


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """An input that is read permuted.

    `is_view`: something else than a pointwise operator reads it; `is_in_order`: it lies in the order of its own
    dimensions; `order`: these as they lie in memory, the first `batch` of which count chunks; `row`: elements along the
    last of them that has several.
    """

    name: str
    is_view: bool
    is_in_order: bool
    order: tuple[int, ...]
    batch: int
    row: int
    nbytes: int
    align: int


@dataclass(frozen=True, slots=True)
class ChunkSpace:
    """`batch`: how many leading dimensions count chunks; the others are those of a chunk."""

    space: IterationSpace
    batch: int
    sources: tuple[ChunkSource, ...]

    @property
    def chunks(self) -> int:
        """How many there are."""
        return prod(self.space.shape[: self.batch])

    @property
    def elems(self) -> int:
        """Elements of one."""
        return prod(self.space.shape[self.batch :])


def chunk_space(sf: ScheduledFusion) -> ChunkSpace | str:
    """The chunks of an unscheduled fusion, or why it has none."""
    if (refused := chosen_refusal(sf)) is not None:
        return refused
    space = iteration_space(sf)
    if isinstance(space, str):
        return space
    shape = space.shape
    own = tuple(d for d, n in enumerate(shape) if n > 1)
    if any(_order(shape, o.strides) != own for o in space.operands if o.is_output) or space.parts:
        return "its outputs are not stored in the order of their dimensions, without gaps"
    reads = _permuted_reads(sf, shape)
    if isinstance(reads, str):
        return reads
    orders = [order for _, _, order in reads]
    leading = [d for at, d in enumerate(own) if all(o[: at + 1] == own[: at + 1] for o in orders)]
    if not leading:
        return "a permute moves the outermost dimension: no runs of memory stay together"
    trailing = [d for at, d in enumerate(own) if all(o[at:] == own[at:] for o in orders)]
    run = prod(shape[d] for d in trailing)
    if run * min(t.dtype.nbytes for _, t, _ in reads) >= SHORT_RUN_BYTES:
        return f"its permutes move runs of {run} elements: threads copy those from place to place"
    batch = leading[-1] + 1
    sources = [_source(op, t, shape, order, batch) for op, t, order in reads]
    if None in sources:
        return "it reads an input through a reshape of which none of the input's dimensions begins a chunk"
    return ChunkSpace(space, batch, tuple(s for s in sources if s is not None))


def _permuted_reads(
    sf: ScheduledFusion, shape: tuple[int, ...]
) -> list[tuple[TensorOp, TensorView, tuple[int, ...]]] | str:
    """What is read in another order of dimensions than the outputs', by what and in which; or why there is no chunk."""
    own = tuple(d for d, n in enumerate(shape) if n > 1)
    found: list[tuple[TensorOp, TensorView, tuple[int, ...]]] = []
    for op in sf.ops:
        for name in (n for n in op.tensor_inputs if n in sf.inputs):
            strides = _strides(sf, op, name)
            order = None if strides is None else _order(shape, strides)
            if strides is None or order == own:
                continue
            if order is None and (not own or strides[own[-1]] < 2):
                continue  # rows with gaps, or a broadcast: as good as in order
            if order is None:
                return f"{name} is read in another order than it lies in, not as one run of memory"
            if len(sf.consumers(name)) > 1:
                return f"{name} is read permuted and in another way as well; pass it twice"
            found.append((op, sf.tensor(name), order))
    return found or "it reads no input in another order than its outputs have"


def _source(
    op: TensorOp, t: TensorView, shape: tuple[int, ...], order: tuple[int, ...], batch: int
) -> ChunkSource | None:
    """An input of this order along the dimensions of what `op` makes of it; None where none of its own dimensions
    begins a chunk."""
    if op.kind is OpKind.VIEW:
        return _reshaped(t, prod(shape[:batch]), prod(shape))
    places, lies = _places(op, len(shape)), _with_ones(shape, order)
    own = tuple(sorted(range(len(places)), key=lambda axis: lies.index(places[axis])))
    leading = sum(place < batch for place in places)
    in_order = [axis for axis in own if t.logical[axis].extent > 1]
    is_in_order = in_order == sorted(in_order)
    return ChunkSource(t.name, op.kind in VIEWS, is_in_order, own, leading, shape[order[-1]], t.dtype.nbytes, t.align)


def _strides(sf: ScheduledFusion, op: TensorOp, name: str) -> tuple[int, ...] | None:
    """Strides of an input along the dimensions of what reads it; None where they are not fixed."""
    if op.kind in VIEWS:
        return view_strides(sf, op, name)
    return _own_strides(sf.tensor(name))


def _own_strides(t: TensorView) -> tuple[int, ...]:
    assert t.allocation is not None, "a global tensor always has an allocation"
    return tuple(s or 0 for s in t.allocation.strides)


def _reshaped(t: TensorView, chunks: int, elems: int) -> ChunkSource | None:
    """The same of an input that a reshape goes over, all of it: one that lies in the order of its own dimensions."""
    sizes = extents(t.logical)
    real = tuple(d for d, n in enumerate(sizes) if n > 1)
    before = [prod(sizes[:at]) for at in range(len(sizes) + 1)]
    if before[-1] != elems or chunks not in before or _order(sizes, _own_strides(t)) != real:
        return None
    lies = _with_ones(sizes, real)
    return ChunkSource(t.name, True, True, lies, before.index(chunks), sizes[real[-1]], t.dtype.nbytes, t.align)


def _places(op: TensorOp, rank: int) -> tuple[int, ...]:
    """The dimension of what `op` makes that each dimension of its operand is."""
    match op.kind:
        case OpKind.PERMUTE:
            return tuple(op.dims.index(d) for d in range(rank))
        case OpKind.BROADCAST_TO:
            return op.dims
        case _:
            return tuple(range(rank))


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions of more than one place from the outermost in memory; None where they leave gaps, or repeat."""
    order = sorted((d for d, n in enumerate(shape) if n > 1), key=lambda d: -strides[d])
    step = 1
    for d in reversed(order):
        if strides[d] != step:
            return None
        step *= shape[d]
    return tuple(order)


def _with_ones(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """The same with dimensions of one place, each before the next that has more, or else before the last."""
    found: list[int] = []
    for d in order:
        ones = range(d)
        found += [one for one in ones if shape[one] == 1 and one not in found and not any(one < x < d for x in order)]
        found.append(d)
    return (*found[:-1], *(d for d in range(len(shape)) if d not in found), found[-1])


@dataclass(frozen=True)
class ChunksFacts:
    """A fusion of chunks on an architecture."""

    found: ChunkSpace
    arch: Arch

    @property
    def bytes_in(self) -> int:
        """Bytes of one element of every source."""
        return sum(s.nbytes for s in self.found.sources)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The stored tensors."""
        return tuple(o for o in self.found.space.operands if o.is_output)

    @property
    def bytes_beside(self) -> int:
        """Bytes of one element of what is read beside the sources, in the outputs' order or again and again."""
        own = {s.name for s in self.found.sources}
        return sum(o.nbytes for o in self.found.space.operands if not o.is_output and o.name not in own)

    @property
    def widest_out(self) -> int:
        return max(o.nbytes for o in self.outputs)

    @property
    def narrowest_out(self) -> int:
        return min(o.nbytes for o in self.outputs)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Elements that a thread stores at a time."""
        able = (v for v in VECTORS if v * self.widest_out <= MAX_WORD_BYTES)
        return tuple(v for v in able if all(o.align % (v * o.nbytes) == 0 for o in self.outputs))

    @property
    def load_vectors(self) -> tuple[int, ...]:
        """Elements that a thread copies past its registers at a time."""
        sources = self.found.sources
        able = (v for v in VECTORS if copies_by(v, [s.nbytes for s in sources]))
        return tuple(v for v in able if all(s.align % (v * s.nbytes) == 0 for s in sources))

    @property
    def has_bulk(self) -> bool:
        """True if the copy engine can bring runs of every source: its own order of dimensions is that of memory."""
        return self.arch.has_tma and all(s.is_in_order and s.align % BULK_BYTES == 0 for s in self.found.sources)

    @property
    def row(self) -> int:
        """What divides the rows of every source."""
        return reduce(gcd, (s.row for s in self.found.sources))

    def padding(self, source: ChunkSource, width: Any) -> Any:
        """Bytes by which longer rows lengthen a chunk of a source."""
        return self.found.elems // source.row * np.maximum(width * source.nbytes, BANK_BYTES)

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """Chunks that are cut among the threads together, of which three tiles fit a multiprocessor."""
        fit = self.arch.smem_per_sm_bytes // LEAST_BLOCKS // (self.found.elems * self.bytes_in)
        return tuple(n for n in CHUNKS if n <= min(fit, 2 * self.found.chunks - 1))

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Numbers of threads that cut chunks without rest: of each number of vectors those that leave fewest lanes
        idle."""
        found: set[int] = set()
        elems = {chunks * self.found.elems for chunks in self.chunks}
        for vectors in {n // vector for n in elems for vector in self.vectors if n % vector == 0}:
            able = [t for t in range(LEAST_THREADS, MOST_THREADS + 1) if vectors % t == 0]
            found |= set(sorted(able, key=lambda t: (-t % WARP_THREADS / t, -t))[:CANDIDATES])
        return tuple(sorted(found))

    def turns(self, chunks: Any, vector: Any, threads: Any) -> Any:
        """Vectors of a thread in chunks that are cut together; 0 where there is a rest."""
        elems = chunks * self.found.elems
        return np.where(elems % (vector * threads) == 0, elems // (vector * threads), 0)
