"""No property fails because the machine is busy: Hypothesis measures no example by the clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent


def deadlines(source: str) -> Iterator[int]:
    """The lines that set a deadline of Hypothesis other than none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("settings", "register_profile")):
            for word in node.keywords:
                if word.arg == "deadline" and ast.unparse(word.value) != "None":
                    yield node.lineno


def test_there_is_none_unless_a_test_asks_for_it() -> None:
    assert settings().deadline is None
    assert settings(max_examples=3).deadline is None


def test_no_test_asks_for_it() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        if path.name != Path(__file__).name
        if "deadline" in (source := path.read_text(encoding="utf-8"))
        for line in deadlines(source)
    ]
    assert not found


def test_a_deadline_is_seen() -> None:
    source = (
        "@settings(max_examples=3)\ndef f(): ...\n@settings(deadline=200)\ndef g(): ...\nLAW = settings(deadline=None)"
    )
    assert list(deadlines(source)) == [3]
