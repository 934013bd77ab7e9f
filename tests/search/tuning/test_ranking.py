"""Which candidates are ranked: each structure once, its neighbours, and the best with other hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

import numpy as np
import pytest

from compiler.arch import card_or_default
from search.cost.predicting import predictor
from search.space.constraints import Constraint
from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Foresee, foreseen_here
from search.tuning.candidates.field import Field
from search.tuning.candidates.foretold import SLOW, Foretelling
from search.tuning.candidates.hints import SELDOM_LOSE, neighbours, other_hints, settled
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.ranking import Ranker
from tests.search.launches.made import softmax

CARD = card_or_default(None)
SPACE = Space(
    "made up",
    (
        Knob("threads", (32, 64, 128)),
        Knob("load", ("vector", "bulk")),
        Knob("cache_load", ("streaming", "default")),
        Knob("1.math", ("exact", "approx", "coarse")),
    ),
    (
        Constraint("bulk", ("load", "cache_load"), lambda load, c: (load != "bulk") | (c == "streaming"), "no hint"),
        Constraint("wide", ("threads", "load"), lambda threads, load: (load != "bulk") | (threads > 32), "too narrow"),
    ),
)


def point(threads: int, load: str, cache: str, math: str) -> dict[str, KnobValue]:
    return {"threads": threads, "load": load, "cache_load": cache, "1.math": math}


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        pytest.param(point(64, "vector", "streaming", "exact"), point(64, "vector", "default", "approx"), id="all"),
        pytest.param(point(64, "vector", "default", "approx"), point(64, "vector", "default", "approx"), id="none"),
        pytest.param(point(64, "bulk", "streaming", "coarse"), point(64, "bulk", "streaming", "approx"), id="legal"),
    ],
)
def test_hints_settle_as_far_as_that_is_legal(drawn: dict[str, KnobValue], expected: dict[str, KnobValue]) -> None:
    assert settled(SPACE, drawn) == expected


def test_neighbours_are_legal_and_one_step_away() -> None:
    found = list(neighbours(SPACE, point(64, "vector", "streaming", "exact")))
    assert found == [
        point(32, "vector", "streaming", "exact"),
        point(128, "vector", "streaming", "exact"),
        point(64, "bulk", "streaming", "exact"),
    ]
    assert point(64, "bulk", "default", "exact") not in neighbours(SPACE, point(64, "vector", "default", "exact"))


def test_other_hints_change_one_at_a_time_or_two_that_need_each_other() -> None:
    found = list(other_hints(SPACE, point(64, "bulk", "streaming", "approx")))
    assert found == [point(64, "bulk", "streaming", math) for math in ("exact", "coarse")]
    hints = (Knob("cache_load", ("default", "evict_first")), Knob("cache_store", ("default", "streaming")))
    past = Constraint("past", ("cache_load", "cache_store"), lambda load, s: (load == "default") | (s != "default"), "")
    space = Space("of two hints", hints, (past,))
    assert list(other_hints(space, {"cache_load": "default", "cache_store": "default"})) == [
        {"cache_load": "evict_first", "cache_store": "streaming"},
        {"cache_load": "default", "cache_store": "streaming"},
    ]


def here(plan: Plan) -> Foresee:
    return foreseen_here(plan.subject(CARD), predictor(CARD))


def structure(candidate: Candidate) -> tuple[tuple[str, KnobValue], ...]:
    return tuple(one for one in candidate.point if one[0] not in SELDOM_LOSE)


def test_structures_come_first_and_hints_of_the_best_are_added() -> None:
    plan = Plan.of(softmax(), CARD)
    ranked = plan.ranking(here(plan), 24, seed=0, seconds=1e9)
    assert ranked == plan.ranking(here(plan), 24, seed=0, seconds=1e9)
    candidates = [one.candidate for one in ranked]
    assert len(set(candidates)) == len(candidates)
    by_structure: dict[object, list[int]] = {}
    for number, candidate in enumerate(candidates):
        by_structure.setdefault((candidate.scheduler, structure(candidate)), []).append(number)
    hinted = [number for numbers in by_structure.values() for number in numbers[1:]]
    assert len(by_structure) >= 24
    assert hinted, "no hints were tried"
    times = [one.predicted_us for one in ranked]
    assert times == sorted(times)


def test_kinds_have_turns_and_the_fast_ones_more() -> None:
    threads, load = Knob("threads", tuple(range(32))), Knob("load", ("vector", "bulk", "tma"))
    space = Space("made up", (threads, load, Knob("cache_load", ("default", "streaming"))), ())
    (part,) = Field.of("made up", space, 48, seed=0).parts
    times = {"vector": 100.0, "bulk": 103.0, "tma": 200.0}
    counts = dict.fromkeys(times, 0)
    drawn = list[int]()
    for number in islice(part.turns(), 48):
        drawn.append(number)
        kind = str(space.at(tuple(part.rows[number].tolist()))["load"])
        counts[kind] += 1
        part.learn(number, times[kind])
    assert len(set(drawn)) == 48
    assert counts["vector"] >= counts["bulk"] > 10
    assert counts["tma"] == 1


def test_a_field_has_each_structure_once_with_hints_that_seldom_lose() -> None:
    space = Space("made up", SPACE.knobs[:3], SPACE.constraints)
    (part,) = Field.of("made up", space, 32, seed=0).parts
    points = [space.at(tuple(row.tolist())) for row in part.rows]
    structures = [(32, "vector"), (64, "bulk"), (64, "vector"), (128, "bulk"), (128, "vector")]
    assert sorted((p["threads"], p["load"]) for p in points) == structures
    assert all(settled(space, p) == p for p in points)


def test_foretold_times_follow_the_knobs() -> None:
    """Of times that knobs multiply, those of a few points foretell the others within a few percent, and say how far
    they may be off."""
    knobs = (Knob("threads", tuple(range(12))), Knob("rows", tuple(range(8))), Knob("load", ("vector", "bulk")))
    space = Space("made up", knobs, ())
    rows = space.draw(space.points, seed=0)
    logs = 0.02 * (rows[:, 0] - 7.0) ** 2 + 0.05 * np.abs(rows[:, 1] - 3.0) + 0.1 * rows[:, 2]
    telling = Foretelling(knobs)
    telling.learn(rows[:64], np.exp(logs[:64]).tolist())
    found, errors = telling.foretell(telling.placed(rows[64:])), telling.errors(telling.placed(rows[64:]))
    fast = logs[64:] < logs.min() + 0.2
    assert np.abs(found - logs[64:])[fast].max() < 0.15
    assert np.corrcoef(found, np.minimum(logs[64:], logs[:64].min() + SLOW))[0, 1] > 0.9
    assert errors.min() >= 0.0
    known, nothing = telling.foretell(telling.placed(rows[:64])), telling.errors(telling.placed(rows[:64]))
    assert nothing.max() < 0.05
    assert np.abs(known - np.minimum(logs[:64], logs[:64].min() + SLOW)).max() < 0.02


def test_few_candidates_are_made_and_the_fastest_of_all_is_among_them() -> None:
    """Points of a space whose times are known: a quarter of them at most is asked for, and the best is found."""
    knobs = (Knob("threads", tuple(range(16))), Knob("rows", tuple(range(12))), Knob("load", ("vector", "bulk", "tma")))
    space = Space("made up", knobs, ())

    def us(candidate: Candidate) -> float:
        p = candidate.knobs
        slow = {"vector": 1.0, "bulk": 1.05, "tma": 1.4}[str(p["load"])]
        return 100.0 * slow * (1 + 0.01 * (int(p["threads"]) - 11) ** 2) * (1 + 0.03 * abs(int(p["rows"]) - 2))

    asked = list[Candidate]()

    def foresee(candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, list[float] | None]]:
        for one in candidates:
            asked.append(one)
            yield one, [us(one)]

    ranked = Ranker({"made up": space}, foresee).rank(400, seed=0, seconds=1e9)
    assert len(asked) == len(set(asked)) <= 100
    assert min(map(us, asked)) == 100.0
    assert ranked[0].predicted_us == 100.0
    assert len(ranked) > 400
    assert all(one.predicted_us == us(one.candidate) for one in ranked if one.candidate in set(asked))


def test_a_ranking_ends_in_time_but_not_without_a_candidate() -> None:
    plan = Plan.of(softmax(), CARD)
    ticks = count()
    ranked = plan.ranking(here(plan), 24, seed=0, seconds=5, clock=lambda: float(next(ticks)))
    assert 1 <= len(ranked) <= 6
    ticks = count(step=1000)
    assert len(plan.ranking(here(plan), 24, seed=0, seconds=5, clock=lambda: float(next(ticks)))) >= 1


def test_a_ranking_that_is_stopped_predicts_no_more() -> None:
    plan = Plan.of(softmax(), CARD)
    asked = count()
    ranked = plan.ranking(here(plan), 24, seed=0, seconds=1e9, is_stopped=lambda: next(asked) >= 4)
    assert len(ranked) == 4
    assert plan.ranking(here(plan), 24, seed=0, seconds=1e9, is_stopped=lambda: True) == []
