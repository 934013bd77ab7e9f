"""The same fusion with other sizes: its graph, dtypes, alignments and the way its inputs lie in memory stay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import OpKind

Dim = tuple[str, int]
"""A dimension of a value, by the value's name."""

PITCH_ELEMS = 128
"""Strides that leave holes keep their remainder by this: every vector and 16-byte rule sees the same alignment."""


class Dims:
    """Which dimensions of a fusion's values are one and the same size, told by its operators.

    A dimension of size 1 that a broadcast expands is a size of its own, and stays 1.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._parent: dict[Dim, Dim] = {(v.name, d): (v.name, d) for v in fusion.values for d in range(len(v.shape))}
        for op in fusion.ops:
            for one, other in _equal_dims(fusion, op):
                self._parent[self.of(one)] = self.of(other)

    def of(self, dim: Dim) -> Dim:
        """The dimension that stands for all that are equal to this one."""
        while self._parent[dim] != dim:
            dim = self._parent[dim]
        return dim

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


def _equal_dims(fusion: Fusion, op: Op) -> Iterator[tuple[Dim, Dim]]:
    rank = len(fusion.value(op.output).shape)
    for name in op.tensor_inputs:
        shape = fusion.value(name).shape
        match op.kind:
            case OpKind.PERMUTE:
                pairs = [(dim, d) for d, dim in enumerate(op.dims)]
            case OpKind.BROADCAST_TO:
                pairs = list(enumerate(op.dims))
            case _:
                pairs = [(d, d) for d in range(rank)]
        for here, there in pairs:
            if shape[here] == fusion.value(op.output).shape[there]:
                yield (name, here), (op.output, there)


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
