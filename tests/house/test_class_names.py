"""A public class name stands for one thing: a name found twice makes every search, import and traceback ambiguous."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, sources

TWINS = {
    "Fusion": "one thing seen thrice: as it travels, as a client holds it, and bound to sizes",
    "Kernel": "the kernel IR's, and what the client's user calls",
    "Problem": "the compiler knows no wire types, so what it finds wrong with a document is handed over at the border",
    "InvalidFusion": "the error of either side of the wire; the client's users catch theirs",
    "Merge": "the transform of a domain, and the step of a schedule that makes it",
    "Split": "the transform of a domain, and the step of a schedule that makes it",
    "Swizzle": "the transform of a domain, and the step of a schedule that makes it",
    "Resize": "the transform of a domain, and the step of a schedule that makes it",
    "Shift": "the transform of a domain, and the step of a schedule that makes it",
    "Window": "the transform of a domain, and the step of a schedule that makes it",
    "CircularBuffer": "the property of a tensor, and the step of a schedule that gives it",
}
"""Names that two or more modules have on purpose, and why."""


def doubles(root: Path) -> Mapping[str, list[str]]:
    """Public top-level classes that several modules under `root` define, with the modules."""
    found = defaultdict(list)
    for module, path in sources(root).items():
        for node in syntax(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return {name: sorted(modules) for name, modules in found.items() if len(modules) > 1}


def test_no_public_class_name_stands_twice() -> None:
    assert {name: modules for name, modules in doubles(ROOT).items() if name not in TWINS} == {}


def test_every_listed_twin_is_one() -> None:
    assert set(TWINS) <= set(doubles(ROOT))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("class Planted:\n    pass", {"Planted"}, id="twice"),
        pytest.param("class _Planted:\n    pass", set(), id="private"),
        pytest.param("from compiler.first import Planted", set(), id="imported"),
    ],
)
def test_a_planted_double_is_found(tmp_path: Path, text: str, expected: set[str]) -> None:
    for folder, source in (("compiler", "class Planted:\n    pass"), ("search", text)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "first.py").write_text(source)
    assert set(doubles(tmp_path)) == expected
