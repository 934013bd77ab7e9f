"""`db`, `keys` and `cards`: what they print, what they write, and one message for a database that is of no use."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from sqlalchemy import select
from typer.testing import CliRunner, Result

from compiler.arch import card_named
from compiler.errors import Unsupported
from search.measure.device import CardFacts
from search.tuning.attached import Attached, Detached
from service.cli import cards as cards_command
from service.cli.audit import audit
from service.cli.cards import cards
from service.cli.database import db
from service.cli.delete import delete
from service.cli.keys import keys
from service.cli.prune import prune
from service.db import kernels, migrate
from service.db import keys as key_rows
from service.db.cards import Presence, announce, card_id, put
from service.db.engine import Database
from service.db.models import AuditRow
from tests.service.db.rows import CARD, CARD_ID, kernel, posted

app = typer.Typer()
app.add_typer(db, name="db")
app.add_typer(keys, name="keys")
app.add_typer(delete, name="delete")
app.command()(cards)
app.command()(prune)
app.command()(audit)

Run = Callable[..., Result]
PROBLEMS = (2, "")
"""Exit code and standard output of a command that cannot work."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'data' / 'fusetune.db'}"


@pytest.fixture
def run(url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the test's database."""
    monkeypatch.setenv("COLUMNS", "200")
    why = Detached(card_named("H200"), "no driver")
    monkeypatch.setattr(cards_command, "find_device", lambda wanted: why)

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--database-url", url])

    return run


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def make_foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id integer)")
    connection.close()


def make_text(path: Path) -> None:
    path.write_text("These are my notes. " * 100)


def make_newer(path: Path) -> None:
    with Database(f"sqlite:///{path}") as database:
        migrate.upgrade(database)
        with database.writing.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'ffff'")


EVERY = (
    ("db", "current"),
    ("db", "check"),
    ("keys", "list"),
    ("keys", "revoke", "ci"),
    ("db", "upgrade"),
    ("keys", "create", "ci"),
    ("cards",),
    ("cards", "--json"),
)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(make_foreign, "holds tables that are not fusetune's (customers).", id="foreign"),
        pytest.param(make_text, "the file is not a SQLite database. Name another file.", id="unreadable"),
        pytest.param(Path.mkdir, "unable to open database file", id="folder"),
        pytest.param(make_newer, "is at revision ffff, made by a newer version of fusetune", id="newer"),
    ],
)
def test_a_database_of_no_use_is_one_message(
    run: Run, url: str, words: tuple[str, ...], make: Callable[[Path], None], says: str
) -> None:
    path_of(url).parent.mkdir()
    make(path_of(url))
    done = run(*words)
    if make is make_newer and words[0] == "db" and words[1] != "upgrade":
        assert done.exit_code == 1
        assert says in done.stdout or done.stdout == f"revision is ffff, expected {migrate.head()}\n"
        return
    assert (done.exit_code, done.stdout) == PROBLEMS
    assert done.stderr.startswith(f"error: database {url}: {says}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", EVERY[:4], ids=" ".join)
def test_a_missing_database_is_named_and_not_made(run: Run, url: str, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.exit_code, done.stdout) == PROBLEMS
    says = "there is no such file. Make it with `python -m service db upgrade`."
    assert done.stderr == f"error: database {url}: {says}\n"
    assert not path_of(url).parent.exists()


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize("given", [pytest.param("mysql://host/name", id="kind"), pytest.param("nonsense", id="no-url")])
def test_a_url_of_no_use_is_one_message(words: tuple[str, ...], given: str) -> None:
    done = CliRunner().invoke(app, [*words, "--database-url", given])
    assert (done.exit_code, done.stdout) == PROBLEMS
    assert "postgresql+psycopg://USER@HOST/NAME" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_variable_that_cannot_be_used_is_one_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_PORT", "many")
    done = run("db", "upgrade")
    assert (done.exit_code, done.stdout) == PROBLEMS
    assert "FUSETUNE_PORT: found 'many', expected an integer." in done.stderr


def test_a_switch_that_is_none_is_one_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_REQUIRE_KEY", "perhaps")
    done = run("db", "upgrade")
    assert "FUSETUNE_REQUIRE_KEY: found 'perhaps', expected true or false." in done.stderr


def test_a_secret_that_cannot_be_used_is_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_API_KEY", "my secret")
    done = run("db", "upgrade")
    assert "expected printable ASCII without blanks" in done.stderr
    assert "secret" not in done.stderr


def test_upgrade_current_and_check(run: Run, url: str) -> None:
    head = migrate.head()
    made = run("db", "upgrade")
    assert (made.exit_code, made.stdout) == (0, f"{url} was made, at revision {head}.\n")
    again = run("db", "upgrade")
    assert (again.exit_code, again.stdout) == (0, f"{url} is at revision {head} already.\n")
    current = run("db", "current")
    assert (current.exit_code, current.stdout) == (
        0,
        f"{url} is at revision {head}, the one of this version.\n",
    )
    checked = run("db", "check")
    assert (checked.exit_code, checked.stdout) == (0, f"{url} has the tables of revision {head}.\n")


def test_a_difference_is_shown(run: Run, url: str) -> None:
    run("db", "upgrade")
    with sqlite3.connect(path_of(url)) as connection:
        connection.execute("DROP INDEX ix_trials_state")
    connection.close()
    done = run("db", "check")
    assert (done.exit_code, done.stdout) == (1, "trials: index ix_trials_state is missing\n")


def test_an_empty_database_has_no_tables_yet(run: Run, url: str) -> None:
    path_of(url).parent.mkdir()
    path_of(url).touch()
    current = run("db", "current")
    assert (current.exit_code, current.stderr) == (1, "")
    assert "has no tables yet. Make them with `python -m service db upgrade`." in current.stdout
    assert run("db", "check").exit_code == 2
    assert "There is no database yet" in run("cards").stdout


def test_the_default_database_is_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FUSETUNE_DATABASE_URL", raising=False)
    assert CliRunner().invoke(app, ["db", "upgrade", "--data-dir", "here"]).exit_code == 0
    assert (tmp_path / "here" / "fusetune.db").exists()


def test_a_key_is_printed_once_and_works(run: Run, url: str) -> None:
    made = run("keys", "create", "ci")
    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key.startswith(key_rows.PREFIX)
    assert "not shown again" in made.stderr
    with Database(url) as database, database.read() as session:
        holder = key_rows.holder(session, key)
        assert holder is not None
        assert (holder.name, holder.scope) == ("ci", "tune")
    listed = run("keys", "list")
    assert (listed.exit_code, key in listed.stdout) == (0, False)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["name", "ci"]
    assert listed.stdout.splitlines()[1].split()[1] == "tune"
    assert len(listed.stdout.splitlines()[1].split()) == 5, "name, scope, day and minute, priority; not revoked"


def test_a_key_is_made_with_its_terms(run: Run, url: str) -> None:
    terms = ("--scope", "read", "--expires-days", "2", "--tunings-a-day", "3", "--gpu-s-a-day", "90", "--priority", "1")
    assert run("keys", "create", "ci", *terms, "--requests-a-minute", "60").exit_code == 0
    listed = run("keys", "list").stdout.splitlines()[1]
    assert listed.rstrip().endswith("1         3 tunings a day, 90 GPU s a day, 60 requests a minute")
    with Database(url) as database, database.read() as session:
        (row,) = key_rows.every(session)
        assert row.expires_at is not None
        assert row.expires_at - row.created_at == pytest.approx(timedelta(days=2), abs=timedelta(minutes=1))
    told = run("audit", "--action", "key.created", "--json").stdout
    assert json.loads(told)["detail"]["scope"] == "read"
    assert "key.created" in run("audit").stdout


@pytest.mark.parametrize(
    "option", ["--scope=root", "--priority=0", "--tunings-a-day=0", "--expires-days=0", "--expires-days=nan"]
)
def test_terms_that_cannot_be_are_refused(run: Run, option: str) -> None:
    run("db", "upgrade")
    told = run("keys", "create", "ci", option)
    assert (told.exit_code, told.stdout) == PROBLEMS
    assert option.partition("=")[0] in told.stderr


def test_a_revoked_key_is_accepted_no_more(run: Run, url: str) -> None:
    key = run("keys", "create", "ci").stdout.strip()
    for _ in range(2):
        done = run("keys", "revoke", "ci")
        assert (done.exit_code, done.stdout) == (0, "The key of ci is accepted no more.\n")
    with Database(url) as database, database.read() as session:
        assert key_rows.holder(session, key) is None
    assert len(run("keys", "list").stdout.splitlines()[1].split()) == 7
    assert run("keys", "create", "ci").exit_code == 0


def test_keys_leave_a_trail(run: Run, url: str) -> None:
    run("keys", "create", "ci")
    run("keys", "revoke", "ci")
    run("keys", "revoke", "nobody")
    with Database(url) as database, database.read() as session:
        rows = session.query(AuditRow).order_by(AuditRow.id).all()
    assert [(row.action, row.subject) for row in rows] == [("key.created", "ci"), ("key.revoked", "ci")]
    assert all(row.actor.startswith("command:") for row in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(("create", "ci"), "a key named ci exists already", id="taken"),
        pytest.param(("create", ""), "NAME: found ''", id="empty"),
        pytest.param(("create", "n" * 81), "expected 1 to 80 letters", id="long"),
        pytest.param(("create", "two words"), "NAME: found 'two words'", id="space"),
        pytest.param(("revoke", "nobody"), "there is no key named 'nobody'", id="unknown"),
    ],
)
def test_a_name_of_no_use_is_one_message(run: Run, words: tuple[str, str], says: str) -> None:
    run("keys", "create", "ci")
    done = run("keys", *words)
    assert (done.exit_code, done.stdout) == PROBLEMS
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_keys(run: Run) -> None:
    run("db", "upgrade")
    assert "There are no keys" in run("keys", "list").stdout


class Closing:
    """A device of which only the closing counts."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def attached(device: Closing) -> Attached:
    facts = CardFacts("H200", (9, 0), 132, 1980, 3201, 141 * 2**30, 60 * 2**20, 600, "580.65")
    card = replace(CARD, power_w=600)
    return Attached(device, facts, card, ("H200: power_w is 600, cards.json says 700.",))  # type: ignore[arg-type]  # it is only closed


def test_cards_without_a_gpu_and_without_a_database(run: Run, url: str) -> None:
    shown = run("cards")
    assert shown.exit_code == 0
    assert "This machine has no GPU to tune on: no driver." in shown.stdout
    assert "There is no database yet" in shown.stdout
    assert not path_of(url).exists()
    report = json.loads(run("cards", "--json").stdout)
    assert (report["attached"], report["why"], report["served"]) == (None, "no driver", None)
    assert {"H200", "H100 SXM", "A100", "B200"} <= {card["name"] for card in report["known"]}
    assert next(card["id"] for card in report["known"] if card["name"] == "H200") == CARD_ID


def test_cards_with_a_gpu(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Closing()
    monkeypatch.setattr(cards_command, "find_device", lambda wanted: attached(device))
    shown = run("cards")
    assert device.closed
    assert "This machine has H200 (sm_90a), driver 580.65" in shown.stdout
    assert "power_w is 600" in shown.stdout
    report = json.loads(run("cards", "--json").stdout)
    assert (report["attached"]["power_w"], report["attached"]["driver"]) == (600, "580.65")
    assert report["attached"]["id"] == card_id(replace(CARD, power_w=600)) != CARD_ID


def test_cards_with_a_gpu_of_an_unknown_kind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(wanted: str | None) -> Attached:
        raise Unsupported("Tesla (compute capability 1.0)", "Name a known --card.")

    monkeypatch.setattr(cards_command, "find_device", refuse)
    shown = run("cards")
    assert (shown.exit_code, "Tesla (compute capability 1.0) is not supported yet" in shown.stdout) == (0, True)


def test_cards_that_the_database_serves(run: Run, url: str) -> None:
    run("db", "upgrade")
    assert "no kernels and no workers yet" in run("cards").stdout
    with Database(url) as database, database.write() as session:
        kernels.publish(session, kernel(session, posted(session)))
        put(session, CARD, "580.65", attached=True)
        announce(session, Presence("host-0", "host", 1, CARD_ID, attached=True))
        announce(session, Presence("host-1", "host", 2, CARD_ID, attached=False, why="no driver"))
    line = run("cards").stdout.splitlines()[-1]
    assert line.split() == f"H200 {CARD_ID} the card, driver 580.65 1 host-0, host-1 (no GPU)".split()
    (served,) = json.loads(run("cards", "--json").stdout)["served"]
    assert (served["kernels"], [worker["id"] for worker in served["workers"]]) == (1, ["host-0", "host-1"])


def test_prune_and_delete_say_what_went(run: Run, url: str) -> None:
    run("db", "upgrade")
    with Database(url) as database, database.write() as session:
        key = posted(session)
        old = kernels.publish(session, kernel(session, key, b"old")).id
        new = kernels.publish(session, kernel(session, key, b"new", median_us=5.0)).id
    nothing = "code of 0 replaced kernels (0.0 MiB), samples of 0 trials, 0 workers, 0 Idempotency-Keys"
    assert run("prune").stdout == f"Gone: {nothing}.\n"
    would = run("prune", "--code", "0", "--dry-run").stdout
    assert would.startswith("Would go: code of 1 replaced kernels")
    assert would.endswith("Nothing was changed.\n")
    assert run("prune", "--code", "forever").stdout == f"Gone: {nothing}.\n"
    assert run("prune", "--code", "0").stdout.startswith("Gone: code of 1 replaced kernels")
    refused = run("delete", "kernel", new)
    assert (refused.exit_code, "nothing was deleted" in refused.stderr) == (2, True)
    assert run("delete", "kernel", new, "--yes").stdout == f"Kernel {new} is deleted.\n"
    again = run("delete", "kernel", new, "--yes")
    assert (again.exit_code, "It was deleted on" in again.stderr) == (2, True)
    gone = run("delete", "fusion", key[0], "--yes").stdout
    assert gone == f"Fusion {key[0]} is deleted, with 1 kernels, 0 tunings, 0 trials.\n"
    with Database(url) as database, database.read() as session:
        actions = [(row.action, row.subject) for row in session.scalars(select(AuditRow).order_by(AuditRow.id))]
    assert actions == [("pruned", "database"), ("kernel.deleted", new), ("fusion.deleted", key[0])]
    assert old != new


@pytest.mark.parametrize("option", ["--code=-1", "--samples=soon", "--workers=nan"])
def test_prune_refuses_times_that_are_none(run: Run, option: str) -> None:
    run("db", "upgrade")
    told = run("prune", option)
    assert (told.exit_code, told.stdout) == PROBLEMS
    assert "FUSETUNE_KEEP_" in told.stderr
    assert " or 'forever'. Correct" in told.stderr
