"""The least time of a fusion: an empty launch, and its bytes at the rate of a copy."""

from __future__ import annotations

import pytest

from compiler.arch import card_named
from search.cost.roofline import floor_us
from tests.compiler.schedules import from_wire

H200 = card_named("H200")


@pytest.mark.parametrize(
    ("elems", "bytes_us"),
    [
        pytest.param(1, 0.0, id="one-element"),
        pytest.param(21_350, 0.04, id="its-bytes-take-0.04-us"),
        pytest.param(1 << 29, 1005.9, id="large"),
    ],
)
def test_a_floor_is_a_launch_and_the_bytes(elems: int, bytes_us: float) -> None:
    fusion = from_wire([{"name": "x", "shape": [elems], "dtype": "f32"}], [{"op": "exp", "in": ["x"], "out": "y"}], "y")
    assert floor_us(fusion, H200) == pytest.approx(H200.least_launch_us + bytes_us, rel=1e-3)


def test_a_card_on_which_no_launch_was_measured_has_a_floor_all_the_same() -> None:
    fusion = from_wire([{"name": "x", "shape": [4], "dtype": "f32"}], [{"op": "exp", "in": ["x"], "out": "y"}], "y")
    assert floor_us(fusion, card_named("B200")) > 0.1
