"""What a worker learns from the trials in the database, and when."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.generator import GENERATOR
from search.cost.ranker import CardRanker
from search.cost.ranker_features import FEATURES
from search.measure.fake import FACTS
from search.tuning.attached import Attached, card_of
from search.tuning.candidates.plan import Plan
from search.tuning.timed import TimedFusion
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import SearchOutcome
from service.db import trials
from service.db.engine import Database
from service.jobs import learning
from service.jobs.learning import FOLDER, CardLearning
from service.jobs.tuning import TuningJobs
from tests.search.cost.test_ranker import RANKER
from tests.search.tuning.fitted import several
from tests.service.db.rows import CARD, CARD_ID, opened
from tests.service.jobs.benches import Bench
from tests.service.jobs.sites import Site


def keep(db: Database, fusions: Sequence[TimedFusion], generator: str = GENERATOR, more: str = "") -> None:
    """A tuning for each, ended, with its trials."""
    with db.write() as session:
        for one in fusions:
            row = opened(session, one.fusion + more, generator=f"{generator}, spaces x, verifier 2", state="done")
            for number, each in enumerate(one.trials):
                trial = Trial(
                    number,
                    each.candidate,
                    TrialState.MEASURED,
                    predicted_us=each.predicted_us,
                    predicted_terms=each.terms,
                    median_us=each.measured_us,
                )
                trials.record(session, row.id, trial.to_json())


@pytest.fixture
def found(site: Site, tmp_path: Path) -> CardLearning:
    return CardLearning(site.db, CARD, tmp_path)


def test_what_was_measured_is_learnt_and_kept(site: Site, found: CardLearning, tmp_path: Path) -> None:
    assert not found.learn()
    keep(site.db, several())
    assert found.learn()
    kept = CardRanker.read(tmp_path / FOLDER / f"{CARD_ID}.json")
    assert kept == found.ranker
    assert kept.why_not("H200") is None
    assert kept.trials == sum(len(one.trials) for one in several())
    assert CardLearning(site.db, CARD, tmp_path).ranker == found.ranker, "the next worker begins with it"


def test_it_is_learnt_anew_from_a_quarter_more(site: Site, found: CardLearning) -> None:
    keep(site.db, several())
    assert found.learn()
    assert not found.learn()
    keep(site.db, several()[:1], more=" at other sizes")
    assert found.learn(), "one more of four"
    assert found.ranker is not None
    assert found.ranker.fusions == len(several()) + 1


@pytest.mark.parametrize(
    ("fusions", "generator"),
    [
        pytest.param(several()[:2], GENERATOR, id="two-fusions"),
        pytest.param(several(), "fusetune 0", id="another-generator"),
        pytest.param(several(), f"{GENERATOR}1", id="a-generator-whose-name-begins-alike"),
    ],
)
def test_of_too_little_nothing_is_kept(
    site: Site, found: CardLearning, tmp_path: Path, fusions: Sequence[TimedFusion], generator: str
) -> None:
    keep(site.db, fusions, generator)
    assert not found.learn()
    assert found.ranker is None
    assert not (tmp_path / FOLDER).exists()


@pytest.mark.parametrize("text", ["{", '{"format": "fusetune.ranker/1"}'])
def test_a_damaged_file_is_learnt_anew(site: Site, found: CardLearning, tmp_path: Path, text: str) -> None:
    keep(site.db, several())
    assert found.learn()
    path = tmp_path / FOLDER / f"{CARD_ID}.json"
    path.write_text(text)
    next_worker = CardLearning(site.db, CARD, tmp_path)
    assert next_worker.ranker is None
    assert next_worker.learn()
    assert CardRanker.read(path) == next_worker.ranker == found.ranker


@pytest.mark.parametrize(
    "older", [{"generator": "fusetune 0"}, {"features": FEATURES - 1}], ids=["generator", "features"]
)
def test_what_an_older_version_left_is_not_what_is_counted_from(
    site: Site, found: CardLearning, tmp_path: Path, older: dict[str, Any]
) -> None:
    keep(site.db, several())
    assert found.learn()
    assert found.ranker is not None
    old = replace(found.ranker, trials=10**6, **older)
    old.write(tmp_path / FOLDER / f"{CARD_ID}.json")
    assert CardLearning(site.db, CARD, tmp_path).learn()


def test_a_tuning_is_ordered_by_it(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = CardLearning(bench.site.db, card_of(FACTS)[0], tmp_path)
    known.ranker = replace(RANKER, card=FACTS.name)
    rankers: list[CardRanker | None] = []

    def tune_on(gpu: Any, plan: Plan, *args: Any, **kwargs: Any) -> SearchOutcome:
        rankers.append(plan.subject(gpu.card).ranker)
        return SearchOutcome(None, (), "budget")

    monkeypatch.setattr("service.jobs.searching.tune_on", tune_on)
    gpu = Attached(bench.device, FACTS, card_of(FACTS)[0], ())
    for each in (known, None):
        jobs = TuningJobs(bench.site.db, gpu, "w0", threading.Event(), learning=each)
        jobs.run(bench.site.post(hand_over=False))
    assert rankers == [known.ranker, None]


def test_it_is_looked_now_and_then(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looked = [0.0], list[float]()
    one = CardLearning(site.db, CARD, tmp_path, clock=lambda: now[0])
    monkeypatch.setattr(one, "learn", lambda: looked.append(now[0]))
    for now[0] in (0.0, 1.0, learning.EVERY_S - 1.0, learning.EVERY_S):
        one.learn_if_due()
        if one._thread is not None:
            one._thread.join(60)
    assert looked == [0.0, learning.EVERY_S]
