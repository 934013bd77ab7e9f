"""Schedulers of several launches: which fusions have them, their names, spaces and traces."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named, card_or_default
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from compiler.schedule.trace import ProgramTrace
from search.cost.model import predict
from search.cost.predicting import features_of, predictor
from search.space.counted import MOST_COUNTED
from search.space.schedulers import refusals, schedulers_for
from search.space.schedulers.launches import MOST_CHARS, Launches, Scored, rank_by_rank
from search.tuning.candidates.draft import foreseen_here
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.ranking import Ranker
from tests.cards import card_of
from tests.search.launches.made import (
    BF16,
    F32,
    S,
    Written,
    column_max_of_shares,
    fusion_of,
    row_and_column_sums,
    softmax,
)

HOPPER = arch_named("sm_90a")
CARD = card_or_default(None)


def pointwise() -> Fusion:
    return fusion_of([("i0", S, F32)], [("exp", ["i0"], "v0", S, F32)], "v0")


def long_rows(rows: int) -> Fusion:
    return fusion_of([("i0", (rows, 1 << 20), BF16)], [("sum", ["i0"], "v0", (rows,), BF16, (1,))], "v0")


def sums_of_rows_and_of_all() -> Fusion:
    ops: list[Written] = [("sum", ["i0"], "v0", S[:1], F32, (1,)), ("sum", ["i0"], "v1", (), F32, (0, 1))]
    return fusion_of([("i0", S, F32)], ops, "v0", "v1")


def maximum_of_all() -> Fusion:
    shape = (5, 7, 11, 1001, 131)
    return fusion_of([("i0", shape, BF16)], [("amax", ["i0"], "v0", (), BF16, (0, 1, 2, 3, 4))], "v0")


def sums_of_short_runs() -> Fusion:
    shape, small = (264, 512, 32, 10), (264, 32)
    return fusion_of([("i0", shape, BF16)], [("sum", ["i0"], "v0", small, BF16, (1, 3))], "v0")


def stored_in_another_order() -> Fusion:
    """The first output's shape has no place for the third: it is the second's that has one for all."""
    shape, turned = (96, 31, 2), (2, 31, 96)
    ops: list[Written] = [
        ("neg", ["i0"], "v0", shape, F32),
        ("reshape", ["i0"], "v1", turned, F32),
        ("exp", ["v1"], "v2", turned, F32),
        ("slice", ["i0"], "v3", (96, 31, 1), F32, (2,), 0),
        ("cat", ["v3", "v3"], "v4", shape, F32, (2,)),
    ]
    return fusion_of([("i0", shape, F32)], ops, "v2", "v0", "v4")


@pytest.mark.parametrize(
    ("fusion", "names"),
    [
        pytest.param(pointwise(), [], id="one-kernel"),
        pytest.param(softmax(), [], id="one-kernel-with-reductions"),
        pytest.param(row_and_column_sums(), ["launches-row+column"], id="cut"),
        pytest.param(column_max_of_shares(), ["launches-row+column"], id="chain"),
        pytest.param(sums_of_rows_and_of_all(), ["launches-row*2", "launches-nested-row*2"], id="nested"),
        pytest.param(sums_of_short_runs(), ["launches-runs-column+row"], id="short-runs"),
        pytest.param(stored_in_another_order(), ["launches-flat"], id="outputs-in-another-order"),
        pytest.param(long_rows(264), [], id="rows-enough"),
        pytest.param(long_rows(4), [f"launches-split{k}-row*2" for k in (64, 128, 256)], id="split"),
        pytest.param(
            maximum_of_all(),
            [
                *(f"launches-split{k}-row*2" for k in (143, 1001)),
                *(f"launches-merged-split{k}-row*2" for k in (245, 539, 1001)),
            ],
            id="split-of-several-dimensions",
        ),
    ],
)
def test_fusions_have_launches_where_they_need_or_may_gain_by_them(fusion: Fusion, names: list[str]) -> None:
    found = schedulers_for(fusion, card_of(HOPPER))
    assert [s.name for s in found if isinstance(s, Launches)] == names
    single = [s.name for s in found if not isinstance(s, Launches)]
    assert bool(single) == {"launches-row+column", "launches-row*2", "launches-flat"}.isdisjoint(names)
    assert "launches" in refusals(fusion, card_of(HOPPER)) or names


def test_the_space_is_the_product_of_the_launches_spaces() -> None:
    fusion = column_max_of_shares()
    (scheduler,) = of_launches(fusion)
    space = scheduler.space(fusion, HOPPER)
    parts = [s.space(p.fusion, HOPPER) for s, p in zip(scheduler.each, scheduler.cut.parts, strict=True)]
    assert space.points == parts[0].points * parts[1].points
    assert space.legal == parts[0].legal * parts[1].legal
    assert {knob.name.split(".")[0] for knob in space.knobs} == {"math", "0", "1"}
    assert {c.rule for c in space.constraints} == {c.rule for part in parts for c in part.constraints}


def column_max_of_exponentials() -> Fusion:
    """exp(x), the columns' greatest of its shares of the row: a value that both launches work out."""
    ops: list[Written] = [
        ("exp", ["i0"], "v0", S, F32),
        ("sum", ["v0"], "v1", (S[0], 1), F32, (1,)),
        ("broadcast_to", ["v1"], "v2", S, F32, (0, 1)),
        ("div", ["v0", "v2"], "v3", S, F32),
        ("amax", ["v3"], "v4", (1, S[1]), F32, (0,)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v4")


def test_how_exact_functions_are_is_one_choice_for_all_launches() -> None:
    fusion = column_max_of_exponentials()
    scheduler = of_launches(fusion)[0]
    space = scheduler.space(fusion, HOPPER)
    assert [knob.values for knob in space.knobs if knob.name.endswith("math")] == [("exact", "approx")]
    (point,) = space.sample(1, seed=3)
    for grade in ("exact", "approx"):
        trace = scheduler.trace(fusion, {**point, "math": grade})
        assert isinstance(trace, ProgramTrace)
        graded = {g for one in trace.launches for g in one.trace.fusion.grades.values()}
        assert graded == ({"approx"} if grade == "approx" else set())


def test_a_point_is_a_point_of_each_launch() -> None:
    """The trace of a program is made of the traces that the launches' schedulers give."""
    fusion = column_max_of_shares()
    (scheduler,) = of_launches(fusion)
    (point,) = scheduler.space(fusion, HOPPER).sample(1, seed=5)
    trace = scheduler.trace(fusion, point)
    assert isinstance(trace, ProgramTrace)
    for number, (one, single, part) in enumerate(zip(trace.launches, scheduler.each, scheduler.cut.parts, strict=True)):
        own = {k.removeprefix(f"{number}."): v for k, v in point.items() if k.startswith(f"{number}.")}
        own["math"] = point["math"]
        assert one.trace == single.trace(part.fusion, own)
    assert [(one.reads, one.writes) for one in trace.launches] == [(("i0",), ("s0",)), (("i0", "s0"), ("v3",))]


def test_a_scheduler_of_launches_is_for_the_fusion_that_was_cut() -> None:
    (scheduler,) = of_launches(column_max_of_shares())
    assert scheduler.refusal(column_max_of_shares(), HOPPER) is None
    assert scheduler.refusal(pointwise(), HOPPER) is not None


def test_names_fit_the_tables_and_tell_schedulers_apart() -> None:
    """A chain of reductions over one dimension and the other, in turns: a dozen launches."""
    ops: list[Written] = []
    x = "i0"
    for n in range(0, 36, 3):
        d = n // 3 % 2
        shape = (S[0], 1) if d else (1, S[1])
        ops += [
            ("sum", [x], f"v{n}", shape, F32, (d,)),
            ("broadcast_to", [f"v{n}"], f"v{n + 1}", S, F32, (0, 1)),
            ("div", [x, f"v{n + 1}"], f"v{n + 2}", S, F32),
        ]
        x = f"v{n + 2}"
    found = of_launches(fusion_of([("i0", S, F32)], ops, x))
    names = [one.name for one in found]
    assert found
    assert len(found[0].each) > 8
    assert all(len(name) <= MOST_CHARS for name in names)
    assert len(set(names)) == len(names)


def test_the_predicted_time_is_the_sum_over_the_launches() -> None:
    fusion = column_max_of_shares()
    plan = Plan.of(fusion, CARD)
    (candidate,) = plan.sample(1, seed=1)
    made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), HOPPER)
    each = [predict(CARD, features_of(launch)).total_us for launch in made.launches]
    assert sum(predictor(CARD)(launch).total_us for launch in made.launches) == pytest.approx(sum(each))
    assert len(each) == 2


def test_a_ranking_joins_the_best_of_each_launch() -> None:
    """Its first candidate is as fast as any pair of the launches drawn, and times go up."""
    fusion = column_max_of_shares()
    plan = Plan.of(fusion, CARD)
    ranker = Ranker(plan.spaces, foreseen_here(plan.subject(CARD), predictor(CARD)))
    ranked = ranker.rank(12, seed=0, seconds=60.0)
    times = [one.predicted_us for one in ranked]
    assert times == sorted(times)
    best = generate(plan.schedulers[ranked[0].candidate.scheduler].trace(fusion, ranked[0].candidate.knobs), HOPPER)
    assert sum(predictor(CARD)(launch).total_us for launch in best.launches) == pytest.approx(ranked[0].predicted_us)
    (drawn,) = (one.exact for one in ranker.fields.values())
    assert len(drawn) == 12
    assert len({one.candidate for one in ranked}) == len(ranked)
    assert ranked[0].predicted_us <= sum(min(us) for us in zip(*(each for _, each in drawn), strict=True))


@pytest.mark.parametrize(
    ("scored", "joined"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            [({"0.a": 1, "1.a": 10}, (3.0, 1.0)), ({"0.a": 2, "1.a": 20}, (2.0, 5.0))],
            [({"0.a": 2, "1.a": 10}, 3.0), ({"0.a": 1, "1.a": 20}, 8.0)],
            id="two-launches",
        ),
        pytest.param(
            [({"0.a": 1, "1.a": 10}, (3.0, 1.0)), ({"0.a": 1, "1.a": 20}, (3.0, 5.0))],
            [({"0.a": 1, "1.a": 10}, 4.0), ({"0.a": 1, "1.a": 20}, 8.0)],
            id="each-once",
        ),
        pytest.param(
            [
                ({"math": m, "0.a": a, "1.a": b}, us)
                for m, a, b, us in (("x", 1, 2, (1.0, 2.0)), ("y", 3, 4, (1.0, 1.0)))
            ],
            [({"math": "x", "0.a": 1, "1.a": 2}, 3.0), ({"math": "y", "0.a": 3, "1.a": 4}, 2.0)],
            id="what-is-shared-stays-together",
        ),
        pytest.param([({"0.a": 1, "10.a": 7, "1.a": 5}, (1.0, 2.0))], [({"0.a": 1, "1.a": 5}, 3.0)], id="by-number"),
    ],
)
def test_points_are_joined_rank_by_rank(scored: list[Scored], joined: list[tuple[dict[str, int], float]]) -> None:
    assert rank_by_rank(scored) == joined


def test_counts_are_what_a_database_holds() -> None:
    plan = Plan.of(column_max_of_shares(), CARD)
    assert 0 < plan.legal <= plan.points <= MOST_COUNTED


def of_launches(fusion: Fusion) -> tuple[Launches, ...]:
    return tuple(s for s in schedulers_for(fusion, card_of(HOPPER)) if isinstance(s, Launches))
