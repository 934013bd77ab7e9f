"""Reductions of short runs that lie apart in memory: what lies along a run is folded last.

A group norm of images whose channels are innermost folds runs of a few channels, one a pixel: 20 bytes of every 640. A
block that folds them reads a whole sector, or a line, for each, of which other blocks read the rest. Folded over the
pixels alone, all channels are neighbours, columns of one fold in whole lines; its results, one for each channel, are
folded along the runs in a second step. Sums that follow a maximum or a mean are folded by parts of one element of each
run (`split_reductions`).
"""

from __future__ import annotations

from compiler.arch import LINE_BYTES
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS
from search.launches.split_factors import SplitPlace
from search.launches.split_reductions import split_at


def runs_last(fusion: Fusion) -> Fusion | None:
    """The fusion with its reductions of short runs in two steps, runs last; None where it has none."""
    return split_at(fusion, lambda op: place_of_run(fusion, op))


def place_of_run(fusion: Fusion, op: Op) -> SplitPlace | None:
    """Where a reduction of short runs is split: into as many parts as a run has elements; None for any other.

    Its runs lie along the innermost dimension of several places; another that is folded is further out, beyond one that
    is kept.
    """
    if op.kind not in FOLDS:
        return None
    value = fusion.value(op.tensor_inputs[0])
    real = [d for d, n in enumerate(value.shape) if n > 1]
    folded = [d for d in real if d in op.dims]
    if len(folded) < 2 or folded[-1] != real[-1] or real[-2] in op.dims:
        return None
    run = value.shape[folded[-1]]
    return SplitPlace(folded[-1], run, 1) if run * value.dtype.nbytes < LINE_BYTES else None
