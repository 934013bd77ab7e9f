"""Ends of results: no operand between its ends gives a result beyond them, and they are as near as they can be."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.ops import BINARY, UNARY, OpKind
from compiler.reference.operators import exact

F64 = np.ndarray[Any, np.dtype[np.float64]]

COUNT = 4000
WITHIN = np.linspace(0.0, 1.0, 9)
"""Where operands are taken between their ends."""

PLAIN = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.0, 3.0, -3.0, 20.0, -700.0, 1e-310, 1e300, math.inf, -math.inf]
)


def intervals(rng: np.random.Generator) -> tuple[F64, F64]:
    """Points, narrow and wide intervals, of all sizes, around zero and beside it, some with plain ends."""
    sizes = 2.0 ** rng.uniform(-20, 8, (2, COUNT)) * rng.choice((-1.0, 1.0), (2, COUNT))
    ends = np.where(rng.random((2, COUNT)) < 0.3, rng.choice(PLAIN, (2, COUNT)), sizes)
    ends[1] = np.where(rng.random(COUNT) < 0.3, ends[0], ends[1])
    near = rng.random(COUNT) < 0.3
    ends[1] = np.where(near, ends[0] * (1 + 2.0 ** -rng.integers(3, 40, COUNT)), ends[1])
    whole = rng.random(COUNT) < 0.3
    ends = np.where(whole, np.round(ends), ends)
    smaller = (ends[0] < ends[1]) | ((ends[0] == ends[1]) & np.signbit(ends[0]))
    return np.where(smaller, ends[0], ends[1]), np.where(smaller, ends[1], ends[0])


def inside(low: F64, high: F64, rng: np.random.Generator) -> list[F64]:
    with np.errstate(all="ignore"):
        found = [low + (high - low) * rng.permutation(WITHIN)[0] for _ in range(12)]
    return [low, high, *(np.where(np.isfinite(x), np.clip(x, low, high), low) for x in found)]


@pytest.mark.parametrize(
    "kind", sorted(k for k in UNARY | BINARY if DType.F64 in k.row.takes and k.row.ends is not None)
)
def test_results_lie_between_their_ends(kind: OpKind) -> None:
    rng = np.random.default_rng(5)
    operands = [intervals(rng) for _ in range(kind.row.arity or 0)]
    if kind is OpKind.POW:  # most exponents are one number
        low, high = operands[1]
        operands[1] = low, np.where(rng.random(COUNT) < 0.7, low, high)
    assert kind.row.ends is not None
    with np.errstate(all="ignore"):
        low, high = kind.row.ends(lambda *x: exact(kind, x, np), operands, np)
        for points in zip(*(inside(*ends, rng) for ends in operands), strict=True):
            found = exact(kind, points, np)
            slack = np.where(np.isfinite(found), 1e-12 * np.abs(found), 0.0)
            is_open = np.isnan(low) | np.isnan(high) | ((low == -math.inf) & (high == math.inf))
            right = is_open | ((found + slack >= low) & (found - slack <= high))
            # What is NaN inside an interval alone, as a root of what may be negative, ends that are NaN say.
            right |= np.isnan(found)
            wrong = np.flatnonzero(~right)
            assert not wrong.size, [
                *((*(float(end[wrong[0]]) for end in ends),) for ends in operands),
                *(float(p[wrong[0]]) for p in points),
                float(found[wrong[0]]),
                (float(low[wrong[0]]), float(high[wrong[0]])),
            ]


TIGHT: list[tuple[OpKind, list[tuple[float, float]], tuple[float, float]]] = [
    (OpKind.POW, [(-2, 3), (3, 3)], (-8, 27)),
    (OpKind.POW, [(-2, 3), (2, 2)], (0, 9)),
    (OpKind.POW, [(-3, -2), (2, 2)], (4, 9)),
    (OpKind.POW, [(-3, -2), (-1, -1)], (-1 / 2, -1 / 3)),
    (OpKind.POW, [(-2, 3), (0, 0)], (1, 1)),
    (OpKind.POW, [(-2, 3), (-1, -1)], (-math.inf, math.inf)),
    (OpKind.POW, [(-2, 3), (0.5, 0.5)], (-math.inf, math.inf)),
    (OpKind.POW, [(-2, -2), (2, 3)], (-math.inf, math.inf)),
    (OpKind.POW, [(0.5, 2), (-1, 3)], (0.125, 8)),
    (OpKind.POW, [(0.0, 2), (-1, 3)], (0, math.inf)),
    (OpKind.POW, [(-2, -2), (3, 3)], (-8, -8)),
    (OpKind.POW, [(-2, -1), (0.5, 0.5)], (math.nan, math.nan)),
    (OpKind.SIN, [(0, 1)], (0, math.sin(1))),
    (OpKind.SIN, [(1, 2)], (math.sin(1), 1)),
    (OpKind.SIN, [(-2, 2)], (-1, 1)),
    (OpKind.SIN, [(4, 5)], (-1, math.sin(4))),
    (OpKind.SIN, [(1e30, 1e30)], (math.sin(1e30), math.sin(1e30))),
    (OpKind.SIN, [(1e30, 1.0000001e30)], (-1, 1)),
    (OpKind.COS, [(-0.5, 0.25)], (math.cos(0.5), 1)),
    (OpKind.COS, [(3, 3.5)], (-1, math.cos(3.5))),
    (OpKind.COS, [(0.5, 1)], (math.cos(1), math.cos(0.5))),
    (OpKind.FLOOR, [(-0.5, 1.5)], (-1, 1)),
    (OpKind.SIGN, [(-0.5, 1.5)], (-1, 1)),
    (OpKind.ERF, [(-1, 0)], (math.erf(-1), 0)),
    (OpKind.GELU_ERF, [(-1, -0.5)], (-0.16997136957, -0.15426876937)),
    (OpKind.BITWISE_AND, [(6, 6), (3, 3)], (2, 2)),
    (OpKind.BITWISE_AND, [(6, 7), (3, 3)], (-math.inf, math.inf)),
    (OpKind.BITWISE_XOR, [(2.0**53, 2.0**53), (1, 1)], (-math.inf, math.inf)),
    (OpKind.FLOOR_DIVIDE, [(-7, -7), (2, 2)], (-4, -4)),
    (OpKind.FLOOR_DIVIDE, [(-7, 6), (2, 2)], (-4, 3)),
    (OpKind.FLOOR_DIVIDE, [(5, 7), (2, 3)], (1, 3)),
    (OpKind.FLOOR_DIVIDE, [(5, 7), (-1, 3)], (-math.inf, math.inf)),
    (OpKind.FLOOR_DIVIDE, [(5, 5), (0, 0)], (math.inf, math.inf)),
    (OpKind.REMAINDER, [(7.25, 7.5), (2, 2)], (1.25, 1.5)),
    (OpKind.REMAINDER, [(7.25, 8.5), (2, 2)], (0, 2)),
    (OpKind.REMAINDER, [(7, 7), (-4, -3)], (-4, 0)),
    (OpKind.REMAINDER, [(-7, -7), (4, 4)], (1, 1)),
    (OpKind.REMAINDER, [(1, 2), (0, 1)], (-math.inf, math.inf)),
    (OpKind.REMAINDER, [(1, 2), (0, 0)], (math.nan, math.nan)),
]

TIGHT_OF_INTEGERS: list[tuple[OpKind, list[tuple[float, float]], tuple[float, float]]] = [
    (OpKind.FLOOR_DIVIDE, [(-7, -7), (2, 2)], (-4, -4)),
    (OpKind.FLOOR_DIVIDE, [(-7, -7), (0, 0)], (-1, -1)),
    (OpKind.REMAINDER, [(-7, -7), (0, 0)], (-1, -1)),
    (OpKind.REMAINDER, [(6, 7), (5, 5)], (-math.inf, math.inf)),
    (OpKind.POW, [(-3, -3), (3, 3)], (-27, -27)),
    (OpKind.POW, [(-3, -3), (-3, -3)], (0, 0)),
    (OpKind.POW, [(2, 2), (62, 64)], (-math.inf, math.inf)),
]


@pytest.mark.parametrize(("kind", "operands", "expected"), TIGHT)
def test_ends_are_those_of_the_results(
    kind: OpKind, operands: list[tuple[float, float]], expected: tuple[float, float]
) -> None:
    assert kind.row.ends is not None
    ends = [tuple(np.array([end], np.float64) for end in pair) for pair in operands]
    with np.errstate(all="ignore"):
        low, high = kind.row.ends(lambda *x: exact(kind, x, np), ends, np)  # type: ignore[arg-type]
    np.testing.assert_allclose([low[0], high[0]], expected, rtol=1e-9)


@pytest.mark.parametrize(("kind", "operands", "expected"), TIGHT_OF_INTEGERS)
def test_integers_have_ends_of_their_own(
    kind: OpKind, operands: list[tuple[float, float]], expected: tuple[float, float]
) -> None:
    assert kind.row.ends_of_integers is not None
    ends = [tuple(np.array([end], np.float64) for end in pair) for pair in operands]
    low, high = kind.row.ends_of_integers(lambda *x: exact(kind, x, np), ends, np)  # type: ignore[arg-type]
    assert (low[0], high[0]) == expected


@pytest.mark.parametrize("kind", sorted(k for k in UNARY | BINARY if DType.BOOL in k.row.takes))
def test_ends_of_bools_are_what_may_be(kind: OpKind) -> None:
    """For false, true and either: whether the result holds for sure, and whether it may."""
    assert kind.row.ends is not None
    pairs = [(False, False), (True, True), (False, True)]
    for operands in product(pairs, repeat=kind.row.arity or 0):
        ends = [tuple(np.array([end]) for end in pair) for pair in operands]
        low, high = kind.row.ends(partial(_of, kind), ends, np)  # type: ignore[arg-type]
        results = {bool(_of(kind, *map(np.asarray, x))) for x in product(*operands)}
        assert low.dtype == high.dtype == np.bool_
        assert bool(low[0]) <= min(results)
        assert bool(high[0]) >= max(results)
        if all(a == b for a, b in operands):
            assert bool(low[0]) == bool(high[0])


def _of(kind: OpKind, *x: Any) -> Any:
    return exact(kind, x, np)
