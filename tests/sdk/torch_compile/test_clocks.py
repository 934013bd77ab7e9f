"""Device time is told from the time that queueing takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from fusetune.jitting.clocks import AHEAD_CYCLES, REPEATS, EventClock


class FakeEvent:
    """Writes down when it is recorded; 50 us pass between any two."""

    queue: list[str]
    is_over = False

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.queue.append("event")

    def query(self) -> bool:
        return FakeEvent.is_over

    def elapsed_time(self, end: FakeEvent) -> float:
        return 0.05


@contextmanager
def at(device: torch.device | None) -> Iterator[None]:
    """Writes down which device is made the current one."""
    FakeEvent.queue += [] if device is None else [f"at {device}"]
    yield
    FakeEvent.queue += [] if device is None else ["back"]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    FakeEvent.queue, FakeEvent.is_over = [], False
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "device", at)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: FakeEvent.queue.append(f"wait {cycles}"), raising=False)
    return FakeEvent.queue


def run(clock: EventClock, queue: list[str]) -> Any:
    return clock.compare(lambda: queue.append("eager"), lambda: queue.append("kernel"))


def test_the_device_waits_until_all_runs_are_queued(queue: list[str]) -> None:
    run(EventClock(), queue)
    wait = f"wait {AHEAD_CYCLES}"
    assert queue == [
        *("eager", wait, "event", *["eager"] * REPEATS, "event"),
        *("kernel", wait, "event", *["kernel"] * REPEATS, "event"),
    ]


def test_events_are_on_the_device_whose_time_is_asked(queue: list[str]) -> None:
    run(EventClock(torch.device("cuda", 1)), queue)
    assert (queue[0], queue[-1]) == ("at cuda:1", "back")
    assert queue.count("event") == 4


def test_times_are_of_one_run_and_nobody_waits(queue: list[str]) -> None:
    timed = run(EventClock(), queue)
    assert timed.us() is None
    FakeEvent.is_over = True
    assert timed.us() == (50.0 / REPEATS, 50.0 / REPEATS)


def test_a_torch_that_cannot_wait_is_timed_as_it_is(queue: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cuda, "_sleep")
    run(EventClock(), queue)
    assert queue.count("event") == 4
