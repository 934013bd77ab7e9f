"""Between which bounds the results of an operator lie, for operands of which the bounds are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from compiler.ir.ops import OpKind

Bounds = tuple[float, float]


_LOOSE: dict[str, Callable[[float, float], Bounds]] = {
    "tanh": lambda low, high: (-1.0, 1.0),
    "sigmoid": lambda low, high: (0.0, 1.0),
    "gelu": lambda low, high: (-0.25, max(high, 0.25)),
    "gelu_erf": lambda low, high: (-0.25, max(high, 0.25)),
    "erf": lambda low, high: (-1.0, 1.0),
    "bitwise_not": lambda low, high: (-high - 1, -low - 1),
    "silu": lambda low, high: (-0.5, max(high, 0.5)),
}
"""Functions that come near their bounds in f32 and round to them."""


def bounds_of(name: str, *operands: Bounds) -> Bounds:
    """What the operator's row says, or a looser bound."""
    if name in _LOOSE:
        return _LOOSE[name](*operands[0])
    row = OpKind(name).row
    assert row.ends is not None
    assert row.reference is not None
    with np.errstate(all="ignore"):
        low, high = row.ends(
            partial(row.reference, np), [(np.asarray(low), np.asarray(high)) for low, high in operands], np
        )
    return low.item(), high.item()


def products(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)
