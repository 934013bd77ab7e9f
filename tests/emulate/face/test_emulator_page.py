"""docs/emulator.md: its example runs and does what the page says; its tables list what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.emulate.report import FaultKind
from compiler.emulate.spec.elements import ELEMENTS, SCALARS
from compiler.emulate.spec.initial import INITS

PAGE = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found.group(1)


def rows(heading: str) -> list[str]:
    """The first cells of the table after a line."""
    table = PAGE.partition(heading)[2].partition("|---|")[2].partition("\n\n")[0]
    return re.findall(r"^\| (.*?) \|", table, re.MULTILINE)


def emulated(tmp_path: Path, source: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / "reverse.cu").write_text(source)
    (tmp_path / "reverse.json").write_text(block("json"))
    files = [str(tmp_path / "reverse.cu"), "--spec", str(tmp_path / "reverse.json")]
    done = CliRunner().invoke(app, ["emulate", *files, "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_the_example_races_and_its_cure_does_not(tmp_path: Path) -> None:
    source = block("cuda")
    code, found = emulated(tmp_path, source)
    assert (code, {(f["kind"], f["source_line"]) for f in found["faults"]}) == (1, {("race", 4)})
    lines = source.splitlines()
    code, found = emulated(tmp_path, "\n".join([*lines[:3], "  __syncthreads();", *lines[3:]]))
    assert (code, found["faults"], found["tensors"]["y"]["written"]) == (0, [], 128)


def test_every_kind_of_fault_is_listed() -> None:
    assert rows("## Faults") == [f"`{kind}`" for kind in FaultKind]


def test_every_type_and_init_is_listed() -> None:
    (types,) = re.findall(r"^\| `dtype` \| `(.*?)` \|", PAGE, re.MULTILINE)
    assert set(types.split()) == set(ELEMENTS)
    (scalars,) = re.findall(r'"dtype": "i32"\}` \| a number: `(.*?)`', PAGE)
    assert set(scalars.split()) == set(SCALARS)
    listed = {word for cell in rows("| init | values |") for word in re.findall(r"`([a-z]+)`", cell)}
    assert listed == set(INITS)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", PAGE))
def test_links_lead_somewhere(target: str) -> None:
    assert not target or (Path(__file__).parents[3] / "docs" / target).exists()
