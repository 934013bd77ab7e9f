"""Where tensors lie in the one allocation of a block, and which of them pass values from warp to warp.

All regions of a kernel are one allocation: an allocation waits while other blocks of the multiprocessor hold their
columns, and blocks that allocate in two steps could wait for each other (PTX ISA, tcgen05.alloc). Regions lie side by
side in it, as far as they are needed, and it is rounded up once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.analysis.id.linear import grid
from compiler.analysis.tmem.access import TmemAccess
from compiler.analysis.tmem.allocation import columns_allocated
from compiler.analysis.tmem.tmem import TensorMemoryPlan
from compiler.arch import TMEM_SUBPARTITIONS
from compiler.ir.size import Size


@dataclass(frozen=True, slots=True)
class TmemPlacement:
    """The allocation of a block: its columns, 0 without tensors in tensor memory, and the first column of each tensor
    in it. `exchanged`: tensors that a warp reads where another one has written."""

    columns: int = 0
    first: Mapping[str, int] = field(default_factory=dict)
    exchanged: frozenset[str] = frozenset()


def place_tensor_memory(plan: TensorMemoryPlan) -> TmemPlacement:
    """The placement of a legal plan."""
    if not plan.regions:
        return TmemPlacement()
    first: dict[str, int] = {}
    at = 0
    for region in plan.regions:
        for layout in region.layouts:
            first[layout.tensor.name] = at
            at += layout.columns_needed.value
    exchanged = (t.tensor for t in plan.tensors if _is_exchanged([a for a in plan.accesses if a.tensor == t.tensor]))
    return TmemPlacement(columns_allocated(Size(at)).value, first, frozenset(exchanged))


def _is_exchanged(accesses: list[TmemAccess]) -> bool:
    """Whether a warp may reach what another one writes. A warp reaches the lanes of its own subpartition alone, so that
    only warps of one subpartition, in columns of both, can meet."""
    columns = [_columns_of_warps(a) for a in accesses if a.output == a.tensor]
    read = [_columns_of_warps(a) for a in accesses if a.output != a.tensor]
    return any(
        written is None or got is None or _meet(written, got) for written in columns for got in (*columns, *read)
    )


def _meet(written: Mapping[int, set[int]], reached: Mapping[int, set[int]]) -> bool:
    return any(
        w != v and (w - v) % TMEM_SUBPARTITIONS == 0 and not mine.isdisjoint(others)
        for w, mine in written.items()
        for v, others in reached.items()
    )


def _columns_of_warps(access: TmemAccess) -> dict[int, set[int]] | None:
    """The columns, counted in elements, that each warp reaches; None where there are too many places to look at."""
    warp = access.warps.warp
    if warp is None or access.column is None:
        return None
    if not warp.variables:
        points = grid(access.column)
        return None if points is None else {warp.const: set(points.ravel().tolist())}
    # One expression of both, so that the values of each belong to the same place.
    span = access.column.hi + 1
    points = grid(warp * span + access.column)
    if points is None:
        return None
    found: dict[int, set[int]] = {}
    for place in np.unique(points).tolist():
        found.setdefault(place // span, set()).add(place % span)
    return found
