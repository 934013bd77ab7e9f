"""Loop indices taken apart until offsets are sums of them: the digits of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from compiler.ir.expr import Div, Expr, Inside, Mod, Var, Xor, var

_MAX_CUTS = 64
"""Cuts before giving up: more than the bits of all indices of a block's tile."""


@dataclass(frozen=True, slots=True)
class Digits:
    """`of`: for each index its digits, outermost first. `exprs`: the expressions in terms of digits."""

    of: dict[Var, tuple[Var, ...]]
    exprs: tuple[Expr, ...]

    def __iter__(self) -> Iterator[Var]:
        return (d for digits in self.of.values() for d in digits)


def cut_into_digits(indices: Sequence[Var], exprs: Sequence[Expr]) -> Digits:
    """Splits indices wherever a quotient or remainder of `exprs` divides them evenly.

    What no even split removes stays: a quotient by a size that does not divide, an exclusive-or.
    """
    of: dict[Var, tuple[Var, ...]] = {i: (i,) for i in indices}
    found = tuple(exprs)
    for _ in range(_MAX_CUTS):
        cut = next((c for e in found for c in _cuts(e, {d for digits in of.values() for d in digits})), None)
        if cut is None:
            break
        digit, at = cut
        outer, inner = Var(f"{digit.name}o", digit.extent // at), Var(f"{digit.name}i", at)
        together: Mapping[Var, Expr] = {digit: var(outer) * at + var(inner)}
        found = tuple(e.substitute(together) for e in found)
        for index, digits in of.items():
            if digit in digits:
                where = digits.index(digit)
                of[index] = (*digits[:where], outer, inner, *digits[where + 1 :])
    return Digits(of, found)


def _cuts(e: Expr, digits: set[Var]) -> Iterator[tuple[Var, int]]:
    """Every digit inside a quotient or remainder, and how many of its lowest positions lie below the divisor."""
    for atom, _ in e.terms:
        match atom:
            case Div() | Mod():
                for part, coefficient in atom.numerator.terms:
                    if isinstance(part, Var) and part in digits and coefficient > 0:
                        at = atom.divisor // gcd(coefficient, atom.divisor)
                        if 1 < at < part.extent and part.extent % at == 0:
                            yield part, at
                yield from _cuts(atom.numerator, digits)
            case Xor():
                yield from _cuts(atom.left, digits)
                yield from _cuts(atom.right, digits)
            case Inside():
                yield from _cuts(atom.value, digits)
            case Var():
                continue


def strides_of(e: Expr, digits: Sequence[Var]) -> tuple[dict[Var, int], Expr] | None:
    """Coefficient of every digit, and what does not depend on them; None unless `e` is linear in them."""
    strides = dict.fromkeys(digits, 0)
    rest = Expr((), e.const)
    for atom, coefficient in e.terms:
        if isinstance(atom, Var) and atom in strides:
            strides[atom] = coefficient
            continue
        part = Expr(((atom, coefficient),))
        if part.variables.intersection(strides):
            return None
        rest = rest + part
    return strides, rest
