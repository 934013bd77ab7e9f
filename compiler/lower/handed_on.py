"""Where a sum over blocks ends in a body: some go on, what others have is handed over."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.facts import Facts
from compiler.lower.cluster_sum import summed_in_cluster
from compiler.lower.grid_fold import goes_on
from compiler.lower.kernel_ir import Stmt
from compiler.lower.mbarriers import Mbarriers
from compiler.lower.nest import FoldPart, FoldStep

HANDING_ON = (FoldPart.GRID, FoldPart.SLICES)


def handed_on(facts: Facts, barriers: Mbarriers, step: FoldStep, rest: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """`rest` in the blocks that have a whole sum in the end."""
    if step.part is FoldPart.GRID:
        return (goes_on(facts.grid_folds[step.tensor], rest),)
    _, base = facts.smem.partials_of(step.tensor)
    return summed_in_cluster(facts.cluster_sums[step.tensor], base, barriers.of_sum(step.tensor), rest)
