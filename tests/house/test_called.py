"""Every function and class is of use to somebody but its tests: what only these name is kept up for nobody."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, sources

_WORD = re.compile(r"[A-Za-z_]\w*")

PACKAGES = ("compiler", "search", "service", "fusetune")
"""What is asked about; benchmarks, examples and generators of pages are users of it."""

ALLOWED = {
    "compiler.copies.layout.column_major": "a word of TileFusion, beside `row_major`",
    "compiler.copies.layout.compose": "a word of TileFusion",
    "compiler.copies.registers.compose_base_tile": "a word of TileFusion",
    "search.measure.fake.facts_of": "of the device that takes the place of a GPU in tests",
    "search.space.space.Space.legal_indices": "all legal points, which tests hold what is counted and drawn against",
    "service.db.engine.Database.ping": "asks for a connection, as everything else does, and for nothing more",
}
"""What tests alone use, and why it is there."""


def unused(root: Path) -> list[str]:
    """Functions, methods and classes under `root` that nothing names but their own definitions."""
    named: Counter[str] = Counter()
    defined = []
    for module, path in sources(root).items():
        tree = syntax(path)
        named.update(_names(tree))
        if module.startswith(PACKAGES):
            defined += [(f"{module}.{name}", name.rpartition(".")[2]) for name in _definitions(tree)]
    for page in root.glob("service/**/*.html"):
        named.update(_WORD.findall(page.read_text()))
    return sorted(place for place, name in defined if not named[name])


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(text)) if len(text) < 120:
                yield from _WORD.findall(text)


def _definitions(tree: ast.Module) -> Iterator[str]:
    """Names of what a module defines. What is decorated may be called by whoever decorates, a method of a class with a
    base by that one, and `_repr_html_` and the like by name."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, decorator_list=[]) if not name.endswith("_"):
                yield name
            case ast.ClassDef(bases=[]):
                yield node.name
                methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
                yield from (f"{node.name}.{m.name}" for m in methods if not m.name.endswith("_") and _is_plain(m))


def _is_plain(method: ast.FunctionDef) -> bool:
    return all(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)


def test_nothing_is_for_tests_alone() -> None:
    assert unused(ROOT) == sorted(ALLOWED)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("", ["compiler.planted.Planted", "compiler.planted.Planted.size", "compiler.planted.f"], id="not"),
        pytest.param("f(Planted().size)", [], id="called"),
        pytest.param('TARGET = "compiler.planted:f"\nX: Planted\nX.size', [], id="by-a-string"),
    ],
)
def test_a_planted_function_is_found(tmp_path: Path, source: str, found: list[str]) -> None:
    planted = "class Planted:\n    @property\n    def size(self): ...\n\n\ndef f(): ..."
    (tmp_path / "compiler").mkdir()
    for name, text in (("planted", planted), ("other", source)):
        (tmp_path / "compiler" / f"{name}.py").write_text(text)
    assert unused(tmp_path) == found
