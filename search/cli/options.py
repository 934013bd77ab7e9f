"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.arch import DEFAULT_CARD

MAX_BUDGET_S = 30 * 24 * 3600.0
"""A month: more is a slip of the keyboard."""

FusionFile = Annotated[
    Path, typer.Argument(help="A fusion (JSON), or a suite file with --case.", metavar="FUSION.json")
]
Bind = Annotated[
    list[str] | None, typer.Option("--bind", help="Size of a symbol; repeat, or separate by commas.", metavar="M=8192")
]
CardName = Annotated[
    str | None, typer.Option("--card", help=f"GPU model to compile for. Default: {DEFAULT_CARD}.", metavar="NAME")
]
CardOrAttached = Annotated[
    str | None,
    typer.Option("--card", help=f"GPU model. Default: the attached one, else {DEFAULT_CARD}.", metavar="NAME"),
]
Case = Annotated[str | None, typer.Option("--case", help="Case of a suite file.", metavar="ID")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random choice.", min=0, max=2**32 - 1)]
RankerFile = Annotated[
    Path | None,
    typer.Option(
        "--ranker", help="What was learnt of the card (`rank fit`): candidates are ordered by it.", metavar="FILE"
    ),
]
BudgetSeconds = Annotated[float, typer.Option("--budget-s", help="Seconds, set-up included.", min=0, max=MAX_BUDGET_S)]
