"""Extents that may be unknown when a kernel is compiled: a known factor times unknown ones.

A size is a monomial, and rounding up to a factor is `ceil_div` followed by a product, so divisibility is decided by
cancelling factors. Every size also knows its `value` at the binding at hand: a condition that the form cannot settle is
settled there, and kept for every other launch (docs/contracts.md, "Schedule": conditions).
"""

from __future__ import annotations

from math import prod

from compiler.ir.interned import interned


@interned
class SizeSymbol:
    """An unknown; `name` is how a guard spells it, such as `size[0][1]`."""

    name: str
    value: int

    def __str__(self) -> str:
        return self.name


@interned
class CeilDiv:
    """ceil(numerator / denominator) where the quotient is not known to be exact."""

    numerator: Size
    denominator: Size

    @property
    def value(self) -> int:
        return -(-self.numerator.value // self.denominator.value)

    def __str__(self) -> str:
        n, d = self.numerator, self.denominator
        return f"(({n} + {d} - 1) // {d})" if d.is_constant else f"(({n} + {d} - 1) // ({d}))"


Atom = SizeSymbol | CeilDiv


@interned
class Size:
    """`coefficient` times the product of `atoms`, which stand in the order of their text."""

    coefficient: int
    atoms: tuple[Atom, ...] = ()

    @staticmethod
    def symbol(name: str, value: int) -> Size:
        return Size(1, (SizeSymbol(name, value),))

    @property
    def value(self) -> int:
        """The size at the binding at hand."""
        if not self.atoms:
            return self.coefficient
        return self.coefficient * prod(a.value for a in self.atoms)

    @property
    def is_constant(self) -> bool:
        return not self.atoms

    def __mul__(self, other: Size) -> Size:
        if not self.atoms and not other.atoms:
            return Size(self.coefficient * other.coefficient)
        atoms = tuple(sorted((*self.atoms, *other.atoms), key=str))
        return Size(self.coefficient * other.coefficient, atoms)

    def quotient(self, divisor: Size) -> Size | None:
        """self / divisor where it is exact whatever the unknowns, else None. There is none by 0."""
        if not divisor.coefficient:
            return None
        if not self.atoms and not divisor.atoms:
            exact, rest = divmod(self.coefficient, divisor.coefficient)
            return None if rest else Size(exact)
        atoms = list(self.atoms)
        for a in divisor.atoms:
            if a not in atoms:
                return None
            atoms.remove(a)
        if self.coefficient % divisor.coefficient:
            return None
        return Size(self.coefficient // divisor.coefficient, tuple(atoms))

    def ceil_div(self, divisor: Size) -> Size:
        """ceil(self / divisor); ceil(ceil(n / a) / b) = ceil(n / ab) (nvFuser, integer division: 5.11)."""
        if not self.atoms and not divisor.atoms:
            return Size(-(-self.coefficient // divisor.coefficient))
        exact = self.quotient(divisor)
        if exact is not None:
            return exact
        if self.coefficient == 1 and len(self.atoms) == 1 and isinstance(inner := self.atoms[0], CeilDiv):
            return inner.numerator.ceil_div(inner.denominator * divisor)
        return Size(1, (CeilDiv(self, divisor),))

    def is_multiple_of(self, divisor: Size) -> bool | None:
        """True or False where that holds whatever the unknowns, None where they decide."""
        if self.quotient(divisor) is not None:
            return True
        return False if self.is_constant and divisor.is_constant else None

    def __str__(self) -> str:
        if not self.atoms:
            return str(self.coefficient)
        factors = [str(a) for a in self.atoms]
        if self.coefficient != 1:
            factors.insert(0, str(self.coefficient))
        return " * ".join(factors)
