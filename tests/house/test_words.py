"""The table of others' words in docs/architecture.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_import_directions import ROOT

_CODE = re.compile(r"`([^`]+)`")


def rows(page: str) -> list[tuple[list[str], list[str]]]:
    """(names, files) of each row of three cells whose last holds files."""
    cells = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    found = [(_CODE.findall(row[1]), _CODE.findall(row[2])) for row in cells if len(row) == 3]
    return [(names, files) for names, files in found if files and all(file.endswith(".py") for file in files)]


def faults(page: str, root: Path) -> list[str]:
    """Files that are none, and names that none of a row's files holds."""
    found = []
    for names, files in rows(page):
        found += [f"{file} is no file" for file in files if not (root / file).exists()]
        text = "\n".join((root / file).read_text() for file in files if (root / file).exists())
        found += [f"{files} hold no {name}" for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]
    return found


def test_every_word_is_where_the_table_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert len(rows(page)) > 25
    assert faults(page, ROOT) == []


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| split | `Split` | `ir.py` |", []),
        ("| split | `Spliced` | `ir.py` |", ["['ir.py'] hold no Spliced"]),
        ("| split | `Split` | `it.py` |", ["it.py is no file", "['it.py'] hold no Split"]),
    ],
)
def test_a_wrong_row_is_found(tmp_path: Path, row: str, found: list[str]) -> None:
    (tmp_path / "ir.py").write_text("class Split: ...")
    assert faults(row, tmp_path) == found
