"""What a fusion spells out of torch's operators is one call of eager torch, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from compiler.ir.fusion import Fusion
from compiler.reference import evaluate
from fusetune.fusion import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from search.measure.eager import _needed, eager_form
from search.measure.torch_calls import torch_calls
from tests.bound import dense

SHAPE = (6, 40, 5)
NAN = float("nan")
Write = Callable[[FusionBuilder, Tensor], Tensor]


def bound(write: Write, dtype: DTypeName = "f32", shape: tuple[int, ...] = SHAPE) -> Fusion:
    f = FusionBuilder()
    f.output(write(f, f.input("x", shape, dtype)))
    return dense(f)


def by_hand(nan: bool) -> Write:
    """The place of the greatest element, spelled out by a user: of a NaN, or not."""

    def write(f: FusionBuilder, x: Tensor) -> Tensor:
        here = f.eq(x, x.amax((1,), keepdim=True).broadcast_to(SHAPE, (0, 1, 2)))
        here = f.maximum(here, f.ne(x, x)) if nan else here
        return f.where(here, f.iota(SHAPE, 1, "i32"), SHAPE[1]).amin((1,))

    return write


def triangle(f: FusionBuilder, x: Tensor, *, zero: float = 0, along: int = 2) -> Tensor:
    wide = (*SHAPE[:2], SHAPE[1], SHAPE[2])
    spread = x.broadcast_to(wide, (0, 2, 3))
    mine, other = f.iota(wide, 1, "i32"), f.iota(wide, along, "i32")
    return f.where(f.le(other, mine), spread, zero).sum((2,))


CASES: dict[str, tuple[Write, int]] = {
    "argmax": (lambda f, x: x.argmax(1), 1),
    "argmin-kept": (lambda f, x: x.argmin(-1, keepdim=True), 1),
    "argmax-of-all": (lambda f, x: x.argmax(), 1),
    "argmax-by-hand": (by_hand(nan=True), 1),
    "argmax-that-loses-nan": (by_hand(nan=False), 0),
    "any": (lambda f, x: x.any((0, 2)), 1),
    "all": (lambda f, x: x.all((1,), keepdim=True), 1),
    "any-that-is-one": (lambda f, x: f.ne(x, 1).amax((1,)), 0),
    "cumsum": (lambda f, x: x.cumsum(2), 0),
    "cumsum-before": (lambda f, x: x.cumsum(1, exclusive=True), 0),
    "triangle-by-hand": (lambda f, x: triangle(f, x), 1),
    "triangle-of-ones": (lambda f, x: triangle(f, x, zero=1), 0),
    "no-triangle": (lambda f, x: triangle(f, x, along=0), 0),
}


def results(fusion: Fusion, x: torch.Tensor) -> tuple[Any, Any]:
    (have,) = eager_form(fusion)([x])
    with np.errstate(all="ignore"):
        (want,) = evaluate(fusion, [x.double().numpy() if x.is_floating_point() else x.numpy()], np)
    return have.double().numpy() if have.is_floating_point() else have.numpy(), np.asarray(want)


@pytest.mark.parametrize("name", CASES)
def test_eager_torch_makes_one_call(name: str) -> None:
    write, calls = CASES[name]
    fusion = bound(write)
    assert len(torch_calls(fusion)) == calls
    x = torch.from_numpy(np.random.default_rng(0).choice((-1.0, 0.0, 0.5, 2.0, NAN), SHAPE)).float()
    have, want = results(fusion, x)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("dtype", ["i32", "f64", "bf16"])
@pytest.mark.parametrize("length", [65, 100, 3000])
def test_long_prefix_sums_take_no_tensor_larger_than_themselves(length: int, dtype: DTypeName) -> None:
    fusion = bound(lambda f, x: x.cumsum(1), dtype, (2, length))
    kinds = {"i32": torch.int32, "f64": torch.float64, "bf16": torch.bfloat16}
    x = torch.from_numpy(np.random.default_rng(0).integers(-2, 3, (2, length))).to(kinds[dtype])
    made = {one.output for one in _needed(fusion)}
    assert max(fusion.value(name).elems for name in made) <= 2 * (length + 32)
    have, want = results(fusion, x)
    np.testing.assert_array_equal(have, want)


def test_the_place_in_a_long_run_is_one_call() -> None:
    """Though kernels find it in parts."""
    fusion = bound(lambda f, x: x.argmin(1), "f32", (2, 3 * 2**18))
    assert [one.reads for one in _needed(fusion)] == [("i0",), (_needed(fusion)[0].output,)]
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3 * 2**18))).float()
    x[1, 700_000] = NAN
    have, want = results(fusion, x)
    np.testing.assert_array_equal(have, want)
