"""Rules on bulk copies: which axes they move and who asks for them; the run of a 1-D one.

A 1-D copy is one run of neighbours, with no bounds check and no tensor map (nvFuser, 1-D bulk; PTX ISA, cp.async.bulk).
Tensor maps have rules of their own (`tensor_map`), and so has their place in shared memory
(`tile_placement`).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.conditions import at_least, is_multiple, kept, settled, split_divides
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.issue import Issuer, issue_of
from compiler.arch import BULK_BYTES, WARP_THREADS
from compiler.errors import Kept, Stage, Violation
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp
from compiler.legality.rules import Schedule, model_rule
from compiler.legality.tensor_map import inference
from compiler.legality.tensor_map.encoding import encode_breach

_Found = Iterator[Violation | Kept]


def _bulk_ops(s: Schedule) -> Iterator[TensorOp]:
    return (op for op in s.sf.ops if op.via.is_bulk)


@model_rule
def bulk_axes_are_of_bulk_copies(s: Schedule) -> Iterator[Violation]:
    """Bulk says what the copy engine moves at once, so it stands on the output of a bulk copy alone (nvFuser, bulk
    copies)."""
    for t in s.sf.tensors:
        op = s.sf.producer(t.name)
        if t.bulk_axes and (op is None or not op.via.takes_tiles):
            yield Violation(
                "bulk_axes_are_of_bulk_copies",
                f"{t.name}: {t.bulk_axes[0]}",
                "an input" if op is None else f"computed by {op.kind} (via {op.via})",
                "the output of a copy via tma, bulk1d, cp_tmem or shift_tmem",
                "Mark the axes of the copy's output Bulk.",
            )


@model_rule
def bulk_axes_are_iterated(s: Schedule) -> Iterator[Violation]:
    """A Bulk axis has elements along it: it is no broadcast and no reduction (nvFuser, bulk copies)."""
    for op in _bulk_ops(s):
        for axis in s.sf.tensor(op.output).bulk_axes:
            if axis.is_broadcast or axis.is_reduction:
                yield Violation(
                    "bulk_axes_are_iterated",
                    f"{op.output}: {axis}",
                    axis.kind.value,
                    "iteration",
                    "Leave that axis serial.",
                )


@model_rule
def bulk_copies_are_issued_by_loops_and_threads(s: Schedule) -> Iterator[Violation]:
    """The loop axes that choose a tile are blocks, threads, or serial, unrolled or unswitched loops (nvFuser, bulk
    copies)."""
    for op in _bulk_ops(s):
        t = s.sf.tensor(op.output)
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if type_ is ParallelType.VECTORIZE or (axis.is_reduction and type_ is not ParallelType.BULK):
                yield Violation(
                    "bulk_copies_are_issued_by_loops_and_threads",
                    f"{t.name}: {axis}",
                    f"{type_} on an axis of kind {axis.kind.value}",
                    "a block, a thread, or a serial, unrolled or unswitched loop",
                    "Mark the axes of the tile Bulk, and parallelize only the others.",
                )


@model_rule
def elected_issue_has_a_whole_warp(s: Schedule) -> _Found:
    """Where the block's width is known at launch only, one lane of a warp is elected to issue a bulk copy, which takes
    a whole warp of 32 (nvFuser, predicates of bulk copies; PTX ISA, elect.sync)."""
    widths = s.dimension_sizes.get(ParallelType.TIDX, ())
    if not widths or any(w.is_constant and w.value >= WARP_THREADS for w in widths):
        return
    if all(issue_of(s.sf, op).issuer is not Issuer.ELECTED_LANE_OF_FIRST_WARP for op in _bulk_ops(s)):
        return
    widest = max(w.value for w in widths)
    yield from kept(widest >= WARP_THREADS, " or ".join(at_least(w, WARP_THREADS).formula for w in widths)).require(
        encode_breach(
            "elected_issue_has_a_whole_warp",
            "block width (TIDx)",
            widest,
            f"at least {WARP_THREADS}",
            "Give the block 32 threads in x or more, or a width known when it is compiled.",
        )
    )


@model_rule
def bulk1d_has_one_bulk_axis(s: Schedule) -> _Found:
    """Exactly one axis is Bulk: the run (nvFuser, 1-D bulk)."""
    for run in s.bulk_runs.values():
        yield from _bulk_axes(run)


def _bulk_axes(run: BulkRun) -> _Found:
    if len(run.bulk) != 1:
        fix = "Merge the axes to copy, and mark the result Bulk."
        yield Violation("bulk1d_has_one_bulk_axis", run.where, len(run.bulk), 1, fix)


@model_rule
def bulk1d_splits_divide(s: Schedule) -> _Found:
    """Every split between the logical axes and the Bulk axis divides, since the copy has no bounds check of its own;
    other loops may leave holes, and are guarded (nvFuser, 1-D bulk)."""
    for run in s.bulk_runs.values():
        yield from _uneven(run)


def _uneven(run: BulkRun) -> _Found:
    for split in run.splits:
        breach = Violation(
            "bulk1d_splits_divide",
            run.where,
            str(split.source.size),
            f"a multiple of {split.inner.size}",
            "Choose a run that divides, or copy via tma.",
            f"{split.source} is split by {split.inner.size} above the Bulk axis: the run could pass the end",
        )
        yield from split_divides(split).require(breach)


@model_rule
def bulk1d_run_is_contiguous(s: Schedule) -> _Found:
    """The elements of a run are neighbours in global memory (PTX ISA, cp.async.bulk)."""
    for run in s.bulk_runs.values():
        yield from _apart(run)


def _apart(run: BulkRun) -> _Found:
    if run.apart:
        yield Violation(
            "bulk1d_run_is_contiguous",
            run.where,
            " x ".join(str(a) for a in run.apart),
            "neighbours of the elements further in",
            "Copy along the innermost axis in global memory.",
            "not recognised: the Bulk axis is no run of neighbours in global memory",
        )


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


def breaches(run: BulkRun) -> tuple[Violation | Kept, ...]:
    """What these rules and those on views find wrong with the shape of a run, whatever its length and address."""
    return (*inference.breaches(run), *_bulk_axes(run), *_uneven(run), *_apart(run))
