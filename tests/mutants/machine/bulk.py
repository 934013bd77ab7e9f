"""Copies of the copy engine between global and shared memory, for all blocks at once; they are complete as issued."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.dtypes import DType
from compiler.lower.operands import TensorMap
from tests.compiler.lower.interpreted_global import swizzled
from tests.mutants.machine.lanes import Fault, Flags, Offsets
from tests.mutants.machine.memory import GlobalTensor, SharedMemory
from tests.mutants.machine.numbers import NUMPY


class Boxes:
    """A tensor seen through a tensor map (cuTensorMapEncodeTiled; PTX ISA, cp.async.bulk.tensor)."""

    def __init__(self, tensor_map: TensorMap, tensor: GlobalTensor) -> None:
        self.map, self.tensor = tensor_map, tensor
        steps = np.cumprod([1, *tensor_map.tile])
        linear = np.arange(steps[-1])
        every = zip(steps[:-1], tensor_map.tile, tensor_map.element_strides, strict=True)
        self._within = [linear // step % size * stride for step, size, stride in every]
        self._strides = [1, *(s // tensor_map.dtype.nbytes for s in tensor_map.strides_bytes)]

    def at(self, coordinates: Sequence[Offsets]) -> tuple[Offsets, Flags]:
        """Offsets [box, element] of boxes at coordinates, innermost first, and which of the elements are inside."""
        if len(coordinates) != len(self.map.dims):
            raise Fault(f"{self.map.name} has another rank")
        offsets = np.zeros((len(coordinates[0]), len(self._within[0])), np.int64)
        inside = np.ones(offsets.shape, np.bool_)
        if (coordinates[0] * self.map.dtype.nbytes % 16).any():
            raise Fault(f"{self.map.name}: the innermost coordinate is not aligned")
        for within, start, limit, stride in zip(self._within, coordinates, self.map.dims, self._strides, strict=True):
            at = within[None, :] + start[:, None]
            inside &= (at >= 0) & (at < limit)
            offsets += at * stride
        return offsets, inside

    def load(self, shared: SharedMemory, blocks: Offsets, byte_offsets: Offsets, places: Sequence[Offsets]) -> None:
        """Boxes to shared memory, zeros for what is outside."""
        offsets, inside = self.at(places)
        words = self.words(shared, blocks, byte_offsets)
        found = self.tensor.load(np.where(inside, offsets, 0).reshape(-1))
        # The poison of a tensor that nobody has written is no reason to read beyond the map.
        kept = np.where(inside.reshape(-1), found, np.zeros((), found.dtype))
        shared.view(self.map.dtype)[:, words.reshape(-1)] = kept

    def store(self, shared: SharedMemory, blocks: Offsets, byte_offsets: Offsets, places: Sequence[Offsets]) -> None:
        """Boxes from shared memory; what is outside is dropped."""
        offsets, inside = self.at(places)
        words = self.words(shared, blocks, byte_offsets)
        self.tensor.store(offsets[inside], shared.view(self.map.dtype)[:, words[inside]])

    def words(self, shared: SharedMemory, blocks: Offsets, byte_offsets: Offsets) -> Offsets:
        """Where the elements of boxes lie in shared memory [box, element]."""
        if (byte_offsets % 128).any():
            raise Fault("a tile is not aligned to 128 bytes")
        size = self.map.dtype.nbytes
        linear = byte_offsets[:, None] + np.arange(len(self._within[0]))[None, :] * size
        places = swizzled(linear, self.map.swizzle)
        return shared.words(blocks[:, None], places, self.map.dtype, None)


def run_of(tensor: GlobalTensor, offsets: Offsets, nbytes: int, byte_offsets: Offsets, dtype: DType) -> Offsets:
    """The elements [copy, element] of 1-D bulk copies."""
    size = NUMPY[dtype].itemsize
    if nbytes % 16 or (offsets * size % 16).any() or (byte_offsets % 16).any():
        raise Fault("a bulk copy is not aligned to 16 bytes")
    every = offsets[:, None] + np.arange(nbytes // size)[None, :]
    if ((every < 0) | (every >= tensor.elems)).any():
        raise Fault(f"a bulk copy of {tensor.value.name} leaves its bounds")
    return every
