"""Writes a trace step by step, applying each, so that a scheduler can look at what it has so far."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import MathGrade
from compiler.ir.pinned import graded, pinned
from compiler.ir.tensor import TensorView
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.inline import max_position
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace


class TraceBuilder:
    """A scheduled fusion under construction, its functions of this grade where they may be. Axis positions count in the
    tensor's current loop domain."""

    def __init__(self, fusion: Fusion, grade: str = MathGrade.EXACT) -> None:
        self.fusion = graded(pinned(fusion), MathGrade(grade))
        self.sf: ScheduledFusion = start(self.fusion)
        self.steps: list[steps.Step] = []

    def do(self, *new: steps.Step) -> None:
        """Applies steps. Raises InvalidStep."""
        for step in new:
            self.sf = apply(self.sf, step)
            self.steps.append(step)

    def tensor(self, name: str) -> TensorView:
        return self.sf.tensor(name)

    def trace(self) -> ScheduleTrace:
        return ScheduleTrace.that_made(self.sf, self.steps)

    def split(self, tv: str, axis: int, factor: int) -> None:
        """[n] -> [ceil(n/factor), factor]."""
        self.do(steps.Split(tv, axis, factor))

    def merge(self, tv: str, axis: int, count: int = 2) -> None:
        """Merges `count` neighbours starting at `axis`, outermost first."""
        for _ in range(count - 1):
            self.do(steps.Merge(tv, axis))

    def reorder(self, tv: str, order: Sequence[int]) -> None:
        """`order[i]` is the old position of the axis that moves to position i."""
        if list(order) != sorted(order):
            self.do(steps.Reorder(tv, tuple((old, new) for new, old in enumerate(order))))

    def parallelize(self, tv: str, types: Sequence[ParallelType]) -> None:
        """One type for each axis; Serial needs no step."""
        for axis, type_ in enumerate(types):
            if type_ is not ParallelType.SERIAL:
                self.do(steps.Parallelize(tv, axis, type_))

    def inline(self, tv: str, position: int) -> None:
        """Computes the tensor inside the first `position` loops of its consumers, or as many as it can share with them:
        it then keeps more elements in registers (nvFuser, inlining)."""
        if position:
            deepest = max_position(self.sf, self.tensor(tv), position)
            if deepest:
                self.do(steps.InlineAt(tv, min(position, deepest)))
