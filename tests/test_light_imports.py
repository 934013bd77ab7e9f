"""What is started often, or where there is no GPU, loads no GPU library."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.test_import_directions import ROOT

LIGHT = (
    "fusetune",
    "fusetune.client",
    "fusetune.wire.suite",
    "compiler.wire",
    "search.space",
    "service.jobs.dbos_queue",
    "service.app",
    "service.cli.serve",
)
"""Modules that load no GPU library, in the order of what they import: one process imports them all."""

HEAVY = ("torch", "cuda", "optuna", "pynvml", "ray")


BEGUN_WITH = {"compiler", "compiler.arch", "compiler.errors", "compiler.generator", "compiler.renamed"}
"""All that the service loads of compiler and search before it is up; the rest is for `service.later`."""

OF_FRAMEWORKS = (
    "fastapi, sqlalchemy.orm, alembic.autogenerate, alembic.config, dbos, structlog, jinja2, prometheus_client"
)


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Module of LIGHT -> those of HEAVY that are there once it is imported."""
    code = (
        f"import importlib, json, sys\nfor name in {LIGHT}:\n    importlib.import_module(name)\n"
        f"    print(json.dumps([name, [m for m in {HEAVY} if m in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": ".:sdk"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_loads_no_gpu_library(module: str, loaded: dict[str, list[str]]) -> None:
    assert loaded[module] == []


def modules_after(*steps: str) -> list[set[str]]:
    """What a process has loaded after each of these pieces of code."""
    code = "import sys\n" + "".join(f"{step}\nprint(*sys.modules)\n" for step in steps)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={"PYTHONPATH": ".:sdk"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_the_service_begins_with_its_frameworks_and_little_else() -> None:
    """Loading is what a start takes, and its time goes with what is loaded, which no busy machine changes."""
    loaded, later = modules_after("import service.app", "import service.later; service.later.load()")
    of = {top: {name for name in loaded if name.partition(".")[0] == top} for top in ("compiler", "search", "numpy")}
    assert of == {"compiler": BEGUN_WITH, "search": set(), "numpy": set()}
    (theirs,) = modules_after(f"import {OF_FRAMEWORKS}, pydantic_settings")
    assert len(loaded) <= 1.3 * len(theirs), (len(loaded), len(theirs))
    # What is loaded once it is up is there by its name.
    assert {"compiler.wire", "search.space.schedulers", "service.operations.spaces"} <= later
