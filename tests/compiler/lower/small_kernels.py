"""Kernels of the small fusions: their legal points by path, and a run of one held against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from compiler.arch import arch_named
from compiler.ir.fusion import Fusion
from compiler.ir.ops import MOVES, OpKind
from compiler.lower.kernel_ir import Kernel
from compiler.pipeline import generate
from compiler.reference import evaluate
from search.proof.verify.tolerance import tolerance
from search.space.protocol import Scheduler
from search.space.schedulers import singles_for
from search.space.space import Space
from tests.cards import card_of
from tests.compiler.lower.interpreted_global import logical, storage_elems
from tests.compiler.lower.interpreted_values import BITS, Array, decoded, encoded
from tests.compiler.lower.interpreter import run
from tests.compiler.lower.small_fusions import SMALL_FUSIONS

ARCH = arch_named("sm_90a")
SM_COUNT = 1
"""Multiprocessors that persistent grids are sized for: one, so that a block of a small problem has many tiles."""

Point = Mapping[str, Any]
Path = tuple[str, ...]
"""The scheduler's name and the values of its path knobs."""

PATH_KNOBS = {
    "flat": ("view", "load", "store", "blocks_per_sm", "stages"),
    "tile2d": (
        "load",
        "store",
        "move",
        "layout",
        "store_layout",
        "shift_load",
        "shift_store",
        "blocks_per_sm",
        "stages",
    ),
}
"""The knobs that choose the statements of a kernel; of `blocks_per_sm` it matters whether it is 0. Kernels of the other
schedulers run in the emulator alone (tests/search/proof/emulated)."""

TILE_KNOBS = {
    "flat": ("vector", "threads_x", "threads_y", "rows", "column_steps"),
    "tile2d": ("tile_in", "tile_out"),
}
"""The knobs whose product is the elements of a tile."""

WITHOUT_MEANING = ("cache_load", "cache_store", "math", "prefetch", "fill", "tile_order", "multicast")
"""Knobs that the interpreter does not model, or that choose no statement; they stay at their first value. Its threads
go together: the emulator runs warps that only load, threads that free stages one by one, and clusters."""


def is_interpreted(point: Point) -> bool:
    """Whether the interpreter runs the kernel of a point, as far as `multicast` goes: its blocks go by themselves."""
    return all(value == 1 for name, value in point.items() if name.rpartition(".")[2] == "multicast")


FOR_SPEED = {
    "staged_loads_are_long",
    "staged_stores_are_long",
    "persistent_blocks_prefetch",
    "bytes_in_flight",
}
"""What the search leaves out only because it is slow, whatever the size: kernels as right as any, and the only ones of
a small problem that have many tiles. The schedulers and the compiler take them."""


@dataclass(frozen=True)
class Points:
    """The legal points of one path of a fusion: flat indices in `space`, and for each the turns of a persistent block.

    `turns` is a lower bound of the tiles that every block works through; 1 where blocks are not persistent.
    """

    scheduler: Scheduler
    space: Space
    legal: Array
    turns: Array

    def draw(self, count: int, rng: np.random.Generator, least_turns: int = 1) -> list[Point]:
        """Up to `count` different points, of those with the turns asked for; of the busiest if none has."""
        wanted = self.legal[self.turns >= min(least_turns, int(self.turns.max()))]
        return [self.space.unravel(int(i)) for i in rng.choice(wanted, min(count, len(wanted)), replace=False)]


def turns_of_ring(path: Path) -> int:
    """Turns after which every stage of the path's ring was used in both parities; 2 without a ring, to meet again."""
    stages = int(path[-1])
    return 1 if path[-2] == "False" else 2 * stages + 1 if stages > 1 else 3


@cache
def points_by_path(name: str) -> dict[Path, Points]:
    """Every path that the schedulers of `PATH_KNOBS` allow of a fusion, slow ones (`FOR_SPEED`) too."""
    fusion = SMALL_FUSIONS[name]
    found: dict[Path, Points] = {}
    for scheduler in (s for s in singles_for(fusion, card_of(ARCH, SM_COUNT)) if s.name in PATH_KNOBS):
        whole = scheduler.space(fusion, ARCH)
        knobs = tuple(replace(k, values=k.values[:1]) if k.name in WITHOUT_MEANING else k for k in whole.knobs)
        space = Space(whole.name, knobs, tuple(c for c in whole.constraints if c.rule not in FOR_SPEED))
        legal = space.legal_indices()
        legal = legal[~_is_stored_alike(space, legal)]
        at = dict(zip((k.name for k in knobs), np.unravel_index(legal, space.shape), strict=True))
        read = {*TILE_KNOBS[scheduler.name], "blocks_per_sm"}
        values: dict[str, Any] = {k.name: k.array[at[k.name]] for k in knobs if k.name in read}
        tile = prod(values[k] for k in TILE_KNOBS[scheduler.name])
        elems = fusion.value(fusion.outputs[0]).elems
        blocks = values["blocks_per_sm"] * SM_COUNT
        turns = np.where(blocks > 0, elems // (tile * np.maximum(blocks, 1)), 1)
        key = np.zeros(len(legal), np.int64)
        for knob in PATH_KNOBS[scheduler.name]:
            key = key * 16 + np.where(knob == "blocks_per_sm", at[knob] > 0, at[knob])
        order = np.argsort(key, kind="stable")
        _, starts = np.unique(key[order], return_index=True)
        for these in np.split(order, starts[1:]) if len(order) else ():
            path = path_of(scheduler.name, space.unravel(int(legal[these][0])))
            found[path] = Points(scheduler, space, legal[these], turns[these])
    return found


def _is_stored_alike(space: Space, legal: Array) -> Array:
    """Points that only join a load with a layout of stored tiles, both of which others run: threads store a tile in the
    same way whether they have loaded through registers or past them, and matrices of any swizzled tile."""
    at = dict(zip((k.name for k in space.knobs), np.unravel_index(legal, space.shape), strict=True))
    named = {k.name: k.array for k in space.knobs if k.name in ("load", "move", "store_layout")}
    if len(named) < 3:
        return np.zeros(len(legal), np.bool_)
    is_cp_async, is_matrix = (named["load"] == "cp_async")[at["load"]], (named["move"] == "matrix")[at["move"]]
    layout, of = named["store_layout"], at["store_layout"]
    alike: Array = is_cp_async & (layout != "none")[of] | is_matrix & np.isin(layout, ("32B", "128B"))[of]
    return alike


def path_of(scheduler: str, point: Point) -> Path:
    """The path that a point takes."""
    values = [str(point[k] > 0) if k == "blocks_per_sm" else str(point[k]) for k in PATH_KNOBS[scheduler]]
    return (scheduler, *values)


@cache
def shared_out_paths() -> dict[str, tuple[Path, ...]]:
    """Every path there is, each with one fusion: one with enough tiles, of those the one that has the fewest so far."""
    allowed: dict[Path, list[str]] = {}
    for name in SMALL_FUSIONS:
        for path in points_by_path(name):
            allowed.setdefault(path, []).append(name)
    shares: dict[str, tuple[Path, ...]] = dict.fromkeys(SMALL_FUSIONS, ())
    for path in sorted(allowed, key=lambda p: (len(allowed[p]), p)):
        busy = [n for n in allowed[path] if points_by_path(n)[path].turns.max() >= turns_of_ring(path)]
        name = min(busy or allowed[path], key=lambda n: len(shares[n]))
        shares[name] += (path,)
    return shares


def kernel_of(name: str, path: Path, **knobs: object) -> Kernel:
    """The kernel of a point of the path, with these knob values and enough turns to use its ring twice."""
    points = points_by_path(name)[path]
    every = points.draw(len(points.legal), np.random.default_rng(0), turns_of_ring(path))
    point = next(p for p in every if all(p[k] == v for k, v in knobs.items()))
    return generate(points.scheduler.trace(SMALL_FUSIONS[name], point), ARCH).kernel


# Comparing -----------------------------------------------------------------------------------------------------------


def check_points(name: str, chosen: Iterator[tuple[Scheduler, Point]]) -> int:
    """Runs the kernels of these points of a fusion; returns how many. Raises AssertionError, which names the point."""
    fusion, count = SMALL_FUSIONS[name], 0
    for scheduler, point in chosen:
        try:
            check(generate(scheduler.trace(fusion, point), ARCH).kernel, fusion)
        except AssertionError as error:
            error.add_note(f"{name}, {scheduler.name}: {dict(point)}")
            raise
        count += 1
    return count


def check(kernel: Kernel, fusion: Fusion) -> None:
    """Runs a kernel and holds every output element against the reference. Raises AssertionError."""
    moves = all(op.kind in MOVES for op in fusion.ops)
    storages = random_inputs(fusion, any_bits=moves)
    outputs = run(kernel, fusion, storages)
    if moves:
        np.testing.assert_array_equal(outputs[0], _moved(fusion, storages[0]))
        return
    for name, bits, want in zip(fusion.outputs, outputs, reference(fusion, storages), strict=True):
        dtype = fusion.value(name).dtype
        allowed = tolerance(dtype, float(np.abs(want).max()))
        np.testing.assert_allclose(decoded(bits.copy(), dtype), want, allowed.rtol, allowed.atol)


def reference(fusion: Fusion, storages: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs in f64 for flat storages of bits."""
    values = [fusion.value(n) for n in fusion.inputs]
    inputs = [decoded(logical(s, v.shape, v.strides).copy(), v.dtype) for s, v in zip(storages, values, strict=True)]
    outputs: tuple[Array, ...] = evaluate(fusion, inputs, np)
    return outputs


def random_inputs(fusion: Fusion, *, any_bits: bool) -> list[Array]:
    """Flat storages: any bits at all for fusions that only move data, else ordinary values; NaN in the holes."""
    rng = np.random.default_rng(7)
    storages = []
    for value in map(fusion.value, fusion.inputs):
        bits = BITS[value.dtype]
        storage = np.full(storage_elems(value.shape, value.strides), np.iinfo(bits).max, bits)
        places = logical(np.arange(len(storage)), value.shape, value.strides).reshape(-1)
        if any_bits:
            storage[places] = rng.integers(0, np.iinfo(bits).max, len(places), endpoint=True).astype(bits)
        else:
            storage[places] = encoded(rng.standard_normal(len(places)).astype(np.float32), value.dtype)
        storages.append(storage)
    return storages


def _moved(fusion: Fusion, storage: Array) -> Array:
    """The bits that a fusion of one copy or permute brings to its output."""
    value, (op,) = fusion.value(fusion.inputs[0]), fusion.ops
    bits = logical(storage, value.shape, value.strides)
    return bits.transpose(op.dims) if op.kind is OpKind.PERMUTE else bits
