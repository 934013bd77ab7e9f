"""When a value and itself spelled again may be asked to have the same bits."""

from __future__ import annotations

from typing import Any

import pytest

from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.bound import apply_binding
from fusetune.wire.fusion import FORMAT
from tests.search.random_fusions.witnesses.readers import are_read_alike

PRODUCT = [
    {"op": "mul", "in": ["x", 0.7], "out": "p"},
    {"op": "mul", "in": ["x", 0.7], "out": "q"},
]
SUMS = [
    {"op": "add", "in": ["p", 0.3], "out": "a"},
    {"op": "add", "in": ["q", 0.3], "out": "b"},
]
FUNCTION = [
    {"op": "exp", "in": ["x"], "out": "p"},
    {"op": "exp", "in": ["x"], "out": "q"},
]


def top(x: str, out: str) -> dict[str, Any]:
    return {"op": "amax", "in": [x], "out": out, "dims": [0], "keepdim": False}


def hit(x: str, out: str) -> dict[str, Any]:
    return {"op": "gt", "in": [x, 0.5], "out": out}


def narrow(x: str, out: str) -> dict[str, Any]:
    return {"op": "cast", "in": [x], "out": out, "dtype": "bf16"}


@pytest.mark.parametrize(
    ("ops", "outputs", "alike"),
    [
        pytest.param([*PRODUCT, *SUMS], ["a", "b"], True, id="each-read-by-one-sum"),
        pytest.param([*PRODUCT, *SUMS], ["a", "b", "p"], False, id="one-is-stored"),
        pytest.param([*PRODUCT, *SUMS, top("p", "t")], ["a", "b", "t"], False, id="one-is-read-twice"),
        pytest.param([*PRODUCT, *SUMS, top("p", "t")], ["a", "b"], True, id="a-reader-that-nobody-needs"),
        pytest.param([*PRODUCT, *SUMS, top("p", "t"), top("q", "u")], ["a", "b", "t", "u"], True, id="both-read-twice"),
        pytest.param([*FUNCTION], ["p", "q"], True, id="both-stored"),
        pytest.param([*FUNCTION, hit("p", "h")], ["p", "q", "h"], False, id="one-is-compared"),
        pytest.param([*FUNCTION, top("p", "t"), hit("t", "h")], ["p", "q", "h"], False, id="its-maximum-is-compared"),
        pytest.param([*FUNCTION, hit("p", "h"), hit("q", "k")], ["h", "k"], True, id="both-compared"),
        pytest.param([*FUNCTION, narrow("p", "n")], ["n", "q"], False, id="one-is-rounded"),
        pytest.param([*FUNCTION, narrow("p", "n"), narrow("q", "m")], ["n", "m"], True, id="both-rounded"),
    ],
)
def test_values_are_read_alike(ops: list[dict[str, Any]], outputs: list[str], alike: bool) -> None:
    inputs = [{"name": "x", "shape": [8], "dtype": "f32"}]
    document = {"format": FORMAT, "inputs": inputs, "ops": ops, "outputs": [{"name": name} for name in outputs]}
    types = apply_binding(parse_fusion(document), parse_binding({"sizes": {}, "inputs": [{}]})).types
    assert are_read_alike(document, {n: str(t.dtype) for n, t in types.items()}, [("p", "q")]) == alike
