"""The served code itself on a few of its blocks, over tensors whose bytes are made when they are touched.

Each element of an input is a value of a pool, by its offset, so that any element can be had again for the reference.
The pool's length is a prime: what is read from a row, a tile or a page away is another value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Bytes, Completion, Launch, Tensor
from compiler.emulate.ptx.module import Module
from compiler.emulate.run import emulate
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Value
from compiler.ir.ops import REDUCTIONS, OpKind
from compiler.pipeline import Generated, GeneratedLaunch
from fusetune.wire.artifact import KernelArtifact
from search.emulation.launching import POISON, Fill, input_tensor, launches_of, output_tensor, storage_bytes
from search.emulation.running import ARRAYS, fault_of, options, wrong_elements
from search.emulation.tiling import Tiling, tilings
from search.verify.arrays import Array
from search.verify.compare import compare
from search.verify.inputs import RANDOM, make_inputs
from search.verify.points import Offsets, expect_at

Flags = npt.NDArray[np.bool_]

POOL_ELEMS = 65521
"""The largest prime below 2^16."""

MOST_BLOCKS = 12
"""Blocks of the served code that are run: two of each of four kinds of edge, and corners."""

MOST_TILES = 360
LEAST_BLOCKS = 3
"""Persistent blocks go through tens or hundreds of tiles each, those at edges among them: then fewer blocks do."""

MOST_TOUCHED = 1 << 18
LARGEST_TOUCHED = 1 << 21
"""Elements that the blocks of a launch go through together, a second's work; and what one cluster may go through alone,
of which some seconds are needed to know anything."""

ORDER = Completion.LAZY
"""Of the blocks' copies: as late as can be."""

MOST_BYTES = 1 << 36
"""Address space of the tensors: beyond, even memory that is never touched is not to be had."""


@dataclass(frozen=True, slots=True)
class Served:
    """What came of it. `blocks`: those that ran, counted through all launches. `values_compared`: whether the values of
    all of them were held against the reference. `max_error` is relative to the element, as `tolerance` is."""

    fault: str
    blocks: tuple[int, ...]
    values_compared: bool = True
    max_error: float = 0.0
    tolerance: float = 0.0


def run_served(made: Generated, artifact: KernelArtifact, module: Module) -> Served:
    """Runs the first, the last and the boundary blocks of every launch, each over tensors of its own: what one launch
    reads of another is made up, and what it writes is held against what its part of the fusion means.

    Raises Unsupported for what the emulator cannot do.
    """
    ran: list[int] = []
    compared, worst, rtol = True, 0.0, 0.0
    first = 0
    for number, launch in enumerate(made.launches):
        found = _run_launch(made, number, artifact, module)
        ran += [first + block for block in found.blocks]
        compared &= found.values_compared
        if found.max_error >= worst:
            worst, rtol = found.max_error, found.tolerance
        if found.fault:
            where = f"launch {number}, " if len(made.launches) > 1 else ""
            return Served(f"served code, {where}{found.fault}", tuple(ran))
        first += prod(launch.kernel.grid)
    return Served("", tuple(ran), compared, worst, rtol)


def _run_launch(made: Generated, number: int, artifact: KernelArtifact, module: Module) -> Served:
    launch = made.launches[number]
    fusion = launch.trace.fusion
    values = [fusion.value(name) for name in (*fusion.inputs, *fusion.outputs)]
    if sum(map(storage_bytes, values)) > MOST_BYTES:
        raise Unsupported(f"emulating a kernel over more than {MOST_BYTES >> 30} GiB", "Verify it on a GPU.")
    tilings = _tilings(launch)
    blocks = _blocks(launch, next(iter(tilings.values()), None))
    if not blocks:
        return Served("", (), values_compared=False)
    pool = _Pool(fusion)
    prepared = _prepared(made, number, artifact, pool)
    outcome = emulate(module, prepared.launch, options(ORDER, races=False, blocks=blocks))
    worst, rtol = 0.0, 0.0
    here = f"blocks {', '.join(map(str, blocks))}: "
    if fault := fault_of(outcome):
        return Served(here + fault, blocks)
    for position, name in enumerate(fusion.outputs):
        value, own = fusion.value(name), prepared.names[len(fusion.inputs) + position]
        written = outcome.written[own][: storage_bytes(value)]
        wanted = tilings[name].elements(blocks) if name in tilings else None
        if fault := _out_of_place(written, wanted, value):
            return Served(f"{here}output {position}: {fault}", blocks)
        places = np.flatnonzero(written.view(f"u{value.dtype.nbytes}"))
        if not len(places):
            continue
        want = expect_at(fusion, name, places, pool.values)
        have = ARRAYS.reinterpret(prepared.launch.tensors[own].data, value.dtype)[places]
        if fault := wrong_elements(want, have, position):
            return Served(here + fault, blocks)
        share = float(compare(want, have, ARRAYS).worst_share)
        if want.tolerance is not None and share * want.tolerance.rtol >= worst:
            worst, rtol = share * want.tolerance.rtol, want.tolerance.rtol
    return Served("", blocks, True, worst, rtol)


def _tilings(launch: GeneratedLaunch) -> dict[str, Tiling]:
    """Which elements each block writes, where the steps tell; else nothing."""
    try:
        found = tilings(launch.trace)
    except Unsupported:
        return {}
    grids = {tiling.blocks for tiling in found.values()}
    folds = any(op.kind in REDUCTIONS or op.kind is OpKind.MEAN for op in launch.trace.fusion.ops)
    return {} if folds or grids != {prod(launch.kernel.grid)} else found


def _blocks(launch: GeneratedLaunch, tiling: Tiling | None) -> tuple[int, ...]:
    """The blocks to run, whole clusters: as many as go through no more than can be run in a second or two."""
    if tiling is not None:
        return tiling.boundary_blocks(max(LEAST_BLOCKS, min(MOST_BLOCKS, MOST_TILES // tiling.trips)))
    fusion, cluster = launch.trace.fusion, launch.kernel.cluster
    clusters = prod(launch.kernel.grid) // cluster
    touched = sum(fusion.value(name).elems for name in (*fusion.inputs, *fusion.outputs)) // clusters
    if touched > LARGEST_TOUCHED:
        return ()
    count = max(1, min(MOST_BLOCKS // cluster, MOST_TOUCHED // max(1, touched)))
    chosen = list(dict.fromkeys((clusters - 1, 0, clusters // 2, max(0, clusters - 2), min(1, clusters - 1))))[:count]
    return tuple(sorted(first * cluster + rank for first in chosen for rank in range(cluster)))


@dataclass(frozen=True)
class _Prepared:
    """A launch over tensors that are made when touched; `names`: of its own inputs, then its outputs."""

    launch: Launch
    names: tuple[str, ...]


def _prepared(made: Generated, number: int, artifact: KernelArtifact, pool: _Pool) -> _Prepared:
    """Launch `number` over what it reads and writes; the tensors that only others use have one element."""
    launch, whole = made.launches[number], made.trace.fusion
    fusion = launch.trace.fusion
    tensors = (*whole.inputs, *whole.outputs)
    own: dict[str, Tensor] = {}
    for places, names, is_read in ((launch.reads, fusion.inputs, True), (launch.writes, fusion.outputs, False)):
        for place, name in zip(places, names, strict=True):
            position = made.places[place]
            known = place if position < len(tensors) else f"scratch{position - len(tensors)}"
            own[known] = replace(_made_when_touched(fusion.value(name), pool if is_read else None), name=known)
    others = {name: _made_when_touched(replace(whole.value(name), shape=(), strides=()), None) for name in tensors}
    bare = artifact.model_copy(update={"scratch": tuple(s.model_copy(update={"bytes": 1}) for s in artifact.scratch)})
    prepared = launches_of(bare, [own.get(name, others[name]) for name in tensors])[number]
    return _Prepared(replace(prepared, tensors={**prepared.tensors, **own}), tuple(own))


def _made_when_touched(value: Value, pool: _Pool | None) -> Tensor:
    """An input whose elements are those of `pool`; without one, an output."""
    if pool is None:
        return output_tensor(value, _poison)
    return input_tensor(value, np.zeros(storage_bytes(value), np.uint8), pool.fill(value))


def _out_of_place(written: Flags, wanted: Offsets | None, value: Value) -> str:
    """What the blocks wrote that is not theirs, or did not write that is, in words; only what was written in part where
    it is not known which elements are theirs."""
    words = written.view(f"u{value.dtype.nbytes}")  # the flags of an element's bytes at a time
    found = np.flatnonzero(words)
    if wanted is not None and not np.array_equal(found, wanted):
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
        self._fusion = fusion
        self._of = dict(zip(fusion.inputs, make_inputs(short, RANDOM, ARRAYS), strict=True))

    def read(self, name: str, offsets: Offsets) -> Array:
        """The elements of input `name` at these offsets into its storage."""
        return self._of[name][offsets % POOL_ELEMS]

    def values(self, name: str, offsets: Offsets) -> Array:
        """The same as numbers."""
        return ARRAYS.load(self.read(name, offsets), self._fusion.value(name).dtype)

    def fill(self, value: Value) -> Fill:
        """The bytes of an input from one offset up to another, which need not lie between elements."""
        nbytes = value.dtype.nbytes

        def made(start: int, stop: int) -> Bytes:
            first = start // nbytes
            elements = self.read(value.name, np.arange(first, -(-stop // nbytes)))
            whole: Bytes = ARRAYS.bytes_of(elements)
            return whole[start - first * nbytes : stop - first * nbytes]

        return made
