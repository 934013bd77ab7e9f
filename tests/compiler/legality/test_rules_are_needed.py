"""Mutation of the rules: without any one of them, some test of the rules fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.legality.rules import MODEL
from compiler.schedule.refusals import STEP_RULES
from tests.compiler.without_a_rule import VARIABLE

ROOT = Path(__file__).parents[3]
PLUGIN = "tests.compiler.without_a_rule"
TABLES = {
    "compiler.legality": ("tests/compiler/legality", "test_model_*.py"),
    "compiler.schedule.refusals": ("tests/compiler/schedule", "test_*.py"),
}


def tables_of(module: str) -> list[str]:
    """Files with the rows of a rule of that module, the module's own first, where most rows stand."""
    folder, pattern = next(place for package, place in TABLES.items() if module.startswith(package))
    own = f"test_model_{module.rpartition('.')[2]}.py"
    found = sorted((ROOT / folder).glob(pattern), key=lambda path: (path.name != own, path.name))
    return [str(path.relative_to(ROOT)) for path in found]


@pytest.mark.long
@pytest.mark.parametrize("rule", [*MODEL, *STEP_RULES], ids=lambda rule: rule.__name__)
def test_without_a_rule_a_row_passes_that_should_not(rule: object) -> None:
    name, module = rule.__name__, rule.__module__  # type: ignore[attr-defined]  # rules are functions
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", PLUGIN, *tables_of(module)],
        cwd=ROOT,
        env=os.environ | {VARIABLE: name},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 1, f"{name}: add a row that this rule alone refuses\n{found.stdout[-2000:]}"
