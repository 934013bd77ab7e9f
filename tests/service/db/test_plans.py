"""The queries that every request makes go by an index, whatever has piled up in the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert
from sqlalchemy.orm import Session

from fusetune.wire.artifact import VERIFIER
from service.db import fusions, kernels, keys, trials, tunings
from service.db.engine import Database
from service.db.models import (
    ApiKeyRow,
    Base,
    BaselineRow,
    BindingRow,
    FusionRow,
    KernelRow,
    TrialRow,
    TuningRow,
)
from service.db.pages import cursor_of
from service.db.types import now
from tests.service.databases import KINDS, created, new_file
from tests.service.db.rows import BINDING, CARD_ID, digest, posted, tuning

KEY = (digest("fusion 7"), BINDING, CARD_ID, "default")
START = now()
IDS = [f"{n:032x}" for n in (1, 2)]


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """The statements that the block runs, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_: Connection, cursor: object, statement: str, parameters: Any, context: object, many: bool) -> None:
        found.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


ROWS = 3000
ACTIVE = 20
TRIALS_EACH = 3


def fill(session: Session) -> None:
    """As many rows as make PostgreSQL think twice before it reads a table whole."""
    posted(session)
    sha256 = kernels.put_artifact(session, b"artifact")
    many = [(n, digest(f"fusion {n}"), START - timedelta(seconds=n)) for n in range(ROWS)]
    of = {"binding": BINDING, "card_id": CARD_ID, "policy": "default"}
    rows: dict[type[Base], list[dict[str, Any]]] = {
        FusionRow: [{"fingerprint": f, "document": {}, "text": "", "created_at": at} for _, f, at in many],
        BindingRow: [{"fingerprint": f, "hash": BINDING, "document": {}} for _, f, _ in many],
        TuningRow: [
            {
                "id": f"{n:032x}", "fingerprint": f, **of, "queue": "tune", "accept": {}, "budget_s": 1.0,
                "state": "queued" if n < ACTIVE else "done", "idempotency_key": f"{n}", "request_sha256": f,
                "created_at": at,
            }
            for n, f, at in many
        ],
        KernelRow: [
            {
                "id": f"{n:032x}", "artifact_sha256": sha256, "fingerprint": f, **of, "arch": "sm_90a",
                "correct": "verified_on_gpu", "time": "measured", "verifier": VERIFIER, "scheduler": "flat",
                "point": {}, "resources": {}, "generator": "1", "nvrtc": "13.0", "created_at": at,
                "superseded_at": at if n % 3 else None,
            }
            for n, f, at in many
        ],
        TrialRow: [
            {"tuning_id": f"{n:032x}", "number": i, "state": "measured", "scheduler": "flat", "point": {},
             "median_us": 1.0}
            for n in range(ROWS)
            for i in range(TRIALS_EACH)
        ],
        BaselineRow: [
            {"fingerprint": f, **of, "name": "eager", "median_us": 1.0, "samples_us": [], "conditions": {}}
            for _, f, _ in many
        ],
        ApiKeyRow: [{"id": f"{n:032x}", "name": f"{n}", "key_sha256": f} for n, f, _ in many],
    }  # fmt: skip
    for table, values in rows.items():
        session.execute(insert(table), values)


@pytest.fixture(scope="module", params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database in which much has piled up."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = new_file(tmp_path_factory.mktemp("plans"))
        else:
            template: str = request.getfixturevalue("postgres_template")
            url = stack.enter_context(created(request.getfixturevalue("postgres"), template))
        database = stack.enter_context(Database(url))
        with database.write() as session:
            fill(session)
        if request.param == "postgresql":  # SQLite counts nothing on its own, so neither here
            with database.writing.begin() as connection:
                connection.exec_driver_sql("ANALYZE")
        yield database


def plans(database: Database, query: Callable[[Session], object]) -> str:
    """How the database would run the statements of `query`."""
    with statements(database) as found, database.read() as session:
        query(session)
    explain = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"
    lines: list[str] = []
    with database.engine.connect() as connection:
        for statement, parameters in found:
            if statement.startswith(("SELECT", "WITH")):
                lines += [str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        pytest.param(lambda s: kernels.current(s, KEY), "uq_kernels_current", id="kernel-of-a-key"),
        pytest.param(
            lambda s: kernels.current_many(s, [(*KEY[:3], str(n)) for n in range(9)]),
            "uq_kernels_current",
            id="kernels-of-many-keys",
        ),
        pytest.param(lambda s: kernels.page(s, None, 50, KEY[0]), "kernels_c", id="kernels-of-a-fusion"),
        pytest.param(
            lambda s: kernels.page(s, cursor_of(START, "x"), 50), "ix_kernels_created", id="the-next-page-of-kernels"
        ),
        pytest.param(lambda s: kernels.baselines(s, [KEY, (*KEY[:3], "p")]), "baselines", id="baselines"),
        pytest.param(lambda s: tunings.active(s, *KEY), "tunings_", id="active-tuning-of-a-key"),
        pytest.param(lambda s: tunings.page(s, None, 50, state="failed"), "ix_tunings_state", id="tunings-in-a-state"),
        pytest.param(
            lambda s: tunings.page(s, cursor_of(START, "x"), 50, fingerprint=KEY[0]),
            "ix_tunings_fingerprint",
            id="the-next-page-of-tunings-of-a-fusion",
        ),
        pytest.param(
            lambda s: tunings.page(s, cursor_of(START, "x"), 50), "ix_tunings_created", id="the-next-page-of-tunings"
        ),
        pytest.param(tunings.queued, "_tunings_", id="queued"),
        pytest.param(tunings.unfinished, "_tunings_", id="unfinished"),
        pytest.param(lambda s: tunings.ahead(s, tuning(KEY, state="queued")), "_tunings_", id="ahead"),
        pytest.param(lambda s: tunings.by_idempotency_key(s, "k"), "idempotency_key", id="idempotency"),
        pytest.param(lambda s: trials.page(s, IDS[0], 0, 50), "trials", id="trials-of-a-tuning"),
        pytest.param(lambda s: trials.page(s, IDS[0], 0, 50, ["measured"]), "ix_trials_state", id="trials-in-a-state"),
        pytest.param(lambda s: trials.best_of(s, IDS), "ix_trials_median", id="best-trials"),
        pytest.param(lambda s: trials.counts_by_state(s, IDS), "ix_trials_", id="counted-trials"),
        pytest.param(
            lambda s: fusions.page(s, cursor_of(START, "x"), 50), "ix_fusions_created", id="the-next-page-of-fusions"
        ),
        pytest.param(lambda s: fusions.counts(s, [KEY[0], "b"]), "ix_tunings_fingerprint", id="counts-of-fusions"),
        pytest.param(lambda s: keys.holder(s, "k"), "key_sha256", id="key"),
    ],
)
def test_it_goes_by_an_index(database: Database, query: Callable[[Session], object], index: str) -> None:
    found = plans(database, query)
    assert index in found, found
    if database.engine.dialect.name == "sqlite":
        tables = ("kernels", "tunings", "trials", "fusions", "api_keys", "baselines")
        whole = [line for line in found.splitlines() if any(line == f"SCAN {table}" for table in tables)]
        assert not whole, found
    else:
        assert "Seq Scan" not in found, found


def test_pages_in_order_of_an_index_are_not_sorted(database: Database) -> None:
    def pages(session: Session) -> None:
        cursor = cursor_of(START, "x")
        fusions.page(session, cursor, 50)
        tunings.page(session, cursor, 50)
        tunings.page(session, cursor, 50, state="done")
        tunings.page(session, cursor, 50, fingerprint=KEY[0])
        kernels.page(session, cursor, 50)
        trials.page(session, IDS[0], 0, 50, ["measured"])
        trials.page(session, IDS[0], 0, 50)

    found = plans(database, pages)
    assert "TEMP B-TREE" not in found
    assert "Sort" not in found
