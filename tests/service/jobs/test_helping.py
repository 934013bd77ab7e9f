"""Several workers on one tuning: real processes, queue, tables and compilers, and fake GPUs."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest
from sqlalchemy import select

from compiler.errors import Violation
from search.measure.device import Effort, MeasureResult
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.failing import Failure
from search.tuning.trial import TrialState
from service.db import errands
from service.db.models import ErrandRow, HelperRow, TuningRow
from service.jobs.errand_forms import (
    build_answer,
    build_errand,
    measure_answer,
    measure_errand,
    read_build_answer,
    read_build_errand,
    read_measure_answer,
    read_measure_errand,
)
from tests.service.jobs.benches import timing, winner
from tests.service.jobs.sites import FAKE_CARD, Site, until


def helpers_of(site: Site, tuning_id: str) -> dict[str, HelperRow]:
    with site.db.read() as session:
        return {row.worker_id: row for row in errands.helpers(session, [tuning_id])[tuning_id]}


def test_one_tuning_uses_the_workers_that_are_idle_and_outlives_one(site: Site) -> None:
    """Two fake GPUs and a host without one; the second GPU's worker is killed in the middle."""
    site.worker("w1")
    site.worker("w2", device="none", card="H200")
    for worker in ("w1", "w2"):
        site.come_up(worker)
    # The first worker compiles slowly, so that the others get their share of a short search.
    site.worker("w0", prelude="import time, search.tuning.tune as t\nt._AHEAD = 1")
    site.come_up("w0")
    tuning_id = site.post(trials_limit=None, budget_s=100.0, hand_over=False)
    posted = site.tuning(tuning_id)
    site.jobs.enqueue(tuning_id, posted.queue, posted.priority)
    leader = until(lambda: site.tuning(tuning_id).worker_id, "a worker to take the tuning")
    other = {"w0": "w1", "w1": "w0"}[leader]

    def has_helped() -> bool:
        found = helpers_of(site, tuning_id)
        return set(found) == {other, "w2"} and found[other].measured >= 3 and found["w2"].built >= 1

    until(has_helped, lambda: f"both to help; found {helpers_of(site, tuning_id)}; said {site.workers[0].said}")
    killed = site.workers[("w1", "w2", "w0").index(other)]
    assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
    with site.db.write() as session:
        session.get_one(TuningRow, tuning_id).enough = {
            "within_floor": None,
            "improvement": 0.5,
        }  # its search may end now
    ended = site.ended(tuning_id)
    assert (ended.state, ended.ended, ended.error) == ("done", "improvement", None)
    assert ended.kernel_id is not None
    states = Counter(trial.state for trial in site.trials(tuning_id))
    assert set(states) <= {TrialState.MEASURED, TrialState.DUPLICATE, TrialState.CANCELLED, TrialState.CRASHED}
    lost = [trial.reason for trial in site.trials(tuning_id) if trial.state is TrialState.CRASHED]
    assert len(lost) <= 1, "what it had in hand"
    assert all(f"the GPU of worker {other} was lost" in reason for reason in lost)
    lines = [json.loads(line) for line in site.fake_log.read_text().splitlines()]
    screened = Counter(line["code_hash"] for line in lines if line["effort"] == Effort.SCREEN)
    assert all(count == 1 for count in screened.values()), "each kernel on one GPU"
    with site.db.read() as session:
        assert session.scalars(select(ErrandRow)).all() == []


@pytest.mark.long
def test_a_helper_gives_way_to_a_tuning_of_its_own(site: Site) -> None:
    site.worker("w0")
    site.worker("w1")
    for worker in ("w0", "w1"):
        site.come_up(worker)
    first = site.post(trials_limit=None, budget_s=60.0)
    until(lambda: any(row.measured for row in helpers_of(site, first).values()), "the other worker to help")
    second = site.post({**site_fusion(), "ops": [{"op": "exp", "in": ["x"], "out": "y"}]}, trials_limit=3)
    assert site.ended(second).state == "done"
    assert site.tuning(first).state == "running"
    (row,) = helpers_of(site, first).values()
    assert row.left_at is not None
    assert row.why == "it has a tuning of its own, or stops"
    assert not any(trial.state is TrialState.CRASHED for trial in site.trials(first))


def site_fusion() -> dict[str, object]:
    return {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": ["M", 256], "dtype": "f32"}],
        "outputs": [{"name": "y"}],
    }


def test_what_they_say_to_each_other_comes_back_as_it_was() -> None:
    won = winner(3.0)
    asked = read_measure_errand(measure_errand(won.artifact, Effort.LEADER))
    assert (asked.artifact, asked.effort) == (won.artifact, Effort.LEADER)
    result = MeasureResult(TrialState.MEASURED, "", won.artifact.verification, timing(2.0), {"verify": 0.5})
    assert read_measure_answer(measure_answer(result)) == result
    candidate = Candidate.of("flat", {"threads": 128, "is_wide": True, "path": "bulk"})
    assert read_build_errand(build_errand(candidate)) == candidate
    built = BuiltElsewhere(won.artifact, 1.5, {"dram": 1.0}, {"compile": 0.25})
    assert read_build_answer(build_answer(built)) == built
    failure = Failure(TrialState.ILLEGAL, "no", (Violation("rule", "T1", 2, 1, "Halve it."),))
    assert read_build_answer(build_answer(failure)) == failure


@pytest.mark.parametrize("content", [b"", b"{}", measure_answer(MeasureResult(TrialState.CRASHED, "x"))])
def test_anything_else_is_told_apart(content: bytes) -> None:
    for read in (read_measure_errand, read_build_errand, read_build_answer):
        with pytest.raises(ValueError, match=r"."):
            read(content)


def test_the_card_of_a_tuning_says_who_may_help(site: Site) -> None:
    site.post(card=FAKE_CARD, hand_over=False)
    with site.db.read() as session:
        assert errands.idle_workers(session, "some card", "w0", 60.0) == []
