"""No module reaches itself by imports, whether they run at once, late or for types alone: what needs each other is one
thing, or has a lower one in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, Imports, sources

Graph = Mapping[str, set[str]]
"""Module -> the modules that it imports."""


def import_graph(root: Path) -> Graph:
    """Who imports whom under `root`, every kind of import counted."""
    modules = sources(root)
    graph = {}
    for module, path in modules.items():
        imports = Imports(module, path, root, frozenset(modules))
        imports.visit(syntax(path))
        graph[module] = {i.target for i in imports.found if i.target in modules and i.target != module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Sets of modules each of which reaches all others of its set: Kosaraju's strongly connected components."""
    backward: dict[str, set[str]] = {module: set() for module in graph}
    for module, targets in graph.items():
        for target in targets:
            backward[target].add(module)
    seen: set[str] = set()
    ended = [module for start in graph for module in _reached(start, graph, seen)]
    seen.clear()
    found = [sorted(_reached(module, backward, seen)) for module in reversed(ended)]
    return sorted(circle for circle in found if len(circle) > 1)


def _reached(start: str, graph: Graph, seen: set[str]) -> Iterator[str]:
    """What `start` reaches past what was `seen`, each module after all that it leads to."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(graph[start]))]
    while path:
        module, targets = path[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            path.pop()
            yield module
        else:
            seen.add(following)
            path.append((following, iter(graph[following])))


def test_no_modules_import_each_other() -> None:
    assert circles(import_graph(ROOT)) == []


def _loop(*modules: str) -> dict[str, set[str]]:
    return {module: {modules[(i + 1) % len(modules)]} for i, module in enumerate(modules)}


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, [], id="meeting-again-is-none"),
        pytest.param(_loop("a", "b"), [["a", "b"]], id="two"),
        pytest.param(_loop("c", "a", "b"), [["a", "b", "c"]], id="round-three"),
        pytest.param(_loop("a", "b") | {"z": {"a"}, "b": {"a", "y"}, "y": set()}, [["a", "b"]], id="with-neighbours"),
        pytest.param(_loop("a", "b") | _loop("c", "d"), [["a", "b"], ["c", "d"]], id="two-circles"),
        pytest.param(
            _loop("a", "b") | {"c": {"a", "d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]], id="one-leads-to-other"
        ),
    ],
)
def test_circles_of_a_graph(graph: Graph, expected: list[list[str]]) -> None:
    assert circles(graph) == expected


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("import compiler.first", id="at-once"),
        pytest.param("from compiler.first import NAME", id="a-name"),
        pytest.param("from compiler import first", id="from-the-package"),
        pytest.param("from . import first", id="relative"),
        pytest.param("def late():\n    import compiler.first", id="late"),
        pytest.param("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import compiler.first", id="for-types"),
        pytest.param("import importlib\nimportlib.import_module('compiler.first')", id="by-name"),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, back: str) -> None:
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler" / "__init__.py").touch()
    (tmp_path / "compiler" / "first.py").write_text("import compiler.second")
    (tmp_path / "compiler" / "second.py").write_text(back)
    assert circles(import_graph(tmp_path)) == [["compiler.first", "compiler.second"]]
