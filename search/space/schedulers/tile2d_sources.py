"""The tensors through which a transposed tile's inputs come: shared tiles and registers for those that are transposed,
registers for those in the outputs' order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import VIEWS
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups import DIRECT, LOAD_PATHS, is_staged, stage, stage_in_tmem
from search.space.schedulers.transposed_space import Source, view_strides


@dataclass(frozen=True, slots=True)
class Chain:
    """The way of one source: fetched into registers, stored to a shared tile or to tensor memory, read from there a
    block at a time.

    `dims`: the source's permutation, where the tensors have its own order of dimensions and `permuted` comes after
    them; both empty where the first of them is the view itself. `fetched`, `shared` and `in_tmem` are empty where there
    is none; of a tile that goes to tensor memory several times, `between` are the registers that it comes back to.
    """

    fetched: str
    shared: str
    block: str
    permuted: str
    dims: tuple[int, ...]
    source: Source
    in_tmem: tuple[str, ...] = ()
    between: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(n for n in (self.fetched, self.shared, *self.in_tmem, *self.between, self.block) if n)


def through_tmem(b: TraceBuilder, chain: Chain, rounds: int) -> Chain:
    """The chain of a source whose blocks come to registers straight from memory, so many times by way of tensor
    memory."""
    there: list[str] = []
    back = [chain.block]
    for _ in range(rounds):
        for names, name in zip((there, back), stage_in_tmem(b, back[-1]), strict=True):
            names.append(name)
    return replace(chain, fetched=back[0], in_tmem=tuple(there), between=tuple(back[1:-1]), block=back[-1])


def add_chain(b: TraceBuilder, source: Source, load: str) -> Chain:
    """Inserts the tensors between a source and what reads it, for a load path (a value of the knob `load`)."""
    if not source.is_whole:
        return _chain_from(b, source, source.view, source.view, load, "", ())
    readers = [op.output for op in b.sf.consumers(source.name)]
    if source.is_permuted and readers != [source.view]:
        first = _private_copy(b, source)
        if is_staged(load):
            b.do(steps.SetMemory(first, MemoryType.SHARED, LOAD_PATHS[load]))
        return _chain_from(b, source, first, source.view, load, source.view, source.dims)
    stem, permuted = source.name, source.view if source.is_permuted else ""
    if is_staged(load):
        return _chain_from(b, source, stage(b, stem, load), stem, load, permuted, source.dims)
    first = f"{stem}_r" if load == DIRECT else f"{stem}_g"
    b.do(steps.CacheInput(stem, first, MemoryType.LOCAL))
    return _chain_from(b, source, first, stem, load, permuted, source.dims)


def _chain_from(
    b: TraceBuilder, source: Source, first: str, stem: str, load: str, permuted: str, dims: tuple[int, ...]
) -> Chain:
    """The chain whose tensor `first` is read from memory: into registers, or past them into a shared tile."""
    shared, block = f"{stem}_s", f"{stem}_r"
    if load == DIRECT:
        return Chain("", "", first, permuted, dims, source)
    if is_staged(load):
        b.do(steps.CacheInput(first, block, MemoryType.LOCAL))
        return Chain("", first, block, permuted, dims, source)
    b.do(steps.CacheInput(first, shared, MemoryType.SHARED))
    b.do(steps.CacheInput(shared, block, MemoryType.LOCAL))
    return Chain(first, shared, block, permuted, dims, source)


def _private_copy(b: TraceBuilder, source: Source) -> str:
    """A copy of a source that its permute alone reads, beside one that all its other readers share."""
    own, common = f"{source.view}_g", f"{source.name}_r"
    if common not in b.sf.by_name:
        b.do(steps.CacheInput(source.name, common, MemoryType.LOCAL))
    if len(b.sf.consumers(common)) == 1:
        return common
    b.do(steps.Recompute(common, source.view, own))
    return own


def cache_rest(b: TraceBuilder, chains: list[Chain]) -> list[str]:
    """Gives inputs that are read as they are a register copy. Returns all tensors loaded beside the chains."""
    chained = {n for c in chains for n in c.tensors}
    for name in b.sf.inputs:
        readers = [op for op in b.sf.consumers(name) if op.output not in chained]
        if any(op.kind not in VIEWS for op in readers) and f"{name}_r" not in b.sf.by_name:
            b.do(steps.CacheInput(name, f"{name}_r", MemoryType.LOCAL))
    return [
        op.output for op in b.sf.ops if op.output not in chained and any(x in b.sf.inputs for x in op.tensor_inputs)
    ]


def loads_by_vector(b: TraceBuilder, name: str, width: int) -> bool:
    """True if every vector of `width` elements of a loaded tensor is contiguous and aligned in memory."""
    op = b.sf.producer(name)
    assert op is not None, "operands are loaded"
    source = b.tensor(op.tensor_inputs[0])
    strides = view_strides(b.sf, op, source.name)
    shape = [a.extent for a in b.tensor(name).logical]
    last = max((d for d, n in enumerate(shape) if n > 1), default=0)
    if strides is None or strides[last] != 1 or shape[last] % width:
        return False
    aligned = source.align % (width * source.dtype.nbytes) == 0
    return aligned and all(s % width == 0 for d, s in enumerate(strides) if d != last)
