"""The served code itself on a few of its blocks, over tensors whose bytes are made when they are touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.analysis.loops.deal import dealt_turns, most_others
from compiler.emulate.launch import Completion, EmulatedOutcome
from compiler.emulate.ptx.module import Module
from compiler.emulate.run import emulate
from compiler.errors import Unsupported
from compiler.ir.fusion import Value, dense_strides
from compiler.ir.ops import CONTRACTIONS, FOLDS, SCANS
from compiler.ir.touched import read_elements
from compiler.pipeline import Generated, GeneratedLaunch
from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.running import ARRAYS, fault_of, options, too_long, wrong_elements
from search.proof.emulated.touched import Pool, TouchedLaunch, prepared
from search.proof.small.tiling import Tiling, tilings
from search.proof.verify.arrays import Array
from search.proof.verify.compare import compare, differing
from search.proof.verify.points import Offsets, expect_at

Flags = npt.NDArray[np.bool_]

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

MORE_ORDERS = (Completion.EAGER, Completion.RANDOM)
"""Where no smaller kernel of the class was run, or one whose blocks have so few turns that no stage is filled again:
the other orders, with a search for races."""

CHEAP_INSTRUCTIONS = 1 << 20
"""Of all warps of a launch in the first order: beyond, the others would take minutes with their search for races."""

_PART = 1 << 14
"""Elements of a tensor that are looked at together for what was written."""

MOST_BYTES = 1 << 36
"""Address space of the tensors: beyond, even memory that is never touched is not to be had."""


@dataclass(frozen=True, slots=True)
class Served:
    """What came of it. `blocks`: those that ran, counted through all launches. `values_compared`: whether the values of
    all of them were held against the reference. `max_error` is relative to the element, as `tolerance` is.

    `orders`: those in which all of them ran. `missed_races`: whether a launch whose turns are dealt took too long to
    look for races. `unfinished`: why a run was not brought to its end, in words.
    """

    fault: str
    blocks: tuple[int, ...]
    values_compared: bool = True
    max_error: float = 0.0
    tolerance: float = 0.0
    orders: tuple[Completion, ...] = (ORDER,)
    missed_races: bool = False
    unfinished: str = ""

    @property
    def sought_races(self) -> bool:
        """Whether races were looked for: in all orders but the first."""
        return len(self.orders) > 1


def run_served(made: Generated, artifact: KernelArtifact, module: Module, *, is_alone: bool = False) -> Served:
    """Runs the first, the last and the boundary blocks of every launch, each over tensors of its own: what one launch
    reads of another is made up, and what it writes is held against what its part of the fusion means.

    `is_alone`: nothing else of the kernel's class was run, so blocks run in more orders where that is cheap; so do
    those that turns are dealt to. Raises Unsupported for what the emulator cannot do.
    """
    launches: list[Served] = []
    ran: list[int] = []
    first = 0
    for number, launch in enumerate(made.launches):
        found = _run_launch(made, number, artifact, module, is_alone)
        launches.append(found)
        ran += [first + block for block in found.blocks]
        where = f"launch {number}, " if len(made.launches) > 1 else ""
        if found.fault or found.unfinished:
            fault, unfinished = (text and f"served code, {where}{text}" for text in (found.fault, found.unfinished))
            return replace(found, fault=fault, unfinished=unfinished, blocks=tuple(ran))
        first += prod(launch.kernel.grid)
    worst = max(launches, key=lambda one: one.max_error)
    compared = all(one.values_compared for one in launches)
    orders = tuple(order for order in launches[0].orders if all(order in one.orders for one in launches))
    missed = any(one.missed_races for one in launches)
    return Served("", tuple(ran), compared, worst.max_error, worst.tolerance, orders, missed)


def _run_launch(made: Generated, number: int, artifact: KernelArtifact, module: Module, is_alone: bool) -> Served:
    launch = made.launches[number]
    is_dealt = _sharing_the_last_tile(launch) > 0
    more = MORE_ORDERS if is_alone or is_dealt else ()
    fusion = launch.trace.fusion
    values = [fusion.value(name) for name in (*fusion.inputs, *fusion.outputs)]
    if sum(v.storage_bytes for v in values) > MOST_BYTES:
        raise Unsupported(f"emulating a kernel over more than {MOST_BYTES >> 30} GiB", "Verify it on a GPU.")
    tilings = _tilings(launch)
    blocks = _blocks(launch, next(iter(tilings.values()), None))
    if not blocks:
        return Served("", (), values_compared=False, missed_races=is_dealt)
    here = f"blocks {', '.join(map(str, blocks))}: "
    run = _Run(launch, Pool(fusion), blocks, tilings)
    done: list[Served] = []
    for order in (ORDER, *more):
        own = prepared(made, number, artifact, run.pool)
        outcome = emulate(module, own.launch, options(order, races=bool(done), blocks=blocks))
        where = f"{here}{order} order: " if more else here
        if unfinished := too_long(outcome):
            return Served("", blocks, unfinished=where + unfinished)
        found = run.judged(own, outcome)
        if found.fault:
            return replace(found, fault=where + found.fault)
        done.append(found)
        if outcome.instructions > CHEAP_INSTRUCTIONS:
            break
    return replace(done[0], orders=(ORDER, *more)[: len(done)], missed_races=is_dealt and len(done) == 1)


@dataclass
class _Run:
    """Some blocks of a launch, run again and again over tensors of the same pool.

    `first`: of each output, the places that were written and what was, by the first run.
    """

    launch: GeneratedLaunch
    pool: Pool
    blocks: tuple[int, ...]
    tilings: Mapping[str, Tiling]
    first: dict[str, tuple[Offsets, Array]] = field(default_factory=dict)

    def judged(self, own: TouchedLaunch, outcome: EmulatedOutcome) -> Served:
        """What the blocks wrote, held against what they are to write, and against what they wrote before."""
        fusion = self.launch.trace.fusion
        if fault := fault_of(outcome):
            return Served(fault, self.blocks)
        worst, rtol = 0.0, 0.0
        compared = False
        for position, name in enumerate(fusion.outputs):
            value, known = fusion.value(name), own.names[len(fusion.inputs) + position]
            written = outcome.written[known][: value.storage_bytes]
            wanted = self.tilings[name].elements(self.blocks) if name in self.tilings else None
            words = written.view(f"u{value.dtype.nbytes}")  # the flags of an element's bytes at a time
            offsets = _marked(written, value.dtype.nbytes)
            places = _places(offsets, value)
            if fault := _out_of_place(words[offsets], places, wanted, value):
                return Served(f"output {position}: {fault}", self.blocks)
            have = ARRAYS.reinterpret(own.launch.tensors[known].data, value.dtype)[offsets]
            before = self.first.setdefault(name, (places, have))
            compared |= len(places) > 0
            if not len(places) or (before[1] is not have and _is_same(before, (places, have))):
                continue
            want = expect_at(self.pool.fusion, name, places, self.pool.values)
            if fault := wrong_elements(want, have, position):
                return Served(fault, self.blocks)
            if before[1] is not have:
                return Served(f"output {position}: other values than in the {ORDER} order", self.blocks)
            share = float(compare(want, have, ARRAYS).worst_share)
            if want.tolerance is not None and share * want.tolerance.rtol >= worst:
                worst, rtol = share * want.tolerance.rtol, want.tolerance.rtol
        return Served("", self.blocks, compared, worst, rtol)


def _is_same(before: tuple[Offsets, Array], now: tuple[Offsets, Array]) -> bool:
    """Whether two runs wrote the same bits at the same places."""
    return np.array_equal(before[0], now[0]) and not int(differing(before[1], now[1], ARRAYS))


def _tilings(launch: GeneratedLaunch) -> dict[str, Tiling]:
    """Which elements each block writes, where the steps tell; else nothing."""
    try:
        found = tilings(launch.trace)
    except Unsupported:
        return {}
    grids = {tiling.blocks for tiling in found.values()}
    folds = any(op.kind in FOLDS | SCANS | CONTRACTIONS for op in launch.trace.fusion.ops)
    return {} if folds or grids != {prod(launch.kernel.grid)} else found


def _blocks(launch: GeneratedLaunch, tiling: Tiling | None) -> tuple[int, ...]:
    """The blocks to run, whole clusters: as many as go through no more than can be run in a second or two."""
    if tiling is not None:
        return tiling.boundary_blocks(max(LEAST_BLOCKS, min(MOST_BLOCKS, MOST_TILES // tiling.trips)))
    fusion, cluster = launch.trace.fusion, launch.kernel.cluster
    across, parts, _ = launch.kernel.grid if launch.kernel.scratch else (0, 1, 1)  # blocks of a tile wait for others
    clusters = prod(launch.kernel.grid) // cluster // parts
    touched = (
        sum(read_elements(fusion).values()) + sum(fusion.value(name).elems for name in fusion.outputs)
    ) // clusters
    if touched > LARGEST_TOUCHED:
        return ()
    count = max(1, min(MOST_BLOCKS // cluster // parts, MOST_TOUCHED // max(1, touched)))
    chosen = list(dict.fromkeys((clusters - 1, 0, clusters // 2, max(0, clusters - 2), min(1, clusters - 1))))[:count]
    if (last := _sharing_the_last_tile(launch)) > 0:  # and wait for those of smaller numbers
        chosen = list(range(max(count, last)))
    tiles = [first * cluster + rank for first in chosen for rank in range(cluster)]
    return tuple(sorted(part * across + block for part in range(parts) for block in tiles))


def _sharing_the_last_tile(launch: GeneratedLaunch) -> int:
    """Blocks, or clusters, that have parts of it, where turns are dealt to them: the first ones."""
    dealt = ((t, turns) for t in launch.scheduled.tensors if (turns := dealt_turns(t)) is not None)
    return next((1 + most_others(*turns, t.dealt) for t, turns in dealt), 0)


def _marked(written: Flags, nbytes: int) -> Offsets:
    """Where elements of so many bytes have any flag; most parts of a large tensor have none, which is soon seen."""
    part = _PART * nbytes
    starts = (first for first in range(0, len(written), part) if written[first : first + part].any())
    found = [at // nbytes + np.flatnonzero(written[at : at + part].view(f"u{nbytes}")) for at in starts]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _out_of_place(marks: npt.NDArray[Any], places: Offsets, wanted: Offsets | None, value: Value) -> str:
    """What the blocks wrote that is not theirs, or did not write that is, in words; only what was written in part where
    it is not known which elements are theirs. `marks`: the flags of each written element's bytes."""
    if holes := int((places < 0).sum()):
        return f"{holes * value.dtype.nbytes} bytes between its elements were written"
    found = np.sort(places)
    if wanted is not None and not np.array_equal(found, wanted):
        if len(stray := np.setdiff1d(found, wanted, assume_unique=True)):
            place = _index(stray[0], value)
            return f"{len(stray)} elements that belong to other blocks were written, element {place} first"
        missing = np.setdiff1d(wanted, found, assume_unique=True)
        return f"{len(missing)} of {len(wanted)} elements were never written, element {_index(missing[0], value)} first"
    whole = int.from_bytes(b"\x01" * value.dtype.nbytes, "little")
    if len(parts := places[marks != whole]):
        return f"element {_index(parts[0], value)} was written in part"
    return ""


def _places(offsets: Offsets, value: Value) -> Offsets:
    """Row-major positions of the elements at these offsets into a tensor's storage; -1 where none is."""
    found, rest, inside = np.zeros_like(offsets), offsets, np.ones(len(offsets), np.bool_)
    row_major = dense_strides(value.shape)
    # No two elements share an address: each stride is longer than what the shorter ones reach.
    for d in sorted(range(len(value.shape)), key=lambda d: -value.strides[d]):
        if value.shape[d] > 1:
            index, rest = np.divmod(rest, value.strides[d])
            inside &= index < value.shape[d]
            found = found + index * row_major[d]
    return np.where(inside & (rest == 0), found, -1)


def _index(position: int, value: Value) -> list[int]:
    return [int(i) for i in np.unravel_index(position, value.shape)]
