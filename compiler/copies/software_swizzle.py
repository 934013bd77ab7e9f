"""Swizzles recognised in the offsets of an allocation."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from compiler.copies.errors import TileError
from compiler.copies.layout import MAX_ENUMERATED
from compiler.copies.swizzle import Swizzle
from compiler.ir.expr import Atom, Div, Expr, Mod, Var, Xor


def without_swizzle(e: Expr) -> Expr:
    """The offset that an allocation would have if no axis of it were xored with another."""
    out = Expr((), e.const)
    for atom, coefficient in e.terms:
        bare = without_swizzle(atom.left) if isinstance(atom, Xor) else Expr(((atom, 1),))
        out = out + bare * coefficient
    return out


def recognise(swizzled: Expr, dense: Expr, nbits: int, where: str) -> Swizzle | None:
    """The xor of address bits that takes `dense` to `swizzled`, both in elements of `nbits` bits; None for equal ones.

    Read off the offset and then checked on every element. Raises TileError for any other.
    """
    if swizzled == dense:
        return None
    variables = tuple(swizzled.variables | dense.variables)
    found = _read_off(swizzled, dense, nbits)
    if found is None or prod(v.extent for v in variables) > MAX_ENUMERATED:
        raise _unknown(swizzled, where)
    grids = np.meshgrid(*(np.arange(v.extent, dtype=np.int64) for v in variables), indexing="ij")
    values = {v.name: g for v, g in zip(variables, grids, strict=True)}
    if not np.array_equal(found(dense.evaluate(values) * nbits // 8), swizzled.evaluate(values) * nbits // 8):
        raise _unknown(swizzled, where)
    return found


def _read_off(swizzled: Expr, dense: Expr, nbits: int) -> Swizzle | None:
    """The pattern of the one xor in the offset, if its operands are whole ranges of bits."""
    strides = {atom: c * nbits // 8 for atom, c in dense.terms if isinstance(atom, Var)}
    for atom, coefficient in swizzled.terms:
        if not isinstance(atom, Xor):
            continue
        step, extent = coefficient * nbits // 8, atom.left.hi + 1
        phases = [p for a, c in atom.right.terms if (p := _bytes_apart(a, strides) // c) > 0]
        if step & (step - 1) or extent & (extent - 1) or not phases or min(phases) <= step or step == 0:
            return None
        return Swizzle(extent.bit_length() - 1, step.bit_length() - 1, (min(phases) // step).bit_length() - 1)
    return None


def _bytes_apart(atom: Atom, strides: Mapping[Var, int]) -> int:
    """Bytes from one value of an index, of its quotient or of its remainder to the next; 0 where that is unknown."""
    match atom:
        case Var():
            return strides.get(atom, 0)
        case Div() | Mod() if len(atom.numerator.terms) == 1 and atom.numerator.const == 0:
            inner, coefficient = atom.numerator.terms[0]
            apart = _bytes_apart(inner, strides) // coefficient
            return apart * atom.divisor if isinstance(atom, Div) else apart
        case _:
            return 0


def _unknown(swizzled: Expr, where: str) -> TileError:
    return TileError(
        where,
        f"offset {swizzled} in shared memory",
        "rows and columns, or an xor of address bits with higher ones",
        "Swizzle an axis of a power of two by one of the same extent further out.",
    )
