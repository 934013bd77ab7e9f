"""Operators that are written out when a fusion is bound mean what torch's mean, and nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from compiler.errors import InvalidFusion
from compiler.ir.fusion import Fusion
from compiler.ir.ops import COMPILED
from compiler.reference import evaluate
from compiler.wire import fusion_from_json, fusion_to_json
from fusetune.fusion import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense
from tests.shares import inside

SHAPE = (7, 4, 9)
TORCH: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
FLOATS: tuple[DTypeName, ...] = ("f64", "f32", "f16", "bf16")
INTEGERS: tuple[DTypeName, ...] = ("i8", "i32", "i64")

Write = Callable[[FusionBuilder, Tensor], Tensor]
Said = Callable[[torch.Tensor], torch.Tensor]

_SPECIAL = {
    "ordinary": None,
    "ties": (-1.0, 0.5, 2.0, 2.0),
    "zeros": (0.0, -0.0, 0.0, 1.0),
    "all-zero": (0.0, -0.0),
    "nan": (float("nan"), 1.0, -3.0, 2.0),
    "all-nan": (float("nan"),),
    "inf": (float("inf"), float("-inf"), 1.0, 0.0),
    "inf-nan": (float("inf"), float("-inf"), float("nan"), 0.0),
    "extreme": (3e4, -3e4, 6e-5, -6e-5),
}


def values(kind: str, dtype: DTypeName, shape: tuple[int, ...] = SHAPE) -> torch.Tensor:
    """Elements of that kind; what an integer cannot be is 0 there."""
    random = np.random.default_rng(sorted(_SPECIAL).index(kind))
    special = _SPECIAL[kind]
    drawn = random.normal(size=shape) * 3 if special is None else random.choice(special, shape)
    if dtype not in FLOATS:
        drawn = np.clip(np.nan_to_num(drawn, nan=0), -100, 100)
    return torch.from_numpy(drawn).to(TORCH[dtype])


@cache
def bound(write: Write, dtype: DTypeName, shape: tuple[int, ...] = SHAPE) -> Fusion:
    f = FusionBuilder()
    f.output(write(f, f.input("x", shape, dtype)), "y")
    return dense(f)


def found(fusion: Fusion, x: torch.Tensor) -> Any:
    wide = x.double() if x.is_floating_point() else x
    (result,) = evaluate(fusion, [wide.numpy()], np)
    return np.asarray(result)


def expect_torch(write: Write, said: Said, x: torch.Tensor, dtype: DTypeName) -> None:
    fusion, want = bound(write, dtype, tuple(x.shape)), said(x)
    assert {op.kind for op in fusion.ops} <= COMPILED
    value = fusion.value(fusion.outputs[0])
    assert (TORCH[value.dtype], value.shape) == (want.dtype, tuple(want.shape))
    wide = want.double() if want.is_floating_point() else want
    np.testing.assert_array_equal(found(fusion, x), wide.numpy())


# Truth ---------------------------------------------------------------------------------------------------------------

TRUTH: dict[str, tuple[Write, Said]] = {
    "any": (lambda f, x: f.any(x, (1,)), lambda x: x.any(1)),
    "any-kept": (lambda f, x: f.any(x, (-1,), keepdim=True), lambda x: x.any(-1, keepdim=True)),
    "any-of-all": (lambda f, x: x.any((0, 1, 2)), lambda x: x.any()),
    "all": (lambda f, x: f.all(x, (2,)), lambda x: x.all(2)),
    "all-of-two": (lambda f, x: x.all((0, 2), keepdim=True), lambda x: torch.all(x, (0, 2), keepdim=True)),
}


@inside("kind", _SPECIAL)
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("name", TRUTH)
def test_truth_of_elements_is_torchs(name: str, dtype: DTypeName, kind: str) -> None:
    write, said = TRUTH[name]
    expect_torch(write, said, values(kind, dtype), dtype)


# Indices of extremes -------------------------------------------------------------------------------------------------

ARG: dict[str, tuple[Write, Said]] = {
    "argmax": (lambda f, x: f.argmax(x, 1), lambda x: x.argmax(1)),
    "argmax-kept": (lambda f, x: x.argmax(-1, keepdim=True), lambda x: x.argmax(-1, keepdim=True)),
    "argmax-of-all": (lambda f, x: x.argmax(), lambda x: x.argmax()),
    "argmin": (lambda f, x: f.argmin(x, 0), lambda x: x.argmin(0)),
    "argmin-of-all-kept": (lambda f, x: x.argmin(keepdim=True), lambda x: x.argmin(keepdim=True)),
}


def first_extreme(x: torch.Tensor, name: str) -> torch.Tensor:
    """torch on CUDA gives the first index on ties, and the first NaN's (aten, SharedReduceOps.h, `LessOrNan` and
    `GreaterOrNan`: of equal values the lower index). On the CPU it promises neither, so it is made sure of here."""
    found = np.argmax if "max" in name else np.argmin
    wide = x.double().numpy() if x.is_floating_point() else x.numpy()
    axis = {"argmax": 1, "argmax-kept": -1, "argmin": 0}.get(name)
    return torch.from_numpy(np.asarray(found(wide, axis=axis, keepdims="kept" in name)))


@inside("kind", _SPECIAL)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", ARG)
def test_indices_are_those_of_the_first_extreme_element(name: str, dtype: DTypeName, kind: str) -> None:
    write, said = ARG[name]
    x = values(kind, dtype)
    expect_torch(write, lambda x: first_extreme(x, name), x, dtype)
    if kind == "ordinary" and dtype == "f64":  # no ties
        expect_torch(write, said, x, dtype)


def test_an_index_counts_beyond_what_a_half_holds() -> None:
    """Positions are integers, whatever the elements are."""
    x = torch.zeros(1, 70_001, dtype=torch.float16)
    x[0, 70_000] = 1
    expect_torch(lambda f, x: f.argmax(x, 1), lambda x: x.argmax(1), x, "f16")


@pytest.mark.parametrize("kind", [k for k in _SPECIAL if k not in ("extreme", "all-nan")])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("size", [3 * 2**18, 2**20 + 7])
def test_long_runs_are_cut_in_parts_that_divide_them(size: int, name: str, kind: str) -> None:
    """Whichever part has the extreme element, the first of equal ones or a NaN; with parts the input is folded once."""
    x = values("ordinary", "f32", (2, size)).clamp(-2, 2)
    special = values(kind, "f32", (2, 3))
    for row, places in enumerate(((size - 1, size // 2, 5), (size // 3, size // 3 + 40_000, 2 * size // 3))):
        for place, value in zip(places, special[row], strict=True):
            x[row, place] = value
    fusion = bound(lambda f, x: getattr(x, name)(1), "f32", (2, size))
    assert any(op.kind.value == "reshape" for op in fusion.ops) == (size % 2**18 == 0)
    expect_torch(lambda f, x: getattr(x, name)(1), lambda x: first_of(name, x), x, "f32")


def first_of(name: str, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.asarray(getattr(np, name)(x.double().numpy(), axis=1)))


# Sums of a type of their own -----------------------------------------------------------------------------------------

SUMS: list[tuple[DTypeName, DTypeName]] = [
    ("bool", "i64"),
    ("bool", "i32"),
    ("bool", "f32"),
    ("i8", "i8"),
    ("i8", "i32"),
    ("i8", "i64"),
    ("i32", "i64"),
    ("i32", "f64"),
    ("f32", "f64"),
    ("f32", "i64"),
]


@pytest.mark.parametrize(("source", "result"), SUMS)
def test_a_sum_has_the_type_that_it_is_given(source: DTypeName, result: DTypeName) -> None:
    x = values("ties", source).repeat(1, 40, 1)
    dtype = TORCH[result]
    expect_torch(lambda f, x: x.sum((1,), dtype=result), lambda x: x.sum(1, dtype=dtype), x, source)


@pytest.mark.parametrize(("source", "result"), [("bf16", "f32"), ("f16", "f32"), ("f32", "bf16")])
def test_elements_are_cast_before_they_are_summed(source: DTypeName, result: DTypeName) -> None:
    fusion = bound(lambda f, x: x.sum((1,), dtype=result), source)
    same = bound(lambda f, x: x.cast(result).sum((1,)), source)
    assert (fusion.ops, fusion.values) == (same.ops, same.values)


# Products ------------------------------------------------------------------------------------------------------------

PRODUCTS: dict[str, tuple[Write, Said]] = {
    "prod": (lambda f, x: x.prod((1,)), lambda x: x.prod(1)),
    "prod-kept": (lambda f, x: f.prod(x, (-1,), keepdim=True), lambda x: x.prod(-1, keepdim=True)),
    "prod-of-all": (lambda f, x: f.prod(x, (0, 1, 2)), lambda x: x.prod()),
    "prod-as-i32": (lambda f, x: f.prod(x, (0,), dtype="i32"), lambda x: x.prod(0, dtype=torch.int32)),
    "prod-as-f64": (lambda f, x: f.prod(x, (0,), dtype="f64"), lambda x: x.prod(0, dtype=torch.float64)),
}


@inside("kind", [k for k in _SPECIAL if k not in ("ordinary", "extreme")])
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_torchs(name: str, dtype: DTypeName, kind: str) -> None:
    """Of few powers of two, which no order rounds; integers wrap."""
    write, said = PRODUCTS[name]
    x = values(kind, dtype)
    if name == "prod-as-i32" and x.is_floating_point():  # out of range it has no meaning
        x = x.nan_to_num(0.0, 1.0, -1.0)
    expect_torch(write, said, x, dtype)


def test_products_of_integers_wrap() -> None:
    x = torch.from_numpy(np.random.default_rng(1).integers(-(2**31), 2**31, (9, 50), dtype=np.int32) | 1)
    expect_torch(lambda f, x: x.prod((1,)), lambda x: x.prod(1), x, "i32")
    expect_torch(lambda f, x: x.prod((1,), dtype="i8"), lambda x: x.prod(1).to(torch.int8), x, "i32")


# What is written out -------------------------------------------------------------------------------------------------


def test_a_fusion_keeps_its_fingerprint_and_travels_as_what_it_is_made_of() -> None:
    fusion = bound(lambda f, x: f.argmax(x, 1), "f32")
    spelled = bound(lambda f, x: f.copy(f.argmax(x, 1)), "f32")
    assert fusion.fingerprint != spelled.fingerprint
    assert fusion_from_json(fusion_to_json(fusion)) == fusion


def test_a_stored_fusion_has_nothing_to_write_out() -> None:
    document = fusion_to_json(bound(lambda f, x: f.any(x, (1,)), "bool"))
    document["fusion"]["ops"] = [{"op": "any", "in": ["i0"], "out": "v0", "dims": [1]}]
    with pytest.raises(InvalidFusion) as caught:
        fusion_from_json(document)
    assert [p.where for p in caught.value.problems] == ["fusion.ops[0].op"]


def test_names_that_a_user_gives_are_free() -> None:
    """Results that are added take no name of the fusion's."""
    f = FusionBuilder()
    x = f.input("w0", SHAPE, "f32")
    f.output(f.argmax(x, 1), "w1")
    f.output(f.exp(x), "w2")
    fusion = dense(f)
    assert len(fusion.outputs) == 2
    assert len({op.output for op in fusion.ops}) == len(fusion.ops)


# Sums up to each element ----------------------------------------------------------------------------------------------

SCANS: dict[str, tuple[Write, Said]] = {
    "cumsum": (lambda f, x: f.cumsum(x, 1), lambda x: x.cumsum(1)),
    "cumsum-first": (lambda f, x: x.cumsum(0), lambda x: x.cumsum(0)),
    "cumsum-last": (lambda f, x: x.cumsum(-1), lambda x: x.cumsum(-1)),
    "cumsum-as-i32": (lambda f, x: x.cumsum(1, dtype="i32"), lambda x: x.cumsum(1, dtype=torch.int32)),
    "cumsum-as-f64": (lambda f, x: x.cumsum(1, dtype="f64"), lambda x: x.cumsum(1, dtype=torch.float64)),
}


@inside("kind", [k for k in _SPECIAL if k not in ("ordinary", "extreme")])
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("name", SCANS)
def test_sums_up_to_each_element_are_torchs(name: str, dtype: DTypeName, kind: str) -> None:
    """Of multiples of a half, which no order rounds."""
    write, said = SCANS[name]
    x = values(kind, dtype)
    if name == "cumsum-as-i32" and x.is_floating_point():  # out of range it has no meaning
        x = x.nan_to_num(0.0, 1.0, -1.0)
    expect_torch(write, said, x, dtype)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 64, 97, 1024, 1025, 1031, 5000, 40_000])
@pytest.mark.parametrize("kind", ["ties", "inf-nan"])
def test_long_and_odd_runs(length: int, kind: str) -> None:
    """An infinity, or a NaN, is in the sums from there on, and in none before."""
    x = values("ties", "f32", (2, length, 2))
    if kind == "inf-nan" and length > 2:
        x[0, length // 3, 0] = float("inf")
        x[0, length // 2, 0] = float("-inf")
        x[1, 2 * length // 3, 1] = float("nan")
    expect_torch(lambda f, x: x.cumsum(1), lambda x: x.double().cumsum(1).float(), x, "f32")


def test_dimensions_that_are_left_over_are_one() -> None:
    """Two more than eight would be too many."""
    x = values("ties", "f32", (2, 1, 3, 2, 1, 40, 2, 1))
    expect_torch(lambda f, x: x.cumsum(5), lambda x: x.cumsum(5), x, "f32")
