"""What a nursery forks is a process like any other."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from compiler.child import Child, ChildDied
from tests.nursery import ROOT, Nursery

TOLD = """
import os, sys
print(sys.argv[1:], os.environ["NAMED"], "HOME" in os.environ, os.getcwd(), sys.stdin.read(), end=" ")
print(sorted(os.listdir("/proc/self/fd"), key=int)[:-1])  # the last is the folder's own
sys.exit(3)
"""


def test_it_has_what_a_process_of_its_own_has(nursery: Nursery, tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = nursery.fork(TOLD, ["a", "b"], {"NAMED": "so"}, tmp_path, log)
    assert one.wait(60) == 3
    assert log.read_text() == f"['a', 'b'] so False {tmp_path}  ['0', '1', '2']\n"
    assert one.poll() == 3


def test_who_lives_is_known_until_they_have_ended(nursery: Nursery, tmp_path: Path) -> None:
    environment, mark = {"MARK": str(tmp_path)}, ("MARK", str(tmp_path))
    one = nursery.fork("import time; time.sleep(600)", ["sleeps"], environment, ROOT, tmp_path / "log")
    assert nursery.living(*mark) == {one.pid: ["sleeps"]}
    assert nursery.living("MARK", "another") == {}
    assert one.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    one.kill()
    assert one.wait(60) == -signal.SIGKILL
    assert nursery.living(*mark) == {}


def pid_of(init: None) -> object:
    """A child's target: its pid and parent, or those of a child of its own."""
    own = Child("tests.test_nursery:pid_of", name="grandchild")
    return lambda asked: own.request("self", 60) if asked == "of another" else (os.getpid(), os.getppid())


def test_children_and_theirs_are_of_the_nursery(forked: None) -> None:
    with Child("tests.test_nursery:pid_of") as child:
        pid, parent = child.request("self", 60)
        other, same = child.request("of another", 60)
        assert len({pid, other, os.getpid(), parent}) == 4
        assert same == parent
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ChildDied, match="SIGKILL"):
            child.request("of another", 60)
        assert child.request("self", 60)[0] != pid
