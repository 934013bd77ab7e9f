"""Integer index expressions in a canonical linear form, with their ranges.

An `Expr` is a constant plus integer multiples of atoms. An atom is a loop variable or a quotient, remainder or
exclusive-or that does not simplify further. Every variable runs over [0, extent), so every expression has a range, and
the range is what lets quotients and remainders disappear. Division is Euclidean with a positive divisor. The laws used
are theorems of integer division (nvFuser, integer division: 2.7.2, 2.11, 2.12, 2.13, 2.15.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

from compiler.ir.interned import Keeping, interned
from compiler.ir.remembered import remembered

_MOST_REMEMBERED = 1 << 14
"""Results of each operation that are kept: the tensors of a kernel, and kernels of one fusion, have most in common."""


class _Found(Keeping):
    """What follows from an atom or an expression.

    `lo`: a lower bound, and `hi` an upper one, inclusive; exact for a sum of different variables. `variables`: every
    one that occurs, at any depth. `text`: the printed form.
    """

    __slots__ = ("hi", "lo", "text", "variables")

    lo: int
    hi: int
    variables: frozenset[Var]
    text: str

    def __str__(self) -> str:
        return self.text

    def _find_lo(self: Any) -> int:
        return _least(self)

    def _find_hi(self: Any) -> int:
        return _greatest(self)

    def _find_variables(self: Any) -> frozenset[Var]:
        return _variables(self)

    def _find_text(self: Any) -> str:
        return _text(self)


class _Plain(_Found):
    """`plain`: the variable as an expression."""

    __slots__ = ("plain",)

    plain: Expr


@interned
class Var(_Plain):
    """A variable in [0, extent). Equal names are equal variables."""

    name: str
    extent: int

    def _find_plain(self) -> Expr:
        return Expr() if self.extent == 1 else Expr(((self, 1),))


@interned
class Div(_Found):
    """floor(numerator / divisor), divisor > 1."""

    numerator: Expr
    divisor: int


@interned
class Mod(_Found):
    """numerator mod divisor, in [0, divisor)."""

    numerator: Expr
    divisor: int


@interned
class Xor(_Found):
    """left xor right of two non-negative values."""

    left: Expr
    right: Expr


@interned
class Inside(_Found):
    """`value`, in [0, extent) wherever it is used: elsewhere a guard keeps what depends on it from happening.

    That it is so is known of an element and not of the variables, from which the value's own range follows.
    """

    value: Expr
    extent: int


Atom = Var | Div | Mod | Xor | Inside


@interned
class Expr(_Found):
    """const + sum(coefficient * atom). Build with `const`, `var` and the operators; the form is canonical."""

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    def __add__(self, other: Expr | int) -> Expr:
        if isinstance(other, int):
            return Expr(self.terms, self.const + other)
        return _added(self, other)

    def __sub__(self, other: Expr | int) -> Expr:
        return self + (other * -1)

    def __mul__(self, factor: int) -> Expr:
        return _times(self, factor)

    def __floordiv__(self, divisor: int) -> Expr:
        return _floordiv(self, divisor)

    def __mod__(self, divisor: int) -> Expr:
        return _mod(self, divisor)

    def __xor__(self, other: Expr) -> Expr:
        return _xor(self, other)

    @property
    def is_const(self) -> bool:
        return not self.terms

    def divisible_by(self, n: int) -> bool:
        """True only if provably a multiple of n."""
        if self.const % n == 0 and all(c % n == 0 for _, c in self.terms):
            return True
        if not any(isinstance(atom, Mod | Inside) for atom, _ in self.terms):
            return False
        coefficients, constant = _residue(self, n)
        return constant % n == 0 and all(c % n == 0 for c in coefficients.values())

    def substitute(self, values: Mapping[Var, Expr]) -> Expr:
        """Replaces variables and simplifies again."""
        if self.variables.isdisjoint(values):
            return self
        return _substituted(self, tuple(values.items()))

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value with variables given by name: integers or NumPy arrays."""
        return self.const + sum(c * _evaluate_atom(a, values) for a, c in self.terms)


@remembered(_MOST_REMEMBERED)
def _added(left: Expr, right: Expr) -> Expr:
    return _sum(left.terms + right.terms, left.const + right.const)


@remembered(_MOST_REMEMBERED)
def _times(e: Expr, factor: int) -> Expr:
    if factor == 0:
        return Expr()
    return Expr(tuple((a, c * factor) for a, c in e.terms), e.const * factor)


@remembered(_MOST_REMEMBERED)
def _substituted(e: Expr, values: tuple[tuple[Var, Expr], ...]) -> Expr:
    by_variable = dict(values)
    out = Expr((), e.const)
    for atom, c in e.terms:
        out = out + _substitute_atom(atom, by_variable) * c
    return out


def const(value: int) -> Expr:
    """The constant `value`."""
    return Expr((), value)


def var(v: Var) -> Expr:
    """The variable itself; a variable of extent one is the constant 0."""
    return v.plain


def inside(e: Expr, extent: int) -> Expr:
    """The expression, known to be in [0, extent) where it is used."""
    return e if e.lo >= 0 and e.hi < extent else Expr(((Inside(e, extent), 1),))


def unguarded(e: Expr) -> Expr:
    """The expression itself, where all that it is is one that is known to be inside bounds."""
    atom = _as_single_atom(e)
    return atom.value if isinstance(atom, Inside) else e


def unmarked(e: Expr) -> Expr:
    """The sum without the marks of the parts of it that are known to be inside bounds."""
    if not any(isinstance(atom, Inside) for atom, _ in e.terms):
        return e
    found = Expr((), e.const)
    for atom, c in e.terms:
        found = found + (unmarked(atom.value) if isinstance(atom, Inside) else Expr(((atom, 1),))) * c
    return found


def without_marks(e: Expr) -> Expr:
    """The expression without the marks, at any depth, of the parts of it that are known to be inside bounds."""
    if not relies_on_bounds(e):
        return e
    found = Expr((), e.const)
    for atom, c in e.terms:
        match atom:
            case Var():
                plain = var(atom)
            case Div():
                plain = without_marks(atom.numerator) // atom.divisor
            case Mod():
                plain = without_marks(atom.numerator) % atom.divisor
            case Xor():
                plain = without_marks(atom.left) ^ without_marks(atom.right)
            case Inside():
                plain = without_marks(atom.value)
        found = found + plain * c
    return found


def every_part(e: Expr, holds: Callable[[Expr], bool]) -> bool:
    """True if `holds` is true of `e` and of every expression inside it."""
    if not holds(e):
        return False
    for atom, _ in e.terms:
        match atom:
            case Var():
                continue
            case Div() | Mod():
                inner: tuple[Expr, ...] = (atom.numerator,)
            case Xor():
                inner = (atom.left, atom.right)
            case Inside():
                inner = (atom.value,)
        if not all(every_part(x, holds) for x in inner):
            return False
    return True


def relies_on_bounds(e: Expr) -> bool:
    """True if a part of the expression is what it is only where an index is inside its bounds."""
    return not every_part(e, lambda part: not any(isinstance(atom, Inside) for atom, _ in part.terms))


def _least(e: Atom | Expr) -> int:
    match e:
        case Expr():
            return e.const + sum(c * (a.lo if c > 0 else a.hi) for a, c in e.terms)
        case Div():
            return e.numerator.lo // e.divisor
        case Inside():
            return max(0, e.value.lo)
        case Var() | Mod() | Xor():
            return 0


def _greatest(e: Atom | Expr) -> int:
    match e:
        case Expr():
            return e.const + sum(c * (a.hi if c > 0 else a.lo) for a, c in e.terms)
        case Var():
            return e.extent - 1
        case Div():
            return e.numerator.hi // e.divisor
        case Mod():
            return min(e.divisor - 1, e.numerator.hi) if e.numerator.lo >= 0 else e.divisor - 1
        case Xor():
            return (1 << max(e.left.hi, e.right.hi).bit_length()) - 1
        case Inside():
            return min(e.extent - 1, e.value.hi)


def _variables(e: Atom | Expr) -> frozenset[Var]:
    match e:
        case Expr():
            return frozenset[Var]().union(*(a.variables for a, _ in e.terms))
        case Var():
            return frozenset((e,))
        case Div() | Mod():
            return e.numerator.variables
        case Xor():
            return e.left.variables | e.right.variables
        case Inside():
            return e.value.variables


def _text(e: Atom | Expr) -> str:
    match e:
        case Expr():
            if not e.terms:
                return str(e.const)
            parts = [a.text if c == 1 else f"{a} * {c}" for a, c in e.terms]
            if e.const:
                parts.append(str(e.const))
            return parts[0] if len(parts) == 1 else "(" + " + ".join(parts) + ")"
        case Var():
            return e.name
        case Div():
            return f"({e.numerator} / {e.divisor})"
        case Mod():
            return f"({e.numerator} % {e.divisor})"
        case Xor():
            return f"({e.left} ^ {e.right})"
        case Inside():
            return f"[{e.value}]"


def _substitute_atom(atom: Atom, values: Mapping[Var, Expr]) -> Expr:
    match atom:
        case Var():
            return values.get(atom, var(atom))
        case Div():
            return atom.numerator.substitute(values) // atom.divisor
        case Mod():
            return atom.numerator.substitute(values) % atom.divisor
        case Xor():
            return atom.left.substitute(values) ^ atom.right.substitute(values)
        case Inside():
            return inside(atom.value.substitute(values), atom.extent)


def _evaluate_atom(atom: Atom, values: Mapping[str, Any]) -> Any:
    match atom:
        case Var():
            return values[atom.name]
        case Div():
            return atom.numerator.evaluate(values) // atom.divisor
        case Mod():
            return atom.numerator.evaluate(values) % atom.divisor
        case Xor():
            return atom.left.evaluate(values) ^ atom.right.evaluate(values)
        case Inside():
            return atom.value.evaluate(values)


def _sum(terms: tuple[tuple[Atom, int], ...], constant: int) -> Expr:
    """Collects equal atoms, then joins what division took apart, wherever both halves are present:
    (x / d) * d + x % d = x, and ((x / d) % m) * d + x % d = x % (d * m)."""
    coefficients: dict[Atom, int] = {}
    for atom, c in terms:
        coefficients[atom] = coefficients.get(atom, 0) + c
    coefficients = {a: c for a, c in coefficients.items() if c}
    if len(coefficients) < 2:
        return Expr(tuple(coefficients.items()), constant)
    for atom, c in coefficients.items():
        if not isinstance(atom, Mod):
            continue
        quotient = atom.numerator // atom.divisor
        whole = _as_single_atom(quotient)
        if whole is not None and coefficients.get(whole) == c * atom.divisor:
            rest = tuple((a, k) for a, k in coefficients.items() if a not in (atom, whole))
            return _sum(rest, constant) + atom.numerator * c
        for other, k in coefficients.items():
            if isinstance(other, Mod) and k == c * atom.divisor and other.numerator == quotient:
                rest = tuple((a, n) for a, n in coefficients.items() if a not in (atom, other))
                return _sum(rest, constant) + (atom.numerator % (atom.divisor * other.divisor)) * c
    ordered = sorted(coefficients.items(), key=_by_weight)
    return Expr(tuple(ordered), constant)


def _by_weight(term: tuple[Atom, int]) -> tuple[int, str]:
    return -abs(term[1]), term[0].text


def _residue(e: Expr, n: int) -> tuple[dict[Atom, int], int]:
    """Coefficients and constant of a sum that is `e` modulo n: remainders are x % d = x - d * (x / d) (nvFuser, integer
    division: 2.1)."""
    coefficients: dict[Atom, int] = {}
    constant = e.const
    left = [(a, c) for a, c in e.terms if c % n]
    while left:
        atom, c = left.pop()
        match atom:
            case Inside(value=value):
                parts = [(value, c)]
            case Mod(numerator=x, divisor=d):
                parts = [(x, c), (x // d, -d * c)]
            case _:
                coefficients[atom] = coefficients.get(atom, 0) + c
                continue
        for part, factor in parts:
            constant += part.const * factor
            left += [(a, k * factor) for a, k in part.terms if k * factor % n]
    return coefficients, constant


def _as_single_atom(e: Expr) -> Atom | None:
    if e.const == 0 and len(e.terms) == 1 and e.terms[0][1] == 1:
        return e.terms[0][0]
    return None


def _peel(e: Expr, divisor: int) -> tuple[Expr, Expr]:
    """e = divisor * quotient + rest, moving every term whose coefficient divides."""
    whole = Expr(tuple((a, c // divisor) for a, c in e.terms if c % divisor == 0), e.const // divisor)
    rest = Expr(tuple((a, c) for a, c in e.terms if c % divisor != 0), e.const % divisor)
    return whole, rest


def _coarsen(e: Expr, divisor: int) -> tuple[Expr, Expr, int] | None:
    """e = g * coarse + fine with g > 1 dividing `divisor` and 0 <= fine < g, for the largest such g."""
    steps = sorted({g for _, c in e.terms if (g := gcd(c, divisor)) > 1}, reverse=True)
    for g in steps:
        coarse, fine = _peel(e, g)
        if fine.lo >= 0 and fine.hi < g:
            return coarse, fine, g
    return None


def _divided(e: Expr, divisor: int) -> tuple[Expr, int] | None:
    """e / g and g > 1 dividing `divisor`, for the largest such g, where all that g does not divide is a remainder by a
    multiple of it: (g * a + x % (g * b)) / g = a + (x / g) % b."""
    steps = sorted({g for _, c in e.terms if (g := gcd(c, divisor)) > 1}, reverse=True)
    for g in steps:
        coarse, fine = _peel(e, g)
        atom = _as_single_atom(fine)
        if isinstance(atom, Mod) and atom.divisor % g == 0:
            return coarse + (atom.numerator // g) % (atom.divisor // g), g
    return None


@remembered(_MOST_REMEMBERED)
def _floordiv(e: Expr, divisor: int) -> Expr:
    assert divisor > 0, f"division by {divisor}"
    if divisor == 1:
        return e
    whole, rest = _peel(e, divisor)
    if rest.lo >= 0 and rest.hi < divisor:
        return whole
    if (parts := _coarsen(rest, divisor)) is not None:
        coarse, _, g = parts
        return whole + coarse // (divisor // g)
    if (halved := _divided(rest, divisor)) is not None:
        quotient, g = halved
        return whole + quotient // (divisor // g)
    for part, c in rest.terms:
        if isinstance(part, Div) and c == 1:
            # (a + x / c) / d = (a * c + x) / (c * d): one quotient instead of two.
            others = rest - Expr(((part, 1),))
            return whole + (others * part.divisor + part.numerator) // (part.divisor * divisor)
    atom = _as_single_atom(rest)
    if isinstance(atom, Mod) and atom.divisor % divisor == 0:
        return whole + (atom.numerator // divisor) % (atom.divisor // divisor)
    return whole + Expr(((Div(rest, divisor), 1),))


@remembered(_MOST_REMEMBERED)
def _mod(e: Expr, divisor: int) -> Expr:
    assert divisor > 0, f"remainder by {divisor}"
    if divisor == 1:
        return Expr()
    _, rest = _peel(e, divisor)
    if rest.lo >= 0 and rest.hi < divisor:
        return rest
    if (parts := _coarsen(rest, divisor)) is not None:
        coarse, fine, g = parts
        return (coarse % (divisor // g)) * g + fine
    atom = _as_single_atom(rest)
    if isinstance(atom, Mod) and atom.divisor % divisor == 0:
        return atom.numerator % divisor
    return Expr(((Mod(rest, divisor), 1),))


@remembered(_MOST_REMEMBERED)
def _xor(left: Expr, right: Expr) -> Expr:
    if left.is_const and right.is_const:
        return const(left.const ^ right.const)
    if right == const(0):
        return left
    if left == const(0):
        return right
    if left == right:
        return Expr()
    return Expr(((Xor(left, right), 1),))
