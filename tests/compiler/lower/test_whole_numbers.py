"""Which chains of quantisation become one statement, and where their divisor is prepared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import Literal, Number, Scalar
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Compute, Convert, Declare, Fill, GlobalStore, Loop, Stmt
from compiler.lower.operands import Reg
from compiler.lower.passes.whole_numbers import join_whole_numbers
from compiler.lower.traversal import walk
from compiler.lower.whole_ir import Divisor, WholeNumber

J, K = Var("j", 4), Var("k", 8)


def reg(name: str, at: Expr | None = None, dtype: DType = DType.F32) -> Reg:
    return Reg(name, dtype, const(0) if at is None else at)


X, SCALE = reg("x", var(K)), reg("scale")
CLAMPED = ((OpKind.ROUND, None), (OpKind.MAXIMUM, -128.0), (OpKind.MINIMUM, 127.0))
Links = tuple[tuple[OpKind, float | None], ...]


def chain(
    links: Links = CLAMPED, by: Reg | Number | None = SCALE, grade: MathGrade = MathGrade.EXACT
) -> tuple[Stmt, ...]:
    """y[k] of x[k], by way of registers of its own."""
    out: list[Stmt] = []
    value = X
    if by is not None:
        out += [Declare("q", DType.F32, 1), Compute(OpKind.DIV, reg("q"), (X, by), grade)]
        value = reg("q")
    for n, (kind, bound) in enumerate(links):
        is_last = n == len(links) - 1
        target = reg("y", var(K)) if is_last else reg(f"t{n}")
        out += [] if is_last else [Declare(target.name, DType.F32, 1)]
        out.append(Compute(kind, target, (value, *([] if bound is None else [Literal(bound)])), MathGrade.EXACT))
        value = target
    return tuple(out)


def kernel(inner: tuple[Stmt, ...], *, to: DType = DType.I8, more: tuple[Stmt, ...] = ()) -> tuple[Stmt, ...]:
    """A row of four vectors of eight elements by one scale."""
    row: tuple[Stmt, ...] = (
        Declare("y", DType.F32, 8),
        Loop(K, const(8), True, inner),
        Declare("z", to, 8),
        Convert(reg("z", dtype=to), reg("y"), 8),
        GlobalStore(reg("z", dtype=to), "out", var(J) * 8, 8, CachePolicy.DEFAULT),
        *more,
    )
    return Declare("scale", DType.F32, 1), Fill("scale", DType.F32, 1, OpKind.AMAX), Loop(J, const(4), True, row)


def found(body: tuple[Stmt, ...]) -> Iterator[WholeNumber]:
    return (s for s in walk(body) if isinstance(s, WholeNumber))


def test_a_quotient_between_bounds_is_one_statement() -> None:
    made = join_whole_numbers(kernel(chain()))
    declared, filled, divisor, loop = made
    assert divisor == Divisor("scale_divides1", SCALE, -128, 127)
    assert isinstance(loop, Loop)
    (y, inner, *_), converted = loop.body, loop.body[3]
    assert y == Declare("y", DType.I32, 8)
    assert isinstance(inner, Loop)
    assert inner.body == (WholeNumber(reg("y", var(K), DType.I32), X, -128, 127, "scale_divides1"),)
    assert converted == Convert(reg("z", dtype=DType.I8), reg("y", dtype=DType.I32), 8)
    assert (declared, filled) == kernel(chain())[:2]


@pytest.mark.parametrize(
    "links",
    [
        pytest.param((CLAMPED[0], CLAMPED[2], CLAMPED[1]), id="least-first"),
        pytest.param((CLAMPED[1], CLAMPED[2], CLAMPED[0]), id="rounded-last"),
        pytest.param((CLAMPED[1], CLAMPED[0], CLAMPED[2]), id="rounded-between"),
    ],
)
def test_a_rounding_and_whole_bounds_have_no_order(links: Links) -> None:
    (one,) = found(join_whole_numbers(kernel(chain(links))))
    assert (one.low, one.high, one.divisor) == (-128, 127, "scale_divides1")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(kernel(chain((CLAMPED[0], (OpKind.MAXIMUM, -0.5), CLAMPED[2]))), id="a-bound-is-no-whole-number"),
        pytest.param(kernel(chain((CLAMPED[0], (OpKind.MAXIMUM, 1.0), CLAMPED[2]))), id="zero-lies-outside"),
        pytest.param(kernel(chain((CLAMPED[0], CLAMPED[1], (OpKind.MINIMUM, 2.0**23)))), id="a-bound-is-too-large"),
        pytest.param(kernel(chain((CLAMPED[0], CLAMPED[1], (OpKind.MINIMUM, float("inf"))))), id="no-bound"),
        pytest.param(kernel(chain(CLAMPED[:2])), id="one-bound"),
        pytest.param(kernel(chain(((OpKind.FLOOR, None), *CLAMPED[1:]))), id="rounded-down"),
        pytest.param(kernel(chain(), to=DType.BF16), id="stored-as-float"),
        pytest.param(kernel(chain(), to=DType.BOOL), id="stored-as-bool"),
        pytest.param(
            kernel(chain(), more=(Compute(OpKind.MUL, reg("w"), (reg("y"), SCALE), MathGrade.EXACT),)),
            id="scaled-back-as-well",
        ),
        pytest.param(kernel((*chain(), Compute(OpKind.COPY, reg("w"), (reg("t0"),), MathGrade.EXACT))), id="between"),
        pytest.param(
            kernel((*chain(by=None)[:-1], Compute(OpKind.NEG, X, (X,), MathGrade.EXACT), chain(by=None)[-1])[1:]),
            id="declared-elsewhere",
        ),
    ],
)
def test_other_chains_stay(given: tuple[Stmt, ...]) -> None:
    assert join_whole_numbers(given) == given


@pytest.mark.parametrize(
    ("inner", "divides"),
    [
        pytest.param(chain(by=None), False, id="nothing-is-divided"),
        pytest.param(chain(grade=MathGrade.APPROX), True, id="by-approximate-instructions"),
        pytest.param(chain(by=Literal(4.0)), True, id="by-a-power-of-two"),
        pytest.param(chain(by=reg("scales", var(K))), True, id="each-by-its-own"),
    ],
)
def test_a_division_stays_where_its_divisor_serves_no_other(inner: tuple[Stmt, ...], divides: bool) -> None:
    made = join_whole_numbers(kernel(inner))
    (one,) = found(made)
    assert one.divisor == ""
    assert any(isinstance(s, Compute) and s.kind is OpKind.DIV for s in walk(made)) == divides
    assert not any(isinstance(s, Divisor) for s in walk(made))


@pytest.mark.parametrize(
    ("by", "before"),
    [
        pytest.param(SCALE, Loop, id="a-row"),
        pytest.param(Scalar("c0", DType.F32), Loop, id="a-call"),
        pytest.param(reg("scales", var(J)), Declare, id="a-vector"),
    ],
)
def test_a_divisor_stands_before_the_loops_that_leave_it(by: Reg | Number, before: type[Stmt]) -> None:
    made = join_whole_numbers(kernel(chain(by=by)))
    (outer,) = (s for s in made if isinstance(s, Loop))
    inside = [s for s in outer.body if isinstance(s, Divisor)]
    assert len(inside) == (before is Declare)
    assert len([s for s in walk(made) if isinstance(s, Divisor)]) == 1


def test_two_chains_by_one_scale_share_its_preparation() -> None:
    both = kernel(chain(), more=(Loop(K, const(8), True, chain()),))
    made = join_whole_numbers(both)
    assert [s.name for s in walk(made) if isinstance(s, Divisor)] == ["scale_divides1"]
    assert {one.divisor for one in found(made)} == {"scale_divides1"}
