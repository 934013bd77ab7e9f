"""How far apart in memory lies what the blocks that run at a time write."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.loops.loop_nest import BLOCK_VARS, THREAD_VARS
from compiler.ir.expr import Expr, Var, const, var
from compiler.lower import kernel_ir as k
from search.cost.sites import StatementSite

PAGE_BYTES = 2 << 20
"""Of memory, by which what is written at a time is counted: the size of a page of device memory (CUDA driver API,
cuMemGetAllocationGranularity)."""

_SMS = 132
"""Multiprocessors of a Hopper card: how many exactly means nothing to a ratio of pages."""

_SAMPLES, _MOST_PLACES = 4, 16
"""Indices of a loop, of a block's threads and of a box's rows that are looked at, and places of a block in all."""


def written_spread(sites: list[StatementSite], kernel: k.Kernel, resident: int) -> float:
    """Pages that are written to at a time, over pages that as many bytes would fill; of the output with the largest
    such share. Blocks start in the order of their numbers, `resident` on a multiprocessor. It is 1 for blocks that
    stay: what they write at a time is not known."""
    blocks = min(prod(kernel.grid), _SMS * resident)
    if prod(kernel.grid) != kernel.grid[0] or any(site.tiles > 1 for site in sites):
        return 1.0
    boxes = {m.name: m for m in kernel.tensor_maps}
    pages: dict[str, set[int]] = {}
    nbytes: dict[str, float] = {}
    for site in sites:
        match site.statement:
            case k.GlobalStore() as s:
                name, item, offset = s.tensor, s.source.dtype.nbytes, s.offset
                moved = kernel.threads * s.width * item
            case k.BulkStore() as s:
                name, item, offset, moved = s.tensor, s.source.dtype.nbytes, s.offset, s.nbytes
            case k.TmaStore() as s:
                box = boxes[s.tensor_map]
                places = zip(s.coordinates, (box.dtype.nbytes, *box.strides_bytes), box.box, strict=True)
                name, item, moved = s.tensor_map, 1, s.nbytes
                offset = sum(((at + var(Var(f"row{d}", n))) * step for d, (at, step, n) in enumerate(places)), const(0))
            case _:
                continue
        pages.setdefault(name, set()).update(_pages(_places(offset, kernel, blocks) * item))
        nbytes[name] = nbytes.get(name, 0.0) + blocks * site.per_tile * moved
    return max((len(found) / max(1.0, nbytes[name] / PAGE_BYTES) for name, found in pages.items()), default=1.0)


def _pages(places: NDArray[np.int64]) -> list[int]:
    """The pages of bytes, each once; counted, since sorting takes longer than the rest."""
    numbers = places.ravel() // PAGE_BYTES
    first = int(numbers.min())
    return (np.flatnonzero(np.bincount(numbers - first)) + first).tolist()


def _places(offset: Expr, kernel: k.Kernel, blocks: int) -> NDArray[np.int64]:
    """Offsets of each of the first blocks, of a few of its threads in a few turns of the loops that take it farthest;
    where all else is 0."""
    x, y, _ = kernel.block
    is_threaded = any(v.name in THREAD_VARS for v in offset.variables)
    thread, block = _samples(kernel.threads if is_threaded else 1), np.arange(blocks, dtype=np.int64)
    here: dict[str, Any] = {v.name: 0 for v in offset.variables}
    values = {**here, "tx": thread % x, "ty": thread // x % y, "tz": thread // (x * y), "bx": block[:, None]}
    count, left = 2, _MOST_PLACES // len(thread)
    loops = sorted((v for v in offset.variables if v.name not in THREAD_VARS | BLOCK_VARS), key=str)
    for v in sorted(loops, key=lambda v: -abs(offset.evaluate({**here, v.name: v.extent - 1}) - offset.evaluate(here))):
        if left >= _SAMPLES:
            values[v.name] = _samples(v.extent).reshape((-1,) + (1,) * count)
            count, left = count + 1, left // _SAMPLES
    return np.asarray(offset.evaluate(values), dtype=np.int64)


def _samples(extent: int) -> NDArray[np.int64]:
    """A few indices from the first to the last."""
    return np.unique(np.linspace(0, extent - 1, _SAMPLES).astype(np.int64))
