"""The short ways of interval rules give what the long ones do."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from compiler.ir.ops import OpKind
from compiler.reference.operators import exact

ROWS = [kind for kind in OpKind if kind.row.ends is not None and kind.row.reference is not None]
VALUES = np.array([0.0, -0.0, 1.0, -1.0, 0.375, -2.5, 1e-310, 700.0, -700.0, np.inf, -np.inf, np.nan])


def by_rule(kind: OpKind, *operands: tuple[Any, Any]) -> tuple[Any, Any]:
    """The ends of a result, by the operator's rule."""
    assert kind.row.ends is not None
    with np.errstate(all="ignore"):
        return kind.row.ends(lambda *x: exact(kind, x, np), operands, np)


@pytest.mark.parametrize("kind", ROWS)
def test_one_array_for_both_ends_is_as_good_as_two(kind: OpKind) -> None:
    operands: list[Any] = list(np.meshgrid(*[VALUES] * (kind.row.arity or 1), indexing="ij"))
    if not any(dtype.is_float for dtype in kind.row.takes):
        operands = [np.nan_to_num(x, posinf=3.0, neginf=-3.0).astype(np.int64) for x in operands]
    once = by_rule(kind, *((x, x) for x in operands))
    twice = by_rule(kind, *((x, x.copy()) for x in operands))
    for ours, theirs in zip(once, twice, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours[~np.isnan(ours)]), np.signbit(theirs[~np.isnan(theirs)]))


@pytest.mark.parametrize("kind", [OpKind.MUL, OpKind.DIV])
def test_a_positive_operand_tells_the_corner(kind: OpKind) -> None:
    ends = [(low, high) for low, high in product(VALUES, VALUES) if low <= high or (np.isnan(low) and np.isnan(high))]
    low, high = (np.array(x)[:, None] for x in zip(*ends, strict=True))
    least, most = np.array([[1e-300, 0.5, 1.0, 3.0]]), np.array([[2e-300, 0.5, 1.5, 1e300]])
    found = by_rule(kind, (low, high), (least, most))
    with np.errstate(all="ignore"):
        corners = [exact(kind, [x, y], np) for x in (low, high) for y in (least, most)]
    for ours, theirs in zip(found, (np.minimum.reduce(corners), np.maximum.reduce(corners)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_divisor_that_is_broadcast_is_looked_at_where_it_was_made() -> None:
    row = np.broadcast_to(np.array([[2.0], [4.0]]), (2, 3))
    low, high = by_rule(OpKind.DIV, (np.full((2, 3), -8.0), np.full((2, 3), 4.0)), (row, row + 0.0))
    assert low.tolist() == [[-4.0] * 3, [-2.0] * 3]
    assert high.tolist() == [[2.0] * 3, [1.0] * 3]
