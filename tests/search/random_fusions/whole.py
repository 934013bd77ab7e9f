"""Whole quotients, what they leave, and powers of integers: operators of which a rounding before turns the answer."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor

from tests.search.random_fusions.bounds import bounds_of
from tests.search.random_fusions.grower import AWAY, Grower, either
from tests.search.random_fusions.known import INTEGER_RANGE, LARGEST, Known

DIVISORS = (0.5, 1.5, -0.75, 2, -3, 0.3125, 4.25)
MOST_SQUARED = 5
"""Base of a power up to the third that i8 holds."""


def has_whole_answer(name: str, x: Known) -> bool:
    """Whether the operator is one of these on the dtype of `x`."""
    return name in ("floor_divide", "remainder") or (name == "pow" and not x.is_float)


def whole(g: Grower, name: str, x: Known) -> Known:
    """One of them on `x`, or the greater of two numbers where `x` has been rounded."""
    if not x.is_float:
        return _power(g, x) if name == "pow" else _of_integers(g, name, x)
    if not x.is_exact:
        return g.binary("maximum", x, 0.5)
    fit = [v for v in g.values if (v.shape, v.dtype) == (x.shape, x.dtype) and v.is_exact and v.low >= AWAY]
    y = g.random.choice(fit) if fit and g.random.random() < 0.5 else g.random.choice(DIVISORS)
    known = (x, y) if isinstance(y, Known) else (x,)
    divisor = (y.low, y.high) if isinstance(y, Known) else (y, y)
    low, high = bounds_of(name, (x.low, x.high), divisor)
    result = replace(x, low=floor(low), high=ceil(high), varies=either(known))
    is_kept = name == "floor_divide" and result.magnitude < 2**8
    made = g.op(name, (x, y), result if is_kept else g.rounded(result, known))
    return g.small(made, LARGEST[x.dtype])


def _of_integers(g: Grower, name: str, x: Known) -> Known:
    low, high = INTEGER_RANGE[x.dtype]
    y = _partner(g, x)
    if y is None:
        return g.op(name, (x, g.random.choice((1, 2, 3, 7, 10))), replace(x, low=low, high=high))
    return g.op(name, (x, y), replace(x, low=low, high=high, varies=either((x, y))))


def _power(g: Grower, x: Known) -> Known:
    x, y = g.small(x, MOST_SQUARED), _partner(g, x)
    most = MOST_SQUARED**3
    result = replace(x, low=-most if x.low < 0 else 0, high=most)
    if y is None:
        return g.op("pow", (x, g.random.choice((0, 1, 3))), result)
    y = g.clamp(y, 0 if x.dtype == "u8" else -2, 3)
    return g.op("pow", (x, y), replace(result, varies=either((x, y))))


def _partner(g: Grower, x: Known) -> Known | None:
    fit = [v for v in g.values if (v.shape, v.dtype) == (x.shape, x.dtype) and v.name != x.name]
    return g.random.choice(fit) if fit and g.random.random() < 0.6 else None
