"""The recipes for operators that there are not, carried out as they are written, give what torch's operator does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from compiler.reference import evaluate
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire import parse_binding
from fusetune.wire.advice import RECIPE_OF
from fusetune.wire.fusion import MODEL_OF_OP

HALVES = np.arange(-12, 13) / 4
BESIDE = [np.nextafter(np.float32(x), np.float32(y)) for x in (0.5, 1.5, -2.5, 3.0, -3.0) for y in (-9, 9)]
NUMBERS = np.array([*HALVES, *BESIDE, 0.49999997, -7.25, 1000.5, -1001.5, 4194303.5], dtype=np.float32)
"""Ties of roundings, and their neighbours."""

ELEMENTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "round": torch.round,
    "rint": torch.round,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "fix": torch.fix,
    "sign": torch.sign,
    "relu6": torch.nn.functional.relu6,
    "softplus": torch.nn.functional.softplus,
    "elu": torch.nn.functional.elu,
    "hardtanh": torch.nn.functional.hardtanh,
    "logical_not": lambda x: torch.logical_not(x).float(),
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.25),
}


INEXACT = ("softplus", "elu")
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
        "x": f.input("x", x.shape, "f32"),
    }
    result = None
    for name, call in calls(recipe):
        result = known[name] = eval(call, {"__builtins__": {}}, known)
    assert result is not None, recipe
    f.output(result if result.dtype == "f32" else result.cast("f32"))
    (found,) = evaluate(bind(f.build(), parse_binding({})), [x], np)
    return np.asarray(found, dtype=np.float32)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_recipe_is_what_torch_does(name: str) -> None:
    want = ELEMENTWISE[name](torch.from_numpy(NUMBERS)).numpy()
    np.testing.assert_allclose(carried_out(RECIPE_OF[name], NUMBERS), want, rtol=0, atol=1e-6 if name in INEXACT else 0)
