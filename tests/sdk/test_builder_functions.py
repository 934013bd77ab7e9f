"""What the SDK writes in several operators, or chooses one for: worked out, it is torch's function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from compiler.reference import evaluate
from fusetune import FusionBuilder, InvalidFusion, Tensor, functional
from tests.bound import dense

X = np.array([0.0, -0.0, 0.5, -2.5, 3.0, 1e-45, -3e38, math.inf, -math.inf, math.nan], np.float32)
LOW = np.array([1.0, -1.0, math.nan, 0.0, -math.inf, 0.0, -1.0, 2.0, math.nan, 0.0], np.float32)
HIGH = np.array([0.5, 1.0, 1.0, math.nan, math.inf, 0.0, 1.0, 2.5, 3.0, 1.0], np.float32)
NUMBERS = np.array([0, 1, -7, 127, -128, 4], np.int8)

Make = Callable[[FusionBuilder, Tensor, Tensor, Tensor], Tensor]
Torch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

FLOATS: list[tuple[str, Make, Torch]] = [
    ("both numbers", lambda f, x, low, high: functional.clamp(x, -1, 2.5), lambda x, low, high: x.clamp(-1, 2.5)),
    ("crossed", lambda f, x, low, high: functional.clamp(x, 2, 1), lambda x, low, high: x.clamp(2, 1)),
    ("below", lambda f, x, low, high: functional.clamp(x, low=1), lambda x, low, high: x.clamp(min=1)),
    ("above", lambda f, x, low, high: functional.clamp(x, high=1), lambda x, low, high: x.clamp(max=1)),
    (
        "of nan",
        lambda f, x, low, high: functional.clamp(x, high=math.nan),
        lambda x, low, high: x.clamp(max=x * math.nan),
    ),
    ("tensors", lambda f, x, low, high: functional.clamp(x, low, high), lambda x, low, high: x.clamp(low, high)),
    ("isnan", lambda f, x, low, high: functional.isnan(x), lambda x, low, high: x.isnan()),
    ("isinf", lambda f, x, low, high: functional.isinf(x), lambda x, low, high: x.isinf()),
    ("isfinite", lambda f, x, low, high: functional.isfinite(x), lambda x, low, high: x.isfinite()),
    ("not", lambda f, x, low, high: functional.logical_not(x), lambda x, low, high: x.logical_not()),
    ("and", lambda f, x, low, high: functional.logical_and(x, low), lambda x, low, high: x.logical_and(low)),
    ("or", lambda f, x, low, high: functional.logical_or(x, low), lambda x, low, high: x.logical_or(low)),
    ("xor", lambda f, x, low, high: functional.logical_xor(x, low), lambda x, low, high: x.logical_xor(low)),
    *(
        (f"pow {y}", lambda f, x, low, high, y=y: f.pow(x, y), lambda x, low, high, y=y: x.pow(y))
        for y in (2, 0.5, -0.5, -1, 1, 0, 3, -2, 1.5, math.inf)
    ),
    ("whole quotients", lambda f, x, low, high: f.floor_divide(x, high), lambda x, low, high: x // high),
    ("remainders", lambda f, x, low, high: f.remainder(x, low), lambda x, low, high: x % low),
    ("whole quotients by a number", lambda f, x, low, high: f.floor_divide(x, -0.3), lambda x, low, high: x // -0.3),
    ("pow of a number", lambda f, x, low, high: f.pow(1.5, x), lambda x, low, high: torch.pow(1.5, x)),
    (
        "exact gelu",
        lambda f, x, low, high: f.gelu(x, approximate="none"),
        # In f32 the host's own library has NaN for infinity.
        lambda x, low, high: torch.nn.functional.gelu(x.double()).float(),
    ),
]


@pytest.mark.parametrize(("make", "by_torch"), [case[1:] for case in FLOATS], ids=[case[0] for case in FLOATS])
def test_functions_of_floats_are_those_of_torch(make: Make, by_torch: Torch) -> None:
    f = FusionBuilder()
    made = make(f, *(f.input(name, X.shape, "f32") for name in ("x", "low", "high")))
    f.output(made)
    (found,) = evaluate(dense(f), [X, LOW, HIGH][: len(f.build().inputs)], np)
    want = by_torch(*map(torch.from_numpy, (X, LOW, HIGH))).numpy()
    np.testing.assert_allclose(np.asarray(found, want.dtype), want, rtol=2e-7, atol=0)


def test_logical_operators_take_integers_as_their_truth() -> None:
    f = FusionBuilder()
    x = f.input("x", NUMBERS.shape, "i8")
    for name, made in (
        ("n", functional.logical_not(x)),
        ("a", functional.logical_and(x, x)),
        ("b", functional.logical_xor(x, f.ne(x, 4))),
    ):
        f.output(made, name)
    found = evaluate(dense(f), [NUMBERS], np)
    t = torch.from_numpy(NUMBERS)
    for have, want in zip(found, (t.logical_not(), t.logical_and(t), t.logical_xor(t != 4)), strict=True):
        np.testing.assert_array_equal(have, want.numpy())


def test_a_clamp_without_bounds_is_refused() -> None:
    f = FusionBuilder()
    with pytest.raises(InvalidFusion, match="one at least"):
        functional.clamp(f.input("x", (4,), "f32"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f, x: f.bitwise_and(x, 1), "Cast it to i32"),
        (lambda f, x: f.bitwise_not(f.cast(x, "bool")), ""),
        (lambda f, x: f.bitwise_left_shift(f.cast(x, "bool"), 1), "Cast it to i32"),
        (lambda f, x: f.floor(f.cast(x, "i32")), "Cast it to f32"),
    ],
)
def test_what_has_no_meaning_on_a_type_is_refused(make: Callable[[FusionBuilder, Tensor], Tensor], says: str) -> None:
    f = FusionBuilder()
    x = f.input("x", (4,), "f32")
    if not says:
        make(f, x)
        return
    with pytest.raises(InvalidFusion) as caught:
        make(f, x)
    assert says in str(caught.value)
