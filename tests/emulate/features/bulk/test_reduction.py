"""Reductions of bulk copies: each operation and type on values where it differs from its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.emulate.features.bulk.reduction import reduction, tensor_reduction

BIG = 0xFFFFFFFF


def combined(operation: str, kind: str, dtype: type[Any], old: list[Any], new: list[Any]) -> Any:
    found = reduction(operation, kind)
    assert found is not None
    a, b = np.array(old, dtype), np.array(new, dtype)
    with np.errstate(all="ignore"):
        return found.combine(a.view(np.uint8), b.view(np.uint8)).view(dtype).tolist()


@pytest.mark.parametrize(
    ("operation", "kind", "dtype", "old", "new", "expected"),
    [
        ("add", "u32", np.uint32, [BIG, 2], [2, 3], [1, 5]),
        ("add", "s32", np.int32, [-5, 2], [3, 3], [-2, 5]),
        ("add", "u64", np.uint64, [1 << 40], [1], [(1 << 40) + 1]),
        ("min", "s32", np.int32, [-5, 2], [3, 1], [-5, 1]),
        ("min", "u32", np.uint32, [BIG, 2], [3, 1], [3, 1]),
        ("max", "s64", np.int64, [-5, 2], [3, 1], [3, 2]),
        ("max", "u64", np.uint64, [1 << 63], [1], [1 << 63]),
        ("inc", "u32", np.uint32, [4, 5, 6], [5, 5, 5], [5, 0, 0]),
        ("dec", "u32", np.uint32, [0, 5, 6], [5, 5, 5], [5, 4, 5]),
        ("and", "b32", np.uint32, [0b1100], [0b1010], [0b1000]),
        ("or", "b64", np.uint64, [0b1100], [0b1010], [0b1110]),
        ("xor", "b64", np.uint64, [0b1100], [0b1010], [0b0110]),
        ("add", "f64", np.float64, [0.5, 5e-324], [0.25, 0.0], [0.75, 5e-324]),
        ("add", "f16", np.float16, [2048.0, 6e-8], [1.0, 0.0], [2048.0, float(np.float16(6e-8))]),
        ("min", "f16", np.float16, [1.0, np.nan], [2.0, 3.0], [1.0, 3.0]),
        ("max", "f16", np.float16, [1.0, np.nan], [2.0, 3.0], [2.0, 3.0]),
        ("add", "bf16", np.uint16, [0x3F80, 0x4380, 0x7F80], [0x3F80, 0x3F80, 0xFF80], [0x4000, 0x4380, 0x7FFF]),
        ("max", "bf16", np.uint16, [0xBF80, 0x8000], [0x3F80, 0x0000], [0x3F80, 0x0000]),
        ("min", "bf16", np.uint16, [0xBF80, 0x8000], [0x3F80, 0x0000], [0xBF80, 0x8000]),
    ],
)
def test_values(
    operation: str, kind: str, dtype: type[Any], old: list[Any], new: list[Any], expected: list[Any]
) -> None:
    assert combined(operation, kind, dtype, old, new) == expected


def test_sums_of_f32_keep_subnormal_numbers() -> None:
    tiny = float(np.float32(1e-40))
    assert combined("add", "f32", np.float32, [tiny, 1.0], [0.0, 2.0]) == [tiny, 3.0]


def test_nan_is_canonical_and_zeros_are_told_apart() -> None:
    assert combined("add", "f32", np.uint32, [0xFFC00001], [0x3F800000]) == [0x7FFFFFFF]
    assert combined("add", "f16", np.uint16, [0xFE01], [0x3C00]) == [0x7FFF]
    assert combined("min", "f16", np.uint16, [0x0000, 0x8000], [0x8000, 0x0000]) == [0x8000, 0x8000]
    assert combined("max", "f16", np.uint16, [0x0000, 0x8000], [0x8000, 0x0000]) == [0x0000, 0x0000]


@pytest.mark.parametrize(
    ("operation", "kind"), [("min", "f32"), ("inc", "s32"), ("and", "u32"), ("mul", "u32"), ("add", "b32")]
)
def test_what_there_is_not(operation: str, kind: str) -> None:
    assert reduction(operation, kind) is None


def test_maps_say_the_type_of_tensor_reductions() -> None:
    assert tensor_reduction("and", "s32") is not None
    assert tensor_reduction("add", "f64") is None
    assert tensor_reduction("inc", "s32") is None
