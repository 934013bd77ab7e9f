"""Tensors whose bytes are made when they are touched, so that a few blocks of any kernel can be run over its own sizes.

Each element of an input is a value of a pool, by its offset, so that any element can be had again for the reference.
The pool's length is a prime: what is read from a row, a tile or a page away is another value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.emulate.launch import Bytes, EmulatedTensor, Launch
from compiler.emulate.memory.region import POISON
from compiler.emulated_runs.launching import Fill, input_tensor, launches_of, output_tensor
from compiler.ir.fusion import Fusion, Value
from compiler.pipeline import Generated
from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.scalars import with_numbers
from search.proof.emulated.running import ARRAYS
from search.proof.verify.arrays import Array
from search.proof.verify.inputs import RANDOM, make_inputs
from search.proof.verify.points import Offsets
from search.proof.verify.scalars import in_set, numbers_in

POOL_ELEMS = 65521
"""The largest prime below 2^16."""


@dataclass(frozen=True)
class TouchedLaunch:
    """A launch over tensors that are made when touched; `names`: of its own inputs, then its outputs."""

    launch: Launch
    names: tuple[str, ...]


def prepared(made: Generated, number: int, artifact: KernelArtifact, pool: Pool) -> TouchedLaunch:
    """Launch `number` over what it reads and writes, with the memory in which its blocks hand over sums; the tensors
    that only others use have one element."""
    launch, whole = made.launches[number], made.trace.fusion
    fusion = launch.trace.fusion
    tensors = (*whole.inputs, *whole.outputs)
    own: dict[str, EmulatedTensor] = {}
    for places, names, is_read in ((launch.reads, fusion.inputs, True), (launch.writes, fusion.outputs, False)):
        for place, name in zip(places, names, strict=True):
            position = made.places[place]
            known = place if position < len(tensors) else f"scratch{position - len(tensors)}"
            own[known] = replace(_made_when_touched(fusion.value(name), pool if is_read else None), name=known)
    for output, name in fusion.aliases:
        own[launch.writes[fusion.outputs.index(output)]] = own[launch.reads[fusion.inputs.index(name)]]
    others = {name: _made_when_touched(replace(whole.value(name), shape=(), strides=()), None) for name in tensors}
    told = with_numbers(artifact, numbers_in(fusion, RANDOM))
    kept = made.own_scratch_of(number)
    scratch = (s if n in kept else s.model_copy(update={"bytes": 1}) for n, s in enumerate(told.scratch))
    bare = told.model_copy(update={"scratch": tuple(scratch)})
    launch_made = launches_of(bare, [own.get(name, others[name]) for name in tensors])[number]
    there = {tensor.name: tensor for tensor in own.values()}
    launched = replace(launch_made, tensors={**launch_made.tensors, **there})
    return TouchedLaunch(launched, tuple(tensor.name for tensor in own.values()))


def _made_when_touched(value: Value, pool: Pool | None) -> EmulatedTensor:
    """An input whose elements are those of `pool`; without one, an output."""
    if pool is None:
        return output_tensor(value, _poison)
    return input_tensor(value, np.zeros(value.storage_bytes, np.uint8), pool.fill(value))


def _poison(start: int, stop: int) -> Bytes:
    return np.full(stop - start, POISON, np.uint8)


class Pool:
    """Values for the elements of inputs, by offset: the `random` set at the pool's length, over and over. `fusion`: the
    launch's, with the numbers of that set."""

    def __init__(self, fusion: Fusion) -> None:
        fusion = in_set(fusion, RANDOM)
        self.fusion = fusion
        self._of = dict(zip(fusion.inputs, make_inputs(fusion, RANDOM, ARRAYS, POOL_ELEMS), strict=True))

    def read(self, name: str, offsets: Offsets) -> Array:
        """The elements of input `name` at these offsets into its storage."""
        return self._of[name][offsets % POOL_ELEMS]

    def values(self, name: str, offsets: Offsets) -> Array:
        """The same as numbers."""
        return ARRAYS.load(self.read(name, offsets), self.fusion.value(name).dtype)

    def fill(self, value: Value) -> Fill:
        """The bytes of an input from one offset up to another, which need not lie between elements."""
        nbytes = value.dtype.nbytes

        def made(start: int, stop: int) -> Bytes:
            first = start // nbytes
            elements = self.read(value.name, np.arange(first, -(-stop // nbytes)))
            whole: Bytes = ARRAYS.bytes_of(elements)
            return whole[start - first * nbytes : stop - first * nbytes]

        return made
