"""Index expressions printed as C give, in wrapping unsigned arithmetic, the numbers that they stand for."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from compiler.emit.text import expression, total
from compiler.ir.expr import Expr, Var, const, every_part, var

A, B, C = Var("bx", 5), Var("tx", 4), Var("k0", 3)
VARIABLES = (A, B, C)


class U32:
    """An unsigned C integer of 32 bits."""

    def __init__(self, value: int) -> None:
        self.value = value % (1 << 32)

    def __add__(self, other: U32) -> U32:
        return U32(self.value + other.value)

    def __sub__(self, other: U32) -> U32:
        return U32(self.value - other.value)

    def __mul__(self, other: U32) -> U32:
        return U32(self.value * other.value)

    def __truediv__(self, other: U32) -> U32:
        return U32(self.value // other.value)

    def __mod__(self, other: U32) -> U32:
        return U32(self.value % other.value)

    def __xor__(self, other: U32) -> U32:
        return U32(self.value ^ other.value)


def run(text: str, values: dict[str, int]) -> int:
    """The value of C text: its operators have Python's precedence."""
    python = re.sub(r"\b(\d+)u\b", r"U32(\1)", text)
    found = eval(python, {"U32": U32, **{name: U32(v) for name, v in values.items()}})
    assert isinstance(found, U32)
    return found.value


def expressions() -> some.SearchStrategy[Expr]:
    leaves = some.sampled_from([*map(var, VARIABLES), *map(const, range(5))])

    def grown(inner: some.SearchStrategy[Expr]) -> some.SearchStrategy[Expr]:
        factor = some.integers(1, 9)
        return some.one_of(
            some.builds(lambda x, y: x + y, inner, inner),
            some.builds(lambda x, y: x - y, inner, inner),
            some.builds(lambda x, n: x * n, inner, factor),
            some.builds(lambda x, n: x // n, inner, factor),
            some.builds(lambda x, n: x % n, inner, factor),
            some.builds(lambda x, y: x ^ y if x.lo >= 0 and y.lo >= 0 else x, inner, inner),
        )

    return some.recursive(leaves, grown, max_leaves=8)


@given(expressions())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_text_means_what_the_expression_does(e: Expr) -> None:
    """Where the value is not negative, as that of every index is; parts of it may be."""
    assume(every_part(e, lambda x: abs(x.hi) < 1 << 30 and abs(x.lo) < 1 << 30))
    for chosen in product(*(range(v.extent) for v in VARIABLES)):
        values = dict(zip((v.name for v in VARIABLES), chosen, strict=True))
        wanted = e.evaluate(values)
        if wanted >= 0:
            assert run(total(e), values) == wanted
            assert run(f"{expression(e)} * 3u", values) == 3 * wanted


TEXTS = (
    (const(0), "0u"),
    (const(7), "7u"),
    (var(A), "bx"),
    (var(Var("bz", 1)), "0u"),
    (var(A) * 4 + 3, "bx * 4u + 3u"),
    (var(A) * -1 + 4, "4u - bx"),
    ((var(A) * 6 + var(B)) // 4, "((bx * 6u + tx) / 4u)"),
    (var(A) % 3 // 2, "((bx % 3u) / 2u)"),
    ((var(A) * -1 + 2) // 3, "(((5u - bx) / 3u) - 1u)"),
    ((var(A) ^ var(B)) * 8, "(bx ^ tx) * 8u"),
)


@pytest.mark.parametrize(("e", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_text_reads_like_a_person_wrote_it(e: Expr, text: str) -> None:
    assert total(e) == text
    assert expression(e) in (text, f"({text})")
    assert not re.fullmatch(r"\(\(([^()]*)\)\)", expression(e))
