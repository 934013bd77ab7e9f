"""Who may import whom. The table below is the truth; every source file is held against it.

A row speaks for a module and all below it; the longest row that fits wins. A module may always import what lies in its
own row and the standard library. Anything else must be named: of ours, of others at import time, or of others `lazily`
(inside a function or under TYPE_CHECKING, so that importing the module does not load them). A file without a row is a
breach: a new package starts by saying what it may import.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.house.syntax import syntax

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """What a module and all below it may import; `lazily` may name ours too."""

    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()


# Each layer of the compiler may import the layers above it in this list, never below.
BASE = ("compiler.errors", "compiler.dtypes", "compiler.arch")
IR = (*BASE, "compiler.ir")
SCHEDULE = (*IR, "compiler.schedule")
ANALYSIS = (*SCHEDULE, "compiler.analysis")
TILE = (*ANALYSIS, "compiler.copies")
LOWER = (*TILE, "compiler.lower")
EMIT = (*LOWER, "compiler.emit")
JUDGE = (*TILE, "compiler.legality", "compiler.verdict")
EMULATOR = ("compiler.emulate", "compiler.emulated_runs", "compiler.cuda_sources")
WHOLE_COMPILER = (
    *EMIT,
    "compiler.renamed",
    "compiler.legality",
    "compiler.verdict",
    "compiler.judging",
    "compiler.explain",
    "compiler.nvrtc",
    "compiler.child",
    "compiler.cubin",
    "compiler.wire",
    "compiler.generator",
    "compiler.pipeline",
    "compiler.explicit",
    "compiler.reference",
)

PYDANTIC = ("pydantic", "pydantic_core")

# What the API process is made of: neither the search nor what compiles, measures or launches.
TABLES = ("service.settings", "service.db", "compiler.arch", "compiler.errors", "compiler.renamed")
OPERATIONS = (
    *TABLES,
    "service.operations",
    "service.stands_on",
    "service.views",
    "service.jobs.queue",
    "service.jobs.presence",
    "compiler",
    "search.space",
    "search.launches",
    "search.proof.decidable",
    "fusetune.wire",
)
BORDER = (*OPERATIONS, "service.problems", "service.auth", "service.metrics", "service.log", "service.limits")
WEB = ("fastapi", "starlette")

TABLE: dict[str, Row] = {
    "fusetune": Row(ours=("fusetune",), others=PYDANTIC),
    "fusetune.wire": Row(others=PYDANTIC),
    "fusetune.transport": Row(ours=("fusetune",), others=(*PYDANTIC, "httpx2")),
    "fusetune.signing": Row(ours=("fusetune",), others=PYDANTIC, lazily=("cryptography",)),
    "fusetune.launch": Row(ours=("fusetune",), others=PYDANTIC, lazily=("cuda",)),
    # Importing this module is the lazy step: `fusetune` itself never does it (tested below).
    "fusetune.torch": Row(ours=("fusetune",), others=(*PYDANTIC, "torch")),
    "fusetune.graph": Row(ours=("fusetune",), others=(*PYDANTIC, "torch", "sympy")),
    "fusetune.torch_compile": Row(ours=("fusetune",), others=("torch",)),
    "fusetune.cli": Row(ours=("fusetune",), others=PYDANTIC, lazily=("torch",)),
    "fusetune.jitting": Row(ours=("fusetune",), others=(*PYDANTIC, "torch")),
    "fusetune.torch_ops": Row(ours=("fusetune",), others=(*PYDANTIC, "torch")),
    #
    "compiler": Row(),
    "compiler.errors": Row(),
    "compiler.renamed": Row(),
    "compiler.generator": Row(),
    "compiler.dtypes": Row(ours=("compiler.errors",)),
    "compiler.arch": Row(ours=("compiler.errors", "compiler.dtypes")),
    "compiler.ir": Row(ours=BASE),
    "compiler.schedule": Row(ours=IR),
    "compiler.analysis": Row(ours=SCHEDULE, others=("numpy",)),
    "compiler.copies": Row(ours=ANALYSIS, others=("numpy",)),
    "compiler.legality": Row(ours=TILE),
    "compiler.verdict": Row(ours=(*TILE, "compiler.legality")),
    "compiler.judging": Row(ours=JUDGE),
    "compiler.explain": Row(ours=(*JUDGE, "compiler.judging"), others=("numpy",)),
    "compiler.lower": Row(ours=TILE),
    "compiler.emit": Row(ours=LOWER),
    "compiler.child": Row(ours=BASE),
    "compiler.cubin": Row(ours=BASE),
    "compiler.nvrtc": Row(ours=(*EMIT, "compiler.child", "compiler.cubin"), lazily=("cuda",)),
    "compiler.wire": Row(ours=(*EMIT, "compiler.nvrtc", "fusetune.wire"), others=PYDANTIC),
    "compiler.pipeline": Row(ours=WHOLE_COMPILER),
    "compiler.reference": Row(ours=IR, others=("numpy",)),
    "compiler.emulate": Row(ours=BASE, others=("numpy",)),
    "compiler.cuda_sources": Row(ours=(*BASE, "compiler.nvrtc", "compiler.child")),
    "compiler.emulated_runs": Row(
        ours=(*IR, "compiler.emulate", "compiler.cuda_sources", "compiler.wire", "fusetune.wire"), others=("numpy",)
    ),
    "compiler.explicit": Row(ours=(*WHOLE_COMPILER, *EMULATOR), others=("numpy",)),
    "compiler.faults": Row(ours=BASE, others=("typer",)),
    "compiler.cli": Row(ours=(*WHOLE_COMPILER, *EMULATOR, "compiler.faults"), others=("typer",)),
    "compiler.__main__": Row(ours=("compiler.cli",)),
    #
    "search": Row(ours=("search", "compiler", "fusetune.wire"), others=("numpy", "pydantic", "rich", "typer")),
    "search.launches": Row(ours=(*SCHEDULE, "search.cost.roofline"), others=("numpy",)),
    "search.tuning.samplers": Row(ours=("search", "compiler", "fusetune.wire"), others=("numpy", "optuna")),
    "search.proof.verify": Row(ours=("search", "compiler", "fusetune.wire"), others=("numpy",), lazily=("torch",)),
    "search.measure": Row(
        ours=("search", "compiler", "fusetune.wire", "fusetune.launch"),
        others=("numpy", "pydantic"),
        lazily=("pynvml", "torch"),
    ),
    #
    "service": Row(),
    "service.settings": Row(others=("pydantic", "pydantic_settings")),
    "service.access": Row(),
    "service.signing": Row(ours=("fusetune.wire.signature",), others=("cryptography",)),
    "service.rates": Row(),
    "service.log": Row(others=("structlog",)),
    "service.later": Row(ours=("service.operations", "service.dashboard")),
    "service.supervisor": Row(others=("structlog",)),
    "service.db": Row(ours=TABLES, others=("alembic", "sqlalchemy")),
    "service.db.kernels": Row(ours=(*TABLES, "fusetune.wire.artifact"), others=("sqlalchemy",)),
    "service.db.signatures": Row(ours=(*TABLES, "fusetune.wire.signature"), others=("sqlalchemy",)),
    "service.db.tunings": Row(ours=(*TABLES, "fusetune.wire.wanting"), others=("sqlalchemy",)),
    "service.views": Row(
        ours=("service.db", "compiler.generator", "compiler.renamed", "fusetune.wire"), others=("sqlalchemy",)
    ),
    "service.starting": Row(ours=("fusetune.wire",), others=("structlog",)),
    "service.stands_on": Row(ours=("compiler.generator", "fusetune.wire")),
    "service.operations": Row(ours=OPERATIONS, others=("sqlalchemy", "structlog")),
    "service.problems": Row(ours=OPERATIONS, others=(*WEB, "sqlalchemy")),
    "service.auth": Row(ours=(*BORDER, "service.access", "service.rates"), others=WEB),
    "service.limits": Row(ours=BORDER, others=WEB),
    "service.heads": Row(others=WEB),
    "service.again": Row(ours=OPERATIONS, others=WEB),
    "service.http1": Row(ours=BORDER, others=("uvicorn",)),
    "service.border": Row(ours=BORDER, others=(*WEB, "structlog")),
    "service.metrics": Row(ours=OPERATIONS, others=("prometheus_client",)),
    "service.openapi": Row(ours=(*OPERATIONS, "service.openapi_examples"), others=WEB),
    "service.openapi_examples": Row(),
    "service.openapi_words": Row(),
    "service.routes": Row(ours=(*BORDER, "service.again", "service.openapi"), others=(*WEB, *PYDANTIC)),
    "service.routes.login": Row(ours=(*BORDER, "service.dashboard"), others=WEB),
    "service.dashboard": Row(
        ours=(*BORDER, "service.openapi", "service.openapi_words"),
        others=(*WEB, *PYDANTIC, "jinja2", "markupsafe", "sqlalchemy"),
    ),
    "service.app": Row(
        ours=(
            *BORDER,
            "service.again",
            "service.border",
            "service.heads",
            "service.openapi",
            "service.routes",
            "service.dashboard",
            "service.jobs.dbos_queue",
        ),
        others=(*WEB, "sqlalchemy", "structlog"),
    ),
    "service.server": Row(ours=(*BORDER, "service.app", "service.http1", "service.later"), others=("uvicorn",)),
    "service.crew": Row(ours=(*BORDER, "service.server", "service.supervisor")),
    "service.jobs": Row(
        ours=(
            *TABLES,
            "service.jobs",
            "service.log",
            "service.signing",
            "service.stands_on",
            "search",
            "compiler",
            "fusetune.wire",
        ),
        others=("dbos", "sqlalchemy", "structlog"),
    ),
    "service.jobs.queue": Row(),
    "service.jobs.errand_forms": Row(ours=("search", "fusetune.wire"), others=("pydantic",)),
    "service.jobs.presence": Row(ours=TABLES, others=("sqlalchemy",)),
    "service.jobs.bell": Row(others=("sqlalchemy",)),
    "service.jobs.dbos_queue": Row(ours=("service.jobs.bell", "service.jobs.queue"), others=("dbos", "sqlalchemy")),
    "service.ci": Row(
        ours=(
            "service.ci",
            "service.signing",
            "search",
            "compiler",
            "fusetune.wire",
            "fusetune.signing",
            "fusetune.errors",
        ),
        others=(*PYDANTIC, "rich", "typer"),
    ),
    "service.cli": Row(
        ours=("service.cli", *TABLES, "service.access", "service.log", "service.signing", "compiler", "fusetune.wire"),
        others=(*PYDANTIC, "rich", "typer"),
    ),
    "service.cli.pack": Row(
        ours=("service.cli", *OPERATIONS, "service.signing", "compiler.faults"), others=(*PYDANTIC, "typer")
    ),
    "service.cli.given": Row(ours=("service.settings", "compiler.faults"), others=PYDANTIC),
    "service.cli.options": Row(others=("typer",)),
    "service.cli.serve": Row(
        ours=(
            *BORDER,
            "service.cli.given",
            "service.cli.options",
            "service.crew",
            "service.jobs.dbos_queue",
            "service.server",
            "service.starting",
            "service.supervisor",
        ),
        others=("sqlalchemy", "structlog", "typer"),
    ),
    "service.cli.worker": Row(ours=("service", "search.cli.faults"), others=(*PYDANTIC, "typer")),
    "service.cli.cards": Row(
        ours=("service.cli", *OPERATIONS, "search.tuning.attached", "search.measure", "search.cli"),
        others=("rich", "typer"),
    ),
    "service.__main__": Row(ours=("service.cli.app",)),
    "migrations": Row(ours=("service.db", "service.settings"), others=("alembic", "sqlalchemy")),
    "docker": Row(ours=("service.db", "service.settings")),
    #
    "benchmarks.suite": Row(ours=("fusetune.wire",)),
    "benchmarks.suite.forms": Row(ours=("fusetune",)),
    "benchmarks.suite.language": Row(ours=("benchmarks.suite.forms", "fusetune")),
    "benchmarks.suite.products": Row(ours=("benchmarks.suite.forms", "fusetune")),
    "benchmarks.suite.shapes": Row(ours=("benchmarks.suite.forms", "fusetune")),
    "benchmarks.kernels": Row(
        ours=("benchmarks.kernels", "compiler.arch", "compiler.errors", "fusetune.torch"), others=("torch",)
    ),
    "benchmarks.kernels.reference": Row(
        ours=("benchmarks.kernels", "compiler.ir.ops", "fusetune.torch"), others=("torch",)
    ),
    "benchmarks.kernels.winner": Row(ours=("compiler", "search.cost", "fusetune.wire")),
    "benchmarks.kernels.plugin": Row(ours=("fusetune.wire",), lazily=("fusetune.kernel", "torch")),
    "benchmarks.kernels.triton_streams": Row(others=("torch", "triton")),
    "benchmarks.kernels.empty_launch": Row(ours=("benchmarks.kernels",), others=("torch", "triton")),
    "benchmarks.check": Row(ours=("benchmarks.check", *JUDGE)),
    "benchmarks.models": Row(
        ours=("benchmarks.models", "compiler", "search", "fusetune"), others=("torch",), lazily=("triton",)
    ),
    "benchmarks.emulate": Row(
        ours=("benchmarks.emulate", "compiler", "search", "fusetune"), others=("cuda", "numpy"), lazily=("torch",)
    ),
    "benchmarks.blackwell": Row(
        ours=("benchmarks.blackwell", "benchmarks.emulate", "compiler.emulate", "compiler.arch", "fusetune"),
        others=("numpy",),
    ),
    "benchmarks.blackwell.predicted": Row(ours=("compiler", "search", "fusetune.wire")),
    "benchmarks.bounds": Row(ours=("compiler", "fusetune.launch"), others=("torch",)),
    "benchmarks.explicit": Row(ours=("compiler", "search")),
    "benchmarks.service": Row(ours=("benchmarks.service",)),
    "benchmarks.service.carried": Row(ours=("compiler.wire", "fusetune.wire", "search", "service")),
    "benchmarks.service.stored": Row(
        ours=("compiler.arch", "compiler.generator", "fusetune.wire", "service.db"), others=("sqlalchemy",)
    ),
    "benchmarks.service.publisher": Row(ours=("benchmarks.service", "service.db"), others=("stored",)),
    "benchmarks.search": Row(lazily=("compiler", "search")),
    "benchmarks.search.first": Row(ours=("fusetune", "search.cli.load")),
    "benchmarks.search.replay": Row(ours=("search", "fusetune.wire"), others=("numpy",)),
    "benchmarks.search.table": Row(ours=("compiler", "search", "fusetune.wire")),
    "benchmarks.search.winners": Row(ours=("compiler", "search", "fusetune.wire")),
    "benchmarks.ranking": Row(ours=("compiler", "search"), others=("numpy",)),
    "benchmarks": Row(),
    "docs": Row(ours=("compiler.schedule", "compiler.legality")),
    "docs.generate_operators": Row(ours=("compiler.dtypes", "compiler.ir.ops", "compiler.wire")),
    "docs.generate_concepts": Row(ours=(*JUDGE, "compiler.explain")),
    "docs.generate_api": Row(
        ours=(
            *BORDER,
            "service.app",
            "service.openapi",
            "service.openapi_examples",
            "service.openapi_words",
            "service.routes",
        )
    ),
    "examples": Row(ours=("fusetune",), lazily=("torch",)),
    "examples.training_loop": Row(ours=("fusetune", "examples"), others=("torch",)),
}


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
