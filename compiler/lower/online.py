"""Sums that are folded along with a maximum (`schedule.online`): each holds for a running maximum, and is scaled when
that changes.

    w = the greatest so far, but finite; sums are of exp(a (x - w))
    next = max(m, lowest);  scale = exp(a (w - next));  s = s * scale;  w = next

Before the first element w is -inf and the sums are 0: the factor is exp(-inf) = 0. `next` is never -inf, so that what
holds no element, or only -inf, is scaled by a number too: with NaN, 0 * exp(-inf - -inf) would spread to whole rows. At
the end a maximum of -inf says that every element was -inf, whose exponentials are NaN (IEEE 754: -inf - -inf).
"""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.analysis.loops.online import OnlineFold, OnlineSum
from compiler.analysis.memory.allocation import layout_of
from compiler.ir.expr import Expr, const
from compiler.ir.fusion import Literal, Number
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import TensorView
from compiler.lower.kernel_ir import Compute, Declare, Fill, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import each
from compiler.schedule.online import LOWEST


def declare_running(t: TensorView) -> tuple[Stmt, ...]:
    """The running maximum `t`, before the first element."""
    elems = layout_of(t).elems
    return Declare(t.name, t.dtype, elems), Fill(t.name, t.dtype, elems, OpKind.AMAX)


def shift(facts: Facts, fold: OnlineFold) -> tuple[Stmt, ...]:
    """The running maximum of the first elements, while the sums are still empty."""
    return each(
        "element", _elems(facts, fold), lambda e: (bounded(_reg(facts, fold.running, e), _maximum(facts, fold, e)),)
    )


def rescale(facts: Facts, fold: OnlineFold) -> tuple[Stmt, ...]:
    """The sums, scaled to the maximum of now. Sums with the same exponent share the factor."""
    t = facts.sf.tensor(fold.running)
    after = Reg(f"{t.name}_next", t.dtype, const(0))

    def step(e: Expr) -> tuple[Stmt, ...]:
        before = _reg(facts, fold.running, e)
        out: list[Stmt] = [Declare(after.name, after.dtype, 1), bounded(after, _maximum(facts, fold, e))]
        scales: dict[tuple[object, ...], Reg] = {}
        for part in fold.sums:
            target = _reg(facts, part.tensor, e)
            if (part.exponent, target.dtype) not in scales:
                scale = Reg(f"{part.tensor}_scale", target.dtype, const(0))
                scales[part.exponent, target.dtype] = scale
                out += [Declare(scale.name, scale.dtype, 1), *factor(part, scale, before, after)]
            scale = scales[part.exponent, target.dtype]
            out.append(Compute(OpKind.MUL, target, (target, scale), MathGrade.EXACT))
        return (*out, Compute(OpKind.COPY, before, (after,), MathGrade.EXACT))

    return each("element", _elems(facts, fold), step)


def finish(facts: Facts, fold: OnlineFold) -> tuple[Stmt, ...]:
    """Sums of rows of nothing but -inf become NaN: m - m is NaN where m is infinite or NaN (of the others the sums are
    NaN already), else 0."""
    if fold.is_finite:
        return ()
    zero = {part.tensor: f"{part.tensor}_check" for part in fold.sums}

    def step(e: Expr) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for part in fold.sums:
            target, m = _reg(facts, part.tensor, e), _maximum(facts, fold, e)
            nothing = Reg(zero[part.tensor], target.dtype, const(0))
            out += [
                Declare(nothing.name, nothing.dtype, 1),
                Compute(OpKind.SUB, nothing, (m, m), MathGrade.EXACT),
                Compute(OpKind.ADD, target, (target, nothing), MathGrade.EXACT),
            ]
        return tuple(out)

    return each("element", _elems(facts, fold), step)


def bounded(target: Reg, maximum: Reg) -> Compute:
    """What exponentials are measured from: the maximum, or the least finite number in the place of -inf."""
    return Compute(OpKind.MAXIMUM, target, (maximum, Literal(LOWEST[target.dtype])), MathGrade.EXACT)


def factor(part: OnlineSum, scale: Reg, before: Reg, after: Reg) -> tuple[Stmt, ...]:
    """scale = exp(a (before - after)), by the operators of the exponent itself."""
    out: list[Stmt] = []
    for op in part.exponent:
        operands: tuple[Reg | Number, ...] = (before, after)
        if op.kind is OpKind.CAST:
            continue
        if op.kind is not OpKind.SUB:
            operands = tuple(x if isinstance(x, Number) else scale for x in op.inputs)
        out.append(Compute(op.kind, scale, operands, op.grade))
    return tuple(out)


def _elems(facts: Facts, fold: OnlineFold) -> int:
    return layout_of(facts.sf.tensor(fold.maximum)).elems


def _reg(facts: Facts, name: str, e: Expr) -> Reg:
    return Reg(name, facts.sf.tensor(name).dtype, e)


def _maximum(facts: Facts, fold: OnlineFold, e: Expr) -> Reg:
    return _reg(facts, fold.maximum, e)
