"""Where tensors lie in the one allocation of a block, and which of them pass values from warp to warp.

All regions of a kernel are one allocation: an allocation waits while other blocks of the multiprocessor hold their
columns, and blocks that allocate in two steps could wait for each other (PTX ISA, tcgen05.alloc). Regions lie side by
side in it, as far as they are needed, and it is rounded up once. A region takes columns of an earlier one that nobody
reads any more when it is stored to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.analysis.id.linear import grid
from compiler.analysis.loops.loop_nest import LoopNest
from compiler.analysis.mma.product import made_in_tensor_memory
from compiler.analysis.tmem.access import TmemAccess
from compiler.analysis.tmem.allocation import TmemRegion, columns_allocated, shifted_from
from compiler.analysis.tmem.tmem import TensorMemoryPlan
from compiler.arch import TMEM_COLUMN_BITS, TMEM_SUBPARTITIONS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.size import Size


@dataclass(frozen=True, slots=True)
class TmemPlacement:
    """The allocation of a block: its columns, 0 without tensors in tensor memory, and the first column of each tensor
    in it.

    `shared`: of each tensor a name that it has in common with all that lie in columns of its own; `exchanged`: of these
    names those whose columns a warp reaches where another one has stored; `filled`: those that the tensor cores fill.
    """

    columns: int = 0
    first: Mapping[str, int] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    exchanged: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()


def place_tensor_memory(sf: ScheduledFusion, nest: LoopNest, plan: TensorMemoryPlan) -> TmemPlacement:
    """The placement of a legal plan."""
    if not plan.regions:
        return TmemPlacement()
    lives = _Lives(sf, nest)
    taken: list[tuple[int, TmemRegion]] = []
    for region in plan.regions:
        beside = [(at, r) for at, r in taken if not (lives.end_before(r, region) or lives.end_before(region, r))]
        taken.append((_first_gap(beside, region.needed.value), region))
    spans: dict[str, tuple[int, int]] = {}
    for at, region in taken:
        for layout in region.layouts:
            spans[layout.tensor.name] = (at, at + layout.columns_needed.value)
            at = spans[layout.tensor.name][1]
    spans |= {name: spans[source] for name, source in shifted_from(sf).items()}
    columns = columns_allocated(Size(max(end for _, end in spans.values()))).value
    found = TmemPlacement(columns, {name: at for name, (at, _) in spans.items()}, _named_together(spans))
    filled = frozenset(found.shared[op.output] for op in sf.ops if op.via.by_tensor_cores)
    return replace(found, exchanged=_exchanged(plan, found), filled=filled)


def _named_together(spans: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """One name for tensors whose columns overlap, by way of others too."""
    names = {name: name for name in spans}
    for one, (first, end) in spans.items():
        for other, (other_first, other_end) in spans.items():
            if first < other_end and other_first < end:
                old, new = names[one], names[other]
                names = {name: new if kept == old else kept for name, kept in names.items()}
    return names


def _first_gap(taken: Sequence[tuple[int, TmemRegion]], needed: int) -> int:
    """The first column from which so many are free."""
    starts = sorted({0, *(at + region.needed.value for at, region in taken)})
    return next(s for s in starts if all(s + needed <= at or s >= at + r.needed.value for at, r in taken))


@dataclass(frozen=True)
class _Lives:
    """From when to when tensors are needed, by what depends on what."""

    sf: ScheduledFusion
    nest: LoopNest

    def end_before(self, first: TmemRegion, second: TmemRegion) -> bool:
        """Whether all tensors of one region are read before any of another one is stored to, in every turn of the loops
        around: what is stored there depends on every one of those reads, and no loop keeps one alive over turns of the
        other. Products that are asked for go on beside what threads do: the next ones may have begun."""
        asked = made_in_tensor_memory(self.sf)
        if not asked.isdisjoint((*self._lying_in(first), *self._lying_in(second))):
            return False
        return all(self._ends_before(a, b) for a in self._lying_in(first) for b in self._lying_in(second))

    def _lying_in(self, region: TmemRegion) -> list[str]:
        names = [layout.tensor.name for layout in region.layouts]
        return [*names, *(name for name, source in shifted_from(self.sf).items() if source in names)]

    def _ends_before(self, first: str, second: str) -> bool:
        around = set(self._path(first)) & set(self._path(second))
        loads = [op.output for op in self.sf.consumers(first)]
        later = [op.output for op in self.sf.consumers(second)]
        made_of = self._made_of(second)
        return (
            all(name in made_of for name in loads)
            and all(around <= set(self._path(name)) for name in (*loads, *later))
            and all(set(self._path(name)) & set(self._path(second)) <= around for name in loads)
            and all(set(self._path(name)) & set(self._path(first)) <= around for name in later)
        )

    def _path(self, name: str) -> tuple[int, ...]:
        return self.nest.path(self.sf.tensor(name))

    def _made_of(self, name: str) -> set[str]:
        """All tensors that one is computed from."""
        found: set[str] = set()
        left = [name]
        while left:
            made = self.sf.producer(left.pop())
            new = set(made.tensor_inputs) - found if made is not None else set()
            found |= new
            left += new
        return found


# Warps ---------------------------------------------------------------------------------------------------------------


def _exchanged(plan: TensorMemoryPlan, placement: TmemPlacement) -> frozenset[str]:
    groups: dict[str, list[TmemAccess]] = {}
    for access in plan.accesses:
        groups.setdefault(placement.shared[access.tensor], []).append(access)
    bits = {t.tensor: t.layout.tensor.dtype.nbits for t in plan.tensors}

    def columns(access: TmemAccess) -> dict[int, set[int]] | None:
        return _columns_of_warps(access, bits[access.tensor], placement.first[access.tensor])

    return frozenset(n for n, accesses in groups.items() if _is_exchanged(accesses, list(map(columns, accesses))))


def _is_exchanged(accesses: Sequence[TmemAccess], columns: Sequence[Mapping[int, set[int]] | None]) -> bool:
    """Whether a warp may reach what another one stores. A warp reaches the lanes of its own subpartition alone, so that
    only warps of one subpartition, in columns of both, can meet."""
    stored = [c for a, c in zip(accesses, columns, strict=True) if a.output == a.tensor]
    return any(s is None or c is None or _meet(s, c) for s in stored for c in columns)


def _meet(stored: Mapping[int, set[int]], reached: Mapping[int, set[int]]) -> bool:
    return any(
        w != v and (w - v) % TMEM_SUBPARTITIONS == 0 and not mine.isdisjoint(others)
        for w, mine in stored.items()
        for v, others in reached.items()
    )


def _columns_of_warps(access: TmemAccess, nbits: int, first: int) -> dict[int, set[int]] | None:
    """The columns of 4 bytes that each warp reaches; None where there are too many places to look at."""
    warp = access.warps.warp
    if warp is None or access.column is None:
        return None
    # One expression of both, so that the values of each belong to the same place.
    span = access.column.hi + 1
    points = grid(warp * span + access.column)
    if points is None:
        return None
    found: dict[int, set[int]] = {}
    for place in np.unique(points).tolist():
        at = place % span * nbits
        words = range(at // TMEM_COLUMN_BITS, -(-(at + nbits) // TMEM_COLUMN_BITS))
        found.setdefault(place // span, set()).update(first + word for word in words)
    return found
