"""Deadlines are kept by one thread, each at its own time and only while somebody waits."""

from __future__ import annotations

import multiprocessing
import threading

import pytest

from compiler.deadlines import RequestDeadline


def test_one_that_passes_kills_once_and_says_so() -> None:
    killed = threading.Event()
    deadline = RequestDeadline(0.01, killed.set)
    assert killed.wait(20)
    assert deadline.finish()


def test_one_that_is_done_kills_nothing() -> None:
    killed: list[int] = []
    first, passed = RequestDeadline(0.02, lambda: killed.append(1)), threading.Event()
    assert not first.finish()
    later = RequestDeadline(0.05, passed.set)
    assert passed.wait(20)
    assert later.finish()
    assert not killed


def test_a_sooner_one_does_not_wait_for_a_later_one() -> None:
    killed = threading.Event()
    late, soon = RequestDeadline(600.0, lambda: None), RequestDeadline(0.01, killed.set)
    assert killed.wait(20)
    assert (soon.finish(), late.finish()) == (True, False)


def test_one_whose_process_is_gone_leaves_the_others_theirs() -> None:
    def gone() -> None:
        raise ProcessLookupError

    killed = threading.Event()
    deadlines = RequestDeadline(0.01, gone), RequestDeadline(0.02, killed.set)
    assert killed.wait(20)
    assert all(one.finish() for one in deadlines)


def test_all_are_watched_by_one_thread() -> None:
    every = [RequestDeadline(600.0, lambda: None) for _ in range(50)]
    assert sum(thread.name == "deadlines" for thread in threading.enumerate()) == 1
    assert not any(one.finish() for one in every)


def _passes() -> None:
    killed = threading.Event()
    RequestDeadline(0.01, killed.set)
    raise SystemExit(0 if killed.wait(20) else 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_has_a_thread_of_its_own() -> None:
    RequestDeadline(600.0, lambda: None).finish()
    process = multiprocessing.get_context("fork").Process(target=_passes)
    process.start()
    process.join(30)
    assert process.exitcode == 0
