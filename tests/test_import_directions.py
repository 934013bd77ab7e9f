"""Every import of every source file is one that the table of `tests/house/import_table.py` has."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.house.import_table import TABLE
from tests.house.syntax import syntax

ROOT = Path(__file__).parents[1]


NOT_SOURCES = ("tests", "sdk", "build", "dist")
"""Top-level folders without a row: tests may import anything, `sdk` is a root of its own, the others hold outputs."""


@dataclass(frozen=True, order=True)
class Import:
    """`module` imports `target`, at `line` of `path`; `lazy` when loading the module does not run it."""

    path: str
    line: int
    module: str
    target: str
    lazy: bool

    def __str__(self) -> str:
        how = "lazily " if self.lazy else ""
        return f"{self.path}:{self.line}: {self.module} {how}imports {self.target}"


def sources(root: Path) -> dict[str, Path]:
    """Module name -> file, for every package that the table speaks of or that stands beside those."""
    found = {}
    for top in (root, root / "sdk"):
        for folder in sorted(top.glob("*/")):
            if folder.name in NOT_SOURCES or folder.name.startswith("."):  # an environment has more files than all else
                continue
            for path in sorted(folder.rglob("*.py")):
                parts = list(path.relative_to(top).with_suffix("").parts)
                if not any(p.startswith(".") for p in parts):
                    found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


IMPORTING = ("import_module", "__import__")
"""Functions that import the module that they are given the name of."""

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


class Imports(ast.NodeVisitor):
    """Collects the imports of a module, relative ones resolved; import_module and __import__ of a literal count."""

    def __init__(self, module: str, path: Path, root: Path, known: frozenset[str]) -> None:
        self.module, self.known = module, known
        self.path = str(path.relative_to(root))
        self.package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        self.lazy = False
        self.calls = any(name in path.read_text(encoding="utf-8") for name in IMPORTING)
        self.found: list[Import] = []

    def generic_visit(self, node: ast.AST) -> None:
        """Statements alone, unless the file names a function that imports: most nodes are parts of expressions."""
        for child in ast.iter_child_nodes(node):
            if self.calls or isinstance(child, STATEMENTS):
                self.visit(child)

    def add(self, node: ast.expr | ast.stmt, target: str) -> None:
        self.found.append(Import(self.path, node.lineno, self.module, target, self.lazy))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            self.add(node, submodule if submodule in self.known else base)

    def visit_Call(self, node: ast.Call) -> None:
        if dotted(node.func).rpartition(".")[2] in IMPORTING and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                self.add(node, first.value)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if dotted(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.visit_lazily(node.body)
            for child in node.orelse:
                self.visit(child)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for early in (*node.decorator_list, node.args):  # these run when the module is loaded
            self.visit(early)
        self.visit_lazily(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_lazily(self, body: list[ast.stmt]) -> None:
        outer, self.lazy = self.lazy, True
        for child in body:
            self.visit(child)
        self.lazy = outer


def dotted(node: ast.expr) -> str:
    """A name, or one of a module's: `importlib.import_module`. Empty for everything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
        case _:
            return ""


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in prefixes)


@cache
def row_of(module: str) -> str | None:
    """The longest row that speaks for `module`."""
    rows = [r for r in TABLE if within(module, (r,))]
    return max(rows, key=len, default=None)


def is_allowed(found: Import) -> bool:
    name = row_of(found.module)
    assert name is not None
    row, top = TABLE[name], found.target.partition(".")[0]
    if top in sys.stdlib_module_names or row_of(found.target) == name or within(found.target, row.ours):
        return True
    return within(found.target, row.others) or (found.lazy and within(found.target, row.lazily))


def breaches(root: Path, only: str | None = None) -> Iterator[Import]:
    """Every import under `root`, or in its file `only`, that the table does not allow."""
    modules = sources(root)
    for module, path in modules.items():
        if only is not None and path != root / only:
            continue
        seen = Imports(module, path, root, frozenset(modules))
        seen.visit(syntax(path))
        if row_of(module) is None:
            yield Import(seen.path, 0, module, "anything: it has no row in the table", lazy=False)
            continue
        yield from (i for i in seen.found if not is_allowed(i))


def test_every_import_is_in_the_table() -> None:
    assert [str(b) for b in breaches(ROOT)] == []


def test_every_package_is_seen() -> None:
    seen = {module.partition(".")[0] for module in sources(ROOT)}
    assert {"fusetune", "compiler", "search", "benchmarks", "examples"} <= seen


@pytest.fixture(scope="module")
def copied_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("compiler", "search", "sdk", "benchmarks", "examples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
    return copy


LAZY = "def load():\n    "
TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("path", "source", "target"),
    [
        pytest.param(
            "compiler/ir/planted.py", "import compiler.schedule.trace", "compiler.schedule.trace", id="upwards"
        ),
        pytest.param("compiler/ir/planted.py", "from .. import lower", "compiler.lower", id="relative"),
        pytest.param(
            "compiler/ir/sub/planted.py", "from ...emit import Planted", "compiler.emit", id="relative-package"
        ),
        pytest.param("compiler/legality/planted.py", "import compiler.lower.loops", "compiler.lower.loops", id="apart"),
        pytest.param("compiler/lower/planted.py", "import compiler.legality", "compiler.legality", id="apart-back"),
        pytest.param("compiler/lower/planted.py", LAZY + "import search.space", "search.space", id="lazy-is-no-excuse"),
        pytest.param("compiler/emulate/planted.py", "import compiler.analysis", "compiler.analysis", id="witness"),
        pytest.param("compiler/reference/planted.py", "import compiler.schedule", "compiler.schedule", id="reference"),
        pytest.param("compiler/emit/planted.py", "import compiler.nvrtc", "compiler.nvrtc", id="emit-knows-no-nvrtc"),
        pytest.param("compiler/emit/planted.py", LAZY + "from cuda.bindings import nvrtc", "cuda.bindings", id="nvrtc"),
        pytest.param("compiler/nvrtc.py", "from cuda.bindings import nvrtc", "cuda.bindings", id="nvrtc-not-lazy"),
        pytest.param(
            "compiler/pipeline.py", "from fusetune.wire import artifact", "fusetune.wire.artifact", id="wire-border"
        ),
        pytest.param("compiler/ir/planted.py", TYPING + "import torch", "torch", id="torch-in-compiler"),
        pytest.param("compiler/planted.py", "import compiler.errors", "compiler.errors", id="module-without-its-row"),
        pytest.param("search/planted.py", "import optuna", "optuna", id="optuna-outside-samplers"),
        pytest.param("search/planted.py", LAZY + "import torch", "torch", id="torch-outside-measure"),
        pytest.param("search/measure/planted.py", "import torch", "torch", id="torch-not-lazy"),
        pytest.param("search/planted.py", "import sqlalchemy.orm", "sqlalchemy.orm", id="sql-in-search"),
        pytest.param("search/planted.py", "import httpx", "httpx", id="http-in-search"),
        pytest.param("search/planted.py", "import service.app", "service.app", id="search-knows-no-service"),
        pytest.param("search/planted.py", "import fusetune.torch", "fusetune.torch", id="search-and-sdk"),
        pytest.param("sdk/fusetune/wire/planted.py", "import numpy", "numpy", id="wire-is-pydantic-only"),
        pytest.param(
            "sdk/fusetune/wire/planted.py", "import fusetune.errors", "fusetune.errors", id="wire-imports-nothing"
        ),
        pytest.param("sdk/fusetune/planted.py", LAZY + "import torch", "torch", id="torch-outside-torch-py"),
        pytest.param(
            "sdk/fusetune/planted.py", LAZY + "import cuda.bindings", "cuda.bindings", id="cuda-outside-launch"
        ),
        pytest.param("sdk/fusetune/launch/planted.py", "import cuda.bindings", "cuda.bindings", id="cuda-not-lazy"),
        pytest.param("sdk/fusetune/planted.py", "import compiler.ir", "compiler.ir", id="sdk-knows-no-compiler"),
        pytest.param(
            "search/planted.py", 'import importlib\nimportlib.import_module("optuna")', "optuna", id="by-name"
        ),
        pytest.param("search/planted.py", "if True:\n    class A:\n        import optuna", "optuna", id="in-a-class"),
        pytest.param("newcomer/planted.py", "import os", "anything: it has no row in the table", id="no-row"),
    ],
)
def test_a_planted_import_is_found(copied_tree: Path, path: str, source: str, target: str) -> None:
    assert planted(copied_tree, path, source) == {target}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        pytest.param("compiler/legality/planted.py", "from compiler.analysis import tma", id="downwards"),
        pytest.param("compiler/ir/planted.py", "from . import ops\nfrom .ops import OpKind", id="own-package"),
        pytest.param("compiler/nvrtc.py", LAZY + "from cuda.bindings import nvrtc", id="nvrtc-lazily"),
        pytest.param("search/measure/planted.py", TYPING + "import torch", id="torch-for-types"),
        pytest.param("search/measure/planted.py", LAZY + "import torch.cuda", id="torch-lazily"),
        pytest.param("search/tuning/samplers/planted.py", "import optuna.samplers", id="optuna-in-samplers"),
        pytest.param("sdk/fusetune/launch/planted.py", LAZY + "from cuda.bindings import driver", id="cuda-lazily"),
        pytest.param("sdk/fusetune/torch.py", "import torch", id="torch-in-torch-py"),
    ],
)
def test_an_allowed_import_is_not(copied_tree: Path, path: str, source: str) -> None:
    assert planted(copied_tree, path, source) == set()


def planted(tree: Path, path: str, source: str) -> set[str]:
    """Targets of the breaches in `path` once it holds `source` alone; the tree is as before afterwards."""
    file = tree / path
    before = file.read_text() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source + "\n")
    try:
        return {b.target for b in breaches(tree, only=path)}
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before)
