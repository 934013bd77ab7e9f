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
    "service.app",
    "service.cli.serve",
)
"""Modules that load no GPU library, in the order of what they import: one process imports them all."""

HEAVY = ("torch", "cuda", "optuna", "pynvml", "ray")


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
