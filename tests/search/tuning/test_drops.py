from __future__ import annotations

import pytest

from search.tuning.drops import slower_by


@pytest.mark.parametrize(
    ("samples", "slower"),
    [
        pytest.param((10.0,) * 21, 0.0, id="as-before"),
        pytest.param((10.2,) * 21, 0.0, id="within-the-samples-of-before"),
        pytest.param((9.0,) * 21, 0.0, id="faster"),
        pytest.param((10.31,) * 21, 0.031, id="beyond"),
        pytest.param((10.0,) * 10 + (12.0,) * 11, 0.0, id="an-interval-that-reaches-back"),
        pytest.param((), 0.0, id="no-samples"),
    ],
)
def test_a_drop_is_one_beyond_noise(samples: tuple[float, ...], slower: float) -> None:
    assert slower_by(10.0, 10.3, samples) == pytest.approx(slower)


def test_a_per_cent_is_noise_however_alike_samples_are() -> None:
    assert slower_by(10.0, 10.0, (10.1,) * 21) == 0.0
    assert slower_by(10.0, 10.0, (10.11,) * 21) == pytest.approx(0.011)
