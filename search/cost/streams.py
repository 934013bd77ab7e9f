"""What it costs that blocks which stay read in short pieces: time per byte of device memory over that of long ones.

Blocks that stay drift apart. What one of them leaves of a line, another asks for later; and each walks through pages of
memory of its own, unless neighbours walk side by side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.ir.expr import Expr
from compiler.lower import kernel_ir as k
from compiler.lower.traversal import walk
from search.cost.accesses import runs_of
from search.cost.runs import Table, run_cost
from search.cost.sites import StatementSite, positions_of

LINE_COST: Table = ((16, 0.37), (32, 0.25), (64, 0.15), (128, 0.0))
"""By the bytes of a piece. H200: sums over the columns of a matrix took 1.24 to 1.5 times as long by blocks with 64
bytes of each row as by those with 128."""

PAGE_COST, PAGE_BYTES, _MOST_HALVINGS = 0.015, 16 << 10, 6
"""What each halving of a piece below so many bytes costs where what follows it is not on its way. H200, log-sum-exp of
rows of 64 KB: 16 KB in a turn 116 us, 8 KB 119, 4 KB 120.6, 2 KB 122; sums of rows take 2.4 % less with four
times as much."""

_MOST_ADDRESSES = 1 << 14
"""Addresses of a block's load that are looked at: all of most tiles."""


class Stream(NamedTuple):
    """What a block reads of a tensor in a turn: bytes, those of one piece, and whether what follows it is on its way at
    the same time: the next block's is beside it, or the block itself asks ahead."""

    nbytes: float
    run: float
    is_beside: bool

    @property
    def cost(self) -> float:
        """What is added to the time of a byte."""
        halvings = min(_MOST_HALVINGS, max(0.0, math.log2(PAGE_BYTES / self.run)))
        return run_cost(LINE_COST, self.run) + (0.0 if self.is_beside else PAGE_COST * halvings)


def stream_cost(sites: list[StatementSite], kernel: k.Kernel, again: set[int]) -> float:
    """What the pieces that loops read add to the time of a byte, the mean by their bytes; 0 without loops."""
    found = streams(sites, kernel, again)
    total = sum(one.nbytes for one in found)
    return sum(one.nbytes * one.cost for one in found) / total if total else 0.0


def streams(sites: list[StatementSite], kernel: k.Kernel, again: set[int]) -> list[Stream]:
    """Of each load in a loop over tiles, what a turn of it reads; without what is read again, which is in caches."""
    position = positions_of(kernel)
    boxes = {m.name: m for m in kernel.tensor_maps}
    unrolled = frozenset(s.var.name for s in walk(kernel.body) if isinstance(s, k.Loop) and s.unroll)
    found: list[Stream] = []
    for site in sites:
        if site.tiles == 1:
            continue
        match site.statement:
            case (k.GlobalLoad() | k.CopyAsync()) as s if position[s.tensor] not in again:
                item = s.target.dtype.nbytes
                run = runs_of(_addresses(s.offset, kernel, unrolled) * item, s.width * item)[1]
                nbytes = float(site.per_tile * kernel.threads * s.width * item)
                beside = isinstance(s, k.CopyAsync) or _step(s.offset) * item == run
                found.append(Stream(nbytes, run, beside))
            case k.BulkLoad() as s if position[s.tensor] not in again:
                found.append(Stream(float(site.per_tile * s.nbytes), float(s.nbytes), is_beside=True))
            case k.TmaLoad() as s if position[s.tensor_map] not in again:
                box = boxes[s.tensor_map]
                found.append(
                    Stream(float(site.per_tile * s.nbytes), float(box.box[0] * box.dtype.nbytes), is_beside=True)
                )
            case _:
                pass
    return found


def _addresses(offset: Expr, kernel: k.Kernel, unrolled: frozenset[str]) -> NDArray[np.int64]:
    """Offsets of all threads in all turns of unrolled loops, where all else is 0."""
    thread = np.arange(kernel.threads, dtype=np.int64)
    x, y, _ = kernel.block
    values: dict[str, Any] = {v.name: 0 for v in offset.variables}
    values |= {"tx": thread % x, "ty": thread // x % y, "tz": thread // (x * y)}
    most = max(1, _MOST_ADDRESSES // kernel.threads)
    turns = 0
    for v in sorted(offset.variables, key=str):
        if v.name in unrolled and v.extent <= most:
            most //= max(1, v.extent)
            turns += 1
            values[v.name] = np.arange(v.extent, dtype=np.int64).reshape((-1,) + (1,) * turns)
    return np.ravel(np.asarray(offset.evaluate(values), dtype=np.int64))


def _step(offset: Expr) -> int:
    """How far the next block's begins, in elements."""
    here: dict[str, Any] = {v.name: 0 for v in offset.variables}
    return int(offset.evaluate({**here, "bx": 1})) - int(offset.evaluate({**here, "bx": 0}))
