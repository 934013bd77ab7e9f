"""Branches on which the lanes of a warp differ: the warp goes through both sides, one after the other.

A kernel is counted along its usual path (`search.cost.sites`), which is the first side of every condition. Where
threads decide by their own place, as at the ends of rows that begin at any address, warps have lanes on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.loops.loop_nest import THREAD_VARS
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Less
from search.cost.machine_code import counted_of
from search.cost.sites import sites_of
from search.cost.warps import some_warps

OTHER_SIDE = 1.8
"""What an instruction of the other side costs, over one of the usual path: loads and stores of single elements follow
one another there. A fit to 1,000 kernels of 7 fusions with rows of odd length, measured on an H200. Vectors of 4 bytes
that are stored where rows of bytes begin anywhere took 320 us, and single bytes 59 (transposes of 4095 x 16001)."""


def other_sides(kernel: k.Kernel) -> float:
    """Instructions that count for what a warp does on the other sides of branches, in the life of its block."""
    return OTHER_SIDE * sum(_other_sides(kernel, kernel.body, 1.0, ()))


def _other_sides(
    kernel: k.Kernel, body: tuple[k.Stmt, ...], runs: float, conditions: tuple[Less, ...]
) -> Iterator[float]:
    for s in body:
        match s:
            case k.Loop(trip=trip, unroll=unroll, usual=usual):
                turns = max(1, trip.hi) if unroll else usual or max(1, trip.hi)
                yield from _other_sides(kernel, s.body, runs * turns, conditions)
            case k.If():
                if s.orelse and _is_of_threads(s):
                    counted = sum(counted_of(site.statement) * site.per_tile for site in sites_of(s.orelse, 1, 1))
                    yield runs * counted * _share_of_warps(kernel, s.conditions, conditions)
                yield from _other_sides(kernel, s.then, runs, (*conditions, *s.conditions))
            case k.Elected():
                yield from _other_sides(kernel, s.body, runs, conditions)
            case _:
                pass


def _is_of_threads(s: k.If) -> bool:
    sides = (side for c in s.conditions for side in (c.left, c.right))
    return any(v.name in THREAD_VARS for side in sides for v in side.variables)


def _share_of_warps(kernel: k.Kernel, own: tuple[Less, ...], outer: tuple[Less, ...]) -> float:
    """Of the warps that come to a branch, those with lanes that do not fulfil its conditions."""
    values = some_warps(kernel, [side for c in (*own, *outer) for side in (c.left, c.right)])
    come = _hold(outer, values)
    others = come & ~_hold(own, values)
    warps = int(come.any(axis=1).sum())
    return int(others.any(axis=1).sum()) / warps if warps else 0.0


def _hold(conditions: tuple[Less, ...], values: dict[str, Any]) -> NDArray[np.bool_]:
    found = np.ones(values["tx"].shape, dtype=np.bool_)
    for c in conditions:
        found &= np.broadcast_to(c.left.evaluate(values) < c.right.evaluate(values), found.shape)
    return found
