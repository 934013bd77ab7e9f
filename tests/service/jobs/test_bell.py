"""A ring reaches every worker that listens, on both databases, and ends the pauses of DBOS's threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from service.jobs.bell import Bell, PipeBell, bell_of
from service.jobs.waking import Waker
from tests.service.databases import created
from tests.service.jobs.sites import DEADLINE_S, until


@pytest.fixture(scope="module")
def postgres_url(postgres: URL) -> Iterator[str]:
    with created(postgres) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def bell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bell]:
    is_file = request.param == "sqlite"
    made = bell_of(f"sqlite:///{tmp_path / 'jobs.db'}" if is_file else str(request.getfixturevalue("postgres_url")))
    yield made
    made.close()


class Heard:
    """Counts rings."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_every_listener_hears_a_ring(bell: Bell) -> None:
    bell.ring()  # nobody is there
    first, second = Heard(), Heard()
    with bell.listen(first), bell.listen(second):
        until(lambda: isinstance(bell, PipeBell) or (first.count and second.count), "both to listen")
        before = first.count, second.count
        bell.ring()
        until(lambda: first.count > before[0] and second.count > before[1], "both to hear it")
    after = first.count
    bell.ring()
    assert first.count == after


def test_pipes_of_workers_that_are_gone_are_cleared_away(tmp_path: Path) -> None:
    bell = PipeBell(tmp_path / "bells")
    heard = Heard()
    with bell.listen(heard):
        (pipe,) = (tmp_path / "bells").iterdir()
        gone = tmp_path / "bells" / "gone"
        os.mkfifo(gone)
        bell.ring()
        assert list((tmp_path / "bells").iterdir()) == [pipe]
        until(lambda: heard.count, "the living one to hear it")
    assert list((tmp_path / "bells").iterdir()) == []


def test_a_ring_ends_a_pause_and_a_stop_ends_it_for_good() -> None:
    stop = threading.Event()
    waker = Waker([stop])
    assert waker.reaches == 1
    answers: list[bool] = []

    def work() -> None:
        while True:
            answers.append(stop.wait(timeout=DEADLINE_S))
            if answers[-1]:
                return

    thread = threading.Thread(target=work)
    thread.start()
    while not answers:  # it may not wait yet: a ring that comes before the first pause ends none
        waker.ring()
        time.sleep(0.005)
    stop.set()
    thread.join(DEADLINE_S)
    assert answers[-1] is True
    assert set(answers[:-1]) == {False}


def test_a_ring_between_two_pauses_ends_the_next() -> None:
    stop = threading.Event()
    waker = Waker([stop])
    assert stop.wait(timeout=0.0) is False
    waker.ring()
    begun = time.monotonic()
    assert stop.wait(timeout=DEADLINE_S) is False
    assert time.monotonic() - begun < DEADLINE_S
    assert stop.wait(timeout=0.0) is False


class CountedWaker(Waker):
    rung = 0

    def ring(self) -> None:
        self.rung += 1
        super().ring()


def test_every_moment_of_rings_that_come_later_rings() -> None:
    waker = CountedWaker([threading.Event()])
    before = set(threading.enumerate())
    waker.ring_later([0.0, 0.001, 0.0])
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_S)
    assert waker.rung == 3


def test_rings_that_come_later_end_pauses_until_it_is_closed() -> None:
    stop = threading.Event()
    waker = Waker([stop])
    assert stop.wait(timeout=0.0) is False
    for seconds in (0.0, 0.001):
        waker.ring_later([seconds])
        begun = time.monotonic()
        assert stop.wait(timeout=DEADLINE_S) is False
        assert time.monotonic() - begun < DEADLINE_S
    waker.close()
    waker.ring_later([0.0])
    waker.ring()
    assert stop.wait(timeout=DEADLINE_S) is False
    assert stop.wait(timeout=0.05) is False
