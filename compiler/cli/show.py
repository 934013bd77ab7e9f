"""`python -m compiler show`: what a schedule becomes, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from compiler.cli.subject import DEFAULT_ARCH, FollowedSchedule, heads, read_subject
from compiler.emit.cuda import kernel_only
from compiler.errors import (
    CompileError,
    IllegalSchedule,
    InvalidFusion,
    InvalidStep,
    UnknownArch,
    Unsupported,
    Violation,
)
from compiler.explain.copy_plans import explained_copies
from compiler.explain.loop_tree import loop_tree_text
from compiler.faults import UsageFault, reporting
from compiler.ir.printer import fusion_text, scheduled_text
from compiler.legality import Schedule, check
from compiler.lower.printer import kernel_ir_text
from compiler.schedule.start import parts_text
from compiler.schedule.trace import Trace, launches_of


class ShownStage(StrEnum):
    """What `show` prints, in the order of a compile."""

    FUSION = "fusion"
    TRACE = "trace"
    IR = "ir"
    COPIES = "copies"
    KERNEL = "kernel"
    CUDA = "cuda"
    PTX = "ptx"


@reporting(InvalidFusion, InvalidStep, IllegalSchedule, Unsupported, UnknownArch, UsageFault, CompileError)
def show(
    file: Annotated[Path, typer.Argument(help="A kernel artifact or a trace (JSON); - reads stdin.", metavar="FILE")],
    stage: Annotated[ShownStage, typer.Option("--stage", help="How far to follow the schedule.")] = ShownStage.IR,
    arch: Annotated[
        str | None, typer.Option("--arch", help=f"Compile target. Default: the artifact's, else {DEFAULT_ARCH}.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="CUDA with the device pieces before the kernel.")] = False,
) -> None:
    """Print what a schedule becomes at one stage of the compile. Needs no GPU."""
    subject = read_subject(file, arch)
    match stage:
        case ShownStage.FUSION:
            text = fusion_text(subject.trace.fusion)
        case ShownStage.TRACE:
            _show_trace(subject.trace)
            return
        case ShownStage.IR:
            _show_scheduled(subject)
            return
        case ShownStage.COPIES:
            text = "\n".join(f"{head}{copies}" for head, copies in _copies(subject))
        case ShownStage.KERNEL:
            text = "\n".join(
                f"{head}{kernel_ir_text(launch.kernel)}"
                for head, launch in zip(heads(subject.trace), subject.generated.launches, strict=True)
            )
        case ShownStage.CUDA:
            text = subject.source if full else kernel_only(subject.source)
        case ShownStage.PTX:
            text = subject.ptx
        case _:
            assert_never(stage)
    typer.echo(text.rstrip("\n"))


def _show_trace(trace: Trace) -> None:
    """Prints each launch's steps and the loops that come of them. Raises InvalidStep, after the steps, where they
    cannot be taken."""
    for number, (head, launch) in enumerate(zip(heads(trace), launches_of(trace), strict=True)):
        parts = parts_text(launch.trace.fusion)
        typer.echo(f"{chr(10) * (number > 0)}{head}{parts}{chr(10) * bool(parts)}{launch.trace}\n")
        typer.echo(loop_tree_text(launch.trace.scheduled))


def _show_scheduled(subject: FollowedSchedule) -> None:
    """Prints each launch's scheduled fusion. Raises IllegalSchedule, after the text, with every breach of all."""
    violations: list[Violation] = []
    for head, launch in zip(heads(subject.trace), launches_of(subject.trace), strict=True):
        schedule = Schedule(launch.trace.replay(), subject.arch)
        typer.echo(f"{head}{scheduled_text(schedule.sf)}")
        violations += check(schedule)
    if violations:
        raise IllegalSchedule(tuple(violations))


def _copies(subject: FollowedSchedule) -> Iterator[tuple[str, str]]:
    """Head and copy plans of each launch. Raises IllegalSchedule."""
    for head, launch in zip(heads(subject.trace), launches_of(subject.trace), strict=True):
        schedule = Schedule(launch.trace.replay(), subject.arch)
        if violations := check(schedule):
            raise IllegalSchedule(tuple(violations))
        yield head, "\n\n".join(map(str, explained_copies(schedule.sf, subject.arch)))
