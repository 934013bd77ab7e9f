"""The pages on how to extend the project name files and what stands in them; both are there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.test_import_directions import ROOT

FOLDER = ROOT / "docs" / "extending"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")

_STEP = re.compile(r"^\d+\. (.+?)(?::|$)", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"[\w.]+(?:/[\w.]+)+/?")


def faults(page: str) -> list[str]:
    """What is wrong with a page: no steps, steps without a file, files that are none, names that a file does not hold.

    A step is a numbered line that begins with a file and names in it, in code marks, up to a colon.
    """
    steps = [_CODE.findall(step) for step in _STEP.findall(page)]
    if not steps:
        return ["no numbered steps"]
    return [fault for step in steps for fault in _faults_of(step)]


def _faults_of(step: list[str]) -> list[str]:
    if not step or not _PATH.fullmatch(step[0]):
        return [f"a step begins with {step[:1]}, expected a file"]
    path, *names = step
    if not (ROOT / path).exists():
        return [f"{path} is no file"]
    if (ROOT / path).is_dir():
        return [f"{path}/{name} is no file" for name in names if not (ROOT / path / name).exists()]
    text = (ROOT / path).read_text()
    return [f"{path} holds no {name}" for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_what_there_is(page: Path) -> None:
    assert faults(page.read_text()) == []


def unlisted(index: str, pages: Iterable[str]) -> list[str]:
    """Pages that the index leads nobody to."""
    return [page for page in pages if f"]({page})" not in index]


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text()
    assert unlisted(index, (page.name for page in PAGES)) == []
    assert unlisted(index, ["rule.md", "planted.md"]) == ["planted.md"]


@pytest.mark.parametrize(
    ("page", "found"),
    [
        pytest.param("1. `service/app.py` `create_app`: x", [], id="right"),
        pytest.param("1. `service/routes/`: x", [], id="folder"),
        pytest.param("1. `service/no.py`: x", ["service/no.py is no file"], id="no-file"),
        pytest.param("1. `service/app.py` `planted`: x", ["service/app.py holds no planted"], id="no-name"),
        pytest.param("1. First of all: x", ["a step begins with [], expected a file"], id="a-step-without-a-file"),
        pytest.param("Just text.", ["no numbered steps"], id="no-steps"),
    ],
)
def test_a_planted_fault_is_found(page: str, found: list[str]) -> None:
    assert faults(page) == found
