"""What was measured corrects the predictions of candidates that are like it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.corrected import MOST_ORDERED, corrected

ALL = [
    Candidate.of("flat", {"load": load, "threads": threads, "vector": vector})
    for load in ("bulk", "vector")
    for threads in (64, 128, 256, 512)
    for vector in (1, 2, 4, 8)
]
"""Bulk loads are predicted to be faster."""

PREDICTED: Mapping[Candidate, float] = {one: 100.0 + n for n, one in enumerate(ALL)}


def is_bulk(one: Candidate) -> bool:
    return one.knobs["load"] == "bulk"


@pytest.mark.parametrize(
    ("bulk_takes", "first"),
    [pytest.param(1.0, True, id="as-predicted"), pytest.param(1.3, False, id="longer-than-predicted")],
)
def test_what_a_prediction_gets_wrong_of_some_it_gets_wrong_of_their_like(bulk_takes: float, first: bool) -> None:
    measured = {one: 2.0 * us * (bulk_takes if is_bulk(one) else 1.0) for one, us in [*PREDICTED.items()][::4]}
    left = [one for one in ALL if one not in measured]
    order = corrected(left, PREDICTED, measured)
    assert sorted(order, key=ALL.index) == left
    assert {is_bulk(one) for one in order[:6]} == {first}


@pytest.mark.parametrize("measured", [{}, {ALL[0]: 300.0}], ids=["nothing", "one"])
def test_of_less_than_two_nothing_is_learnt(measured: Mapping[Candidate, float]) -> None:
    left = ALL[::-1]
    assert corrected(left, PREDICTED, measured) == left


def test_what_was_not_predicted_stays_before_what_was() -> None:
    measured = {one: PREDICTED[one] for one in ALL[:4]}
    known = {one: us for one, us in PREDICTED.items() if one != ALL[-1]}
    assert corrected(ALL[4:], known, measured)[0] == ALL[-1]


def test_what_is_predicted_to_be_slowest_stays_behind() -> None:
    many = [Candidate.of("flat", {"threads": n}) for n in range(MOST_ORDERED + 40)]
    predicted = {one: 100.0 + n for n, one in enumerate(many)}
    measured = {many[0]: 100.0, many[1]: 300.0}
    order = corrected(many[2:], predicted, measured)
    assert order[-38:] == many[-38:]


@pytest.mark.parametrize("none", [0.0, math.inf, math.nan])
def test_times_that_are_none_tell_nothing(none: float) -> None:
    measured = {one: us * (1.0 if is_bulk(one) else 0.7) for one, us in [*PREDICTED.items()][::4]}
    left = [one for one in ALL if one not in measured][1:]
    strange, unpredicted = ALL[0], ALL[1]
    found = corrected([*left, unpredicted], {**PREDICTED, unpredicted: none}, measured | {strange: none})
    without = {one: us for one, us in measured.items() if one is not strange}
    assert found == [unpredicted, *corrected(left, PREDICTED, without)]
