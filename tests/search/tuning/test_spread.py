"""The order in which predicted candidates are tried: fast first, unlike ones sooner than their prediction says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.spread import TYPICAL_ERROR, Ranked, spread


def ranked(us: float, scheduler: str = "s", **knobs: int | str) -> Ranked:
    return Ranked(Candidate.of(scheduler, knobs), us)


ALIKE = [ranked(100 + n / 100, load="tma", threads=128, vector=n) for n in range(12)]


@pytest.mark.parametrize(
    ("other", "first"),
    [
        pytest.param(
            ranked(100 * (1 + TYPICAL_ERROR / 3), load="bulk", threads=64, vector=99), 1, id="within the error"
        ),
        pytest.param(ranked(100 * (1 + TYPICAL_ERROR), load="bulk", threads=64, vector=99), 3, id="at the error"),
        pytest.param(ranked(100 * (1 + 5 * TYPICAL_ERROR), load="bulk", threads=64, vector=99), 12, id="far slower"),
        pytest.param(ranked(100.5, "other", load="tma"), 1, id="another scheduler"),
    ],
)
def test_the_unlike_wait_less(other: Ranked, first: int) -> None:
    order = spread([*ALIKE, other])
    assert order[0] == ALIKE[0].candidate
    assert first <= order.index(other.candidate) <= first + 2


def test_what_differs_in_one_knob_of_many_waits_longer_than_what_differs_in_half() -> None:
    best = ranked(100, a=0, b=0, c=0, d=0)
    twin, half = ranked(101, a=0, b=0, c=0, d=1), ranked(101, a=1, b=1, c=0, d=0)
    assert spread([best, twin, half]) == [best.candidate, half.candidate, twin.candidate]


def test_a_knob_that_does_not_differ_makes_nobody_alike() -> None:
    plain = [ranked(100, a=0), ranked(101, a=1), ranked(103, a=0, b=1)]
    same = [Ranked(Candidate.of("s", {**one.candidate.knobs, "x": 1, "y": 2}), one.predicted_us) for one in plain]
    assert [plain.index(one) for one in _in_order(plain)] == [same.index(one) for one in _in_order(same)]


def _in_order(found: list[Ranked]) -> list[Ranked]:
    by_candidate = {one.candidate: one for one in found}
    return [by_candidate[candidate] for candidate in spread(found)]


pools = st.lists(
    st.builds(ranked, st.floats(1, 1e4), st.sampled_from("st"), a=st.integers(0, 3), b=st.integers(0, 3)),
    unique_by=lambda one: one.candidate,
)


@settings(derandomize=True, deadline=None)
@given(pools, st.integers(0, 20))
def test_every_candidate_has_its_turn_and_the_fastest_the_first(pool: list[Ranked], n: int) -> None:
    order = spread(pool)
    assert sorted(map(str, order)) == sorted(str(one.candidate) for one in pool)
    assert spread(pool, n) == order[:n]
    if pool:
        assert order[0] == min(pool, key=lambda one: one.predicted_us).candidate
