"""Addresses: a base for the thread, constants for what unrolled loops add, and no sum that wraps."""

from __future__ import annotations

import pytest

from compiler.emit.address import address
from compiler.ir.expr import Expr, Inside, Var, const

TX, BX = Expr(((Var("tx", 32), 1),)), Expr(((Var("bx", 64), 1),))
K = Expr(((Var("k", 10), 1),))
UNROLLED = frozenset({"k"})


def inside(value: Expr, extent: int) -> Expr:
    return Expr(((Inside(value, extent), 1),))


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        pytest.param(BX * 64 + TX + K * 32, "i0 + (bx * 64u + tx) + k * 32u", id="a constant a step"),
        pytest.param(
            BX * 64 + TX + K // 5 * 99 + K % 5 * 32,
            "i0 + (bx * 64u + tx) + ((k / 5u) * 99u + (k % 5u) * 32u)",
            id="a row and a place in it, both constant",
        ),
        pytest.param(
            BX * 64 + inside(K * 32 + TX - TX * 3 % 8, 128),
            "i0 + ::i32(bx * 64u + tx - ((tx * 3u) % 8u)) + k * 32u",
            id="a phase is taken away before the constant is added",
        ),
        pytest.param(BX * 64 + (TX + K) % 5, "i0 + (bx * 64u + ((k + tx) % 5u))", id="not constant: a thread is in it"),
        pytest.param(
            BX * (1 << 26) - TX + K,
            f"i0 + (bx * {1 << 26}u + k - tx)",
            id="2^31 and more: no signed sum holds it",
        ),
        pytest.param(K * 32, "i0 + (k * 32u)", id="nothing of a thread"),
        pytest.param(BX * 64 + const(3), "i0 + (bx * 64u) + 3u", id="a constant"),
    ],
)
def test_what_is_constant_is_added_last(offset: Expr, text: str) -> None:
    assert address("i0", offset, UNROLLED) == text
