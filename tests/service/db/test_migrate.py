"""The migrations make the tables of the models, once, whoever asks; what is not ours is left alone."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from alembic import command
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import IntegrityError

from service.db import kernels, migrate, trials, tunings
from service.db.engine import Database, DatabaseFault
from service.db.models import Base, KernelRow, TrialRow
from tests.nursery import ROOT, Nursery
from tests.service.db.rows import at_once, kernel, opened, posted, tuning

HEAD = migrate.head()
NEXT = f"{int(HEAD) + 1:04}"
"""Of a version that does not exist yet."""

SECOND = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{revision}", "{before}"

def upgrade() -> None:
    with op.batch_alter_table("tunings") as batch:
        batch.add_column(sa.Column("extra", sa.Integer(), nullable=True))
        batch.alter_column("note", existing_type=sa.String(), nullable=True)
{more}

def downgrade() -> None:
    with op.batch_alter_table("tunings") as batch:
        batch.drop_column("extra")
"""


def _second(more: str = "") -> str:
    """The text of the migration to `NEXT`."""
    return SECOND.format(revision=NEXT, before=HEAD, more=more)


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of a later version: one more than there are. The folder's name would trip a parser."""
    folder = tmp_path / "50%(off)s of it"
    shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_second.py").write_text(_second())
    monkeypatch.setattr(migrate, "FOLDER", folder)
    return folder


def test_an_empty_database_gets_the_tables_of_the_models(empty: Database) -> None:
    assert (migrate.current(empty), migrate.is_current(empty), migrate.standing(empty)) == (None, False, "empty")
    assert migrate.upgrade(empty) is None
    assert (migrate.current(empty), migrate.is_current(empty), migrate.standing(empty)) == (HEAD, True, "current")
    assert migrate.check(empty) == []
    assert migrate.upgrade(empty) == HEAD
    migrate.ensure_ready(empty)


def definitions(database: Database) -> set[str]:
    """Every column, constraint and index as the database itself spells it, without white space."""
    if database.engine.dialect.name == "sqlite":
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'"
    else:
        query = """
            SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' '
                || coalesce(character_maximum_length::text, '') || coalesce(column_default, '')
            FROM information_schema.columns WHERE table_schema = 'public' AND table_name != 'alembic_version'
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename != 'alembic_version'
            UNION ALL SELECT conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype != 'n'
                AND conrelid != 'alembic_version'::regclass
        """
    with database.engine.connect() as connection:
        spelled = [re.sub(r"\s+", "", row[0]) for row in connection.execute(text(query))]
    return {part for one in spelled for part in parts(one)}


def parts(statement: str) -> list[str]:
    """The columns and constraints of a CREATE TABLE of SQLite, in whatever order; anything else as one part."""
    if not statement.startswith("CREATETABLE"):
        return [statement]
    table, _, inside = statement.removesuffix(")").partition("(")
    found, depth = [""], 0
    for letter in inside:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [f"{table}: {part}" for part in found]


def test_migrations_and_models_make_the_very_same_tables(empty: Database) -> None:
    """Finer than `check`: conditions of partial indexes, texts of checks, lengths and defaults."""
    with empty.writing.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num text)")
        Base.metadata.create_all(connection)
    wanted = definitions(empty)
    with empty.writing.begin() as connection:
        Base.metadata.drop_all(connection)
        connection.exec_driver_sql("DROP TABLE alembic_version")
    migrate.upgrade(empty)
    assert len(wanted) > 100
    assert definitions(empty) == wanted


DRIFTS = [
    pytest.param("ALTER TABLE fusions ADD COLUMN extra text", "fusions: column extra is not ours", id="column"),
    pytest.param("ALTER TABLE fusions DROP COLUMN text", "fusions: column text is missing", id="dropped-column"),
    pytest.param("CREATE TABLE extra (a text)", "table extra is not ours", id="table"),
    pytest.param("DROP TABLE samples", "table samples is missing", id="dropped-table"),
    pytest.param("DROP INDEX ix_trials_state", "trials: index ix_trials_state is missing", id="dropped-index"),
    pytest.param("CREATE INDEX extra ON trials (state)", "trials: index extra is not ours", id="index"),
    pytest.param(
        "DROP INDEX uq_kernels_current; CREATE UNIQUE INDEX uq_kernels_current ON kernels "
        "(fingerprint, binding, card_id, policy)",
        "kernels: index uq_kernels_current covers other rows",
        id="index-over-all-rows",
    ),
    pytest.param(
        "DROP INDEX uq_kernels_current; CREATE INDEX uq_kernels_current ON kernels "
        "(fingerprint, binding, card_id, policy) WHERE superseded_at IS NULL",
        "kernels: index uq_kernels_current",
        id="index-no-longer-unique",
    ),
]
POSTGRES_DRIFTS = [
    ("ALTER TABLE tunings ALTER COLUMN seed TYPE integer", "tunings.seed: type is INTEGER, expected BIGINT"),
    ("ALTER TABLE tunings ALTER COLUMN queue DROP NOT NULL", "tunings.queue: nullable is True, expected False"),
    ("ALTER TABLE tunings ALTER COLUMN seed SET DEFAULT 7", "tunings.seed: default is"),
    ("ALTER TABLE tunings DROP CONSTRAINT ck_tunings_state", "tunings: check constraint ck_tunings_state is missing"),
    ("ALTER TABLE tunings ADD CONSTRAINT extra CHECK (seed > 0)", "tunings: check constraint extra is not ours"),
    ("ALTER TABLE samples DROP CONSTRAINT fk_samples_tuning_id_number_trials", "samples: foreign key fk_samples"),
    ("ALTER TABLE api_keys DROP CONSTRAINT uq_api_keys_key_sha256", "api_keys: constraint uq_api_keys_key_sha256"),
]


@pytest.mark.parametrize(("change", "line"), DRIFTS)
def test_a_difference_is_named(full: Database, change: str, line: str) -> None:
    assert_drift(full, change, line)


@pytest.mark.parametrize("full", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("change", "line"), POSTGRES_DRIFTS)
def test_a_difference_that_sqlite_cannot_make_is_named(full: Database, change: str, line: str) -> None:
    assert_drift(full, change, line)


def assert_drift(database: Database, change: str, line: str) -> None:
    with database.writing.begin() as connection:
        for statement in change.split("; "):
            connection.exec_driver_sql(statement)
    found = migrate.check(database)
    assert any(one.startswith(line) for one in found), found


def test_many_threads_upgrade_once(empty: Database) -> None:
    before = at_once(6, lambda _: migrate.upgrade(empty))
    assert sorted(before, key=str) == [HEAD] * 5 + [None]
    assert migrate.check(empty) == []


def test_an_upgrade_waits_for_one_in_another_process(empty: Database) -> None:
    done = Event()

    def upgrade() -> None:
        migrate.upgrade(empty)
        done.set()

    with ThreadPoolExecutor(1) as pool, empty.writing.begin() as other:  # on SQLite, that is the lock
        if empty.engine.dialect.name == "postgresql":
            other.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": migrate._LOCK})
        upgrading = pool.submit(upgrade)
        assert not done.wait(0.5)
        other.rollback()
        upgrading.result(20)
    assert migrate.is_current(empty)


@pytest.mark.parametrize("processes", [2, pytest.param(5, marks=pytest.mark.long)])
def test_many_processes_make_a_database_ready(empty_url: str, processes: int, nursery: Nursery, tmp_path: Path) -> None:
    code = "import sys; from service.db import engine, migrate; migrate.ensure_ready(engine.Database(sys.argv[1]))"
    logs = [tmp_path / f"said {number}" for number in range(processes)]
    started = [nursery.fork(code, [empty_url], {}, ROOT, log) for log in logs]
    assert [(one.wait(), log.read_text()) for one, log in zip(started, logs, strict=True)] == [(0, "")] * processes
    with Database(empty_url) as database:
        assert migrate.is_current(database)


def test_what_was_there_before_predictions_had_terms_is_kept(full: Database) -> None:
    """0002 adds a column: trials of before have nothing in it, those of after what they were made of."""
    migrate.downgrade(full, "0001")
    with full.writing.begin() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("trials")}
        assert "predicted_terms" not in columns
    assert migrate.upgrade(full) == "0001"
    with full.write() as session:
        id = opened(session).id
        for number, terms in enumerate((None, {"fixed": 1.9, "bandwidth": 2.5})):
            known = {} if terms is None else {"predicted_terms": terms}
            found = {"number": number, "scheduler": "flat", "point": {}, "state": "cancelled", **known}
            trials.record(session, id, found)
    with full.read() as session:
        assert [row.predicted_terms for row in trials.page(session, id, None, 5)[0]] == [
            None,
            {"fixed": 1.9, "bandwidth": 2.5},
        ]
    assert migrate.check(full) == []


def test_kernels_of_before_verifiers_had_numbers_are_of_the_first(full: Database) -> None:
    """0003: what was proven until then stays, and answers for its key no more."""
    with full.write() as session:
        opened(session)
        key = posted(session)
        session.add(kernel(session, key))
    migrate.downgrade(full, "0002")
    with full.writing.begin() as connection:
        assert "verifier" not in {column["name"] for column in inspect(connection).get_columns("kernels")}
    assert migrate.upgrade(full) == "0002"
    with full.read() as session:
        row = kernels.current(session, key)
        assert row is not None
        assert (row.verifier, row.refuted) == (1, None)
        assert kernels.current_many(session, [key]) == {}
        assert [one.refresh for one in tunings.unfinished(session)] == [False]
    assert migrate.check(full) == []


@pytest.mark.parametrize(
    ("scheduler", "old", "new"),
    [
        pytest.param(
            "tile2d",
            {"store": "register", "operands": "ahead", "rows_begin": "line", "vector_in": 4},
            {"store": "vector", "operands": "early", "row_span": "line", "vector_in": 4},
            id="tiles",
        ),
        pytest.param("flat", {"store": "vector", "rows_begin": "aligned"}, None, id="another"),
    ],
)
def test_points_have_the_knob_names_of_today(
    full: Database, scheduler: str, old: dict[str, Any], new: dict[str, Any] | None
) -> None:
    """0004: kernels and trials of tiles, there and back."""
    with full.write() as session:
        opened(session)
        row = kernel(session, posted(session))
        row.scheduler, row.point = scheduler, old
        session.add(row)
        id = row.id

    def back(db: Database) -> None:
        migrate.downgrade(db, "0003")

    for step, wanted in ((back, old), (migrate.upgrade, new or old), (back, old)):
        step(full)
        with full.read() as session:
            assert session.scalar(select(KernelRow.point).where(KernelRow.id == id)) == wanted


@pytest.mark.parametrize(
    ("scheduler", "points"),
    [
        pytest.param("column", [{"registers": 40, "reuse": "inputs"}, {"resident": 1536, "reuse": "inputs"}], id="one"),
        pytest.param("row", [{"resident": 1536, "keep": "registers"}], id="another"),
        pytest.param(
            "launches-column+row",
            [{"0.registers": 64, "1.resident": 1536}, *[{"0.resident": 1024, "1.resident": 1536}] * 2],
            id="launches",
        ),
    ],
)
def test_columns_say_how_many_threads_share_a_multiprocessor(
    full: Database, scheduler: str, points: list[dict[str, Any]]
) -> None:
    """0012, there and back: kernels and trials. Those of several launches have one name only."""
    migrate.downgrade(full, "0011")
    with full.write() as session:
        id = opened(session).id
        row = kernel(session, posted(session))
        row.scheduler, row.point = scheduler, points[0]
        session.add(row)
        trials.record(session, id, {"number": 0, "scheduler": scheduler, "point": points[0], "state": "cancelled"})

    def back(db: Database) -> None:
        migrate.downgrade(db, "0011")

    upgraded = points[min(1, len(points) - 1)]
    for step, wanted in ((migrate.upgrade, upgraded), (back, points[2] if len(points) > 2 else points[0])):
        step(full)
        with full.read() as session:
            assert session.scalars(select(KernelRow.point)).one() == wanted
            assert session.scalars(select(TrialRow.point)).one() == wanted


def test_an_empty_server_is_set_up_only_when_told_to(empty: Database) -> None:
    """A file is our own; of a server the wrong database may have been named."""
    if empty.engine.dialect.name == "sqlite":
        migrate.ensure_there(empty)
    else:
        with pytest.raises(DatabaseFault, match=r"has no tables yet. Make them with `python -m service db upgrade`"):
            migrate.ensure_there(empty)
        assert migrate.standing(empty) == "empty"
        migrate.upgrade(empty)
        migrate.ensure_there(empty)
    assert migrate.is_current(empty)


def test_what_has_a_code_was_compiled_and_not_cancelled(full: Database) -> None:
    """0007, there and back: without a code a trial was under way when its search ended."""
    with full.write() as session:
        id = opened(session).id
        for number, code in enumerate((None, "c" * 64)):
            found = {"number": number, "scheduler": "flat", "point": {}, "state": "cancelled", "code_hash": code}
            trials.record(session, id, found)

    def back(db: Database) -> None:
        migrate.downgrade(db, "0006")

    for step, wanted in ((back, "cancelled"), (migrate.upgrade, "compiled"), (back, "cancelled")):
        step(full)
        with full.read() as session:
            states = session.scalars(select(TrialRow.state).order_by(TrialRow.number)).all()
        assert list(states) == ["cancelled", wanted]


def test_a_database_behind_is_not_used(database: Database, later: Path) -> None:
    assert (migrate.standing(database), migrate.is_current(database)) == ("behind", False)
    with pytest.raises(DatabaseFault) as caught:
        migrate.ensure_ready(database)
    assert f"is at revision {HEAD}, this version needs {NEXT}" in str(caught.value)
    where = f" --database-url {database.url}" if database.engine.dialect.name == "sqlite" else ""
    assert f"`python -m service db upgrade{where}`" in str(caught.value)
    assert migrate.current(database) == HEAD


def test_a_database_ahead_is_neither_used_nor_changed(
    empty: Database, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate.upgrade(empty)
    monkeypatch.undo()
    assert migrate.standing(empty) == "ahead"
    for use in (migrate.ensure_ready, migrate.upgrade):
        with pytest.raises(DatabaseFault, match=rf"is at revision {NEXT}, made by a newer version .* \({HEAD}\)"):
            use(empty)
    assert migrate.current(empty) == NEXT


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("CREATE TABLE customers (id integer)",), id="tables"),
        pytest.param(
            ("CREATE TABLE customers (id integer)", "CREATE TABLE alembic_version (version_num varchar(32))",
             "INSERT INTO alembic_version VALUES ('ab12')"),
            id="migrated-by-alembic-too",
        ),
    ],
)  # fmt: skip
def test_a_database_of_somebody_else_is_left_alone(empty: Database, statements: tuple[str, ...]) -> None:
    with empty.writing.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    before = set(inspect(empty.engine).get_table_names())
    for use in (migrate.ensure_ready, migrate.upgrade):
        with pytest.raises(DatabaseFault, match=r"tables that are not fusetune's .*customers.* Name an empty one"):
            use(empty)
    assert set(inspect(empty.engine).get_table_names()) == before


def test_an_upgrade_that_fails_changes_nothing(database: Database, later: Path) -> None:
    (later / "versions" / f"{NEXT}_second.py").write_text(_second("    op.execute('nonsense')"))
    with pytest.raises(DatabaseFault):
        migrate.upgrade(database)
    assert migrate.current(database) == HEAD
    assert "extra" not in {column["name"] for column in inspect(database.engine).get_columns("tunings")}
    assert tunings_referred(database)


def test_an_upgrade_keeps_rows_and_partial_indexes(empty: Database, later: Path) -> None:
    """On SQLite the table is made anew: rows that refer to it, and the index over active tunings, must survive that."""
    second = later / "versions" / f"{NEXT}_second.py"
    waiting = second.read_text()
    second.unlink()
    migrate.upgrade(empty)
    with empty.write() as session:
        id = opened(session).id
        kernel_row = kernel(session, posted(session), tuning_id=id)
        session.add(kernel_row)
    second.write_text(waiting)
    assert migrate.upgrade(empty) == HEAD
    assert migrate.current(empty) == NEXT
    with empty.write() as session:
        assert tunings.open_or_join(session, tuning(posted(session)))[0].id == id
    with pytest.raises(IntegrityError), empty.write() as session:
        session.add(tuning(posted(session)))  # a second active one
    with empty.write() as session:
        tunings.finish(session, id, "done")
        session.add(tuning(posted(session)))  # the index is over active ones only
    assert sorted(migrate.check(empty)) == [
        "tunings.note: nullable is True, expected False",
        "tunings: column extra is not ours",
    ]
    migrate.downgrade(empty, HEAD)
    assert migrate.current(empty) == HEAD


def tunings_referred(database: Database) -> bool:
    """True if foreign keys are in force, on a connection that a migration used too."""
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(tuning(("nowhere", "nothing", "none", "default")))
    return True


def test_a_downgrade_to_nothing_leaves_nothing(full: Database) -> None:
    with full.write() as session:
        opened(session)
    migrate.downgrade(full, "base")
    assert migrate.standing(full) == "empty"
    assert migrate.upgrade(full) is None
    assert migrate.check(full) == []


def test_it_works_from_any_folder(tmp_path: Path, empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    migrate.ensure_ready(empty)
    assert migrate.is_current(empty)


def test_a_tree_without_migrations_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "versions").mkdir()
    shutil.copy(migrate.FOLDER / "env.py", tmp_path)
    monkeypatch.setattr(migrate, "FOLDER", tmp_path)
    with pytest.raises(DatabaseFault, match="there are no migrations"):
        migrate.head()


def test_a_new_revision_is_written_without_our_classes(tmp_path: Path, empty_url: str, later: Path) -> None:
    """What `alembic revision --autogenerate` writes must still run when the classes of today have changed."""
    for known in (later / "versions").glob("*.py"):
        known.unlink()
    with Database(empty_url) as database, database.writing.begin() as connection:
        command.revision(migrate._config(connection), "all of it", autogenerate=True, rev_id="0001")
    (written,) = (later / "versions").glob("0001_*.py")
    source = written.read_text()
    assert "service" not in source
    with Database(empty_url) as database:
        migrate.upgrade(database)
        assert migrate.check(database) == []


def test_alembic_on_its_own_uses_the_database_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    monkeypatch.setenv("FUSETUNE_DATABASE_URL", url)
    command.upgrade(migrate._config(), "head")
    with Database(url) as database:
        assert migrate.is_current(database)
