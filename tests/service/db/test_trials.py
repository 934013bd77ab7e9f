"""A trial is kept as it is, whatever became of it, and nothing of an earlier record stays."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError, StatementError

from compiler.errors import Violation
from fusetune.wire.artifact import Resources
from search.tuning.candidates.candidate import Candidate
from search.tuning.trial import Trial, TrialState
from service.db import trials
from service.db.engine import Database
from service.db.models import SampleRow, TrialRow
from tests.service.db.rows import opened

CANDIDATE = Candidate.of("flat", {"vector": 8, "load": "tma", "persistent": True, "scale": 0.5})
RESOURCES = Resources(registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=128)
MEASURED = Trial(
    number=3,
    candidate=CANDIDATE,
    state=TrialState.MEASURED,
    predicted_us=10.5,
    median_us=11.25,
    p10_us=11.0,
    p90_us=12.0,
    samples_us=(11.0, 11.25, 12.0),
    resources=RESOURCES,
    code_hash="c" * 64,
    launch_hash="d" * 64,
    seconds={"compile": 0.5, "measure": 0.25},
)
WRONG = Trial(
    number=3,
    candidate=CANDIDATE,
    state=TrialState.WRONG_RESULT,
    reason="element 7 is 1.0, expected 2.0",
    violations=(Violation("rule", "T1", 512, 256, "Split it.", "too wide"),),
)
CANCELLED = Trial(3, CANDIDATE, TrialState.CANCELLED)


@pytest.fixture
def tuning_id(database: Database) -> str:
    with database.write() as session:
        return opened(session).id


def kept(database: Database, tuning_id: str) -> list[Trial]:
    with database.read() as session:
        return [Trial.from_json(data) for data in trials.every(session, tuning_id)]


def record(database: Database, tuning_id: str, *new: Trial) -> None:
    with database.write() as session:
        for trial in new:
            trials.record(session, tuning_id, trial.to_json())


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations((MEASURED, WRONG, CANCELLED), 2)))
def test_a_new_record_replaces_all_of_the_old_one(
    database: Database, tuning_id: str, before: Trial, after: Trial
) -> None:
    record(database, tuning_id, before)
    record(database, tuning_id, after)
    assert kept(database, tuning_id) == [after]
    with database.read() as session:
        assert trials.samples(session, tuning_id, 3) == list(after.samples_us)
        assert session.query(SampleRow).count() == bool(after.samples_us)


def test_a_record_again_in_the_same_transaction(database: Database, tuning_id: str) -> None:
    record(database, tuning_id, MEASURED, WRONG, MEASURED)
    assert kept(database, tuning_id) == [MEASURED]


def test_a_record_says_when(database: Database, tuning_id: str) -> None:
    record(database, tuning_id, MEASURED)
    with database.read() as session:
        first = session.get_one(TrialRow, (tuning_id, 3)).recorded_at
    record(database, tuning_id, MEASURED)
    with database.read() as session:
        assert session.get_one(TrialRow, (tuning_id, 3)).recorded_at > first


# What `search.tuning.trial.Trial` may hold: text without the halves and NULs that no database keeps (see test_types).
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TIME = st.none() | st.floats(min_value=0, allow_infinity=False)
VALUE = st.integers(-(2**70), 2**70) | NUMBER | TEXT | st.booleans()
VIOLATION = st.builds(Violation, TEXT, TEXT, st.integers() | NUMBER | TEXT, st.integers() | NUMBER | TEXT, TEXT, TEXT)
TRIAL = st.builds(
    Trial,
    number=st.integers(0, 2**31 - 1),
    candidate=st.builds(Candidate.of, st.just("inner_reduction"), st.dictionaries(TEXT, VALUE, max_size=4)),
    state=st.sampled_from(TrialState),
    reason=TEXT,
    violations=st.lists(VIOLATION, max_size=3).map(tuple),
    predicted_us=TIME,
    median_us=TIME,
    p10_us=TIME,
    p90_us=TIME,
    samples_us=st.lists(NUMBER, max_size=5).map(tuple),
    resources=st.none() | st.just(RESOURCES),
    code_hash=st.none() | st.just("c" * 64),
    launch_hash=st.none() | st.just("d" * 64),
    duplicate_of=st.none() | st.integers(0, 2**31 - 1),
    seconds=st.dictionaries(TEXT, NUMBER, max_size=3),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=TRIAL, second=TRIAL)
def test_a_trial_reads_back_as_it_was_written(database: Database, first: Trial, second: Trial) -> None:
    with database.write() as session:
        tuning_id = opened(session).id  # joins the tuning of the examples before
        trials.record(session, tuning_id, first.to_json())
        trials.record(session, tuning_id, second.to_json())
    by_number = {trial.number: trial for trial in kept(database, tuning_id)}
    assert by_number[second.number] == second
    if first.number != second.number:
        assert by_number[first.number] == first


@pytest.mark.parametrize("state", TrialState)
def test_every_state_is_kept(database: Database, tuning_id: str, state: TrialState) -> None:
    trial = Trial(0, CANDIDATE, state)
    record(database, tuning_id, trial)
    assert kept(database, tuning_id) == [trial]
    with database.read() as session:
        assert trials.counts_by_state(session, [tuning_id, "nobody"]) == {tuning_id: {state.value: 1}, "nobody": {}}


def test_huge_refusals_are_kept_whole(database: Database, tuning_id: str) -> None:
    long = Violation("rule", "T" * 10_000, 2**200, "l" * 10_000, "f" * 10_000, "é" * 10_000)
    trial = Trial(0, CANDIDATE, TrialState.ILLEGAL, reason="r" * 1_000_000, violations=(long,) * 200)
    record(database, tuning_id, trial)
    assert kept(database, tuning_id) == [trial]


@pytest.mark.parametrize("name", ["median_us", "samples_us", "seconds"])
def test_nan_is_refused_and_the_record_before_stays(database: Database, tuning_id: str, name: str) -> None:
    record(database, tuning_id, MEASURED)
    value = {"median_us": math.nan, "samples_us": [1.0, math.nan], "seconds": {"compile": math.nan}}[name]
    with pytest.raises((StatementError, ValueError)), database.write() as session:
        trials.record(session, tuning_id, {**MEASURED.to_json(), name: value})
    assert kept(database, tuning_id) == [MEASURED]


def test_a_trial_belongs_to_a_tuning(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as session:
        trials.record(session, "nobody", MEASURED.to_json())


def timed(number: int, median_us: float | None, state: TrialState = TrialState.MEASURED) -> Trial:
    return Trial(number, CANDIDATE, state, median_us=median_us)


@pytest.mark.parametrize(
    ("history", "best"),
    [
        pytest.param([], None, id="none"),
        pytest.param([timed(0, 5.0), timed(1, 4.0), timed(2, 6.0)], 1, id="fastest"),
        pytest.param([timed(0, 5.0), timed(1, 4.0), timed(2, 4.0)], 1, id="the-first-of-two"),
        pytest.param([timed(0, 5.0), timed(1, 4.0, TrialState.DUPLICATE)], 0, id="no-duplicate"),
        pytest.param([timed(0, 5.0), timed(1, 4.0, TrialState.WRONG_RESULT)], 0, id="no-failure"),
        pytest.param([timed(0, 5.0), timed(1, None)], 0, id="no-trial-without-a-time"),
        pytest.param([timed(0, None)], None, id="nothing-timed"),
    ],
)
def test_the_best_trial(database: Database, tuning_id: str, history: list[Trial], best: int | None) -> None:
    record(database, tuning_id, *history)
    with database.write() as session:
        other = opened(session, "other").id
        trials.record(session, other, timed(9, 1.0).to_json())
    with database.read() as session:
        found = trials.best(session, tuning_id)
        assert (found and found.number) == best
        both = trials.best_of(session, [tuning_id, other, "nobody"])
        assert both[other].number == 9
        assert set(both) == {other} | ({tuning_id} if best is not None else set())
        assert trials.best_of(session, []) == {}


def test_the_history_has_measured_trials_only(database: Database, tuning_id: str) -> None:
    record(database, tuning_id, timed(2, 3.0), timed(0, 5.0), timed(1, 4.0, TrialState.DUPLICATE), timed(3, None))
    with database.read() as session:
        assert trials.history(session, tuning_id) == [(0, 5.0), (2, 3.0)]


@pytest.mark.parametrize("states", [(), ("measured",), ("illegal", "measured")])
def test_pages_of_trials_end_where_the_trials_do(database: Database, tuning_id: str, states: tuple[str, ...]) -> None:
    all_trials = [timed(n, 1.0, TrialState.MEASURED if n % 3 else TrialState.ILLEGAL) for n in range(10)]
    record(database, tuning_id, *all_trials)
    seen: list[int] = []
    after: int | None = None
    with database.read() as session:
        while True:
            rows, after = trials.page(session, tuning_id, after, 3, states)
            assert len(rows) <= 3
            seen += [row.number for row in rows]
            if after is None:
                break
    assert seen == [t.number for t in all_trials if not states or t.state.value in states]


def test_trials_that_are_set_aside_keep_their_figures_and_lose_their_code(database: Database) -> None:
    with database.write() as session:
        id, other = opened(session).id, opened(session, "g").id
        for tuning_id in (id, other):
            trials.record(session, tuning_id, MEASURED.to_json())
    with database.write() as session:
        trials.set_aside(session, id, "made by another")
    with database.read() as session:
        (kept,) = [Trial.from_json(one) for one in trials.every(session, id)]
        assert kept == replace(
            MEASURED, state=TrialState.CANCELLED, reason="made by another", code_hash=None, launch_hash=None
        )
        assert trials.best(session, id) is None
        assert [Trial.from_json(one) for one in trials.every(session, other)] == [MEASURED]
