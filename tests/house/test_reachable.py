"""Every module is reached from an entry point: what nothing reaches is kept up, tested and read for nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.syntax import syntax
from tests.test_import_directions import ROOT, Imports, sources

ENTRIES = ("fusetune", "migrations.env", "migrations.versions", "examples")
"""What others than we import or run, beside `python -m`: the client, steps of a database, examples to copy from."""

ADDRESSED = ("service.cli", "service.ci")
"""Packages whose modules are loaded by a name that is put together."""


def entry_points(modules: dict[str, Path]) -> Iterator[str]:
    """Modules that `python -m` runs, and those of ENTRIES and ADDRESSED."""
    for module, path in modules.items():
        named = any(module == name or module.startswith(f"{name}.") for name in (*ENTRIES, *ADDRESSED))
        if named or module.endswith("__main__") or _is_run(path):
            yield module


def _is_run(path: Path) -> bool:
    """Whether the file does something as `python -m`."""
    tests = (n.test for n in syntax(path).body if isinstance(n, ast.If))
    return any(ast.unparse(test) == "__name__ == '__main__'" for test in tests)


def unreachable(root: Path) -> list[str]:
    """Modules under `root` that no entry point imports, however far down; `module:function` in a string counts too."""
    modules = sources(root)
    seen: set[str] = set()
    waiting = list(entry_points(modules))
    while waiting:
        module = waiting.pop()
        if module in seen or module not in modules:
            continue
        seen.add(module)
        tree = syntax(modules[module])
        imports = Imports(module, modules[module], root, frozenset(modules))
        imports.visit(tree)
        waiting += [found.target for found in imports.found]
        waiting += [_package(found.target) for found in imports.found]
        waiting += [_package(module), *_addressed(tree)]
    return sorted(set(modules) - seen)


def _package(module: str) -> str:
    return module.rpartition(".")[0]


def _addressed(tree: ast.AST) -> Iterator[str]:
    """Modules that strings such as `package.module:function` name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value.partition(":")[0]


def test_every_module_is_reached() -> None:
    assert unreachable(ROOT) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("", ["compiler.planted"], id="nobody-imports-it"),
        pytest.param("from compiler import planted", [], id="imported"),
        pytest.param("def late():\n    import compiler.planted", [], id="imported-late"),
        pytest.param('CHILD = "compiler.planted:serve"', [], id="addressed"),
    ],
)
def test_a_planted_module_is_found(tmp_path: Path, source: str, expected: list[str]) -> None:
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler" / "__init__.py").touch()
    (tmp_path / "compiler" / "planted.py").touch()
    (tmp_path / "compiler" / "__main__.py").write_text(source)
    assert unreachable(tmp_path) == expected
