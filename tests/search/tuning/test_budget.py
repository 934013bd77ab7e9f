from __future__ import annotations

import pytest

from search.tuning.budget import Budget


@pytest.mark.parametrize(
    ("before", "more", "after"),
    [
        pytest.param((10.0, 5), (20.0, 9), (20.0, 9), id="more"),
        pytest.param((10.0, 5), (9.0, 4), (10.0, 5), id="never-less"),
        pytest.param((10.0, 5), (None, None), (None, None), id="no-limit"),
        pytest.param((None, None), (9.0, 4), (None, None), id="had-no-limit"),
    ],
)
def test_an_extension_takes_nothing_back(
    before: tuple[float | None, int | None],
    more: tuple[float | None, int | None],
    after: tuple[float | None, int | None],
) -> None:
    budget = Budget(*before)
    budget.extend(*more)
    assert (budget.seconds, budget.trials) == after


def test_seconds_count_from_the_start_also_after_an_extension() -> None:
    now = [0.0]
    budget = Budget(seconds=10.0, clock=lambda: now[0])
    now[0] = 9.0
    budget.extend(30.0, None)
    assert budget.left_s == 21.0
    now[0] = 31.0
    assert not budget.allows(0)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds is -1"):
        Budget(seconds=-1)
