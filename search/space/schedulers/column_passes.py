"""Which pass over the folded elements makes which tensor, and what a later pass reads again, keeps or computes anew.

Reductions one after the other (a maximum, then a sum of what was measured from it) are passes over the same elements.
A tensor that two passes read is, by choice:

    read_again   loaded and computed in each pass
    inputs       loaded once and kept in registers; what is computed from it is computed in each pass
    values       kept in registers too where it costs a special function
    shared       loaded once and kept in shared memory, by tensor maps; what is computed from it is computed in each
                 pass, and what they cannot bring is loaded in each (`column_staging`)

Sums that are folded along with a maximum (`compiler.schedule.online`) are in its pass, in loops of their own after it:
what both fold is loaded once, and computed in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.analysis.loops.online import online_folds
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import COSTLY, REDUCTIONS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups import READ_AGAIN, REUSES, SHARED, STREAMS, VALUES, has_its_own_places
from search.space.schedulers.column_form import is_load, reads_memory, varies_along

SCALED = 1
"""Passes are numbered by two: what belongs to sums that are scaled to a maximum of the same pass has the odd number."""


def is_reduction(op: TensorOp) -> bool:
    """True for an operator that folds the folded dimensions."""
    return op.kind in REDUCTIONS


def is_full(sf: ScheduledFusion, t: TensorView) -> bool:
    """True for a tensor that varies along the folded dimensions, or is stored at each of their places."""
    return len(t.logical) == _rank(sf) and varies_along(t, folded_dims(sf))


def is_column(sf: ScheduledFusion, t: TensorView) -> bool:
    """True for a tensor over the kept dimensions only."""
    return len(t.logical) != _rank(sf)


def folded_dims(sf: ScheduledFusion) -> tuple[int, ...]:
    """The dimensions of the iteration space that every reduction folds."""
    first = next(sf.tensor(op.output) for op in sf.ops if is_reduction(op))
    return tuple(d for d, a in enumerate(first.logical) if a.is_reduction)


def _rank(sf: ScheduledFusion) -> int:
    return next(len(sf.tensor(op.output).logical) for op in sf.ops if is_reduction(op))


def depths(sf: ScheduledFusion) -> dict[str, int]:
    """Number of reductions, one after the other, that a tensor is computed from: the first pass that can make it."""
    found = dict.fromkeys(sf.inputs, 0)
    for op in sf.ops:
        before = max((found[name] for name in op.tensor_inputs), default=0)
        found[op.output] = before - 1 if op.is_running else before + is_reduction(op)
    return found


def passes_of(sf: ScheduledFusion, kept: frozenset[str] = frozenset()) -> dict[str, frozenset[int]]:
    """For every full tensor, the passes that need its value, by number; `kept` are made in one pass alone, for all.

    A reduction, and a store, belongs to the first pass that can make it. What is loaded serves a whole pass.
    """
    depth = depths(sf)
    scaled = {name for name, fold in online_folds(sf).items() if name != fold.maximum}
    needed: dict[str, frozenset[int]] = {}
    for op in reversed(sf.ops):
        t = sf.tensor(op.output)
        if is_reduction(op):
            needed[op.output] = frozenset({2 * (depth[op.output] - 1) + SCALED * (op.output in scaled)})
        elif is_full(sf, t) and t.memory is MemoryType.GLOBAL:
            needed[op.output] = frozenset({2 * depth[op.output]})
        elif is_full(sf, t):
            readers = [sf.tensor(c.output) for c in sf.consumers(op.output)]
            found = frozenset[int]().union(*(_made_in(needed, r.name, kept) for r in readers))
            needed[op.output] = frozenset(map(_whole, found)) if is_load(sf, op) else found
    return needed


def _whole(number: int) -> int:
    """The number of a pass whose loads serve this one."""
    return number - number % 2


def _made_in(needed: Mapping[str, frozenset[int]], name: str, kept: frozenset[str]) -> frozenset[int]:
    passes = needed.get(name, frozenset())
    return frozenset({min(passes)}) if name in kept and passes else passes


def kept_tensors(sf: ScheduledFusion, reuse: str) -> frozenset[str]:
    """Full tensors that stay in registers from one pass to the next."""
    if reuse in (READ_AGAIN, SHARED):
        return frozenset()
    kept = costly_values(sf) if reuse == "values" else frozenset[str]()
    loads = {op.output for op in sf.ops if is_load(sf, op)}
    return kept | {n for n, passes in passes_of(sf, kept).items() if len(passes) > 1 and n in loads}


def costly_values(sf: ScheduledFusion) -> frozenset[str]:
    """Full tensors that cost a special function, and that several passes read."""
    costly = {op.output for op in sf.ops if op.kind in COSTLY}
    return frozenset(n for n, passes in passes_of(sf).items() if len(passes) > 1 and n in costly)


def kept_in_tmem(sf: ScheduledFusion, use: str) -> tuple[str, ...]:
    """The register tensors that go to tensor memory, by the value of `tmem`. What is one value for a whole row, or
    column, is read again."""
    kept = {STREAMS: lambda: kept_tensors(sf, "inputs"), VALUES: lambda: costly_values(sf)}
    names = kept[use]() if use in kept else frozenset[str]()
    return tuple(sorted(name for name in names if has_its_own_places(sf.tensor(name))))


def reuses(sf: ScheduledFusion) -> tuple[str, ...]:
    """The choices that differ for a fusion whose inputs and outputs have their registers."""
    found: dict[frozenset[str], str] = {}
    for reuse in REUSES:
        found.setdefault(kept_tensors(sf, reuse), reuse)
    return tuple(found.values())


@dataclass
class ColumnPasses:
    """The passes of a fusion: `kept` in registers for all, `of` every full tensor the one pass that it belongs to."""

    kept: frozenset[str]
    of: dict[str, int] = field(default_factory=dict)


def split_passes(b: TraceBuilder, reuse: str, in_tmem: frozenset[str] = frozenset()) -> ColumnPasses:
    """Gives each pass its own copy of what it computes anew, what is in tensor memory being made once. Tensors may not
    be scheduled yet."""
    kept = kept_tensors(b.sf, reuse) | in_tmem
    needed = passes_of(b.sf, kept)
    found = ColumnPasses(kept)
    for op in reversed(b.sf.ops):
        name = op.output
        if name not in needed:
            continue
        first, *later = sorted(needed[name]) or [0]
        found.of[name] = first
        for at in later if name not in kept else ():
            copy = f"{name}_{at // 2}{'o' * (at % 2)}"
            parts = {c.output: found.of.get(c.output) for c in b.sf.consumers(name)}
            loaded = is_load(b.sf, op)
            readers = [r for r, part in parts.items() if part is not None and (_whole(part) if loaded else part) == at]
            b.do(steps.Recompute(name, readers[0], copy, tuple(readers[1:])))
            found.of[copy] = at
    return found


def cache_registers(b: TraceBuilder) -> None:
    """Gives a register copy to every input that is read as it is, and to every output that is computed, or read."""
    for name in b.sf.inputs:
        if any(not reads_memory(b.sf, op) for op in b.sf.consumers(name)):
            b.do(steps.CacheInput(name, f"{name}_r", MemoryType.LOCAL))
    for name in b.sf.outputs:
        op = b.sf.producer(name)
        assert op is not None, "an output is made by an operator"
        copied = op.kind is OpKind.COPY and b.sf.tensor(op.tensor_inputs[0]).memory is not MemoryType.GLOBAL
        if not copied or b.sf.consumers(name):
            b.do(steps.CacheOutput(name, f"{name}_r", MemoryType.LOCAL))
