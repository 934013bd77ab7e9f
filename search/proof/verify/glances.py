"""What is true of all elements or not, found out by a glance at the first of them where that tells that it is not."""

from __future__ import annotations

import math
from typing import Any

from search.proof.verify.arrays import Array


def are_alike(low: Array, high: Array, xp: Any) -> bool:
    """Whether all ends are equal, or both NaN."""
    if low.shape and len(low) > 1 and not are_alike(low[0], high[0], xp):
        return False
    return bool(((low == high) | (xp.isnan(low) & xp.isnan(high))).all())


def are_coarse(wide: Array, xp: Any, *ends: Array) -> Array:
    """Whether all values are multiples of 1/2, and known where they have ends: an array without dimensions."""
    if wide.shape and len(wide) > 1 and not bool(are_coarse(wide[0], xp, *(end[0] for end in ends))):
        return xp.zeros_like(wide[(0,) * len(wide.shape)]) != 0
    found = xp.round(wide * 2.0) == wide * 2.0
    return (found & (ends[0] == ends[1]) if ends else found).all()


def finite_span(x: Array, xp: Any) -> tuple[float, float] | None:
    """The least and the greatest of floats; None where one of them is no finite number."""
    least, most = xp.aminmax(x) if hasattr(xp, "aminmax") else (x.min(), x.max())  # NaN is passed on
    found = float(least), float(most)
    return found if all(map(math.isfinite, found)) else None
