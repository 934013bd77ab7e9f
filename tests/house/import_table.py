"""Who may import whom, row by row: the truth that `tests/test_import_directions.py` holds every source file against.

A row speaks for a module and all below it; the longest row that fits wins. A module may always import what lies in its
own row and the standard library. Anything else must be named: of ours, of others at import time, or of others `lazily`
(inside a function or under TYPE_CHECKING, so that importing the module does not load them). A file without a row is a
breach: a new package starts by saying what it may import.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    "fusetune.signer": Row(ours=("fusetune",), lazily=("cryptography",)),
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
    "compiler.child": Row(ours=(*BASE, "compiler.deadlines")),
    "compiler.deadlines": Row(),
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
    "service.rates": Row(),
    "service.log": Row(others=("structlog",)),
    "service.later": Row(ours=("service.operations", "service.dashboard")),
    "service.supervisor": Row(others=("structlog",)),
    "service.db": Row(ours=TABLES, others=("alembic", "sqlalchemy")),
    "service.db.instant": Row(ours=TABLES, others=("sqlalchemy",), lazily=("psycopg",)),
    "service.db.pipeline": Row(others=("psycopg",)),
    "service.db.kernels": Row(ours=(*TABLES, "fusetune.wire.artifact"), others=("sqlalchemy",)),
    "service.db.signatures": Row(ours=(*TABLES, "fusetune.wire.signature"), others=("sqlalchemy",)),
    "service.db.tunings": Row(ours=(*TABLES, "fusetune.wire.service", "fusetune.wire.wanting"), others=("sqlalchemy",)),
    "service.views": Row(
        ours=("service.db", "compiler.generator", "compiler.renamed", "fusetune.wire"), others=("sqlalchemy",)
    ),
    "service.starting": Row(ours=("fusetune.wire",), others=("structlog",)),
    "service.stands_on": Row(ours=("compiler.generator", "fusetune.wire")),
    "service.operations": Row(ours=OPERATIONS, others=("sqlalchemy", "structlog")),
    "service.operations.pack_history": Row(ours=OPERATIONS, others=(*PYDANTIC, "sqlalchemy")),
    "service.operations.packs": Row(
        ours=(*OPERATIONS, "fusetune.errors", "fusetune.signing"), others=("sqlalchemy", "structlog")
    ),
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
    "service.routes.packs": Row(ours=(*BORDER, "fusetune.signing", "service.routes"), others=(*WEB, *PYDANTIC)),
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
            "fusetune.signer",
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
            "fusetune.signer",
            "search",
            "compiler",
            "fusetune.wire",
            "fusetune.signing",
            "fusetune.errors",
        ),
        others=(*PYDANTIC, "rich", "typer"),
    ),
    "service.cli": Row(
        ours=(
            "service.cli",
            *TABLES,
            "service.access",
            "service.log",
            "fusetune.errors",
            "fusetune.signer",
            "compiler",
            "fusetune.wire",
        ),
        others=(*PYDANTIC, "rich", "typer"),
    ),
    "service.cli.pack": Row(
        ours=(
            "service.cli",
            *OPERATIONS,
            "fusetune.errors",
            "fusetune.signer",
            "fusetune.signing",
            "fusetune.whole",
            "compiler.faults",
        ),
        others=(*PYDANTIC, "typer"),
    ),
    "service.cli.given": Row(ours=("service.settings", "compiler.faults", "fusetune.wire"), others=PYDANTIC),
    "service.cli.options": Row(others=("typer",)),
    "service.cli.serve": Row(
        ours=(
            *BORDER,
            "fusetune.errors",
            "fusetune.signing",
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
    "service.cli.worker": Row(ours=("service", "fusetune.errors", "search.cli.faults"), others=(*PYDANTIC, "typer")),
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
    "benchmarks.search.again": Row(ours=("compiler", "search", "fusetune.wire"), others=("numpy",)),
    "benchmarks.search.first": Row(ours=("fusetune", "search.cli.load")),
    "benchmarks.search.replay": Row(ours=("search", "fusetune.wire"), others=("numpy",)),
    "benchmarks.search.ranked": Row(ours=("search",), others=("numpy",)),
    "benchmarks.search.residuals": Row(ours=("search",), others=("numpy",)),
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
