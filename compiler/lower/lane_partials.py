"""Partial results that wait in shared memory, read by the lanes of a warp, one each, and folded by shuffles.

    lane i: x = partial i, or what a fold starts from;  x = fold of x over the lanes at distance 1, 2, 4, ...

A sum that is folded along with a maximum is scaled by an exponential for each partial: lanes share that work, where a
thread that folds all partials for itself repeats it (of 32 partials for 1024 threads, 2048 clocks of a multiprocessor's
special function units). All lanes end with the same bits, as a + b = b + a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.analysis.loops.fold import Fold
from compiler.analysis.loops.online import OnlineSum
from compiler.dtypes import DType
from compiler.ir.expr import Expr, const
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Declare, Fill, If, SharedLoad, Shuffle, Stmt
from compiler.lower.online import bounded, factor
from compiler.lower.operands import Less, Reg, Shared


@dataclass(frozen=True)
class LanePartials:
    """`count` partials of one element; `lane`: which one a thread reads, below the power of two from `count` on."""

    fold: Fold
    count: int
    lane: Expr
    place: Callable[[Expr], Shared]

    def statements(self) -> tuple[Stmt, ...]:
        """The result in every lane."""
        return (*self.read(self.result), self.over_lanes())

    def scaled(self, maxima: LanePartials, part: OnlineSum, dtype: DType) -> tuple[Stmt, ...]:
        """The result of a sum in every lane, by the partials of its maximum, which is known; `dtype`: of what
        exponentials are measured from."""
        name = self.fold.tensor
        own = Reg(f"{name}_m", maxima.fold.dtype, const(0))
        before, after = Reg(f"{name}_from", dtype, const(0)), Reg(f"{name}_to", dtype, const(0))
        scale = Reg(f"{name}_share", self.fold.dtype, const(0))
        return (
            *(Declare(r.name, r.dtype, 1) for r in (own, before, after, scale)),
            *maxima.read(own),
            *self.read(self.result),
            bounded(before, own),
            bounded(after, maxima.result),
            *factor(part, scale, before, after),
            Compute(OpKind.MUL, self.result, (self.result, scale), MathGrade.EXACT),
            self.over_lanes(),
        )

    def read(self, target: Reg) -> tuple[Stmt, ...]:
        """This lane's partial."""
        load = SharedLoad(target, self.place(self.lane), 1)
        if self.lane.hi < self.count:
            return (load,)
        return (
            Fill(target.name, target.dtype, 1, self.fold.kind),
            If((Less(self.lane, const(self.count)),), (load,)),
        )

    def over_lanes(self) -> Shuffle:
        """The fold of what lanes have."""
        fold = self.fold
        masks = tuple(1 << bit for bit in range(self.lane.hi.bit_length()))
        return Shuffle(fold.kind, fold.tensor, fold.dtype, 1, masks, fold.members)

    @property
    def result(self) -> Reg:
        return Reg(self.fold.tensor, self.fold.dtype, const(0))
