"""The recipes for operators that there are not, carried out as they are written, give what torch's operator does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from compiler.reference import evaluate
from fusetune import FusionBuilder
from fusetune.wire.advice import RECIPE_OF
from fusetune.wire.fusion import MODEL_OF_OP
from tests.bound import dense

HALVES = np.arange(-12, 13) / 4
BESIDE = [np.nextafter(np.float32(x), np.float32(y)) for x in (0.5, 1.5, -2.5, 3.0, -3.0) for y in (-9, 9)]
NUMBERS = np.array([*HALVES, *BESIDE, 0.49999997, -7.25, 1000.5, -1001.5, 4194303.5], dtype=np.float32)
"""Ties of roundings, and their neighbours."""

SPECIAL = np.array([0, -0.0, 1, -3e38, 1e-45, np.inf, -np.inf, np.nan, -np.nan], dtype=np.float32)

ELEMENTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu6": torch.nn.functional.relu6,
    "softplus": torch.nn.functional.softplus,
    "elu": torch.nn.functional.elu,
    "hardtanh": torch.nn.functional.hardtanh,
    "cosh": torch.cosh,
    "sinh": torch.sinh,
    "tan": torch.tan,
    "erfc": torch.erfc,
    "isnan": lambda x: torch.isnan(x).float(),
    "isinf": lambda x: torch.isinf(x).float(),
    "isfinite": lambda x: torch.isfinite(x).float(),
    "logical_not": lambda x: torch.logical_not(x).float(),
    "mish": torch.nn.functional.mish,
    "hardswish": torch.nn.functional.hardswish,
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "nan_to_num": lambda x: torch.nan_to_num(x, posinf=4.0, neginf=-4.0).clamp(-4.0, 4.0),
    "fmod": lambda x: torch.fmod(x, torch.full_like(x, 1.5)),
    "hypot": lambda x: torch.hypot(x, torch.full_like(x, 1.5)),
    "fake_quantize": lambda x: (x / 0.25).round().clamp(-4, 4) * 0.25,
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.25),
}


INEXACT = ("softplus", "elu", "cosh", "sinh", "tan", "erfc", "mish", "hardswish", "hardsigmoid", "hypot")
"""Made of functions that round."""


def calls(recipe: str) -> Iterator[tuple[str, str]]:
    """The calls of a recipe that stand in no other one, each with the name that is given to it or none."""
    at = 0
    while found := re.compile(r"(?:(\w+) = )?(\w+)\(").search(recipe, at):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(recipe[end], 0)
            end += 1
        yield found[1] or "", recipe[found.start(2) : end]
        at = end


def carried_out(recipe: str, x: np.ndarray) -> np.ndarray:
    """The value of its last call."""
    f = FusionBuilder()
    known: dict[str, Any] = {name: getattr(f, name) for name in MODEL_OF_OP}
    known |= {dtype: dtype for dtype in ("f32", "i64")} | {
        "slope": 0.25,
        "alpha": 1.0,
        "scale": 0.25,
        "low": -4.0,
        "high": 4.0,
        "x": f.input("x", x.shape, "f32"),
        "y": f.full(x.shape, 1.5, "f32"),
    }
    result = None
    for name, call in calls(recipe):
        result = known[name] = eval(call, {"__builtins__": {}}, known)
    assert result is not None, recipe
    f.output(result if result.dtype == "f32" else result.cast("f32"))
    (found,) = evaluate(dense(f), [x], np)
    return np.asarray(found, dtype=np.float32)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_recipe_is_what_torch_does(name: str) -> None:
    x = SPECIAL if name.startswith("is") or name == "nan_to_num" else NUMBERS
    want = ELEMENTWISE[name](torch.from_numpy(x)).numpy()
    near = 1e-6 if name in INEXACT else 0
    np.testing.assert_allclose(carried_out(RECIPE_OF[name], x), want, rtol=near, atol=near)
