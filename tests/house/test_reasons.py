"""What a checker is told to overlook says why, beside it: an exception without a reason hides the next fault."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_import_directions import ROOT, sources

FOLDERS = ("tests", "docs")
"""Besides the packages."""

_TOLD = re.compile(r"#\s*(?:type:\s*ignore(?:\[[\w\-, ]*\])?|(?:ruff:\s*)?noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?)")
"""To mypy, or to ruff."""

_FEWEST_WORDS = 2


def unreasoned(root: Path) -> list[str]:
    """Places under `root` at which a checker is told to overlook something, and nobody is told why."""
    files = [*sources(root).values(), *(file for folder in FOLDERS for file in (root / folder).rglob("*.py"))]
    return sorted(
        f"{file.relative_to(root)}:{line}" for file in dict.fromkeys(files) for line in _lines(file.read_text())
    )


def _lines(text: str) -> Iterator[int]:
    if "noqa" not in text and "ignore" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and _TOLD.search(token.string):
            reason = re.findall(r"\w{2,}", _TOLD.sub("", token.string))
            if len(reason) < _FEWEST_WORDS:
                yield token.start[0]


def test_every_exception_has_its_reason() -> None:
    assert unreasoned(ROOT) == []


@pytest.mark.parametrize(
    ("comment", "is_found"),
    [
        pytest.param("type: ignore", True, id="whole-line"),
        pytest.param("type: ignore[arg-type]", True, id="mypy"),
        pytest.param("noqa: B018", True, id="ruff"),
        pytest.param("type: ignore[name-defined]  # noqa: F821", True, id="both"),
        pytest.param("ruff: noqa: F401", True, id="file"),
        pytest.param("noqa: N801, N802", True, id="two-codes"),
        pytest.param("type: ignore[arg-type]  # ours", True, id="a-word-says-nothing"),
        pytest.param("type: ignore[arg-type]  # what is refused", False, id="mypy-and-why"),
        pytest.param("noqa: B018 (a property that raises)", False, id="ruff-and-why"),
        pytest.param("noqa: E731 - one of two", False, id="after-a-dash"),
        pytest.param("what is told to ignore nothing", False, id="a-remark"),
    ],
)
@pytest.mark.parametrize("path", ["compiler/planted.py", "tests/sdk/planted.py"])
def test_a_planted_exception_is_found(tmp_path: Path, path: str, comment: str, is_found: bool) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f"TEXT = '# noqa'\nx = 1  # {comment}\n")
    assert unreasoned(tmp_path) == ([f"{path}:2"] if is_found else [])
