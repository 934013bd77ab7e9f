"""What one warp's access touches: addresses, runs, sectors, and wavefronts of shared memory.

Addresses are worked out for one warp, at the origin of everything that is not a thread.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.loops.loop_nest import BLOCK_VARS, THREAD_VARS
from compiler.analysis.memory.bank_conflicts import wavefronts
from compiler.analysis.memory.matrix import matrices_in
from compiler.arch import CP_ASYNC_BYTES, LINE_BYTES, MATRIX_ROW_BYTES, MATRIX_ROWS, SECTOR_BYTES, WARP_THREADS
from compiler.ir.expr import Expr, const
from compiler.ir.tensor import CachePolicy
from compiler.lower import kernel_ir as k
from search.cost.sites import Load, own_side

PAST_L1 = (CachePolicy.NO_ALLOCATE, CachePolicy.EVICT_FIRST)


def first_warp(block: tuple[int, int, int]) -> dict[str, NDArray[np.int64]]:
    """The thread variables of the first warp."""
    lane = np.arange(min(WARP_THREADS, prod(block)), dtype=np.int64)
    return {"tx": lane % block[0], "ty": lane // block[0] % block[1], "tz": lane // (block[0] * block[1])}


def addresses(expr: Expr, lanes: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The expression for each lane, where all other variables are 0."""
    values: dict[str, Any] = {variable.name: 0 for variable in expr.variables}
    return np.broadcast_to(np.asarray(expr.evaluate({**values, **lanes}), dtype=np.int64), lanes["tx"].shape)


def runs_of(starts: NDArray[np.int64], size: int) -> tuple[int, float]:
    """Distinct bytes that lanes touch, each `size` from its start, and the mean length of the runs they form."""
    ordered = np.unique(starts)
    steps = np.diff(ordered)
    distinct = int(np.minimum(steps, size).sum()) + size
    return distinct, distinct / (1 + int(np.count_nonzero(steps > size)))


def global_access(s: Load | k.GlobalStore, lanes: dict[str, NDArray[np.int64]]) -> tuple[int, float]:
    """Distinct bytes of one warp's access and the mean length of its runs."""
    item = own_side(s).dtype.nbytes
    return runs_of(addresses(s.offset, lanes) * item, s.width * item)


def _sectors(s: Load, lanes: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sectors that the lanes inside of what the source covers touch, each once."""
    item = s.target.dtype.nbytes
    inside = np.ones(lanes["tx"].shape, dtype=np.bool_)
    for bound in s.within:
        inside &= addresses(bound.left, lanes) < addresses(bound.right, lanes)
    first = addresses(s.offset, lanes)[inside] * item
    step = min(SECTOR_BYTES, s.width * item)
    return np.unique(np.concatenate([(first + at) // SECTOR_BYTES for at in range(0, s.width * item, step)]))


def sector_bytes(s: Load, lanes: dict[str, NDArray[np.int64]]) -> int:
    """Bytes that L2 sends for one warp's load: whole sectors, unless a neighbouring load may find the rest in L1."""
    distinct, _ = global_access(s, lanes)
    sent = SECTOR_BYTES * len(_sectors(s, lanes))
    return min(distinct, sent) if s.within or sent <= 2 * distinct else sent


def share_of_l1(loads: list[Load], lanes: dict[str, NDArray[np.int64]]) -> float:
    """Sectors that a warp's loads of one tensor touch over the sum of each load's: they find the others' in L1."""
    loads = [n for s in loads for n in _neighbours(s)]
    if len(loads) < 2 or any(map(_passes_l1, loads)):
        return 1.0
    sectors = [_sectors(s, lanes) for s in loads]
    return len(np.unique(np.concatenate(sectors))) / max(1, sum(map(len, sectors)))


_MOST_NEIGHBOURS = 16
"""Turns of a loop over the elements of a vector (PTX ISA: a vector has 16 bytes at most)."""


def _neighbours(s: Load) -> list[Load]:
    """A load in every turn of the loop in which a thread goes from one element to the next, if it is in one: the next
    that is read, which may lie a few elements on, or back, but within a sector."""
    here = {v: const(0) for v in s.offset.variables}
    origin = s.offset.substitute(here).const
    reach = SECTOR_BYTES // own_side(s).dtype.nbytes
    for v in sorted(s.offset.variables, key=str):
        if v.name in THREAD_VARS or v.name in BLOCK_VARS or not 1 < v.extent <= _MOST_NEIGHBOURS:
            continue
        step = abs(s.offset.substitute({**here, v: const(1)}).const - origin)
        if s.width <= step < max(reach, s.width + 1):
            return [replace(s, offset=s.offset.substitute({v: const(i)})) for i in range(v.extent)]
    return [s]


def read_run(s: Load, lanes: dict[str, NDArray[np.int64]]) -> float:
    """Contiguous bytes of a load, and of those beside it that find in L1 what it has fetched."""
    loads = [s] if _passes_l1(s) else _neighbours(s)
    item = own_side(s).dtype.nbytes
    return runs_of(np.concatenate([addresses(n.offset, lanes) * item for n in loads]), s.width * item)[1]


def _passes_l1(s: Load) -> bool:
    """Whether nothing stays in L1 for others: cp.async of 16 bytes goes past it (PTX ISA, cp.async: .cg)."""
    if isinstance(s, k.CopyAsync):
        return s.width * s.target.dtype.nbytes == CP_ASYNC_BYTES[-1]
    return s.cache in PAST_L1


def wavefronts_of(s: k.Stmt, lanes: dict[str, NDArray[np.int64]]) -> int:
    """Wavefronts of one warp's access to L1 and shared memory, which are one: L1 looks one line up at a time."""
    match s:
        case k.GlobalLoad():
            return len(np.unique(_sectors(s, lanes) * SECTOR_BYTES // LINE_BYTES))
        case k.GlobalStore(offset=offset):
            return len(np.unique(addresses(offset, lanes) * s.source.dtype.nbytes // LINE_BYTES))
        case k.SharedLoad(source=place, width=width):
            size = width * s.target.dtype.nbytes
        case k.SharedStore(target=place, width=width):
            size = width * s.source.dtype.nbytes
        case k.CopyAsync(target=place, width=width):
            size = width * place.dtype.nbytes
        case k.MatrixLoad(source=place, width=width) | k.MatrixStore(target=place, width=width):
            # A matrix is served like the access of as many lanes as it has rows, each of a row.
            rows = addresses(place.byte_offset, lanes)[: MATRIX_ROWS * matrices_in(width, place.dtype.nbytes)]
            return wavefronts(rows.tolist(), MATRIX_ROW_BYTES)
        case _:
            return 0
    return wavefronts(addresses(place.byte_offset, lanes).tolist(), size)
