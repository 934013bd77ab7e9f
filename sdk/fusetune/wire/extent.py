"""Sizes with symbols in them: integer polynomials, compared exactly.

A fusion writes a size as an integer or a symbol, but `cat`, `slice` and `reshape` make sums and products of them: two
tensors of `M` rows joined have `2*M`. Two extents are equal only if they are equal for every value of their symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Size = int | str

MAX_TERMS = 256
"""Products with more terms than this are not worked out (own limit: bounds the work a hostile document can ask for)."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A sum of `coefficient * symbol * symbol ...`: `terms` is sorted, without zero coefficients."""

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
        """How a fusion may write this extent, or None for sums and products."""
        value = self.constant
        if value is not None:
            return value
        (symbols, coefficient), *rest = self.terms
        return symbols[0] if not rest and coefficient == 1 and len(symbols) == 1 else None

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


def _term_text(symbols: tuple[str, ...], coefficient: int) -> str:
    if not symbols:
        return str(coefficient)
    sign_or_factor = {1: "", -1: "-"}.get(coefficient, f"{coefficient}*")
    return sign_or_factor + "*".join(symbols)
