"""Ends of products: every order of the factors lies between them, and what lacks one does not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from compiler.dtypes import DType
from compiler.ir.pinned import pinned
from compiler.reference import Walk
from fusetune.fusion import FusionBuilder
from fusetune.wire.fusion import DTypeName
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.decided import LEAST_DECIDED, best_shares
from search.proof.verify.expected import expect
from search.proof.verify.inputs import input_sets, make_inputs
from search.proof.verify.online_sums import OnlineIntervals
from search.proof.verify.relations import relations
from tests.bound import dense

Array = Any
INF, NAN = float("inf"), float("nan")
FREE = (-INF, INF)


def ends(x: Array, dtype: DTypeName = "f32", xp: ModuleType = np) -> tuple[Array, Array]:
    """Of the products of rows."""
    f = FusionBuilder()
    f.output(f.input("x", x.shape, dtype).prod((1,)))
    fusion = pinned(dense(f))
    wide = x.astype(np.float64)
    walk = Walk(fusion, [wide if xp is np else torch.from_numpy(wide)], xp, OnlineIntervals(xp, relations(fusion)))
    with np.errstate(all="ignore"):
        found = walk.rows(0, 0, len(x))
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return np.asarray(low), np.asarray(high)


CASES: dict[str, tuple[list[float], tuple[float, float]]] = {
    "powers of two are exact": ([2.0, -0.5, 8.0, 3.0], (-24.0, -24.0)),
    "zero": ([0.0, -2.0, 3.0, 1.0], (-0.0, -0.0)),
    "zero of the other sign": ([-0.0, -2.0, 3.0, 1.0], (0.0, 0.0)),
    "infinity": ([INF, -2.0, 3.0, 1.0], (-INF, -INF)),
    "infinity and zero": ([INF, -2.0, 0.0, 1.0], (NAN, NAN)),
    "infinity, and what may become zero": ([INF, 1e-30, 1e-30, 1.0], FREE),
    "nan": ([NAN, 0.0, INF, 1.0], (NAN, NAN)),
    "larger than any number": ([1e30, 1e30, -1.0, 1.0], (-INF, -INF)),
    "larger on the way": ([1e30, 1e30, 1e-30, 1e-30], FREE),
    "larger on the way, and zero": ([1e30, 1e30, 0.0, 1.0], FREE),
    "smaller than any number": ([1e-30, 1e-30, 1.0, 1.0], (0.0, 6e-45)),
}


@pytest.mark.parametrize("xp", [pytest.param(np, id="numpy"), pytest.param(torch, id="torch")])
@pytest.mark.parametrize("name", CASES)
def test_special_factors(name: str, xp: ModuleType) -> None:
    row, want = CASES[name]
    found = [float(end[0]) for end in ends(np.array([row], np.float32), xp=xp)]
    np.testing.assert_allclose(found, want, rtol=0, atol=5e-45)
    if want[0] == want[1] == 0:
        assert [np.signbit(x) for x in found] == [np.signbit(x) for x in want]


def in_any_order(x: Array, rng: np.random.Generator) -> Array:
    """The product of each row in f32, by a random tree over a random order."""
    parts = [column.copy() for column in x.astype(np.float32)[:, rng.permutation(x.shape[1])].T]
    while len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at : at + 2] = [parts[at] * parts[at + 1]]
    return parts[0]


@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0, 40.0, 100.0])
@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_every_order_lies_between_the_ends(length: int, spread: float) -> None:
    rng = np.random.default_rng(int(length * spread))
    sizes = 2.0 ** np.clip(rng.normal(size=(200, length)) * spread, -149, 127)
    x = (sizes * rng.choice((-1.0, 1.0), sizes.shape)).astype(np.float32)
    special = rng.choice((0.0, -0.0, INF, -INF, NAN), x.shape)
    x = np.where(rng.random(x.shape) < 0.3 / length, special, x).astype(np.float32)
    low, high = ends(x)
    with np.errstate(all="ignore"):
        for _ in range(20):
            got = in_any_order(x, rng).astype(np.float64)
            free = np.isinf(low) & np.isinf(high) & (low < high)
            both_nan = np.isnan(got) & np.isnan(low)
            assert (free | both_nan | ((got >= low) & (got <= high))).all()
    if spread <= 1:
        assert (low > -INF).mean() > 0.5, "hardly any product leaves the range of f32"


def test_a_product_that_lacks_a_factor_is_told() -> None:
    x = np.full((4, 100_000), 1.0, np.float32)
    x[:, ::5000] = [[1.5], [-1.0], [0.5], [1.01]]
    low, high = ends(x)
    without = np.prod(x[:, 1:].astype(np.float64), axis=1)
    assert ((without < low) | (without > high)).all()


# Input sets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64", "i64", "i32", "i8", "bool"])
@pytest.mark.parametrize("length", [3, 100, 20_000])
def test_input_sets_decide_products_and_see_a_factor_that_is_left_out(dtype: DTypeName, length: int) -> None:
    f = FusionBuilder()
    f.output(f.input("x", (20, length), dtype).prod((1,)))
    fusion, arrays = dense(f), NumpyArrays()
    made = {name: make_inputs(fusion, name, arrays) for name in input_sets(fusion)}
    (share,) = best_shares(fusion, arrays, lambda name: expect(fusion, made[name], arrays))
    assert share >= LEAST_DECIDED
    seen = 0
    for name in input_sets(fusion):
        (whole,) = expect(fusion, made[name], arrays)
        x = arrays.load(made[name][0], DType(dtype)).reshape(20, length).astype(np.float64).copy()
        x[:, length - 1] = 1.0
        (short,) = expect(fusion, [arrays.store(x.reshape(-1), DType(dtype))], arrays)
        seen += int(((short.lower < whole.lower) | (short.lower > whole.upper)).sum())
    assert seen > 0
