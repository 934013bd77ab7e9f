"""What a dead worker has begun is put back into its queue; what a living one works on never is."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from service.db import cards
from service.db.tunings import SILENT_S
from service.db.types import now
from service.jobs.adopt import Adoption
from service.jobs.dbos_queue import DbosQueue
from tests.service.jobs.sites import FAKE_CARD, Site, fusion_of


@dataclass
class Watch:
    """A worker "living" that looks after "other", whose job is begun."""

    site: Site
    clock_s: float = 0.0
    tuning_id: str = ""
    adoption: Adoption = field(init=False)

    def __post_init__(self) -> None:
        with self.site.db.write() as session:
            self.card_id = cards.put(session, FAKE_CARD, attached=True).id
        self.tuning_id = self.site.post()
        self.queue = self.site.tuning(self.tuning_id).queue
        self.adoption = Adoption(self.site.db, self.site.jobs, self.queue, "living", lambda: self.clock_s)
        self.begin(self.tuning_id, "other")

    def begin(self, tuning_id: str, worker: str) -> None:
        with sqlite3.connect(self.site.folder / "jobs.db") as connection:
            connection.execute(
                "UPDATE workflow_status SET status = 'PENDING', executor_id = ? WHERE workflow_uuid = ?",
                (worker, tuning_id),
            )
        connection.close()

    def heartbeat(self, offset_s: float = 0.0) -> None:
        """One of a worker whose clock is so far ahead of ours."""
        with self.site.db.write() as session:
            cards.announce(session, cards.Presence("other", "there", os.getpid(), self.card_id, attached=True))
            row = cards.worker(session, "other")
            assert row is not None
            row.heartbeat_at = now() + timedelta(seconds=offset_s, microseconds=self.clock_s)

    def after(self, seconds: float) -> list[str]:
        self.clock_s += seconds
        return self.adoption.run()


@pytest.fixture
def watch(site: Site) -> Watch:
    return Watch(site)


@pytest.mark.parametrize("offset_s", [0.0, -3600.0, 3600.0], ids=["same-clock", "behind", "ahead"])
def test_a_heartbeat_that_stands_still_is_a_death_whatever_the_clocks_say(watch: Watch, offset_s: float) -> None:
    watch.heartbeat(offset_s)
    assert watch.after(0) == watch.after(SILENT_S - 1) == []
    watch.heartbeat(offset_s)
    assert watch.after(1) == watch.after(SILENT_S - 1) == []
    assert watch.after(1) == [watch.tuning_id]
    assert watch.site.jobs.states([watch.tuning_id]) == {watch.tuning_id: "ENQUEUED"}
    assert watch.after(SILENT_S) == []


def test_a_worker_that_was_never_announced_is_waited_for_as_long(watch: Watch) -> None:
    assert watch.after(0) == watch.after(SILENT_S - 1) == []
    assert watch.after(1) == [watch.tuning_id]


def test_our_own_jobs_and_those_of_other_queues_are_left_alone(watch: Watch) -> None:
    watch.begin(watch.tuning_id, "living")
    other = watch.site.post(fusion_of("neg"), attached=False)
    watch.begin(other, "other")
    assert watch.after(0) == watch.after(2 * SILENT_S) == []


def test_a_database_that_does_not_answer_is_no_silence(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    assert watch.after(0) == []
    jobs, watch.adoption._jobs = watch.adoption._jobs, DbosQueue("sqlite:////proc/no/jobs.db")
    assert watch.after(SILENT_S) == []
    assert "which workers live" in caplog.text
    watch.adoption._jobs = jobs
    assert watch.after(1) == watch.after(SILENT_S - 1) == []
    assert watch.after(1) == [watch.tuning_id]
