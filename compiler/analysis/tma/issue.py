"""Who issues a bulk copy: it is asked for once, though every thread of the block passes the statement (nvFuser,
predicates of bulk copies)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.analysis.loops.axes import dimension_sizes
from compiler.arch import WARP_THREADS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp


class Issuer(StrEnum):
    """Which threads issue."""

    ONLY_THREAD = "only thread"
    """The block has no other."""
    FIRST_THREAD = "first thread"
    ELECTED_LANE = "elected lane"
    ELECTED_LANE_OF_FIRST_WARP = "elected lane of the first warp"
    THREADS_OF_THE_COPY = "threads of the copy"
    """One for each index of the copy's own thread axes."""


@dataclass(frozen=True, slots=True)
class Issue:
    """`threads` of the block issue the copy, each for tiles of its own."""

    issuer: Issuer
    threads: Size


def issue_of(sf: ScheduledFusion, op: TensorOp) -> Issue:
    """Who issues the bulk copy `op`."""
    t = sf.tensor(op.output)
    threads = Size(1)
    for axis, type_ in zip(t.loop, t.types, strict=True):
        if type_.is_thread:
            threads = threads * axis.size
    if any(type_.is_thread for type_ in t.types):
        return Issue(Issuer.THREADS_OF_THE_COPY, threads)
    block = {type_: sizes for type_, sizes in dimension_sizes(sf).items() if type_.is_thread}
    if all(size == Size(1) for sizes in block.values() for size in sizes):
        return Issue(Issuer.ONLY_THREAD, threads)
    x = block.get(ParallelType.TIDX, (Size(1),))
    if all(size.is_constant for size in x):
        widest = max(size.value for size in x)
        if widest < WARP_THREADS:
            return Issue(Issuer.FIRST_THREAD, threads)
        if widest == WARP_THREADS:
            return Issue(Issuer.ELECTED_LANE, threads)
    return Issue(Issuer.ELECTED_LANE_OF_FIRST_WARP, threads)
