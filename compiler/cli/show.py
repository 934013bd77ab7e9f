"""`python -m compiler show`: what a schedule becomes, stage by stage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, assert_never

import typer

from compiler.arch import Arch, arch_named
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
from compiler.faults import UsageFault, read_text, reporting
from compiler.ir.printer import fusion_text, scheduled_text
from compiler.legality import Schedule, check
from compiler.lower.printer import kernel_ir_text
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, generate
from compiler.schedule.trace import ScheduleTrace, Trace, launches_of
from compiler.wire import KernelArtifact, artifact_from_json, trace_from_json

DEFAULT_ARCH = "sm_90a"
"""Compile target of a trace, which names none."""

_WANTED = "a kernel artifact or a trace, or - for standard input"
_FORMATS = {
    "fusetune.fusion/1": "A fusion has no schedule yet: make a trace of it with `python -m search trace`.",
    "fusetune.bound/1": "A bound fusion has no schedule yet: show the trace that it stands in.",
}


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
    subject = _read(file, arch)
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
                for head, launch in zip(_heads(subject.trace), subject.generated.launches, strict=True)
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
    for number, (head, launch) in enumerate(zip(_heads(trace), launches_of(trace), strict=True)):
        typer.echo(f"{chr(10) * (number > 0)}{head}{launch.trace}\n")
        typer.echo(loop_tree_text(launch.trace.scheduled))


def _show_scheduled(subject: _Subject) -> None:
    """Prints each launch's scheduled fusion. Raises IllegalSchedule, after the text, with every breach of all."""
    violations: list[Violation] = []
    for head, launch in zip(_heads(subject.trace), launches_of(subject.trace), strict=True):
        schedule = Schedule(launch.trace.replay(), subject.arch)
        typer.echo(f"{head}{scheduled_text(schedule.sf)}")
        violations += check(schedule)
    if violations:
        raise IllegalSchedule(tuple(violations))


def _copies(subject: _Subject) -> Iterator[tuple[str, str]]:
    """Head and copy plans of each launch. Raises IllegalSchedule."""
    for head, launch in zip(_heads(subject.trace), launches_of(subject.trace), strict=True):
        schedule = Schedule(launch.trace.replay(), subject.arch)
        if violations := check(schedule):
            raise IllegalSchedule(tuple(violations))
        yield head, "\n\n".join(map(str, explained_copies(schedule.sf, subject.arch)))


def _heads(trace: Trace) -> list[str]:
    """A line before each launch's text, where there are several."""
    if isinstance(trace, ScheduleTrace):
        return [""]
    return [f"launch {n}: {', '.join(one.reads)} -> {', '.join(one.writes)}\n" for n, one in enumerate(trace.launches)]


@dataclass(frozen=True)
class _Subject:
    """What a file holds: a trace, and the kernel that was made of it where the file has one for `arch`."""

    trace: Trace
    arch: Arch
    kernel: KernelArtifact | None = None

    @cached_property
    def generated(self) -> Generated:
        return generate(self.trace, self.arch)

    @property
    def source(self) -> str:
        """The artifact's own source, which another generator may have written; else what this one generates."""
        return self.kernel.source if self.kernel is not None else self.generated.source

    @property
    def ptx(self) -> str:
        if self.kernel is not None:
            return self.kernel.ptx
        with CompilePool(workers=1) as pool:
            return pool.submit(self.source, self.arch.name).result().ptx


def _read(file: Path, arch: str | None) -> _Subject:
    """The subject of a file, for `arch` if given. Raises UsageFault, InvalidFusion, Unsupported or UnknownArch."""
    text = read_text(file, _WANTED)
    document = _object(file, text)
    readers: dict[str, Callable[[], _Subject]] = {
        "fusetune.kernel/1": lambda: _of_artifact(artifact_from_json(text), arch),
        **dict.fromkeys(
            ("fusetune.trace/1", "fusetune.trace/2"),
            lambda: _Subject(trace_from_json(document), arch_named(arch or DEFAULT_ARCH)),
        ),
    }
    found = document.get("format")
    reader = readers.get(found) if isinstance(found, str) else None
    if reader is None:
        fix = _FORMATS.get(str(found), f"Name {_WANTED}.")
        raise UsageFault(f"{file}: format: found {found!r:.60}, expected one of {', '.join(readers)}. {fix}")
    try:
        return reader()
    except (InvalidFusion, Unsupported, UnknownArch) as error:
        error.add_note(f"in {file}")
        raise


def _of_artifact(artifact: KernelArtifact, arch: str | None) -> _Subject:
    own = arch is None or arch_named(arch).name == artifact.arch
    return _Subject(trace_from_json(artifact.trace), arch_named(arch or artifact.arch), artifact if own else None)


def _object(file: Path, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise UsageFault(f"{file}: arrays or objects nested too deeply. Name {_WANTED}.") from None
    except ValueError as error:
        raise UsageFault(f"{file}: not JSON ({error}). Name {_WANTED}.") from None
    if not isinstance(document, dict):
        raise UsageFault(f"{file}: found {type(document).__name__}, expected an object. Name {_WANTED}.")
    return document
