from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.child import Child, ChildDied, ChildGone, ChildTimedOut, HandlerFailed
from tests.compiler.child_targets import Plain

ACTOR = "tests.compiler.child_targets:actor"


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(ACTOR, "hello", name="actor") as child:
        yield child


def ask(child: Child, verb: str, argument: Any = None, timeout_s: float = 20.0) -> Any:
    return child.request((verb, argument), timeout_s)


def test_requests_are_answered_by_one_process(child: Child) -> None:
    first, second = ask(child, "echo", 1), ask(child, "echo", {"a": (2, None)})
    assert first[:2] == ("hello", 1)
    assert second[:2] == ("hello", {"a": (2, None)})
    assert first[2] == second[2] != os.getpid()


@pytest.mark.parametrize(
    ("verb", "argument", "exit_code", "ended_by"),
    [
        pytest.param("exit", 3, 3, "exit code 3", id="os._exit"),
        pytest.param("exit", 0, 0, "exit code 0", id="os._exit-0-is-a-death-too"),
        pytest.param("segv", None, -signal.SIGSEGV, "SIGSEGV", id="segmentation-fault"),
        pytest.param("signal", int(signal.SIGKILL), -signal.SIGKILL, "SIGKILL", id="out-of-memory-killer"),
    ],
)
def test_death_is_told_and_the_next_request_finds_a_new_process(
    child: Child, verb: str, argument: Any, exit_code: int, ended_by: str
) -> None:
    before = ask(child, "echo")[2]
    with pytest.raises(ChildDied) as caught:
        ask(child, verb, argument)
    assert (caught.value.exit_code, caught.value.ended_by) == (exit_code, ended_by)
    assert ("last words" in caught.value.stderr) == (verb == "exit")
    assert ask(child, "echo")[2] != before


def test_death_between_requests_is_nobodys_fault(child: Child) -> None:
    pid = ask(child, "echo")[2]
    os.kill(pid, signal.SIGKILL)
    while child._process is not None and child._process.alive():
        time.sleep(0.01)
    assert ask(child, "echo")[2] != pid


@pytest.mark.parametrize("verb", ["hang", "hang deaf"])
def test_a_hanging_handler_is_killed_at_its_deadline(child: Child, verb: str) -> None:
    pid = ask(child, "echo")[2]
    began = time.monotonic()
    with pytest.raises(ChildTimedOut) as caught:
        ask(child, verb, timeout_s=0.3)
    assert 0.3 <= time.monotonic() - began < 5
    assert caught.value.timeout_s == 0.3
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ask(child, "echo")[1] is None


def test_the_handlers_exception_comes_back_as_itself_and_the_child_lives(child: Child) -> None:
    pid = ask(child, "echo")[2]
    with pytest.raises(Plain, match="as itself") as caught:
        ask(child, "plain error")
    assert "in the child" in caught.value.__notes__[0]
    assert ask(child, "echo")[2] == pid


@pytest.mark.parametrize(
    ("verb", "reason"),
    [("picky error", "the handler raised Picky"), ("unpicklable", "the handler returned a function")],
)
def test_what_cannot_be_pickled_is_told_and_the_child_lives(child: Child, verb: str, reason: str) -> None:
    pid = ask(child, "echo")[2]
    with pytest.raises(HandlerFailed) as caught:
        ask(child, verb)
    assert caught.value.reason.startswith(reason)
    assert ask(child, "echo")[2] == pid


def test_an_unpicklable_payload_is_refused_before_it_is_sent(child: Child) -> None:
    pid = ask(child, "echo")[2]
    with pytest.raises((AttributeError, TypeError)):
        ask(child, "echo", threading.Lock())
    assert ask(child, "echo")[2] == pid


def test_a_last_reply_is_delivered_and_ends_the_process(child: Child) -> None:
    pid = ask(child, "echo")[2]
    assert ask(child, "last", 42) == 42
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ask(child, "echo")[2] != pid


def test_what_the_handler_prints_does_not_disturb_the_answers(child: Child) -> None:
    assert ask(child, "print", "x" * 100_000) is None
    assert ask(child, "echo", "y" * 1_000_000)[1] == "y" * 1_000_000


@pytest.mark.parametrize(("size", "fits"), [(1 << 24, True), (1 << 32, False)])
def test_the_memory_limit_holds(size: int, fits: bool) -> None:
    with Child(ACTOR, "", memory_limit_bytes=1 << 30) as child:
        if fits:
            assert ask(child, "eat", size) == size
        else:
            with pytest.raises(MemoryError):
                ask(child, "eat", size)


def test_a_target_that_raises_is_told_on_every_request() -> None:
    with Child("tests.compiler.child_targets:refuses") as child:
        for starts in (1, 2):
            with pytest.raises(Plain, match="no handler"):
                child.request(None, 20)
            assert child.starts == starts


def test_a_target_that_dies_is_a_death() -> None:
    with Child("tests.compiler.child_targets:dies") as child, pytest.raises(ChildDied, match="cannot start") as caught:
        child.request(None, 20)
    assert caught.value.exit_code == 7


def test_a_target_that_does_not_exist_is_an_import_error() -> None:
    with Child("tests.compiler.child_targets:missing") as child, pytest.raises(AttributeError):
        child.request(None, 20)


def test_a_target_without_a_function_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="module:function"):
        Child("tests.compiler.child_targets")


def test_a_process_that_was_begun_answers_the_first_request() -> None:
    with Child(ACTOR, "hello") as child:
        child.begin()
        child.begin()
        assert child.start_up is None
        ask(child, "echo")
        assert child.starts == 1
        assert child.start_up is not None


def test_a_process_that_was_begun_says_why_it_ended_when_it_is_asked() -> None:
    with Child("tests.compiler.no_such_module:serve", name="gone") as child:
        child.begin()
        with pytest.raises((ModuleNotFoundError, HandlerFailed), match="no_such_module"):
            child.start()
        assert child.starts == 1


def test_closing_ends_the_process_and_a_later_request_starts_one() -> None:
    child = Child(ACTOR, "")
    pid = ask(child, "echo")[2]
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ask(child, "echo")[2] != pid
    child.close()


def test_a_child_that_is_killed_answers_nothing_more() -> None:
    """Also what it works on, from another thread."""
    with Child(ACTOR, "hello", name="actor") as child:
        ask(child, "echo")
        threading.Timer(0.2, child.kill).start()
        began = time.monotonic()
        with pytest.raises(ChildDied):
            ask(child, "hang")
        assert time.monotonic() - began < 10
        with pytest.raises(ChildGone):
            ask(child, "echo")


def test_threads_take_turns(child: Child) -> None:
    answers: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: answers.update({n: ask(child, "echo", n)[1]})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: n for n in range(8)}


@pytest.mark.parametrize("verb", ["idle", "hang"])
def test_the_child_dies_with_its_parent(verb: str) -> None:
    script = textwrap.dedent(
        f"""
        import os, signal, threading, time
        from compiler.child import Child
        child = Child({ACTOR!r}, "")
        print(child.request(("echo", None), 20)[2], flush=True)
        if {verb!r} == "hang":
            threading.Thread(target=child.request, args=(("hang", None), 60), daemon=True).start()
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    root = Path(__file__).parents[2]
    parent = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=120)
    pid = int(parent.stdout)
    deadline = time.monotonic() + 10
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    """False for a zombie too: nobody may be there to reap it."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_handler_works_while_nobody_asks() -> None:
    """And whatever goes wrong then costs no request."""
    with Child("tests.compiler.child_targets:idling") as child:
        deadline = time.monotonic() + 20.0
        while (begun := child.request(None, 20.0)) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert begun >= 5, "work that failed is tried again after the next request"
        assert child.starts == 1
