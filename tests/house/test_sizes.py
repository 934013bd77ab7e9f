"""No file is longer than one can hold in mind: where it grows beyond, it holds two concepts, and has a seam."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_import_directions import ROOT, sources

MOST_LINES = 500


def too_long(root: Path) -> dict[str, int]:
    """Files of the packages and of the tests under `root` with more lines, and how many."""
    files = dict.fromkeys((*sources(root).values(), *(root / "tests").rglob("*.py")))
    lines = {str(file.relative_to(root)): file.read_text().count("\n") for file in files}
    return {file: count for file, count in lines.items() if count > MOST_LINES}


def test_no_file_is_too_long() -> None:
    assert too_long(ROOT) == {}


@pytest.mark.parametrize("path", ["compiler/planted.py", "sdk/fusetune/planted.py", "tests/sdk/planted.py"])
@pytest.mark.parametrize(("lines", "is_found"), [(500, False), (501, True)])
def test_a_planted_file_is_found(tmp_path: Path, path: str, lines: int, is_found: bool) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n" * lines)
    assert too_long(tmp_path) == ({path: lines} if is_found else {})
