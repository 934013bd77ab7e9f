"""Orders of tables, and where predictions err: of tables that a formula makes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.search.ranked import FIRST, kendall, order_of, ordered, summary
from benchmarks.search.residuals import residuals, told_by
from search.tuning.candidates.candidate import Candidate
from search.tuning.timed import TimedTrial
from tests.search.tuning.fitted import common, several


def trials(measured: list[float], predicted: list[float]) -> list[TimedTrial]:
    return [
        TimedTrial(Candidate.of("flat", {"vector": n}), told, {"bandwidth": told}, us)
        for n, (told, us) in enumerate(zip(predicted, measured, strict=True))
    ]


@pytest.mark.parametrize(
    ("some", "others", "tau"),
    [
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], 1.0, id="the-same-order"),
        pytest.param([1, 2, 3, 4], [4, 3, 2, 1], -1.0, id="turned-round"),
        pytest.param([1, 2, 3], [1, 3, 2], 1 / 3, id="one-swap-of-three-pairs"),
        pytest.param([1, 1, 1], [1, 2, 3], 0.0, id="nothing-told-apart"),
    ],
)
def test_kendall(some: list[int], others: list[int], tau: float) -> None:
    assert kendall(np.array(some, dtype=np.float64), np.array(others, dtype=np.float64)) == pytest.approx(tau)


def test_the_best_of_the_first_few() -> None:
    measured = [float(us) for us in range(120, 100, -1)]
    found = order_of(np.arange(20.0), trials(measured, measured))
    assert (found.spearman, found.first) == (-1.0, round(measured[FIRST - 1] / 101.0 - 1.0, 5))
    assert order_of(np.array(measured), trials(measured, measured)).first == 0.0


def test_a_ranker_is_ahead_where_fusions_have_their_errors_in_common() -> None:
    tables = [(one.fusion, one) for one in several(common)]
    rows = ordered(tables)
    assert all(row.ranker.spearman > row.model.spearman for row in rows)
    assert [row.twice for row in rows] == [0] * len(rows)
    assert any("by the ranker" in line for line in summary(rows))


def test_the_knob_that_errs_is_named_first() -> None:
    (one, *_) = several(lambda word, share: 0.2 * (word == "tma"))
    first, *others = residuals(one.trials, least=5)
    assert (first.name, [group.value for group in first.groups]) == ("load", ["tma", "vector"])
    assert first.share == pytest.approx(1.0)
    over = {group.value: group.over for group in first.groups}
    assert over["tma"] / over["vector"] == pytest.approx(np.exp(0.2))
    assert all(told.share < 0.5 for told in others)


def test_values_of_few_points_are_not_named() -> None:
    told = told_by("threads", ["64", "64", "128", "128", "1024"], np.array([0.0, 0.0, 0.1, 0.1, 0.2]), least=2)
    assert [group.value for group in told.groups] == ["64", "128"]
