"""Served kernels that are timed again: when, with what, and what is said of a drop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from compiler.generator import GENERATOR
from fusetune.wire.artifact import VERIFIER, Conditions, KernelArtifact, Verification
from search.measure.device import Effort, MeasureResult
from search.measure.fake import FACTS
from search.tuning.attached import Attached, card_of
from search.tuning.build import Build
from search.tuning.candidates.candidate import Candidate
from search.tuning.trial import Trial, TrialState
from service.db import cards, kernels
from service.db.conditions import checks
from service.db.models import AuditRow, KernelRow
from service.jobs.rechecking import RecheckBench, recheck_next
from service.views import kernel_views
from tests.service.jobs.benches import CANDIDATE, Bench, timing, winner, wins
from tests.service.jobs.sites import FAKE_CARD, Site

NEW_DRIVER = replace(FACTS, driver="601.1", clock_limit_mhz=1980)


class Times:
    """A device on which sources take what a table says; others fail as it says."""

    def __init__(self, us: dict[str, float | MeasureResult]) -> None:
        self.us = us
        self.asked: list[tuple[str, Effort]] = []

    def open(self, fusion: Any) -> None: ...

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        self.asked.append((artifact.source, effort))
        found = self.us[artifact.source]
        if isinstance(found, MeasureResult):
            return found
        proof = Verification(
            device="d", input_sets=("random",), max_error=0, tolerance=0, deterministic=True, verifier=VERIFIER
        )
        samples = tuple(found * (1 + 0.0001 * n) for n in range(21))
        return MeasureResult(TrialState.MEASURED, "", proof, timing(found).model_copy(update={"samples_us": samples}))


class Ties:
    """Builds what was tied: its source says so."""

    def start(self, number: int, candidate: Candidate) -> Build:
        return Build(number, candidate, predicted_us=5.0)

    def finish(self, build: Build) -> KernelArtifact:
        conditions = Conditions(generator=GENERATOR, nvrtc="13.0")
        update = {"source": "tied", "code_hash": "tied", "conditions": conditions}
        return winner(0.0).artifact.model_copy(update=update)


def again(bench: Bench, device: Times, facts: Any = NEW_DRIVER) -> str | None:
    gpu = Attached(device, facts, card_of(FACTS)[0], ())  # type: ignore[arg-type]  # what is used of it
    card_id = cards.card_id(FAKE_CARD)
    return recheck_next(RecheckBench(bench.site.db, gpu, card_id, "w0", lambda plan: Ties()), lambda: False)  # type: ignore[arg-type, return-value]  # what is used of a bench


def served(bench: Bench, us: float = 10.0, tied: bool = False) -> KernelRow:
    """A kernel that a tuning has found under an old driver; announced under the new one."""
    won = winner(us)
    if tied:
        other = Trial(1, Candidate.of(CANDIDATE.scheduler, CANDIDATE.knobs), TrialState.MEASURED, median_us=us)
        won = replace(won, tied=(1,))

        def search(log: Any, **_: Any) -> Any:
            log.record(won.trial)
            log.record(other)
            return wins(us)().__class__(won, (won.trial, other), "budget")

        bench.search = search
    else:
        bench.search = wins(us)
    bench.run(bench.site.post())
    (row,) = bench.kernels()
    return row


def set_driver(site: Site, **columns: Any) -> None:
    """What the kernel was timed under, of which the tests change one."""
    with site.db.write() as session:
        row = session.scalars(select(KernelRow)).one()
        values = {"generator": GENERATOR, "driver": "601.1", "clock_limit_mhz": 1980, **columns}
        for name, value in values.items():
            setattr(row, name, value)


@pytest.mark.parametrize(
    ("columns", "is_due"),
    [
        pytest.param({}, False, id="as-today"),
        pytest.param({"driver": None, "clock_limit_mhz": None}, False, id="nothing-known"),
        pytest.param({"driver": "600.0"}, True, id="another-driver"),
        pytest.param({"clock_limit_mhz": 1500}, True, id="another-clock-limit"),
        pytest.param({"generator": "0.0"}, True, id="another-generator"),
        pytest.param({"driver": "600.0", "provisional": {}}, False, id="provisional"),
        pytest.param({"driver": "600.0", "time": "predicted"}, False, id="never-measured"),
    ],
)
def test_what_was_timed_under_other_conditions_is_timed_again(
    bench: Bench, columns: dict[str, Any], is_due: bool
) -> None:
    row = served(bench)
    set_driver(bench.site, **columns)
    device = Times({"takes 10.0": 10.0})
    assert again(bench, device) == (row.id if is_due else None)
    assert bool(device.asked) is is_due
    assert again(bench, device) is None, "it is not due any more"


@pytest.mark.parametrize(
    ("now_us", "slower"), [(10.05, 0.0), (9.0, 0.0), (12.0, 0.2)], ids=["as-before", "faster", "slower"]
)
def test_a_drop_is_recorded_and_visible(bench: Bench, now_us: float, slower: float) -> None:
    row = served(bench)
    set_driver(bench.site, driver="600.0")
    again(bench, Times({"takes 10.0": now_us}))
    with bench.site.db.read() as session:
        (view,) = kernel_views(session, [session.get_one(KernelRow, row.id)])
        actions = [one.action for one in session.scalars(select(AuditRow).order_by(AuditRow.id))]
        counted = checks(session)
    assert view.checked is not None
    assert view.checked.median_us == pytest.approx(now_us, rel=0.01)
    assert view.checked.before_us == 10.0
    assert view.checked.slower == pytest.approx(slower, abs=0.01)
    assert view.checked.driver == "601.1"
    assert view.median_us == 10.0, "what its search found stays"
    assert not view.stale
    assert ("kernel.slower" in actions) is bool(slower)
    assert counted == {"slower": int(bool(slower)), "unchanged": int(not slower)}


def test_what_was_tied_and_is_faster_now_is_served(bench: Bench) -> None:
    before = served(bench, tied=True)
    set_driver(bench.site, driver="600.0")
    device = Times({"takes 10.0": 12.0, "tied": 10.0})
    again(bench, device)
    turns = [source for source, effort in device.asked if effort is Effort.LEADER]
    assert turns[:2] == ["takes 10.0", "tied"], "in turns"
    assert ("tied", Effort.ALL_SETS) in device.asked
    rows = {row.id: row for row in bench.kernels()}
    assert rows.pop(before.id).superseded_at is not None
    (now,) = rows.values()
    assert (now.superseded_at, now.driver) == (None, "601.1")
    assert now.median_us == pytest.approx(10.0, rel=0.01)
    assert again(bench, device) is None


Fails = Callable[[], MeasureResult]


@pytest.mark.parametrize(
    ("result", "is_served"),
    [
        pytest.param(MeasureResult(TrialState.WRONG_RESULT, "element [0]"), False, id="wrong"),
        pytest.param(MeasureResult(TrialState.CRASHED, "SIGSEGV"), False, id="crashes"),
        pytest.param(MeasureResult(TrialState.TIMED_OUT, "late"), True, id="late"),
        pytest.param(MeasureResult(TrialState.UNSUPPORTED, "no memory"), True, id="no-memory"),
    ],
)
def test_one_that_is_wrong_now_is_served_no_more(bench: Bench, result: MeasureResult, is_served: bool) -> None:
    row = served(bench)
    set_driver(bench.site, driver="600.0")
    again(bench, Times({"takes 10.0": result}))
    with bench.site.db.read() as session:
        now = kernels.get(session, row.id)
    assert now is not None
    assert (now.superseded_at is None) is is_served
    assert bool(now.refuted) is not is_served
    assert now.checked is None, "no time that nobody has measured"


def test_the_worker_comes_to_it_by_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its GPU has nothing to do; a fault costs that kernel's turn."""
    asked: list[Any] = []

    def fail(found: RecheckBench, is_wanted: Callable[[], bool]) -> None:
        asked.append(found.card_id)
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr("service.jobs.tuning.recheck_next", fail)
    work = bench.tunings()
    work.recheck_if_idle()
    assert asked == [], "it has nothing to build with"
    work._drafting = work._compiling = Future()  # type: ignore[assignment]  # not touched
    work.recheck_if_idle()
    assert work._rechecking is not None
    work._rechecking.join(20)
    assert asked == [cards.card_id(FAKE_CARD)]
    assert work.wait_idle(1.0)
