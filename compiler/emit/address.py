"""Addresses of global accesses as CUDA C++: a base that a thread computes once, and what unrolled loops add to it.

Indices are unsigned, and an unsigned sum may wrap, so that the compiler may not take a constant out of it once it has
been widened to an address. Written as a pointer plus a constant, the constant goes into the access itself (PTX ISA,
"Addresses as Operands"), and accesses of one base share the registers of its address.
"""

from __future__ import annotations

from collections.abc import Set

from compiler.emit.text import expression, total
from compiler.ir.expr import Atom, Div, Expr, Inside, Mod, Var, Xor

_INDEX_LIMIT = 1 << 32
"""Indices have 32 bits unless a tensor needs more."""


def address(tensor: str, offset: Expr, unrolled: Set[str] = frozenset()) -> str:
    """`tensor` + `offset` elements; `unrolled`: the variables that are constants once their loops are unrolled."""
    plain = _flat(offset)
    moving = [(a, c) for a, c in plain.terms if _is_constant(a, unrolled)]
    base = Expr(tuple(term for term in plain.terms if term not in moving))
    is_signed = base.lo < 0
    reach = _INDEX_LIMIT // 2 if is_signed else _INDEX_LIMIT
    if not base.terms or not (moving or plain.const) or base.lo < -reach or base.hi >= reach:
        return f"{tensor} + {expression(offset)}"
    parts = [(c, Expr(((a, abs(c)),))) for a, c in moving]
    parts.append((plain.const, Expr((), abs(plain.const))))
    # What a row's phase is taken from is added back by a constant: before that, a sum of 32 bits is below 0.
    text = f"{tensor} + ::i32({total(base)})" if is_signed else f"{tensor} + {expression(base)}"
    more = [total(e) for c, e in parts if c > 0]
    less = [total(e) for c, e in parts if c < 0]
    if more:
        text += f" + ({' + '.join(more)})" if len(more) > 1 else f" + {more[0]}"
    if less:
        text += f" - ({' + '.join(less)})" if len(less) > 1 else f" - {less[0]}"
    return text


def _flat(offset: Expr) -> Expr:
    """`offset` without the marks of values that are known to be inside an extent: the sums themselves."""
    found = Expr((), offset.const)
    for atom, c in offset.terms:
        found = found + (_flat(atom.value) if isinstance(atom, Inside) else Expr(((atom, 1),))) * c
    return found


def _is_constant(atom: Atom, unrolled: Set[str]) -> bool:
    """True if nothing but variables of unrolled loops is in `atom`, and nothing that an unsigned sum would wrap in."""
    match atom:
        case Var(name=name):
            return name in unrolled
        case Div(numerator=e) | Mod(numerator=e):
            return e.lo >= 0 and all(v.name in unrolled for v in e.variables)
        case Xor() | Inside():
            return False
