"""The same fusion with other sizes: its graph, dtypes, alignments and the way its inputs lie in memory stay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.joined import Joined
from compiler.ir.ops import ARITHMETIC, CHOICES, CONTRACTIONS, FOLDS, OpKind

Dim = tuple[str, int]
"""A dimension of a value, by the value's name."""

PITCH_ELEMS = 128
"""Strides that leave holes keep their remainder by this: every vector and 16-byte rule sees the same alignment."""


class Dims:
    """Which dimensions of a fusion's values are one and the same size, told by its operators.

    A dimension of size 1 that a broadcast expands is a size of its own, and stays 1. So do, at their own sizes, those
    that an operator cuts or joins: a slice's, a pad's, a cat's, those that a reshape merges or splits. And so do those
    of which a computed index chooses: numbers in what computes it were made for them.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._joined: Joined[Dim] = Joined()
        for op in fusion.ops:
            for one, other in _equal_dims(fusion, op):
                self._joined.join(one, other)
        for name in fusion.inputs if fusion.is_list else ():
            if fusion.value(name).shape:
                self._joined.join((name, 0), (fusion.outputs[0], 0))
        for output, name in fusion.aliases:
            for d in range(len(fusion.value(name).shape)):
                self._joined.join((output, d), (name, d))
        self._fixed = frozenset(self.of(dim) for op in fusion.ops for dim in _fixed_dims(fusion, op))

    def of(self, dim: Dim) -> Dim:
        """The dimension that stands for all that are equal to this one."""
        return self._joined.of(dim)

    def is_fixed(self, dim: Dim) -> bool:
        """Whether the dimension has to keep its size."""
        return self.of(dim) in self._fixed

    @property
    def free(self) -> dict[Dim, int]:
        """The sizes above 1 that can be others, by the dimensions that `of` gives."""
        sizes = {self.of((v.name, d)): n for v in self._fusion.values for d, n in enumerate(v.shape)}
        return {dim: n for dim, n in sizes.items() if n > 1 and dim not in self._fixed}

    @property
    def chosen(self) -> frozenset[Dim]:
        """Of those, the ones that an index chooses along: what is read of them says no more the longer they are."""
        found = {self.of((op.tensor_inputs[0], d)) for op in self._fusion.ops if op.kind in CHOICES for d in op.dims}
        return frozenset(found & self.free.keys())

    def resized(self, sizes: Mapping[Dim, int]) -> Fusion:
        """The fusion with these sizes, given by dimensions as `of` names them; the others stay as they are."""
        values = tuple(self._resized(value, sizes) for value in self._fusion.values)
        layout = json.dumps([[v.shape, v.strides, v.align] for v in values], separators=(",", ":"))
        identity = f"{self._fusion.binding_hash}:{layout}"
        return replace(self._fusion, values=values, binding_hash=hashlib.sha256(identity.encode()).hexdigest())

    def _resized(self, value: Value, sizes: Mapping[Dim, int]) -> Value:
        shape = tuple(sizes.get(self.of((value.name, d)), n) for d, n in enumerate(value.shape))
        dense = value.strides == dense_strides(value.shape)
        return replace(value, shape=shape, strides=dense_strides(shape) if dense else _strides(value, shape))


def shared_dim(fusion: Fusion, op: Op) -> Dim:
    """The dimension along which a contraction sums, of its second operand."""
    name = op.tensor_inputs[1]
    return name, len(fusion.value(name).shape) - 2


def _equal_dims(fusion: Fusion, op: Op) -> Iterator[tuple[Dim, Dim]]:
    result = fusion.value(op.output).shape
    if op.kind in CONTRACTIONS:
        yield (op.tensor_inputs[0], len(result) - 1), shared_dim(fusion, op)
    for place, name in enumerate(op.tensor_inputs):
        shape = fusion.value(name).shape
        for here, there in _dim_pairs(op, shape, result, place):
            if shape[here] == result[there]:
                yield (name, here), (op.output, there)


def _dim_pairs(op: Op, shape: Sequence[int], result: Sequence[int], place: int) -> Iterator[tuple[int, int]]:
    """Dimensions of operand number `place` and those of the result that are the same; sizes of 1 need not be."""
    match op.kind:
        case OpKind.TAKE if place == 0:
            (dim,), more = op.dims, len(result) - len(shape)
            yield from ((d, d if d < dim else d + more) for d in range(len(shape)) if d != dim)
        case OpKind.TAKE:
            yield from ((d, op.dims[0] + d) for d in range(len(shape)))
        case OpKind.GATHER if place == 0:
            yield from ((d, d) for d in range(len(shape)) if d not in op.dims)
        case OpKind.PERMUTE:
            yield from ((dim, d) for d, dim in enumerate(op.dims))
        case OpKind.BROADCAST_TO:
            yield from enumerate(op.dims)
        case kind if kind in FOLDS:
            kept = [d for d in range(len(shape)) if d not in op.dims]
            yield from ((d, d if len(result) == len(shape) else place) for place, d in enumerate(kept))
        case kind if kind in CONTRACTIONS:
            yield from ((d, d) for d in range(len(shape)) if d != len(shape) - 1 - place)
        case OpKind.SLICE | OpKind.CAT | OpKind.PAD:
            yield from ((d, d) for d in range(len(shape)) if d not in op.dims)
        case OpKind.RAND:
            pass
        case OpKind.RESHAPE:
            for here, there in _runs(shape, result):
                if len(here) == len(there) == 1:
                    yield here[0], there[0]
        case _:
            yield from ((d, d) for d in range(len(result)))


def _fixed_dims(fusion: Fusion, op: Op) -> Iterator[Dim]:
    """Dimensions of an operator's operands and result whose sizes depend on one another in other ways than by being
    equal."""
    result = fusion.value(op.output).shape
    match op.kind:
        case OpKind.TAKE | OpKind.GATHER:
            table, index = op.tensor_inputs
            if any(kind is OpKind.IOTA or kind in ARITHMETIC for kind in (o.kind for o in fusion.behind(index))):
                yield from ((table, d) for d in op.dims)
            if op.kind is OpKind.GATHER:  # of which a part may be read
                apart = [d for d, n in enumerate(fusion.value(table).shape) if n != result[d] and d not in op.dims]
                yield from ((name, d) for name in (table, op.output) for d in apart)
        case OpKind.SLICE | OpKind.CAT | OpKind.PAD:
            yield from ((name, d) for name in (*op.tensor_inputs, op.output) for d in op.dims)
        case OpKind.RESHAPE:
            (name,) = op.tensor_inputs
            for here, there in _runs(fusion.value(name).shape, result):
                if len(here) != 1 or len(there) != 1:
                    yield from ((name, d) for d in here)
                    yield from ((op.output, d) for d in there)


def _runs(shape: Sequence[int], result: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions of two shapes that hold the same elements, sizes of 1 left out."""
    left, right = ([d for d, n in enumerate(sizes) if n > 1] for sizes in (shape, result))
    while left:
        here, there = [left.pop(0)], [right.pop(0)]
        while (one := prod(shape[d] for d in here)) != (other := prod(result[d] for d in there)):
            (here if one < other else there).append((left if one < other else right).pop(0))
        yield here, there


def _strides(value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for the new shape: what was contiguous stays so, what was apart stays apart by the same remainder."""
    strides = list(value.strides)
    order = sorted((d for d in range(len(shape)) if value.strides[d]), key=lambda d: (value.strides[d], -d))
    before, after = 1, 1
    for d in order:
        old = value.strides[d]
        if old == before:
            strides[d] = after
        else:
            strides[d] = after + ((old - after) % PITCH_ELEMS or PITCH_ELEMS)
        before, after = old * value.shape[d], strides[d] * shape[d]
    return tuple(strides)
