"""Index expressions as CUDA C++. Values are unsigned: every index that a kernel uses is non-negative."""

from __future__ import annotations

from compiler.ir.expr import Atom, Div, Expr, Inside, Mod, Var, Xor


def expression(e: Expr) -> str:
    """An expression that can stand as an operand anywhere."""
    text = total(e)
    is_one_atom = e.const == 0 and len(e.terms) == 1 and e.terms[0][1] == 1
    is_number = not e.terms and e.const >= 0
    return text if is_one_atom or is_number else f"({text})"


def total(e: Expr) -> str:
    """An expression that stands alone: an argument, an initialiser. Positive terms come first."""
    if not e.terms:
        return f"{e.const}u"
    parts: list[tuple[int, str]] = [(c, _term(a, abs(c))) for a, c in e.terms]
    if e.const:
        parts.append((e.const, f"{abs(e.const)}u"))
    parts.sort(key=lambda p: p[0] < 0)
    text = parts[0][1] if parts[0][0] > 0 else f"0u - {parts[0][1]}"
    for sign, part in parts[1:]:
        text += f" {'+' if sign > 0 else '-'} {part}"
    return text


def _term(atom: Atom, factor: int) -> str:
    return _atom(atom) if factor == 1 else f"{_atom(atom)} * {factor}u"


def _atom(atom: Atom) -> str:
    match atom:
        case Var():
            return atom.name
        case Div():
            shift = _shift(atom)
            quotient = f"({expression(atom.numerator + shift * atom.divisor)} / {atom.divisor}u)"
            return f"({quotient} - {shift}u)" if shift else quotient
        case Mod():
            return f"({expression(atom.numerator + _shift(atom) * atom.divisor)} % {atom.divisor}u)"
        case Xor():
            return f"({expression(atom.left)} ^ {expression(atom.right)})"
        case Inside():
            return expression(atom.value)


def _shift(atom: Div | Mod) -> int:
    """Divisors to add so that the numerator is never negative: unsigned division would wrap there."""
    return max(0, -(atom.numerator.lo // atom.divisor))
