"""Sizes with symbols in them: integer polynomials, compared exactly.

A fusion writes a size as an integer or a symbol, but `cat`, `slice` and `reshape` make sums and products of them: two
tensors of `M` rows joined have `2*M`. Two extents are equal only if they are equal for every value of their symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd

Size = int | str

MAX_TERMS = 256
"""Products with more terms than this are not worked out (own limit: bounds the work a hostile document can ask for)."""

MAX_QUOTIENT_CHARS = 256
"""Longer quotients are not kept: quotients of sums of quotients would double at each operator."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A sum of `coefficient * symbol * symbol ...`: `terms` is sorted, without zero coefficients.

    What only a binding can divide stands among the symbols, in parentheses: `(M / 2)`.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...]

    @staticmethod
    def of(size: Size) -> Extent:
        """The extent that a written size stands for."""
        return _from_terms({(): size} if isinstance(size, int) else {(size,): 1})

    @property
    def constant(self) -> int | None:
        """The value, if no symbol is in it."""
        if not self.terms:
            return 0
        (symbols, coefficient), *rest = self.terms
        return coefficient if not rest and not symbols else None

    @property
    def size(self) -> Size | None:
        """How a fusion may write this extent, or None for sums, products and quotients."""
        value = self.constant
        if value is not None:
            return value
        (symbols, coefficient), *rest = self.terms
        is_symbol = not rest and coefficient == 1 and len(symbols) == 1
        return symbols[0] if is_symbol and not symbols[0].startswith("(") else None

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for symbols, coefficient in other.terms:
            total[symbols] = total.get(symbols, 0) + coefficient
        return _from_terms(total)

    def __sub__(self, other: Extent) -> Extent:
        return self + Extent(tuple((symbols, -coefficient) for symbols, coefficient in other.terms))

    def __mul__(self, other: Extent) -> Extent:
        total: dict[tuple[str, ...], int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                symbols = tuple(sorted(left + right))
                total[symbols] = total.get(symbols, 0) + a * b
        return _from_terms(total)

    def exact_quotient(self, divisor: Extent) -> Extent | None:
        """`self / divisor` where the divisor is one term that divides every term of self; otherwise None."""
        if len(divisor.terms) != 1:
            return None
        (symbols, coefficient) = divisor.terms[0]
        quotient: dict[tuple[str, ...], int] = {}
        for mine, value in self.terms:
            left = list(mine)
            for symbol in symbols:
                if symbol not in left:
                    return None
                left.remove(symbol)
            if value % coefficient:
                return None
            quotient[tuple(left)] = value // coefficient
        return _from_terms(quotient)

    def quotient(self, divisor: Extent) -> Extent | None:
        """`self / divisor`: exactly, or as an unknown that a binding settles, such as `(M / 2)`; None where no
        binding can, or it is too long to be written."""
        exact = self.exact_quotient(divisor)
        if exact is not None or not divisor.terms or (self.constant is not None and divisor.constant is not None):
            return exact
        common = gcd(*(coefficient for _, coefficient in (*self.terms, *divisor.terms)))
        over, under = (
            Extent(tuple((symbols, coefficient // common) for symbols, coefficient in each.terms))
            for each in (self, divisor)
        )
        text = f"({_factor_text(over)} / {_factor_text(under)})"
        return Extent((((text,), 1),)) if len(text) <= MAX_QUOTIENT_CHARS else None

    def may_equal(self, other: Extent) -> bool:
        """Whether the two may be equal for some sizes of 1 or more."""
        signs = {coefficient > 0 for _, coefficient in (self - other).terms}
        return len(signs) != 1

    def __str__(self) -> str:
        text = " + ".join(_term_text(symbols, coefficient) for symbols, coefficient in reversed(self.terms))
        return text.replace("+ -", "- ") or "0"


def product(extents: Iterable[Extent]) -> Extent | None:
    """The number of elements, or None where it has more than `MAX_TERMS` terms."""
    total = Extent.of(1)
    for extent in extents:
        if len(total.terms) * len(extent.terms) > MAX_TERMS:
            return None
        total = total * extent
    return total


def dense_strides(shape: tuple[Extent, ...]) -> tuple[Extent | None, ...]:
    """Row-major strides in elements; a size of 0 counts as 1. None where a stride has too many terms."""
    strides: list[Extent | None] = []
    step: Extent | None = Extent.of(1)
    for extent in reversed(shape):
        strides.append(step)
        step = None if step is None else product((step, Extent.of(1) if extent.constant == 0 else extent))
    return tuple(reversed(strides))


def _from_terms(terms: Mapping[tuple[str, ...], int]) -> Extent:
    return Extent(tuple(sorted((symbols, coefficient) for symbols, coefficient in terms.items() if coefficient)))


def _factor_text(extent: Extent) -> str:
    return f"({extent})" if len(extent.terms) > 1 else str(extent)


def _term_text(symbols: tuple[str, ...], coefficient: int) -> str:
    if not symbols:
        return str(coefficient)
    sign_or_factor = {1: "", -1: "-"}.get(coefficient, f"{coefficient}*")
    return sign_or_factor + "*".join(symbols)
