"""What every `TrialLog` promises, held against the file and the database alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import StatementError

from compiler.errors import Violation
from fusetune.wire.artifact import Resources
from search.tuning.candidates.candidate import Candidate
from search.tuning.journal import Journal, JournalKey, TrialLog
from search.tuning.trial import Trial, TrialState
from service.db import tunings
from service.jobs.executor import TuningLost
from service.jobs.trial_log import DbTrialLog
from tests.service.jobs.sites import Site

KEY = JournalKey("f", "b", "card", "policy", "generator")
CANDIDATE = Candidate.of("flat", {"vector": 8, "load": "tma", "persistent": True, "scale": 0.5})
FULL = Trial(
    number=3,
    candidate=CANDIDATE,
    state=TrialState.MEASURED,
    reason="none",
    violations=(Violation("rule", "T1", 512, 256, "Split it.", "too wide"),),
    predicted_us=10.5,
    median_us=11.25,
    p10_us=11.0,
    p90_us=12.0,
    samples_us=(11.0, 11.25, 12.0),
    resources=Resources(registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=128),
    code_hash="abc",
    launch_hash="def",
    duplicate_of=1,
    seconds={"compile": 0.5, "measure": 0.25},
)
EMPTY = Trial(1, Candidate.of("flat", {}), TrialState.CANCELLED)

Open = Callable[[], TrialLog]
"""A log of the same tuning as it is found now: what another process would see."""


@pytest.fixture(params=["journal", "database"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "database":
        site: Site = request.getfixturevalue("site")
        tuning_id = site.post(hand_over=False)
        with site.db.write() as session:
            tunings.start(session, tuning_id, "w0", "run")
        yield lambda: DbTrialLog(site.db, tuning_id, "run")
        return
    with ExitStack() as opened:

        def reopen() -> Journal:
            opened.pop_all().close()
            return opened.enter_context(Journal.open(tmp_path / "journal.jsonl", KEY))

        yield reopen


class TestTrialLog:
    def test_a_new_log_has_no_trials(self, open_log: Open) -> None:
        assert open_log().trials == ()

    @pytest.mark.parametrize("trial", [pytest.param(FULL, id="every-field"), pytest.param(EMPTY, id="none")])
    def test_a_trial_is_found_again_unchanged(self, open_log: Open, trial: Trial) -> None:
        log = open_log()
        log.record(trial)
        assert log.trials == (trial,)
        assert open_log().trials == (trial,)

    def test_trials_are_in_order_of_number(self, open_log: Open) -> None:
        log = open_log()
        for number in (2, 0, 1):
            log.record(replace(EMPTY, number=number))
        assert [trial.number for trial in log.trials] == [0, 1, 2]
        assert [trial.number for trial in open_log().trials] == [0, 1, 2]

    def test_a_trial_written_again_replaces_the_earlier(self, open_log: Open) -> None:
        log = open_log()
        log.record(FULL)
        wrong = replace(FULL, state=TrialState.WRONG_RESULT, reason="ties", median_us=None, p10_us=None, p90_us=None)
        log.record(wrong)
        assert log.trials == (wrong,)
        assert open_log().trials[0].state is TrialState.WRONG_RESULT
        assert open_log().trials[0].median_us is None


@pytest.fixture
def begun(site: Site) -> str:
    """A tuning in the hand of "run", whose worker is the third in a row to try it."""
    tuning_id = site.post(hand_over=False)
    for run in ("dead", "dead too", "run"):
        with site.db.write() as session:
            tunings.start(session, tuning_id, "w0", run)
    return tuning_id


def test_a_trial_that_the_database_refuses_is_not_in_the_log(site: Site, begun: str) -> None:
    log = DbTrialLog(site.db, begun, "run")
    with pytest.raises(StatementError):
        log.record(replace(EMPTY, seconds={"compile": object()}))  # type: ignore[dict-item]  # what no column takes
    assert log.trials == ()
    assert site.tuning(begun).deaths == 2


def test_a_trial_shows_that_the_worker_does_not_just_die_of_it(site: Site, begun: str) -> None:
    DbTrialLog(site.db, begun, "run").record(EMPTY)
    assert site.tuning(begun).deaths == 0


@pytest.mark.parametrize("how", ["another-took-it", "it-was-ended", "it-was-let-go"])
def test_a_run_that_has_lost_the_tuning_keeps_nothing(site: Site, begun: str, how: str) -> None:
    log = DbTrialLog(site.db, begun, "run")
    with site.db.write() as session:
        match how:
            case "another-took-it":
                tunings.start(session, begun, "w1", "another")
            case "it-was-ended":
                tunings.finish(session, begun, "failed")
            case "it-was-let-go":
                tunings.let_go(session, begun, "run")
    with pytest.raises(TuningLost):
        log.record(EMPTY)
    assert log.trials == ()
    assert site.trials(begun) == []
