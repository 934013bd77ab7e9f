"""Index maps of IterDomain transforms, forward and backward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.ir.expr import Expr, const, inside, unguarded, without_marks
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain

Indices = dict[IterDomain, Expr]


def forward(known: Mapping[IterDomain, Expr], exprs: Iterable[IdExpr]) -> Indices:
    """Indices of everything derived from `known` by `exprs`, in order. Inputs of each transform must be known.

    Of windows that overlap it is the reader who knows which one is meant: the first that holds the element, where the
    index of the tile is not in `known`.
    """
    index = dict(known)
    for e in exprs:
        match e:
            case Split():
                index[e.outer] = index[e.source] // e.inner.extent
                index[e.inner] = index[e.source] % e.inner.extent
            case Merge():
                index[e.out] = index[e.outer] * e.inner.extent + index[e.inner]
            case Swizzle():
                index[e.out] = index[e.y] ^ index[e.x]
            case Resize():
                index[e.out] = index[e.source] + e.left
            case Shift():
                index[e.out] = unguarded(index[e.source]) + phase(index, e)
            case Window():
                place = unguarded(index[e.source]) + e.before
                tile = index.setdefault(e.tile, place // e.step)
                index[e.place] = place - tile * e.step
    return index


def backward(known: Mapping[IterDomain, Expr], exprs: Iterable[IdExpr]) -> Indices:
    """Indices of everything `known` derives from, undoing `exprs` from the last to the first."""
    index = dict(known)
    for e in reversed(tuple(exprs)):
        match e:
            case Split():
                index[e.source] = index[e.outer] * e.inner.extent + index[e.inner]
            case Merge() if e.outer.is_trivial:
                # Beyond the end of the merged axis, which bounds keep reads from, the inner one goes on.
                index[e.outer], index[e.inner] = Expr(), index[e.out]
            case Merge():
                index[e.outer] = index[e.out] // e.inner.extent
                index[e.inner] = index[e.out] % e.inner.extent
            case Swizzle():
                index[e.y] = index[e.out] ^ index[e.x]
            case Resize():
                index[e.source] = index[e.out] + -e.left
            case Shift():
                index[e.source] = inside(index[e.out] - phase(index, e), e.source.extent)
            case Window():
                index[e.source] = inside(index[e.tile] * e.step + index[e.place] - e.before, e.source.extent)
    return index


def phase(index: Mapping[IterDomain, Expr], e: Shift) -> Expr:
    """The places by which a shift moves the row at hand."""
    start = const(e.start)
    for axis, factor in zip(e.by, e.factors, strict=True):
        start = start + index[axis] * factor
    # Whatever an index is outside of its axis, a remainder is in bounds: which row is meant needs no bound itself.
    return (start if e.modulus & (e.modulus - 1) else without_marks(start)) % e.modulus
