"""Puts products that are terms of a sum into its accumulator: one rounding in the place of two, and one instruction.

    p = x * y;  s = s + p   ->   s = x * y + s

Such a product is no value (`compiler.ir.pinned`): nothing else reads it, so that nothing can tell the difference.
"""

from __future__ import annotations

from collections.abc import Collection

from compiler.ir.ops import PRODUCTS, MathGrade, OpKind
from compiler.lower.kernel_ir import Accumulate, Compute, Declare, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import with_bodies


def fuse_products(body: tuple[Stmt, ...], terms: Collection[str]) -> tuple[Stmt, ...]:
    """The body with every product of `terms` that is folded right after it, without a condition, in its sum."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Accumulate(kind=OpKind.SUM, guards=()) if s.source.name in terms:
                made = out[-1] if out else None
                if isinstance(made, Compute) and made.kind in PRODUCTS and made.target == s.source:
                    out[-1:] = [_fused(made, s)]
                    _drop_declaration(out, s.source)
                else:
                    out.append(s)
            case _:
                out.append(with_bodies(s, lambda inside: fuse_products(inside, terms)))
    return tuple(out)


def _fused(product: Compute, s: Accumulate) -> Compute:
    x, y = product.operands if product.kind is OpKind.MUL else (*product.operands, *product.operands)
    return Compute(OpKind.FMA, s.target, (x, y, s.target), MathGrade.EXACT)


def _drop_declaration(out: list[Stmt], product: Reg) -> None:
    """The product's register, which nothing writes any more, if it was declared right here."""
    for at in range(len(out) - 1, -1, -1):
        s = out[at]
        if isinstance(s, Declare) and s.name == product.name:
            del out[at]
            return
