"""Mixed load while API, workers and measuring children are killed: nothing that was acknowledged is lost or doubled."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from service.db.engine import Database
from tests.nursery import Nursery
from tests.service.databases import KINDS, created, new_file
from tests.service.soak.town import ENDED, Ledger, Town, Users, Weight, kill_until, settled, town, wait_up, weight

LONG_S = float(os.environ.get("FUSETUNE_TEST_SOAK_S", "1800"))
SHORT_S = 6.0
CALM_SHARE = 0.1
"""Of a long soak: nobody is killed in the end, so that processes grow old enough to tell whether they grow large."""

END_S = 240.0
"""How long what was promised may take once nobody is killed any more."""


@contextmanager
def besieged(
    folder: Path,
    kind: str,
    nursery: Nursery,
    request: pytest.FixtureRequest,
    answering: int = 1,
) -> Iterator[tuple[Town, Database]]:
    """A service that comes up on such databases."""
    folder.mkdir()
    with ExitStack() as stack:
        if kind == "sqlite":
            url, jobs_url = new_file(folder), f"sqlite:///{folder / 'jobs.db'}"
        else:
            template: str = request.getfixturevalue("postgres_template")
            url = jobs_url = stack.enter_context(created(request.getfixturevalue("postgres"), template))
        db = stack.enter_context(Database(url))
        yield stack.enter_context(town(folder, url, jobs_url, nursery, answering)), db


def beside(*works: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def watch(ledger: Ledger, users: Users, open_ids: set[str], stopping: threading.Event) -> None:
    """Looks at what has not ended, until told to stop."""
    seen: set[str] = set()
    while not stopping.wait(1.0):
        ids = set(users.promised)
        open_ids |= ids - seen
        seen |= ids
        found = ledger.look(sorted(open_ids))
        open_ids -= {id for id, row in found.items() if row is not None and row.state in ENDED}


def soak(found: Town, db: Database, seconds: float, calm_s: float, pause_s: float, kill_s: tuple[float, float]) -> None:
    """Load and kills for so long, then the end of all that was promised."""
    users, ledger, stopping, calm = Users(found, random.Random(1)), Ledger(db), threading.Event(), threading.Event()
    wait_up(found)
    open_ids: set[str] = set()
    threads = beside(
        lambda: users.ask_until(stopping, pause_s),
        lambda: watch(ledger, users, open_ids, stopping),
        lambda: kill_until(found, calm, random.Random(2), kill_s),
    )
    weights: list[Weight] = []
    try:
        stopping.wait(seconds)
        calm.set()
        threads[-1].join()
        wait_up(found)
        for _ in range(2 if calm_s else 0):
            time.sleep(calm_s / 2)
            weights.append(weight(found))
    finally:
        calm.set()
        stopping.set()
        for thread in threads:
            thread.join()
    promised = list(users.promised)
    print(f"{len(promised)} promised, kills {found.kills}, answers {users.answers}, silent {users.silent}, {weights}")
    assert promised, found.said

    def all_ended() -> bool:
        return all(row is not None and row.state in ENDED for row in ledger.look(promised).values())

    assert settled(all_ended, END_S), (Counter(row and row.state for row in ledger.look(promised).values()), found.said)
    rows = ledger.look(promised)
    failed = {id: row.error for id, row in rows.items() if row is not None and row.state == "failed"}
    assert failed == {}
    assert {id for id, row in rows.items() if row is not None and row.state == "cancelled"} <= users.cancelled
    without = [id for id, row in rows.items() if row is not None and row.state == "done" and row.kernel_id is None]
    assert without == []
    for id, row in rows.items():
        if row is not None and row.state == "done":
            asked = users.promised[id]
            is_spent = row.ended != "budget" or row.spent_s >= asked["budget_s"]
            assert is_spent or len(ledger.seen[id]) >= asked["trials"], (
                id,
                row.spent_s,
                row.trials_limit,
                ledger.seen[id],
            )
    assert users.faults == []
    assert ledger.faults == []
    assert_flat(found, weights)


def assert_flat(found: Town, weights: list[Weight]) -> None:
    """Neither processes grow nor does what the killed ones left behind."""
    assert len(list(found.scratch.iterdir())) <= 12, list(found.scratch.iterdir())
    for before, after in pairwise(weights):
        assert after.log_mib < 64
        for name, mib in after.memory_mib.items():
            assert mib < 1.1 * before.memory_mib[name] + 16, (name, before, after)
            assert after.files[name] < before.files[name] + 16, (name, before, after)


def test_twenty_seconds(tmp_path: Path, nursery: Nursery, request: pytest.FixtureRequest) -> None:
    with besieged(tmp_path / "town", "sqlite", nursery, request) as (found, db):
        soak(found, db, SHORT_S, 0.0, 0.4, (1.0, 1.8))
        assert sum(found.kills.values()) >= 3, found.kills


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_half_an_hour(tmp_path: Path, kind: str, nursery: Nursery, request: pytest.FixtureRequest) -> None:
    with besieged(tmp_path / "town", kind, nursery, request, answering=2) as (found, db):
        soak(found, db, (1 - CALM_SHARE) * LONG_S, CALM_SHARE * LONG_S, 0.2, (2.0, 6.0))
    shutil.rmtree(tmp_path / "town")
