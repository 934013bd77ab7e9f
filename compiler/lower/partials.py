"""Partial results that wait in shared memory for every reader to fold them, in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.analysis.loops.fold import Fold
from compiler.analysis.loops.online import OnlineSum
from compiler.dtypes import DType
from compiler.ir.expr import Expr, const
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Accumulate, Compute, Declare, SharedLoad, Stmt
from compiler.lower.online import bounded, factor
from compiler.lower.operands import Reg, Shared
from compiler.lower.traversal import each

PARTIALS_AT_ONCE = 16
"""Elements of partials that a thread loads before it folds them: enough to hide the latency of shared memory, and few
registers."""


@dataclass(frozen=True)
class Partials:
    """`count` partials of every element in shared memory. `width`: elements of one partial in a word; of one element
    alone `run` partials are a word. `scaling`: of sums that are folded along with a maximum."""

    fold: Fold
    name: str
    count: int
    width: int
    run: int
    place: Callable[[Expr, Expr], Shared]
    scaling: Scaling | None = None

    def statements(self) -> tuple[Stmt, ...]:
        """Loads a few partials, folds them in ascending order, and so on: the first ones become the result."""
        elems = self.fold.elems
        run = max(self.run, self.scaling.maxima.run) if self.scaling is not None else self.run
        step = max(run, PARTIALS_AT_ONCE // elems, 1)
        step -= step % run
        out: list[Stmt] = [Declare(self.name, self.fold.dtype, min(step, self.count) * elems)]
        if self.scaling is not None:
            out += self.scaling.start(self.name, min(step, self.count))
        for first in range(0, self.count, step):
            slots = min(step, self.count - first)
            out += self.loads(first, slots)
            if self.scaling is not None:
                out += self.scaling.scaled(self, first, slots)
            out += self.folds(slots, starts=first == 0)
        return tuple(out)

    def loads(self, first: int, count: int) -> tuple[Stmt, ...]:
        """The partials from number `first` on, into registers."""

        def load(slot: Expr, at: Expr) -> tuple[Stmt, ...]:
            target = self.reg(slot * self.fold.elems + at)
            return (SharedLoad(target, self.place(slot + first, at), max(self.width, self.run)),)

        words = self.fold.elems // self.width
        return each(
            "slot", count // self.run, lambda s: each("word", words, lambda w: load(s * self.run, w * self.width))
        )

    def folds(self, count: int, *, starts: bool) -> tuple[Stmt, ...]:
        """Folds the `count` partials in registers; `starts`: the first of them becomes the result."""
        fold, taken = self.fold, 1 if starts else 0

        def start(e: Expr) -> tuple[Stmt, ...]:
            return (Compute(OpKind.COPY, self.result(e), (self.reg(e),), MathGrade.EXACT),)

        def step(slot: Expr, e: Expr) -> tuple[Stmt, ...]:
            return (Accumulate(fold.kind, self.result(e), self.reg((slot + taken) * fold.elems + e)),)

        rest = each("slot", count - taken, lambda s: each("element", fold.elems, lambda e: step(s, e)))
        return (*each("element", fold.elems, start), *rest) if starts else rest

    def result(self, element: Expr) -> Reg:
        """Where an element is folded."""
        return Reg(self.fold.tensor, self.fold.dtype, element)

    def reg(self, element: Expr) -> Reg:
        """An element of the partials that are in registers."""
        return Reg(self.name, self.fold.dtype, element)


@dataclass(frozen=True)
class Scaling:
    """Partial sums, each of which holds for its part's maximum, brought to the maximum of all parts, which is known:
    (m, s) becomes s * exp(a (m - M)). `maxima`: the partials of the maximum, one for each of the sum's; `dtype`: of
    what exponentials are measured from."""

    maxima: Partials
    part: OnlineSum
    dtype: DType

    def start(self, name: str, count: int) -> tuple[Stmt, ...]:
        """What all partials, of which `count` are in registers at once, are scaled to."""
        elems = self.maxima.fold.elems
        to = self._to(name)
        known = each("element", elems, lambda e: (bounded(Reg(to, self.dtype, e), self.maxima.result(e)),))
        declared = Declare(self.maxima.name, self.maxima.fold.dtype, count * elems)
        return (declared, Declare(to, self.dtype, elems), *known)

    def scaled(self, sums: Partials, first: int, count: int) -> tuple[Stmt, ...]:
        """The partial sums in registers, each scaled."""
        elems = sums.fold.elems
        own = Reg(f"{sums.name}_from", self.dtype, const(0))
        scale = Reg(f"{sums.name}_scale", sums.fold.dtype, const(0))

        def step(slot: Expr, e: Expr) -> tuple[Stmt, ...]:
            partial = sums.reg(slot * elems + e)
            return (
                bounded(own, self.maxima.reg(slot * elems + e)),
                *factor(self.part, scale, own, Reg(self._to(sums.name), self.dtype, e)),
                Compute(OpKind.MUL, partial, (partial, scale), MathGrade.EXACT),
            )

        temporaries = (Declare(own.name, own.dtype, 1), Declare(scale.name, scale.dtype, 1)) if first == 0 else ()
        scaled = each("slot", count, lambda s: each("element", elems, lambda e: step(s, e)))
        return (*self.maxima.loads(first, count), *temporaries, *scaled)

    def _to(self, name: str) -> str:
        return f"{name}_to"
