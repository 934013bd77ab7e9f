"""What is said of predictions that leave something out."""

from __future__ import annotations

import pytest

from search.cost.unpriced import TENSOR_MEMORY, left_out
from search.space.knobs import KnobValue


@pytest.mark.parametrize(
    ("points", "said"),
    [
        pytest.param([], "", id="no-points"),
        pytest.param([{"vector": 4}, {"tmem": "none", "tmem_load": 1}], "", id="none-in-tensor-memory"),
        pytest.param([{"vector": 4}, {"tmem": "streams"}], TENSOR_MEMORY, id="one-of-them"),
        pytest.param([{"0.tmem": "none", "1.tmem": "transpose"}], TENSOR_MEMORY, id="one-of-its-launches"),
    ],
)
def test_what_no_source_says_is_said_to_be_left_out(points: list[dict[str, KnobValue]], said: str) -> None:
    assert left_out(points) == said
