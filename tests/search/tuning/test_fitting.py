"""Rankers fitted to times that a formula makes: what holds in all fusions is learnt, what is one fusion's is not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from search.tuning.fitting import (
    LEAST_FUSIONS,
    LEAST_TRIALS,
    TooLittle,
    fit,
    held_out_us,
    rank_correlation,
    ranked_us,
    ranks,
    usable,
)
from search.tuning.timed import TimedFusion
from tests.search.tuning.fitted import common, invented, several


def correlations(told: Sequence[float], one: TimedFusion) -> float:
    return rank_correlation(told, [trial.measured_us for trial in one.trials])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([3.0, 1.0, 2.0], [2, 0, 1], id="distinct"),
        pytest.param([5.0, 5.0, 1.0], [1.5, 1.5, 0], id="equal-values-share-their-ranks"),
    ],
)
def test_ranks(values: list[float], expected: list[float]) -> None:
    assert ranks(values).tolist() == expected


@pytest.mark.parametrize(
    ("predicted", "measured", "expected"),
    [
        pytest.param([1.0, 2.0, 3.0], [10.0, 200.0, 201.0], 1.0, id="the-same-order"),
        pytest.param([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1.0, id="turned-round"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 3.0, 5.0], 0.8, id="two-swaps-by-hand"),
        pytest.param([1.0, 1.0, 1.0], [3.0, 2.0, 1.0], 0.0, id="a-model-that-tells-nothing-apart"),
    ],
)
def test_rank_correlation(predicted: list[float], measured: list[float], expected: float) -> None:
    assert rank_correlation(predicted, measured) == pytest.approx(expected)


def test_what_holds_in_all_fusions_is_learnt() -> None:
    ranker = fit(several(), "H200")
    assert (ranker.card, ranker.fusions, ranker.trials) == ("H200", LEAST_FUSIONS + 1, 60 * (LEAST_FUSIONS + 1))
    assert ranker.held_out.model < 0.8 < 0.99 < ranker.held_out.ranker
    other = invented("another", common, seed=99, apart=-2.0)
    assert correlations(list(ranked_us(ranker, other.trials)), other) > 0.99
    assert ranker.why_not("H200") is None


def test_each_fusion_is_told_by_the_others_alone() -> None:
    fusions = several()
    told = held_out_us(fusions)
    assert min(correlations(list(us), one) for us, one in zip(told, fusions, strict=True)) > 0.98
    odd = invented("f0", lambda word, share: -common(word, share), seed=0)
    assert np.array_equal(held_out_us([odd, *fusions[1:]])[0], told[0]), "its own times tell nothing of itself"


def test_what_is_another_thing_in_each_fusion_is_not_learnt() -> None:
    """Errors by chance: the ranker is no better than the model for what it was not fitted to, and is not used."""
    chance = random.Random(0)
    ranker = fit(several(lambda word, share: chance.gauss(0.0, 0.2)), "H200")
    assert ranker.held_out.ranker < ranker.held_out.model + 0.03
    worse = replace(ranker, held_out=replace(ranker.held_out, ranker=ranker.held_out.model))
    assert "no better" in (worse.why_not("H200") or "")


def test_a_fusion_counts_once_however_many_of_its_trials_there_are() -> None:
    """Of two errors that contradict each other that of the many trials does not win."""
    few = [invented(f"few{n}", common, seed=n) for n in range(3)]
    many = invented("many", lambda word, share: -common(word, share), seed=7, count=1200)
    assert fit([*few, many], "H200").learnt["load=tma"].weight > 0.0


@pytest.mark.parametrize(
    ("fusions", "words"),
    [
        pytest.param(several()[: LEAST_FUSIONS - 1], "2 fusions", id="one-fusion-less"),
        pytest.param(
            [*several()[: LEAST_FUSIONS - 1], invented("short", common, 9, LEAST_TRIALS - 1)],
            f"have {LEAST_TRIALS} trials",
            id="one-trial-less",
        ),
        pytest.param([replace(one, card="H100 SXM") for one in several()], "0 fusions", id="of-another-card"),
        pytest.param([replace(one, generator="fusetune 0.1") for one in several()], "0 fusions", id="older-kernels"),
        pytest.param([replace(one, fusion="same") for one in several()], "1 fusions", id="one-fusion-in-several-files"),
    ],
)
def test_of_too_little_nothing_is_learnt(fusions: list[TimedFusion], words: str) -> None:
    with pytest.raises(TooLittle, match=words):
        fit(fusions, "H200")


def test_just_enough_is_enough() -> None:
    fusions = [invented(f"f{n}", common, n, LEAST_TRIALS) for n in range(LEAST_FUSIONS)]
    assert len(usable(fusions, "H200")) == LEAST_FUSIONS
    fit(fusions, "H200")
