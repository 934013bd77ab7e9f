"""Worker processes, killed and stopped in the middle: nothing finished is lost, nothing is run twice.

The fake device is what runs the kernels; schedules, compiles, processes and databases are real.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from search.measure.device import Effort
from search.tuning.ending import WITHOUT_VERDICT
from search.tuning.trial import Trial, TrialState
from service.db import cards, fusions, kernels, tunings
from service.db.models import FusionRow, WorkerRow
from service.jobs.dbos_queue import GIVEN_UP
from service.jobs.reconcile import reconcile
from tests.nursery import Nursery
from tests.service.jobs.sites import DEADLINE_S, Site, fusion_of, make_site, until

Kernel = tuple[str, str]


def asked(site: Site) -> list[Kernel]:
    """Kernels that the device was asked to verify and time for the first time, in order."""
    if not site.fake_log.exists():
        return []
    lines = [json.loads(line) for line in site.fake_log.read_text().splitlines()]
    return [(one["code_hash"], one["launch_hash"]) for one in lines if one["effort"] == Effort.SCREEN]


def run_kernels(found: list[Trial]) -> set[Kernel]:
    """The kernels that have a verdict of their own."""
    judged = [t for t in found if t.state not in {*WITHOUT_VERDICT, TrialState.DUPLICATE}]
    return {(t.code_hash, t.launch_hash) for t in judged if t.code_hash and t.launch_hash}


def identity(trial: Trial) -> tuple[Any, ...]:
    """What stays of a trial for good; a leader's times become those of the last rounds."""
    return trial.number, trial.candidate, trial.state, trial.code_hash, trial.launch_hash


def assert_nothing_ran_twice(found: list[Trial]) -> None:
    points = [trial.candidate for trial in found if trial.state not in WITHOUT_VERDICT]
    assert len(points) == len(set(points))


def test_a_tuning_survives_the_death_and_the_stop_of_its_worker(site: Site) -> None:
    # Ended by a count. The API died before it handed it over.
    tuning_id = site.post(trials_limit=24, budget_s=120.0, hand_over=False)

    killed = site.worker()
    seen = site.at_least(4, tuning_id)
    spent_s = site.tuning(tuning_id).spent_s
    assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not site.processes(), "the end of what the worker had started")
    first = site.trials(tuning_id)
    assert first[: len(seen)] == seen
    asked_before = len(asked(site))

    stopped = site.worker()
    seen = site.at_least(len(first) + 4, tuning_id)
    assert seen[: len(first)] == first
    assert not run_kernels(first) & set(asked(site)[asked_before:])
    assert stopped.stop(signal.SIGTERM) == 0
    assert not site.processes()
    row = site.tuning(tuning_id)
    assert (row.state, row.kernel_id) == ("running", None)
    assert row.spent_s > spent_s
    assert site.jobs.states([tuning_id]) == {tuning_id: "ENQUEUED"}
    second = site.trials(tuning_id)
    assert second[: len(seen)] == seen
    asked_before = len(asked(site))

    site.worker()
    ended = site.ended(tuning_id)
    assert (ended.state, ended.error) == ("done", None)
    assert ended.kernel_id is not None
    assert ended.spent_s > row.spent_s
    found = site.trials(tuning_id)
    assert [identity(trial) for trial in found[: len(second)]] == [identity(trial) for trial in second]
    assert not run_kernels(second) & set(asked(site)[asked_before:])
    assert_nothing_ran_twice(found)
    assert sum(trial.state is not TrialState.CANCELLED for trial in found) <= 24
    key = (ended.fingerprint, ended.binding, ended.card_id, ended.policy)
    with site.db.read() as session:
        assert [one.median_us for one in kernels.baselines(session, [key])[key]] == [25.0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Site]:
    """A site with a worker that several tests share, any of them first; each leaves it idle."""
    for site in make_site(tmp_path_factory.mktemp("served"), nursery):
        site.worker()
        site.come_up()
        yield site


def test_a_killed_measuring_child_costs_one_candidate_at_most(served: Site) -> None:
    tuning_id = served.post(fusion_of("neg"), trials_limit=14, budget_s=12.0)
    seen = served.at_least(3, tuning_id)
    child = served.child("fake device")
    assert child is not None
    os.kill(child, signal.SIGKILL)
    ended = served.ended(tuning_id)
    assert (ended.state, ended.error) == ("done", None)
    assert ended.kernel_id is not None
    found = served.trials(tuning_id)
    assert [identity(trial) for trial in found[: len(seen)]] == [identity(trial) for trial in seen]
    assert len(found) > len(seen)
    assert sum(trial.state is TrialState.CRASHED for trial in found) <= 1
    assert_nothing_ran_twice(found)


def test_a_second_worker_of_the_same_id_is_refused(served: Site) -> None:
    twin = served.worker()
    assert twin.popen.wait(DEADLINE_S) == 2
    begun, line = twin.said.splitlines()
    assert "starting: loading" in begun
    assert line.startswith("error: worker w0: another one of this id is alive (process ")
    assert served.workers[0].popen.poll() is None


def test_a_bad_tuning_does_not_hold_up_the_next(served: Site) -> None:
    endless = served.post(fusion_of("abs"), trials_limit=None, budget_s=30.0)
    served.at_least(2, endless)
    waiting = served.post(fusion_of("exp"))
    poisoned = served.post(fusion_of("tanh"))
    damaged = served.post(fusion_of("relu"))
    good = served.post(fusion_of("silu"), trials_limit=2, budget_s=10.0)
    with sqlite3.connect(served.folder / "jobs.db") as connection:  # as if workers had died of it
        connection.execute("UPDATE workflow_status SET recovery_attempts = 999 WHERE workflow_uuid = ?", (poisoned,))
    connection.close()
    with served.db.write() as session:
        fusion = fusions.get(session, served.tuning(damaged).fingerprint)
        assert isinstance(fusion, FusionRow)
        fusion.document = fusion_of("sqrt")
        for id in (waiting, endless):
            tunings.request_cancel(session, id)
    served.jobs.cancel(waiting)
    assert served.tuning(waiting).state == "cancelled"

    cancelled = served.ended(endless)
    assert (cancelled.state, cancelled.ended, cancelled.kernel_id) == ("cancelled", "stopped", None)
    assert served.trials(endless)

    ended = served.ended(damaged)
    assert ended.state == "failed"
    assert "reference" in (ended.error or "")
    assert "Traceback" in served.workers[0].said

    assert served.ended(good).kernel_id is not None

    until(lambda: served.jobs.states([poisoned]) == {poisoned: GIVEN_UP}, "the job to be given up")
    reconcile(served.db, served.jobs, served.tuning(poisoned).queue)  # as the worker does now and then
    given_up = served.tuning(poisoned)
    assert given_up.state == "failed"
    assert "died several times" in (given_up.error or "")
    assert served.trials(poisoned) == []
    assert served.trials(waiting) == []


def test_an_idle_worker_is_seen_and_takes_leave(served: Site) -> None:
    def row() -> WorkerRow:
        with served.db.read() as session:
            return session.get_one(WorkerRow, "w0")

    until(lambda: row().tuning_id is None, "the worker to be idle")
    assert row().attached
    assert row().stopped_at is None
    with served.db.read() as session:
        card = cards.get(session, row().card_id)
    assert card is not None
    assert (card.name, card.source) == ("fake", "attached")
    assert served.workers[0].stop(signal.SIGINT) == 0
    assert not served.processes()
    assert row().stopped_at is not None


def test_a_stop_does_not_wait_for_what_takes_long(site: Site) -> None:
    tuning_id = site.post(trials_limit=None, budget_s=30.0)
    worker = site.worker(prelude="import service.jobs.worker as worker; worker.GRACE_S = 0.0")
    seen = site.at_least(2, tuning_id)
    assert worker.stop() == 0
    assert "in the middle" in worker.said
    until(lambda: not site.processes(), "the end of what the worker had started")
    assert site.trials(tuning_id)[: len(seen)] == seen
    assert site.tuning(tuning_id).state == "running"
    assert site.jobs.states([tuning_id]) == {tuning_id: "ENQUEUED"}


IMPATIENT = """
import service.jobs.adopt, service.jobs.worker
service.jobs.adopt.SILENT_S = 2.0
service.jobs.worker.RECONCILE_S = 0.5
"""


def test_another_worker_goes_on_where_a_silent_one_was(site: Site) -> None:
    # Ended by a count: on a busy machine a budget in seconds may end before the first is silenced.
    tuning_id = site.post(trials_limit=20, budget_s=120.0)
    silent = site.worker("w0")
    site.at_least(3, tuning_id)
    site.silence(silent)
    first = site.trials(tuning_id)
    asked_before = len(asked(site))
    living = site.worker("w1", prelude=IMPATIENT)
    until(lambda: site.tuning(tuning_id).worker_id == "w1", "the other worker to take it")
    seen = site.at_least(len(first) + 3, tuning_id)
    assert seen[: len(first)] == first
    assert not run_kernels(first) & set(asked(site)[asked_before:])

    os.kill(silent.popen.pid, signal.SIGCONT)
    until(lambda: "is in other hands" in silent.said, "the first to notice")
    ended = site.ended(tuning_id)
    assert (ended.state, ended.worker_id, ended.deaths) == ("done", "w1", 0)
    assert ended.kernel_id is not None
    found = site.trials(tuning_id)
    assert [identity(trial) for trial in found[: len(first)]] == [identity(trial) for trial in first]
    assert_nothing_ran_twice(found)
    assert living.stop() == 0
    last = site.post(fusion_of("neg"), trials_limit=2)
    assert site.ended(last).worker_id == "w0"  # which works on
    both = {tuning_id: "SUCCESS", last: "SUCCESS"}
    until(lambda: site.jobs.states([tuning_id, last]) == both, "the jobs to end as their tunings did")


LOSES_ITS_GPU = """
from search.measure.device import DeviceLost
from search.measure.fake import FakeDevice

def lost(self, *args):
    FakeDevice.facts = lost
    raise DeviceLost("fake device", "it fell off the bus")

FakeDevice.open = lost
"""


def test_a_worker_whose_gpu_is_gone_ends_before_it_takes_the_next_tuning(site: Site) -> None:
    first, second = site.post(), site.post(fusion_of("neg"))
    worker = site.worker(prelude=LOSES_ITS_GPU)
    assert worker.popen.wait(DEADLINE_S) == 1
    failed = site.tuning(first)
    assert (failed.state, failed.error) == ("failed", "fake device cannot be used: it fell off the bus")
    assert site.tuning(second).state == "queued"
    assert site.jobs.states([second]) == {second: "ENQUEUED"}
    assert not site.processes()


def test_a_worker_without_a_gpu_proves_kernels_in_the_emulator_and_says_so(site: Site) -> None:
    from compiler.arch import card_named

    tuning_id = site.post(trials_limit=3, budget_s=5.0, card=card_named("H200"), attached=False)
    worker = site.worker(device="none", card="H200")
    row = site.ended(tuning_id)
    assert (row.state, row.ended) == ("done", "emulated")
    assert row.kernel_id is not None
    assert row.note.startswith("Nothing was timed: this worker was started without a GPU")
    with site.db.read() as session:
        announced = session.get_one(WorkerRow, "w0")
    assert not announced.attached
    assert "without a GPU" in announced.why
    assert worker.stop() == 0
    assert asked(site) == []
