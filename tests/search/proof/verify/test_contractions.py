"""Products for which a fusion allows tf32: what tensor cores, rounding, and f32 make of them is right, and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.reference.floats import Array
from search.proof.verify.arrays import Arrays, NumpyArrays, TorchArrays
from search.proof.verify.compare import compare
from search.proof.verify.contractions import ends_in_tf32
from search.proof.verify.expected import expect
from tests.compiler.products import TF32, product

HOST = NumpyArrays()
BOTH = pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])
ROWS, COLUMNS, K = 4, 8, 96
Reading = Callable[[Array], Array]


def cut(x: Array) -> Array:
    """The upper 19 bits, as tensor cores read a word."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest(x: Array) -> Array:
    """Rounded to them, ties away from zero."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def whole(x: Array) -> Array:
    return x


def drawn(seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(size=(ROWS, K)).astype(np.float32), random.normal(size=(COLUMNS, K)).astype(np.float32)


def small(seed: int) -> tuple[Array, Array]:
    """Numbers that tf32 holds, whose sums are exact."""
    random = np.random.default_rng(seed)
    x, w = (random.integers(-4, 5, (n, K)) for n in (ROWS, COLUMNS))
    return x.astype(np.float32), w.astype(np.float32)


def wrong(x: Array, w: Array, y: Array, arrays: Arrays = HOST, dtype: str = TF32) -> int:
    """How many elements of a result are not right."""
    fusion = product(ROWS, COLUMNS, K, dtype, "f32")
    inputs = [
        arrays.store(arrays.xp.asarray(part.reshape(-1)), fusion.value(fusion.inputs[0]).dtype) for part in (x, w)
    ]
    (want,) = expect(fusion, inputs, arrays)
    stored = arrays.store(arrays.xp.asarray(y.astype(np.float32).reshape(-1)), fusion.value(fusion.outputs[0]).dtype)
    return int(compare(want, stored, arrays).wrong)


def multiplied(x: Array, w: Array, how: Reading, other: Reading) -> Array:
    found: Array = how(x).astype(np.float64) @ other(w).astype(np.float64).T
    return found


@BOTH
@pytest.mark.parametrize("how", [cut, nearest, whole])
@pytest.mark.parametrize("other", [cut, nearest, whole])
def test_what_a_kernel_may_multiply_is_right(how: Reading, other: Reading, arrays: Arrays) -> None:
    x, w = drawn(3)
    assert wrong(x, w, multiplied(x, w, how, other), arrays) == 0


def test_f32_that_nobody_allowed_tf32_for_is_multiplied_in_full() -> None:
    x, w = drawn(3)
    assert wrong(x, w, multiplied(x, w, cut, cut), dtype="f32") > 0
    assert wrong(x, w, multiplied(x, w, whole, whole), dtype="f32") == 0


def test_ten_bits_less_are_not_right() -> None:
    """As of bf16, which keeps 7 bits behind the first."""
    x, w = drawn(3)

    def shorter(x: Array) -> Array:
        return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    assert wrong(x, w, multiplied(x, w, shorter, shorter)) > 0


@pytest.mark.parametrize("how", [cut, nearest, whole])
def test_of_numbers_that_tf32_holds_every_product_is_told(how: Reading) -> None:
    """Exact sums: one product more, or less, is seen, however small."""
    x, w = small(5)
    right = multiplied(x, w, how, how)
    assert wrong(x, w, right) == 0
    assert wrong(x, w, right + np.eye(ROWS, COLUMNS)) == min(ROWS, COLUMNS)


def test_beside_infinities_the_others_are_still_compared() -> None:
    x, w = drawn(7)
    x[0, 3], x[1, 5], x[1, 6] = np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        right = multiplied(x, w, cut, cut)
    assert wrong(x, w, right) == 0
    assert wrong(x, w, np.where(np.isinf(right), 1.0, right)) == np.isinf(right).sum() >= COLUMNS


BITS = st.integers(0, 2**32 - 1).filter(lambda bits: bits >> 23 & 0xFF != 0xFF)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(BITS)
def test_ends_hold_what_any_kernel_reads(bits: int) -> None:
    """Subnormal numbers too; and they are no wider than one kernel or the other asks for."""
    x = np.array([bits], np.uint32).view(np.float32)
    low, high = ends_in_tf32((x.astype(np.float64),) * 2, np)
    read = np.array([cut(x), nearest(x), x], np.float64)
    assert (low <= read).all()
    assert (read <= high).all()
    assert low == read.min() or high == read.max()
