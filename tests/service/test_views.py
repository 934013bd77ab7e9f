"""What is answered comes from a bounded number of queries, however long the list is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from compiler.generator import GENERATOR
from service import views
from service.db import cards, fusions, kernels, trials, tunings
from service.db.engine import Database
from service.db.types import now
from tests.service.databases import new_file
from tests.service.db.rows import CARD, CARD_ID, digest, kernel, opened, posted

SHOWN = 50


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(new_file(tmp_path)) as database:
        yield database


@contextmanager
def counted(database: Database) -> Iterator[list[str]]:
    """The queries that the block makes."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(("SELECT", "WITH")):
            found.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def trial(number: int, median_us: float) -> dict[str, object]:
    return {"number": number, "scheduler": "flat", "point": {}, "state": "measured", "median_us": median_us}


def fill(session: Session, n: int) -> None:
    """A fusion with a kernel and a tuning; every other one still waits, the rest have trials."""
    key = posted(session, f"f{n}", name=f"fusion-{n}")
    row = kernel(session, key, b"%d" % n, generator=GENERATOR)
    kernels.publish(session, row)
    kernels.put_baseline(session, key, "eager", 30.0, [30.0], {})
    tuning = opened(session, f"f{n}", name=f"own-{n}" if n % 3 == 0 else None)
    if n % 2:
        tunings.start(session, tuning.id, "worker")
        for number, median_us in ((0, 5.0), (1, 4.0)):
            trials.record(session, tuning.id, trial(number, median_us))


def test_a_page_of_tunings(database: Database) -> None:
    with database.write() as session:
        for n in range(SHOWN):
            fill(session, n)
    with counted(database) as queries, database.read() as session:
        shown = views.tuning_views(session, tunings.page(session, None, SHOWN).rows)
    assert len(queries) <= 8, "\n".join(queries)
    assert [view.name for view in reversed(shown)] == [f"{'fusion' if n % 3 else 'own'}-{n}" for n in range(SHOWN)]
    oldest, second = shown[-1], shown[-2]
    assert (oldest.state, oldest.best, oldest.trials, oldest.card.name) == ("queued", None, {}, CARD.name)
    assert second.best is not None
    assert (second.best.number, second.best.median_us, second.trials) == (1, 4.0, {"measured": 2})
    waiting = [0 if n % 2 else SHOWN // 2 + n // 2 for n in range(SHOWN)]  # behind those that run
    assert [view.ahead for view in reversed(shown)] == waiting


def test_a_page_of_kernels(database: Database) -> None:
    with database.write() as session:
        for n in range(SHOWN):
            fill(session, n)
    with counted(database) as queries, database.read() as session:
        shown = views.kernel_views(session, kernels.page(session, None, SHOWN).rows)
    assert len(queries) <= 5, "\n".join(queries)
    assert {view.name for view in shown} == {f"fusion-{n}" for n in range(SHOWN)}
    assert all(view.baselines[0].median_us == 30.0 and not view.stale for view in shown)


def test_a_page_of_fusions_and_the_cards(database: Database) -> None:
    with database.write() as session:
        for n in range(SHOWN):
            fill(session, n)
        cards.announce(session, cards.Presence("host-0", "host", 1, CARD_ID, attached=False, why="no driver"))
    with counted(database) as queries, database.read() as session:
        shown = views.fusion_views(session, fusions.page(session, None, SHOWN).rows)
        (status,) = views.card_statuses(session, now() - timedelta(seconds=60))
    assert len(queries) <= 6, "\n".join(queries)
    assert all((view.tunings, view.kernels) == (1, 1) for view in shown)
    assert (status.kernels, status.workers[0].alive, status.workers[0].why) == (SHOWN, True, "no driver")


@pytest.mark.parametrize("make", [views.tuning_views, views.kernel_views, views.fusion_views])
def test_nothing_is_an_empty_list(database: Database, make: type) -> None:
    with database.read() as session:
        assert make(session, []) == []


@pytest.mark.parametrize(
    ("columns", "card_driver", "words"),
    [
        ({"generator": GENERATOR, "driver": "580"}, "580", ""),
        ({"generator": GENERATOR, "driver": "580"}, None, ""),
        ({"generator": GENERATOR, "driver": None}, "580", ""),
        ({"generator": GENERATOR, "driver": "580"}, "590", "timed under driver 580, the card now has 590"),
        ({"generator": "0", "driver": "580"}, "580", f"generated by 0, this is {GENERATOR}"),
    ],
)
def test_a_kernel_is_stale_when_a_condition_has_changed(
    database: Database, columns: dict[str, str | None], card_driver: str | None, words: str
) -> None:
    with database.write() as session:
        key = posted(session)
        cards.put(session, CARD, card_driver, attached=card_driver is not None)
        kernels.publish(session, kernel(session, key, b"", **columns))
    with database.read() as session:
        (view,) = views.kernel_views(session, kernels.page(session, None, 5, digest("f")).rows)
        assert (view.stale, view.stale_reason) == (bool(words), words)
