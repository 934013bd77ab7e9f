"""Global and shared memory of a whole grid, for many sets of inputs at once: [set, element]."""

from __future__ import annotations

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Value
from search.proof.verify.zones import POISONS
from tests.mutants.machine.lanes import Fault, Flags, Offsets
from tests.mutants.machine.numbers import NUMPY, Array

POISON = POISONS[1]
"""The less conspicuous one: a small number in every float type."""

_LINE = 1024
"""Bytes after which swizzles repeat."""


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """Elements that nobody has written."""
    nbytes = NUMPY[dtype].itemsize
    return np.full((*shape[:-1], shape[-1] * nbytes), POISON, np.uint8).view(NUMPY[dtype])


class GlobalTensor:
    """The storage of a tensor in every set, and an element of poison that stands for all around it."""

    def __init__(self, value: Value, sets: int, contents: Array | None = None) -> None:
        self.value = value
        self.dtype = value.dtype
        self.elems = value.storage_elems
        self.data = poisoned((sets, self.elems + 1), value.dtype)
        self.written = np.zeros(self.elems, np.bool_)
        self.is_input = contents is not None
        if contents is not None:
            self.data[:, : self.elems] = contents

    @property
    def storage(self) -> Array:
        """[set, element]."""
        return self.data[:, : self.elems]

    def load(self, offsets: Offsets) -> Array:
        """[set, offset]; what lies outside is poison, as a guard zone is."""
        outside = (offsets < 0) | (offsets >= self.elems)
        return np.asarray(self.data[:, np.where(outside, self.elems, offsets)])

    def store(self, offsets: Offsets, values: Array) -> None:
        """Values [set, offset]. Of several at one place the last stays."""
        if ((offsets < 0) | (offsets >= self.elems)).any():
            raise Fault(f"{self.value.name} is stored to outside its bounds")
        if self.is_input:
            raise Fault(f"{self.value.name} is an input")
        self.data[:, offsets] = values
        self.written[offsets] = True


class SharedMemory:
    """The dynamic shared memory of all blocks, one after the other."""

    def __init__(self, nbytes: int, blocks: int, sets: int) -> None:
        self.nbytes = nbytes
        self.pitch = -(-max(nbytes, 1) // _LINE) * _LINE
        self.data = np.full((sets, blocks * self.pitch), POISON, np.uint8)

    def words(self, blocks: Array, byte_offsets: Offsets, dtype: DType, lanes: Flags | None) -> Offsets:
        """Where elements lie, as numbers of elements in `view`."""
        size = NUMPY[dtype].itemsize
        those = byte_offsets if lanes is None else byte_offsets[lanes]
        if ((those < 0) | (those + size > self.nbytes)).any():
            raise Fault("shared memory is accessed outside its bounds")
        if (those % size).any():
            raise Fault("shared memory is accessed at an address that is not aligned")
        at = (blocks * self.pitch + byte_offsets) // size
        return at if lanes is None else np.where(lanes, at, 0)

    def view(self, dtype: DType) -> Array:
        """[set, element]."""
        return self.data.view(NUMPY[dtype])
