"""The served code itself on a few of its blocks, over tensors whose bytes are made when they are touched.

Each element of an input is a value of a pool, by its offset, so that any element can be had again for the reference.
The pool's length is a prime: what is read from a row, a tile or a page away is another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.emulate.launch import Bytes, Completion
from compiler.emulate.ptx.module import Module
from compiler.emulate.run import emulate
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Value
from fusetune.wire.artifact import KernelArtifact
from search.emulation.launching import POISON, Fill, input_tensor, launch_of, output_tensor, storage_bytes
from search.emulation.running import ARRAYS, fault_of, options, wrong_elements
from search.emulation.tiling import Tiling
from search.verify.arrays import Array
from search.verify.expected import expect
from search.verify.inputs import RANDOM, make_inputs
from search.verify.points import Offsets, at_points

POOL_ELEMS = 65521
"""The largest prime below 2^16."""

MOST_BLOCKS = 12
"""Blocks of the served code that are run: two of each of four kinds of edge, and corners."""

MOST_TILES = 360
LEAST_BLOCKS = 3
"""Persistent blocks go through tens or hundreds of tiles each, those at edges among them: then fewer blocks do."""

MAX_BYTES = 1 << 36
"""Address space of the tensors: beyond, even memory that is never touched is not to be had."""


@dataclass(frozen=True, slots=True)
class Served:
    """What came of it. `blocks`: those that ran. `values_compared`: whether their values were held against the
    reference, or only where they were written."""

    fault: str
    blocks: tuple[int, ...]
    values_compared: bool = True


def run_served(fusion: Fusion, artifact: KernelArtifact, module: Module, tilings: dict[str, Tiling]) -> Served:
    """Runs the first, the last and the boundary blocks. Raises Unsupported for what the emulator cannot do."""
    values = [fusion.value(name) for name in (*fusion.inputs, *fusion.outputs)]
    if sum(map(storage_bytes, values)) > MAX_BYTES:
        raise Unsupported(f"emulating a kernel over more than {MAX_BYTES >> 30} GiB", "Verify it on a GPU.")
    tiling = next(iter(tilings.values()))
    blocks = tiling.boundary_blocks(max(LEAST_BLOCKS, min(MOST_BLOCKS, MOST_TILES // tiling.trips)))
    pool = _Pool(fusion)
    tensors = [
        *(input_tensor(v, np.zeros(storage_bytes(v), np.uint8), pool.fill(v)) for v in values[: len(fusion.inputs)]),
        *(output_tensor(v, _poison) for v in values[len(fusion.inputs) :]),
    ]
    launch = launch_of(artifact, tensors)
    outcome = emulate(module, launch, options(Completion.LAZY, races=False, blocks=blocks))
    if fault := fault_of(outcome):
        return Served(_here(blocks, fault), blocks)
    compared = True
    for position, name in enumerate(fusion.outputs):
        value = fusion.value(name)
        wanted = tilings[name].elements(blocks)
        if fault := _out_of_place(outcome.written[name], wanted, value):
            return Served(_here(blocks, f"output {position}: {fault}"), blocks)
        try:
            points = at_points(fusion, name, wanted, pool.read)
        except Unsupported:
            compared = False
            continue
        (want,) = expect(points.fusion, points.storages, ARRAYS)
        have = ARRAYS.reinterpret(launch.tensors[name].data, value.dtype)[wanted]
        if fault := wrong_elements(want, have, position):
            return Served(_here(blocks, fault), blocks)
    return Served("", blocks, compared)


def _here(blocks: Sequence[int], fault: str) -> str:
    return f"served code, blocks {', '.join(map(str, blocks))}: {fault}"


def _out_of_place(written: np.ndarray[tuple[int], np.dtype[np.bool_]], wanted: Offsets, value: Value) -> str:
    """What the blocks wrote that is not theirs, or did not write that is, in words."""
    words = written.view(f"u{value.dtype.nbytes}")  # the flags of an element's bytes at a time
    found = np.flatnonzero(words)
    if not np.array_equal(found, wanted):
        if len(stray := np.setdiff1d(found, wanted, assume_unique=True)):
            place = _index(stray[0], value)
            return f"{len(stray)} elements that belong to other blocks were written, element {place} first"
        missing = np.setdiff1d(wanted, found, assume_unique=True)
        return f"{len(missing)} of {len(wanted)} elements were never written, element {_index(missing[0], value)} first"
    whole = int.from_bytes(b"\x01" * value.dtype.nbytes, "little")
    if len(parts := found[words[found] != whole]):
        return f"element {_index(parts[0], value)} was written in part"
    return ""


def _index(position: int, value: Value) -> list[int]:
    return [int(i) for i in np.unravel_index(position, value.shape)]


def _poison(start: int, stop: int) -> Bytes:
    return np.full(stop - start, POISON, np.uint8)


class _Pool:
    """Values for the elements of inputs, by offset: the `random` set at the pool's length, over and over."""

    def __init__(self, fusion: Fusion) -> None:
        rows = {name: replace(fusion.value(name), shape=(POOL_ELEMS,), strides=(1,)) for name in fusion.inputs}
        short = replace(fusion, values=tuple(rows.get(v.name, v) for v in fusion.values))
        self._of = dict(zip(fusion.inputs, make_inputs(short, RANDOM, ARRAYS), strict=True))

    def read(self, name: str, offsets: Offsets) -> Array:
        """The elements of input `name` at these offsets into its storage."""
        return self._of[name][offsets % POOL_ELEMS]

    def fill(self, value: Value) -> Fill:
        """The bytes of an input from one offset up to another, which need not lie between elements."""
        nbytes = value.dtype.nbytes

        def made(start: int, stop: int) -> Bytes:
            first = start // nbytes
            elements = self.read(value.name, np.arange(first, -(-stop // nbytes)))
            whole: Bytes = ARRAYS.bytes_of(elements)
            return whole[start - first * nbytes : stop - first * nbytes]

        return made
