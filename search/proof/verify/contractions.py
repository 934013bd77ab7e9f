"""Between which ends a sum of products lies whose factors have ends, or of which a kernel may leave out bits.

Where a fusion allows tf32, a kernel multiplies of each factor what that has of it, 10 bits behind the first: cut off,
as tensor cores do (PTX ISA, wgmma: the low 13 bits are not read), or rounded, as the copy engine does, which errs no
more, or all of it.
"""

from __future__ import annotations

import math
from typing import Any

from search.proof.verify.arrays import Array

_KEPT_BITS, _LEAST = 11, 2.0**-136
"""Bits of a number that tf32 keeps, and the least that it tells from zero."""

_LARGEST = 2.0**128 * (1.0 - 2.0**-12)

Ends = tuple[Array, Array]


def ends_in_tf32(ends: Ends, xp: Any) -> Ends:
    """Between which ends lies what a kernel may multiply in place of numbers that lie between these."""
    (low, high), below, above = ends, *(_lost(end, xp) for end in ends)
    infinity = xp.full_like(low, math.inf)  # which the largest numbers are rounded to
    return xp.where(low <= -_LARGEST, -infinity, low - below), xp.where(high >= _LARGEST, infinity, high + above)


def ends_of_products(x: Ends, y: Ends, xp: Any) -> Ends:
    """Of the sums along x's last dimension and y's last but one, not rounded: by middles and half their widths."""
    (xm, dx), (ym, dy) = (_middle(*ends, xp) for ends in (x, y))
    # An infinity that is known has no width: the other's ends change nothing of what it makes.
    xs, ys = (xp.where(xp.isinf(m) & (d == 0), d, xp.abs(m)) for m, d in ((xm, dx), (ym, dy)))
    middle, around = xp.matmul(xm, ym), xp.matmul(xs, dy) + xp.matmul(dx, ys + dy)
    return middle - around, middle + around


def _middle(low: Array, high: Array, xp: Any) -> tuple[Array, Array]:
    alike = low == high
    return xp.where(alike, low, (low + high) / 2.0), xp.where(alike, xp.zeros_like(low), (high - low) / 2.0)


def _lost(x: Array, xp: Any) -> Array:
    """How much cutting takes from numbers (f64); nothing from infinities and NaN."""
    finite = xp.isfinite(x)
    size = xp.abs(xp.where(finite, x, xp.zeros_like(x)))
    _, exponent = xp.frexp(size)
    step = xp.ldexp(xp.ones_like(size), exponent - _KEPT_BITS)
    step = xp.maximum(step, xp.full_like(step, _LEAST))
    return size - xp.floor(size / step) * step
