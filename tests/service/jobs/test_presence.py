"""One living worker for each id, on this host and on all others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from service.db import cards
from service.db.cards import Presence
from service.db.models import WorkerRow
from service.db.types import now
from service.jobs.presence import FolderRefused, Heartbeat, WorkerLock, WorkerRefused, refuse_twin
from tests.service.jobs.sites import FAKE_CARD, Site, until


@pytest.fixture
def other_pid() -> Iterator[int]:
    """A living process that is not us."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid


@pytest.fixture
def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with (
        pytest.raises(FolderRefused, match=r"data: cannot be written to .*--data-dir"),
        WorkerLock(tmp_path / "data", "w0"),
    ):
        pass


def test_an_id_is_locked_while_its_holder_lives(tmp_path: Path) -> None:
    with WorkerLock(tmp_path / "data", "w/0"):
        with (
            pytest.raises(WorkerRefused, match=f"process {os.getpid()} on this host"),
            WorkerLock(tmp_path / "data", "w/0"),
        ):
            pass
        with WorkerLock(tmp_path / "data", "w1"):
            pass
    with WorkerLock(tmp_path / "data", "w/0"):
        pass


@pytest.mark.parametrize(
    ("host", "pid", "silent_s", "stopped", "refused"),
    [
        pytest.param("here", "other", 0, False, True, id="lives-here"),
        pytest.param("here", "dead", 0, False, False, id="killed-here"),
        pytest.param("here", "ours", 0, False, False, id="our-own-number"),
        pytest.param("there", "dead", 0, False, True, id="lives-elsewhere"),
        pytest.param("there", "dead", 14, False, True, id="nearly-silent"),
        pytest.param("there", "dead", 16, False, False, id="silent"),
        pytest.param("there", "dead", 0, True, False, id="took-leave"),
    ],
)
def test_the_database_knows_a_living_twin(
    host: str, pid: str, silent_s: float, stopped: bool, refused: bool, other_pid: int, dead_pid: int
) -> None:
    row = WorkerRow(
        id="w0",
        host=host,
        pid={"other": other_pid, "dead": dead_pid, "ours": os.getpid()}[pid],
        heartbeat_at=now() - timedelta(seconds=silent_s),
        stopped_at=now() if stopped else None,
    )
    if refused:
        with pytest.raises(WorkerRefused, match="worker w0: another one of this id is alive"):
            refuse_twin(row, "here", heartbeat_s=5.0)
    else:
        refuse_twin(row, "here", heartbeat_s=5.0)


def test_a_new_id_has_no_twin() -> None:
    refuse_twin(None, "here", heartbeat_s=5.0)


def test_a_worker_is_seen_while_it_lives(site: Site) -> None:
    with site.db.write() as session:
        card = cards.put(session, FAKE_CARD, attached=True)
    presence = Presence("w0", "here", os.getpid(), card.id, attached=True)
    current: list[str | None] = [None]

    def row() -> WorkerRow:
        with site.db.read() as session:
            return session.get_one(WorkerRow, "w0")

    with Heartbeat(site.db, presence, 0.01, lambda: current[0]):
        first = row().heartbeat_at
        until(lambda: row().heartbeat_at > first, "a heartbeat")
        current[0] = "0" * 32
        until(lambda: row().tuning_id == "0" * 32, "the tuning")
        assert row().stopped_at is None
    assert row().stopped_at is not None
    assert row().tuning_id is None
