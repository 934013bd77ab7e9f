"""`python -m compiler check`: whether explicit schedules are legal, and what was inferred of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from compiler.arch import arch_named
from compiler.cli.cases import plain, read_documents
from compiler.errors import UnknownArch, Violation
from compiler.faults import FAULT, UsageFault, reporting, say
from compiler.judging import judge_all, unreadable
from compiler.verdict import TmaReport, TmemReport, Verdict

ILLEGAL = 1
"""Exit code where a schedule is illegal and all are understood."""


@reporting(UsageFault, UnknownArch)
def check(
    file: Annotated[
        Path, typer.Argument(help="A case or a list of cases (JSON); - reads stdin.", metavar="FILE", allow_dash=True)
    ],
    arch: Annotated[
        str | None, typer.Option("--arch", help="Compile target. Default: for each case the least that will do.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of verdicts, one a case, in order.")] = False,
) -> None:
    """Say whether explicit schedules are legal, by which rules not, and what was inferred. Needs no GPU.

    Exits with the largest of: 0 for a legal case, 1 for an illegal one, 2 for one that is not understood.
    """
    if arch is not None:
        arch_named(arch)
    try:
        verdicts = judge_all(read_documents(file), arch)
    except UsageFault as error:
        if not as_json:
            raise
        say(error)
        verdicts = (unreadable(str(error)),)  # a script reads the list whatever the exit code
    typer.echo(json.dumps([v.to_json() for v in verdicts], indent=1) if as_json else report(verdicts))
    raise typer.Exit(max(map(exit_code, verdicts), default=0))


def exit_code(verdict: Verdict) -> int:
    """What one verdict makes the command exit with."""
    return FAULT if verdict.legal is None else 0 if verdict.legal else ILLEGAL


def report(verdicts: tuple[Verdict, ...]) -> str:
    """One line for each legal case, a paragraph for each other one, and a count where there are several."""
    lines = [line for v in verdicts for line in _paragraph(v)]
    if len(verdicts) != 1:
        legal, illegal = (sum(v.legal is kind for v in verdicts) for kind in (True, False))
        others = len(verdicts) - legal - illegal
        lines.append(f"{len(verdicts)} cases: {legal} legal, {illegal} illegal, {others} not understood")
    return plain_lines(lines)


def plain_lines(lines: list[str]) -> str:
    """Lines as text; what they quote of a document cannot steer the terminal."""
    return "\n".join(map(plain, lines))


def _paragraph(v: Verdict) -> Iterator[str]:
    name = v.name or "(without a name)"
    if v.legal is None:
        yield f"{name}: not understood"
        yield f"  {v.error}"
    elif v.legal:
        yield f"{name}: legal on {v.arch}{''.join(f'; {fact}' for fact in facts(v))}"
    else:
        yield f"{name}: illegal on {v.arch}, found when the schedule is {_MOMENT[str(v.stage)]}"
        for violation in v.violations:
            yield from violation_lines(violation)


_MOMENT = {"schedule": "made", "compile": "compiled", "runtime": "run"}


def violation_lines(v: Violation) -> Iterator[str]:
    """A breach: the rule and the place, what was found and expected, and the fix."""
    yield f"  {v.rule} ({v.stage})"
    yield f"    where     {v.where}"
    if v.message:
        yield f"    what      {v.message}"
    yield f"    found     {v.found}"
    if v.limit != "":
        yield f"    expected  {v.limit}"
    if v.fix:
        yield f"    fix       {v.fix}"


def facts(v: Verdict) -> Iterator[str]:
    """What was inferred, a phrase each."""
    yield from map(_tma, v.tma)
    yield from map(_tmem, v.tmem)
    if v.smem_bytes is not None:
        yield f"{v.smem_bytes} bytes of shared memory"
    if v.kept:
        yield f"{len(v.kept)} condition{'s' if len(v.kept) > 1 else ''} kept for launch"


def _tma(r: TmaReport) -> str:
    if r.dims is None or r.box is None or r.tile is None or r.element_strides is None:
        return f"tma {r.tensor}: no tensor map"
    tile = "" if r.tile == r.box else f" tile {times(r.tile)} element strides {times(r.element_strides)}"
    swizzle = "" if r.swizzle == "none" else f" swizzle {r.swizzle}"
    return f"tma {r.tensor}: {r.dims}-D box {times(r.box)}{tile}{swizzle} {r.correctness or ''}".rstrip()


def _tmem(r: TmemReport) -> str:
    allocated = "too many to allocate" if r.allocated_columns is None else f"{r.allocated_columns} allocated"
    return f"tmem {r.tensor}: {r.lanes} lanes x {r.columns} columns ({allocated}) {r.pattern or 'no pattern'}"


def times(numbers: tuple[int, ...]) -> str:
    """`128 x 4`"""
    return " x ".join(map(str, numbers))
