"""What docs/architecture.md names, in the table of others' words and in its text, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_import_directions import ROOT

_CODE = re.compile(r"`([^`]+)`")
_NAMED = re.compile(r"[A-Za-z_][\w./]*")
PACKAGES = ("benchmarks", "compiler", "migrations", "search", "sdk", "service", "tests/house")


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


def unknown(page: str, root: Path) -> list[str]:
    """Names and paths of a text that are no module, no folder and no word of the code. `module.Name` is both."""
    files = [file for package in PACKAGES for file in (root / package).rglob("*.py")]
    words = {word for file in files for word in (file.stem, *re.findall(r"\w+", file.read_text()))}
    paths = "\n".join(f"/{file.relative_to(root).with_suffix('')}/\n/{file.relative_to(root)}/" for file in files)

    def is_there(name: str) -> bool:
        if f"/{name.strip('/')}/" in paths or (root / name).exists():
            return True
        return "/" not in name.replace(".py", "") and all(part in words for part in name.split("."))

    named = dict.fromkeys(word for word in _CODE.findall(page) if _NAMED.fullmatch(word))
    return [name for name in named if not is_there(name)]


def test_every_word_is_where_the_table_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert len(rows(page)) > 25
    assert faults(page, ROOT) == []


def test_every_name_of_the_text_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert unknown(page, ROOT) == []


def test_a_name_that_moved_away_is_found(tmp_path: Path) -> None:
    (tmp_path / "compiler" / "tma").mkdir(parents=True)
    (tmp_path / "compiler" / "tma" / "roles.py").write_text("class Role: ...")
    there = "`roles`, `tma/roles`, `compiler/tma/roles.py`, `roles.Role`, `tma`, `Role`"
    assert unknown(f"{there}, `tma_roles`, `tma/role`, `roles.Rule`", tmp_path) == [
        "tma_roles",
        "tma/role",
        "roles.Rule",
    ]


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
