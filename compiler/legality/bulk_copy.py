"""Rules on 1-D bulk copies: one run of neighbours, no bounds check, no tensor map (nvFuser, 1-D bulk; PTX ISA,
cp.async.bulk)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.conditions import is_multiple, kept, settled
from compiler.arch import BULK_BYTES
from compiler.errors import Kept, Stage, Violation
from compiler.ir.size import Size
from compiler.legality.rules import Schedule, model_rule

_Found = Iterator[Violation | Kept]


@model_rule
def bulk1d_has_one_bulk_axis(s: Schedule) -> _Found:
    """Exactly one axis is Bulk: the run (nvFuser, 1-D bulk)."""
    yield from _breaches(s, "bulk1d_has_one_bulk_axis")


@model_rule
def bulk1d_splits_divide(s: Schedule) -> _Found:
    """Every split between the logical axes and the Bulk axis divides, since the copy has no bounds check of its own;
    other loops may leave holes, and are guarded (nvFuser, 1-D bulk)."""
    yield from _breaches(s, "bulk1d_splits_divide")


@model_rule
def bulk1d_run_is_contiguous(s: Schedule) -> _Found:
    """The elements of a run are neighbours in global memory (PTX ISA, cp.async.bulk)."""
    yield from _breaches(s, "bulk1d_run_is_contiguous")


@model_rule
def bulk1d_moves_multiples_of_16_bytes(s: Schedule) -> _Found:
    """A run is a multiple of 16 bytes; nothing else bounds it (PTX ISA, cp.async.bulk: size)."""
    for run in s.bulk_runs.values():
        if run.elems is None:
            continue
        nbytes = run.elems * Size(run.global_tensor.dtype.nbytes)
        breach = Violation(
            "bulk1d_moves_multiples_of_16_bytes",
            f"{run.where}: run",
            f"{nbytes} bytes",
            f"a multiple of {BULK_BYTES}",
            "Copy a longer run.",
        )
        yield from is_multiple(nbytes, Size(BULK_BYTES)).require(breach)


@model_rule
def bulk1d_runs_start_on_16_bytes(s: Schedule) -> _Found:
    """Every run starts on a multiple of 16 bytes of global memory: the tensor does, and so do the steps from run to run
    (PTX ISA, cp.async.bulk: srcMem, dstMem)."""
    for run in s.bulk_runs.values():
        t = run.global_tensor
        holds = t.align % BULK_BYTES == 0
        if t.name in s.sf.inputs:
            address = kept(holds, f"ptr[{s.sf.inputs.index(t.name)}] % {BULK_BYTES} == 0")
        else:
            address = settled(holds, f"{t.align} % {BULK_BYTES} == 0")
        yield from address.require(_misaligned(f"{run.where}: address of {t.name}", f"a multiple of {t.align} bytes"))
        for step in run.steps:
            nbytes = step * Size(t.dtype.nbytes)
            breach = _misaligned(f"{run.where}: step from run to run", f"{nbytes} bytes")
            yield from is_multiple(nbytes, Size(BULK_BYTES)).require(breach)


def _misaligned(where: str, found: str) -> Violation:
    return Violation(
        "bulk1d_runs_start_on_16_bytes",
        where,
        found,
        f"a multiple of {BULK_BYTES} bytes",
        "Align the tensor and pad its rows, or copy by threads.",
        stage=Stage.RUNTIME,
    )


def _breaches(s: Schedule, rule: str) -> _Found:
    for run in s.bulk_runs.values():
        yield from (b for b in run.breaches if b.rule == rule)
