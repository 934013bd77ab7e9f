"""Writes a trace step by step, applying each, so that a scheduler can look at what it has so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import MathGrade
from compiler.ir.pinned import graded, pinned
from compiler.ir.tensor import TensorView
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.reference import reached
from compiler.schedule.shorter import shortened
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace


def refusal_by(shape: Callable[[ScheduledFusion], object], fusion: Fusion) -> str | None:
    """Why a scheduler does not take a fusion: what `shape`, of the unscheduled fusion, says in place of what the
    scheduler sees of it. None if it takes it."""
    try:
        found = shape(start(fusion))
    except Unsupported as e:
        return str(e)
    return found if isinstance(found, str) else None


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
        """The steps taken, or fewer that come to the same."""
        return ScheduleTrace.that_made(self.sf, shortened(self.steps))

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
        """One type for each axis, those past the last left out; Serial needs no step, nor what an axis is already."""
        own = self.tensor(tv).types
        new = [type_ if type_ is not is_ else ParallelType.SERIAL for type_, is_ in zip(types, own, strict=False)]
        axes = [axis for axis, type_ in enumerate(new) if type_ is not ParallelType.SERIAL]
        if len(axes) == 1:
            self.do(steps.Parallelize(tv, axes[0], new[axes[0]]))
        elif axes:
            self.do(steps.ParallelizeLoops(tv, tuple(new[: axes[-1] + 1])))

    def alike(
        self,
        names: Iterable[str],
        first: Callable[[str], None],
        others: type[steps.Propagate | steps.ParallelizeLike] = steps.Propagate,
    ) -> None:
        """Does `first` to the first of the tensors, the reference, and carries that over to the others. Those that
        operators do not connect with it have a reference of their own."""
        waiting = list(names)
        while waiting:
            reference = waiting.pop(0)
            first(reference)
            found = reached(self.sf, reference, waiting)
            if found:
                self.do(others(reference, found))
            waiting = [name for name in waiting if name not in found]

    def parallelize_alike(self, names: Iterable[str], types: Sequence[ParallelType]) -> None:
        """One type for each axis of the first of the tensors, and the others' like it."""
        self.alike(names, lambda tv: self.parallelize(tv, types), steps.ParallelizeLike)

    def split_words(self, words: Mapping[str, int], lanes: int) -> list[list[str]]:
        """Splits the last axis of tensors that are moved in words of fewer than all lanes: [lanes] -> [word, lane].
        Returns them, those of equal words together."""
        groups = []
        for word in sorted({n for n in words.values() if 1 < n < lanes}):
            groups.append([name for name in words if words[name] == word])
            self.alike(groups[-1], partial(self._split_last, word))
        return groups

    def _split_last(self, word: int, tv: str) -> None:
        self.split(tv, len(self.tensor(tv).loop) - 1, word)

    def vectorize_words(self, groups: Iterable[Iterable[str]]) -> None:
        """The types of the last two axes of such tensors."""

        def first(tv: str) -> None:
            last = len(self.tensor(tv).loop) - 1
            self.do(steps.Parallelize(tv, last - 1, ParallelType.UNROLL))
            self.do(steps.Parallelize(tv, last, ParallelType.VECTORIZE))

        for names in groups:
            self.alike(names, first, steps.ParallelizeLike)

    def vectorize(self, names: Iterable[str]) -> None:
        """Makes the last axis of each of the tensors a word."""

        def first(tv: str) -> None:
            self.do(steps.Parallelize(tv, len(self.tensor(tv).loop) - 1, ParallelType.VECTORIZE))

        self.alike(names, first, steps.ParallelizeLike)

    def inline(self, names: Iterable[str], position: int) -> None:
        """Computes the tensors inside the first `position` loops of their consumers, or as many as they can share with
        them: they then keep more elements in registers (nvFuser, inlining)."""
        tensors = tuple(names)
        if position and tensors:
            self.do(steps.InlineSelectedAt(tensors, position))
