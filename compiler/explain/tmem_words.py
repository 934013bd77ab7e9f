"""Tensor memory in words: what each tensor takes, and how each copy reaches it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.tmem.allocation import shifted_from
from compiler.analysis.tmem.tmem import Pattern, TensorMemoryPlan
from compiler.arch import TMEM_COLUMNS, TMEM_LANES, TMEM_SUBPARTITIONS
from compiler.explain.names import axes_names, counted
from compiler.ir.domain import ScheduledFusion
from compiler.ir.tensor import CopyVia, TensorView

SUBPARTITION_LANES = TMEM_LANES // TMEM_SUBPARTITIONS

_PATTERNS = {
    Pattern.P32X32B: "thread t of a warp reaches lane t, one word after the other along the columns",
    Pattern.P16X64B: "threads reach 16 lanes of two words; every other thread the upper 8 lanes",
    Pattern.P16X128B: "threads reach 16 lanes of four words; every other word is of the upper 8 lanes",
    Pattern.P16X256B: "threads reach 16 lanes of eight words, pairs of words, as the matrix instructions hold them",
    Pattern.P16X32BX2: "threads 0-15 reach 16 lanes, threads 16-31 the same lanes at a second place along the columns",
}


def tensor_memory_words(sf: ScheduledFusion, plan: TensorMemoryPlan) -> Iterator[str]:
    """Lines on the whole plan; nothing where no tensor is in tensor memory."""
    shifted = shifted_from(sf)
    for one in plan.tensors:
        t = sf.tensor(one.tensor)
        yield f"{t.name}: in tensor memory, {one.lanes} of {TMEM_LANES} lanes x {one.columns} columns of 4 bytes"
        yield from (f"  {line}" for line in _domain(t))
        if t.name in shifted:
            yield f"  shifted from {shifted[t.name]}: every row to the next lane, in the same columns"
        elif one.allocated_columns is None:
            yield f"  allocated: no, there are {TMEM_COLUMNS} columns"
        else:
            yield f"  allocated: {counted(one.allocated_columns, 'column')}, a power of two of at least 32"
        shared = [r for r in sf.tmem_regions if t.name in r and len(r) > 1]
        if shared:
            yield f"  region: shared with {', '.join(n for n in shared[0] if n != t.name)}"
        made = sf.producer(t.name)
        if made is not None and made.via is CopyVia.CP_TMEM:
            yield f"  filled from {_source(sf, t.name)}: tiles of all {TMEM_LANES} lanes, which one thread asks for"
        for access in plan.accesses:
            if access.tensor == t.name:
                verb = "load into" if access.output != t.name else "store from"
                other = access.output if access.output != t.name else _source(sf, t.name)
                yield f"  {verb} {other}: {counted(access.words, 'word')} of 4 bytes a thread, " + (
                    f"pattern {access.pattern}: {_PATTERNS[access.pattern]}"
                    if access.pattern is not None
                    else "in no pattern that the hardware has"
                )
    if plan.tensors:
        yield f"warp w reaches lanes {SUBPARTITION_LANES} * (w mod 4) to {SUBPARTITION_LANES} * (w mod 4) + 31"


def _domain(t: TensorView) -> Iterator[str]:
    axes = t.loop if t.allocation is None else t.allocation.axes
    if t.dimsep is None:
        yield f"allocation: {axes_names(axes)}; nothing separates lanes from columns"
    else:
        yield f"lanes: {axes_names(axes[: t.dimsep])}"
        yield f"columns: {axes_names(axes[t.dimsep :])}"


def _source(sf: ScheduledFusion, name: str) -> str:
    op = sf.producer(name)
    return ", ".join(op.tensor_inputs) if op is not None else name
