"""Outputs that are written into the memory of an input: which of the input's elements are read for which of theirs.

A read of an element is over before the element is written where the value that is written depends on what was read: by
itself, or by way of a fold that takes all elements along a dimension. That is a matter of the operators, whatever the
loops. Of launches, which run one after the other, the one that writes is the last that reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import CHOICES, ELSEWHERE, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import identity
from compiler.schedule.matching import read_axes

_KEEPING = frozenset({OpKind.PERMUTE, OpKind.BROADCAST_TO})
"""Views whose elements are whole dimensions of what they view."""

_Places = tuple[int | None, ...]
"""Of a tensor that depends on a read: for each axis the dimension of the read that it is, None where it has all."""


@dataclass(frozen=True, slots=True)
class AliasedRead:
    """A read of an input that an output is written into. `stray`: what it reads instead of what is written from it, in
    words; empty where all is as it should be."""

    output: str
    source: str
    op: TensorOp
    stray: str


def aliased_inputs(sf: ScheduledFusion) -> frozenset[str]:
    """The tensors that are read of inputs that outputs are written into."""
    into = {name for _, name in sf.fusion.aliases}
    return frozenset(t.name for t in sf.tensors if t.name in into or t.part_of in into)


def aliased_reads(sf: ScheduledFusion) -> Iterator[AliasedRead]:
    """Every operator that reads such an input."""
    for output, name in sf.fusion.aliases:
        stored = [t for t in sf.tensors if output in (t.name, t.part_of)]
        read = {t.name for t in sf.tensors if name in (t.name, t.part_of)}
        for op in sf.ops:
            for source in dict.fromkeys(op.tensor_inputs):
                if source in read:
                    yield AliasedRead(output, source, op, _stray(sf, op, sf.tensor(source), stored))


def unloaded_reads(sf: ScheduledFusion) -> Iterator[AliasedRead]:
    """The same of a fusion on which no step has been taken: what reads an input as it is, reads one load of it, which
    is as it should be where it is for one of them."""
    as_it_is: dict[tuple[str, str], AliasedRead] = {}
    for read in aliased_reads(sf):
        if read.op.kind in ELSEWHERE:
            yield read
        elif not read.stray or (read.output, read.source) not in as_it_is:
            as_it_is[read.output, read.source] = read
    yield from as_it_is.values()


def is_for_the_first(sf: ScheduledFusion, name: str, dimension: ParallelType) -> bool:
    """Whether all that is made of a tensor, which varies along no such dimension, is stored by the first of its threads
    or blocks alone: then it alone needs what it was made of. Registers alone lead from the one to the other."""
    for op in sf.consumers(name):
        made = sf.tensor(op.output)
        if any(not axis.is_broadcast for axis in made.axes_of(dimension)):
            return False
        if made.memory is not MemoryType.GLOBAL and (
            made.memory is not MemoryType.LOCAL or not is_for_the_first(sf, op.output, dimension)
        ):
            return False
    return True


def late_reads(
    aliases: Sequence[tuple[str, str]], launches: Sequence[tuple[Collection[str], Collection[str]]]
) -> Iterator[tuple[int, str]]:
    """(launch, input) of every launch that reads an input after one that has written an output into it. `launches`: the
    tensors that each reads and writes, in order."""
    for output, name in aliases:
        last = next((n for n, (_, writes) in enumerate(launches) if output in writes), len(launches))
        yield from ((n, name) for n, (reads, _) in enumerate(launches) if n > last and name in reads)


def _stray(sf: ScheduledFusion, op: TensorOp, source: TensorView, stored: Sequence[TensorView]) -> str:
    if len(stored) != 1:
        return "an input whose output is stored in parts"
    if op.kind in CHOICES:
        return "elements that are chosen by their index"
    (target,), reader = stored, sf.tensor(op.output)
    shape = extents(reader.logical)
    if shape != extents(target.logical) or op.is_running:
        return f"elements of another shape, {list(shape)}"
    index = identity(shape)
    if _offset(source, producer_indices(op, source, index, shape)) != _offset(target, index):
        return "other elements than those written at the same places"
    if not _reaches(sf, reader, target):
        return f"elements of which those of {target.name} at the same places do not depend"
    return ""


def _offset(t: TensorView, index: Sequence[Expr]) -> Expr:
    """Where an element lies, counted from the tensor's first."""
    assert t.allocation is not None, "a global tensor always has an allocation"
    at = Expr()
    for place, stride in zip(index, t.allocation.strides, strict=True):
        at = at + place * (stride or 0)
    return at


def _reaches(sf: ScheduledFusion, reader: TensorView, target: TensorView) -> bool:
    """Whether every element of `target` depends on that of `reader` at the same place."""
    found: dict[str, set[_Places]] = {reader.name: {tuple(range(len(reader.logical)))}}
    for op in sf.ops:
        if op.is_running or (op.kind in ELSEWHERE and op.kind not in _KEEPING):
            continue
        result = sf.tensor(op.output)
        for name in op.tensor_inputs:
            if name in found:
                reached = found.setdefault(result.name, set())
                reached.update(_through(op, sf.tensor(name), result, places) for places in found[name])
    return any(
        all(
            place in (None, d) or axis.extent == 1
            for d, (place, axis) in enumerate(zip(places, target.logical, strict=True))
        )
        for places in found.get(target.name, ())
    )


def _through(op: TensorOp, source: TensorView, result: TensorView, places: _Places) -> _Places:
    """The places of a result that is made from a tensor of these. An axis that was folded is no axis of the elements;
    one that the result has and the tensor has not has the same along it all."""
    at = dict(zip(source.logical, places, strict=True))
    read = read_axes(op, source, result)
    return tuple(at[read[axis]] if axis in read else None for axis in result.logical)
