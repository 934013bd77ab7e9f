"""`python -m service emulate`: a stored kernel run on the CPU, and one message for what cannot be run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from compiler.arch import arch_named
from compiler.nvrtc import compile_now
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from service.cli.emulate import emulate
from service.db import kernels
from service.db.engine import Database
from service.db.models import ArtifactRow
from tests.compiler.schedules import by_threads, from_wire
from tests.service.databases import new_file
from tests.service.db.rows import kernel, posted

FUSION = from_wire([{"name": "x", "shape": [70], "dtype": "f32"}], [{"op": "copy", "in": ["x"], "out": "y"}], "y")

Run = Callable[..., Result]

app = typer.Typer()
app.command()(emulate)


@pytest.fixture(scope="module")
def content() -> bytes:
    generated = generate(ScheduleTrace(FUSION, tuple(by_threads())), arch_named("sm_90a"))
    return artifact(generated, compile_now(generated.source, "sm_90a")).model_dump_json().encode()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return new_file(tmp_path)


@pytest.fixture
def stored(url: str, content: bytes) -> str:
    """The id of a kernel in the database."""
    return store(url, content)


def store(url: str, content: bytes) -> str:
    with Database(url) as database, database.write() as session:
        return kernels.publish(session, kernel(session, posted(session), content)).id


def run(url: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--database-url", url])


def test_a_stored_kernel_runs(url: str, stored: str, tmp_path: Path) -> None:
    done = run(url, stored, "--json", "--order", "random", "--seed", "3", "--save", str(tmp_path / "out"))
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.exit_code, done.stderr, found["faults"]) == (0, "", [])
    assert (found["order"], found["seed"], list(found["tensors"])) == ("random", 3, ["i0", "v0"])
    x, y = (np.load(tmp_path / "out" / f"{name}.after.npy") for name in ("i0", "v0"))
    assert np.array_equal(x, y)


def test_a_stored_kernel_is_reported(url: str, stored: str) -> None:
    done = run(url, stored)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "no faults" in done.stdout.splitlines()
    assert "no line information" in done.stdout


def damage(url: str) -> None:
    with Database(url) as database, database.write() as session:
        for row in session.query(ArtifactRow):
            row.content = b"damaged"


@pytest.mark.parametrize(
    ("word", "spoil", "says"),
    [
        pytest.param("0" * 32, lambda url: None, "there is no kernel '000", id="unknown"),
        pytest.param("", lambda url: None, "there is no kernel ''", id="empty"),
        pytest.param(None, damage, "is damaged", id="damaged"),
    ],
)
def test_a_kernel_that_cannot_be_run(
    url: str, stored: str, word: str | None, spoil: Callable[[str], None], says: str
) -> None:
    spoil(url)
    done = run(url, stored if word is None else word, "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_artifact_that_is_none(url: str) -> None:
    done = run(url, store(url, b"artifact"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: artifact: ")


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    done = run(f"sqlite:///{tmp_path / 'fusetune.db'}", "0" * 32)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "service db upgrade" in done.stderr
