"""What tensors hold before a run, and where their elements lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from compiler.emulate.numeric.half import BF16
from compiler.emulate.spec.elements import ELEMENTS, bf16_of
from compiler.emulate.spec.fields import Node
from compiler.emulate.spec.initial import SpecLayout, dense_strides, fill

NAMES = tuple(ELEMENTS)


def filled(dtype: str, shape: tuple[int, ...], init: Any, seed: int = 0, strides: tuple[int, ...] | None = None) -> Any:
    """The elements of a tensor as its storage type has them."""
    layout = SpecLayout(ELEMENTS[dtype], shape, dense_strides(shape) if strides is None else strides)
    data, _ = fill(layout, Node(init, "$"), seed, Path())
    return layout.dense(data)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_random_floats_are_normal_and_rounded(dtype: str) -> None:
    expected = np.random.default_rng(7).standard_normal((5, 3)).astype(ELEMENTS[dtype].storage)
    assert np.array_equal(filled(dtype, (5, 3), "random", 7), expected)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_random_integers_have_their_whole_range(dtype: str) -> None:
    storage = ELEMENTS[dtype].storage
    bounds = np.iinfo(storage)
    found = filled(dtype, (4000,), "random", 3)
    drawn = np.random.default_rng(3).integers(bounds.min, bounds.max, 4000, storage.type, endpoint=True)
    assert np.array_equal(found, drawn)
    spread = int(found.max()) - int(found.min())
    assert spread > 0.99 * (int(bounds.max) - int(bounds.min))


def test_random_bools_are_both() -> None:
    assert set(filled("bool", (64,), "random").tolist()) == {False, True}


@pytest.mark.parametrize("dtype", NAMES)
def test_a_seed_is_what_makes_them_differ(dtype: str) -> None:
    first, again, other = (filled(dtype, (64,), "random", seed).tobytes() for seed in (1, 1, 2))
    assert first == again != other


def test_random_bf16_comes_by_way_of_f32() -> None:
    normal = np.random.default_rng(5).standard_normal(1000)
    found = BF16.widen(filled("bf16", (1000,), "random", 5)).astype(np.float64)
    exact = normal.astype(np.float32).astype(np.float64)
    assert (np.abs(found - exact) <= np.abs(exact) * 2.0**-8).all()


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        pytest.param(1.0, 0x3F80, id="one"),
        pytest.param(1 + 2**-8, 0x3F80, id="tie-down-to-even"),
        pytest.param(1 + 3 * 2**-8, 0x3F82, id="tie-up-to-even"),
        pytest.param(1 + 2**-8 + 2**-16, 0x3F81, id="above-the-tie"),
        pytest.param(1 + 2**-8 + 2**-40, 0x3F80, id="f32-comes-first"),
        pytest.param(-0.0, 0x8000, id="negative-zero"),
        pytest.param(3.4e38, 0x7F80, id="rounds-to-infinity"),
        pytest.param(float("inf"), 0x7F80, id="infinity"),
        pytest.param(float("-inf"), 0xFF80, id="negative-infinity"),
        pytest.param(float("nan"), 0x7FFF, id="nan"),
    ],
)
def test_bf16_rounds_to_the_nearest_even(value: float, bits: int) -> None:
    assert bf16_of(np.array([value])).tolist() == [bits]


FP8 = {"f8e4m3": (4, 3, 448.0), "f8e5m2": (5, 2, 57344.0)}


def fp8_value(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """The number of a finite code, by the definition of the format."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code & 0x7F) >> mantissa_bits
    fraction = (code & ((1 << mantissa_bits) - 1)) / 2**mantissa_bits
    bias = 2 ** (exponent_bits - 1) - 1
    return float(sign * (fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)))


@pytest.mark.parametrize("dtype", FP8)
def test_every_finite_fp8_code_is_its_own(dtype: str) -> None:
    exponent_bits, mantissa_bits, largest = FP8[dtype]
    codes = [c for c in range(256) if abs(fp8_value(c, exponent_bits, mantissa_bits)) <= largest]
    values = [fp8_value(c, exponent_bits, mantissa_bits) for c in codes]
    assert max(values) == largest
    assert ELEMENTS[dtype].of(np.array(values)).tolist() == codes


@pytest.mark.parametrize("dtype", FP8)
@given(value=some.floats(allow_nan=False, width=32))
def test_fp8_is_the_nearest_code_ties_to_even(dtype: str, value: float) -> None:
    exponent_bits, mantissa_bits, largest = FP8[dtype]
    code = int(ELEMENTS[dtype].of(np.array([value]))[0])
    assert (code >= 0x80) == bool(np.signbit(value))
    size = min(abs(value), largest)
    magnitudes = [fp8_value(c, exponent_bits, mantissa_bits) for c in range(0x80)]
    finite = {c: m for c, m in enumerate(magnitudes) if m <= largest}
    best = min(finite, key=lambda c: (abs(finite[c] - size), c % 2))
    assert code & 0x7F == best


@pytest.mark.parametrize("dtype", FP8)
def test_fp8_has_a_nan_and_no_overflow(dtype: str) -> None:
    nan, above = ELEMENTS[dtype].of(np.array([np.nan, np.inf])).tolist()
    assert (nan, fp8_value(above, *FP8[dtype][:2])) == (0x7F, FP8[dtype][2])


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        pytest.param("f32", (2, 3), [[0, 1, 2], [3, 4, 5]], id="row-major"),
        pytest.param("u8", (258,), [*range(256), 0, 1], id="wraps"),
        pytest.param("i8", (130,), [*range(128), -128, -127], id="wraps-signed"),
        pytest.param("bool", (3,), [False, True, True], id="bool"),
        pytest.param("bf16", (2,), [0, 0x3F80], id="bits-of-bf16"),
        pytest.param("f16", (), 0.0, id="scalar"),
    ],
)
def test_arange(dtype: str, shape: tuple[int, ...], expected: object) -> None:
    assert filled(dtype, shape, "arange").tolist() == expected


@pytest.mark.parametrize("dtype", NAMES)
def test_zeros_and_ones(dtype: str) -> None:
    element = ELEMENTS[dtype]
    assert filled(dtype, (2,), "zeros").tobytes() == b"\0" * 2 * element.nbytes
    assert filled(dtype, (1,), "ones").tobytes() == element.of(np.array([1])).tobytes() != b"\0" * element.nbytes


@pytest.mark.parametrize(
    ("shape", "values", "expected"),
    [
        pytest.param((2, 2), [[1, 2], [3, 4]], [[1, 2], [3, 4]], id="nested"),
        pytest.param((2, 2), [1, 2, 3, 4], [[1, 2], [3, 4]], id="flat"),
        pytest.param((), 5, 5, id="scalar"),
        pytest.param((), [5], 5, id="scalar-in-a-list"),
        pytest.param((1,), [5], [5], id="one"),
        pytest.param((0,), [], [], id="none"),
    ],
)
def test_values(shape: tuple[int, ...], values: object, expected: object) -> None:
    assert filled("i32", shape, {"values": values}).tolist() == expected


def test_holes_are_neither_initialised_nor_writable() -> None:
    layout = SpecLayout(ELEMENTS["i16"], (2, 3), (4, 1))
    data, initialized = fill(layout, Node("arange", "$"), 0, Path())
    assert data.view(np.int16).tolist() == [0, 1, 2, np.int16(0xA5A5 - 0x10000), 3, 4, 5]
    element_flags = [True] * 3 + [False] + [True] * 3
    valid = layout.valid()
    assert valid is not None
    assert initialized is not None
    assert valid.tolist() == initialized.tolist() == [flag for flag in element_flags for _ in range(2)]
    assert SpecLayout(ELEMENTS["i16"], (2, 3), (3, 1)).valid() is None


shapes = some.lists(some.integers(1, 4), max_size=4).map(tuple)


@given(shape=shapes, data=some.data())
def test_a_permuted_and_padded_tensor_has_the_values_of_a_dense_one(
    shape: tuple[int, ...], data: some.DataObject
) -> None:
    order = data.draw(some.permutations(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis] + data.draw(some.integers(0, 2))
    layout = SpecLayout(ELEMENTS["f32"], shape, tuple(strides))
    dense = filled("f32", shape, "random", 9)
    assert np.array_equal(filled("f32", shape, "random", 9, tuple(strides)), dense)
    flags = np.zeros(layout.nbytes, np.bool_)
    assert layout.touched(flags) == 0
    flags[0] = True
    assert layout.touched(flags) == 1
    valid = layout.valid()
    assert layout.touched(np.ones_like(flags) if valid is None else valid) == layout.count


def test_a_broadcast_tensor_is_one_element_in_memory() -> None:
    layout = SpecLayout(ELEMENTS["f32"], (4, 3), (0, 1))
    assert (layout.nbytes, layout.count, layout.valid()) == (12, 12, None)
    data, _ = fill(layout, Node("ones", "$"), 0, Path())
    assert layout.dense(data).tolist() == [[1.0] * 3] * 4


def test_a_tensor_without_elements() -> None:
    layout = SpecLayout(ELEMENTS["f32"], (0, 3), (3, 1))
    data, _ = fill(layout, Node("random", "$"), 0, Path())
    assert (data.size, layout.dense(data).shape, layout.touched(np.zeros(0, np.bool_))) == (0, (0, 3), 0)
