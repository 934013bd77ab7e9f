"""`python -m compiler emulate`: any kernel run on the CPU under a sanitizer."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path
from typing import Annotated, Any

import typer

from compiler.arch import arch_named
from compiler.cli.check import plain_lines
from compiler.cli.explicit import emulate_cases
from compiler.cuda_sources import header_dirs, toolkit_roots
from compiler.emulate.launch import Completion, Options
from compiler.emulate.memory.build import BadLaunch
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.spec import InvalidSpec
from compiler.emulated_runs import Subject, of_artifact, of_cuda, of_ptx, report, run
from compiler.errors import CompileError, InvalidFusion, UnknownArch
from compiler.faults import STDIN, UsageFault, read_text, reporting
from compiler.wire import artifact_from_json

FAULTS = 1
"""Exit code of a run with faults."""

Order = Annotated[
    Completion, typer.Option("--order", help="When asynchronous operations complete, within what may happen.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the random order.")]
Save = Annotated[
    Path | None, typer.Option("--save", help="Folder for every tensor before and after, as .npy.", metavar="DIR")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object in place of the report.")]

reports_faults = reporting(UsageFault, InvalidSpec, InvalidFusion, PtxError, CompileError, BadLaunch, UnknownArch)
"""Decorates a command: a kernel or a launch that cannot be run is a message on stderr, and exit code 2."""

_SPEC = "a SPEC (docs/emulator.md), or - for standard input"


@reports_faults
def emulate(
    kernel: Annotated[
        Path | None, typer.Argument(help="CUDA C++ (.cu) or PTX (.ptx).", metavar="KERNEL", show_default=False)
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", help="What to launch over which tensors (JSON); - reads stdin.", metavar="SPEC"),
    ] = None,
    artifact: Annotated[
        Path | None, typer.Option("--artifact", help="An exported kernel in place of KERNEL and SPEC.", metavar="FILE")
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option("--schedule", help="Explicit schedules (JSON) in place of KERNEL; - reads stdin.", metavar="FILE"),
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", help="With --schedule: the case of that name alone.", metavar="NAME")
    ] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="With --schedule: compile target. Default: sm_90a.")
    ] = None,
    full_size: Annotated[
        bool, typer.Option("--full-size", help="With --schedule: every block, at the sizes as declared.")
    ] = False,
    order: Order = Completion.EAGER,
    seed: Seed = 0,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Run a kernel on the CPU and report its faults. Needs no GPU.

    Exits with 0 if there are none, 1 if there are, 2 for a kernel or a launch that cannot be run.
    """
    if schedule is not None:
        if kernel is not None or spec is not None or artifact is not None or save is not None:
            raise UsageFault("--schedule: found KERNEL, --spec, --artifact or --save beside it. Leave them out.")
        target = None if arch is None else arch_named(arch)
        emulate_cases(schedule, case, target, Options(order, seed), full_size=full_size, as_json=as_json)
    if case is not None or arch is not None or full_size:
        raise UsageFault("--case, --arch, --full-size: found without --schedule FILE. Name the file of the case.")
    if artifact is not None:
        if kernel is not None or spec is not None:
            raise UsageFault("--artifact: found KERNEL or --spec beside it, which it brings itself. Leave them out.")
        subject = _of_artifact(artifact)
    elif kernel is None or spec is None:
        missing = "KERNEL" if kernel is None else "--spec"
        ways = "KERNEL.cu or KERNEL.ptx and --spec SPEC.json, or --artifact FILE, or --schedule FILE"
        raise UsageFault(f"{missing} is missing. Name {ways}.")
    else:
        subject = _of_files(kernel, spec)
    finish(subject, order, seed, save, as_json)


def finish(subject: Subject, order: Completion, seed: int, save: Path | None, as_json: bool) -> None:
    """Runs a subject, saves, prints, and exits with 1 if there were faults. Raises UsageFault for the folder."""
    if save is not None:
        _expect_folder(save)
    done = run(subject, Options(completion=order, seed=seed), keep=save is not None)
    if save is not None:
        try:
            done.save(save)
        except OSError as error:
            raise UsageFault(f"{save}: cannot be written ({error.strerror}). Name another folder.") from None
    typer.echo(json.dumps(done.to_json(), indent=1) if as_json else plain_lines(report(done).splitlines()))
    if done.faults:
        raise typer.Exit(FAULTS)


def _expect_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageFault(f"{folder}: no folder can be made there ({error.strerror}). Name another one.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageFault(f"{folder}: cannot be written to. Name another folder.")


def _of_files(kernel: Path, spec: Path) -> Subject:
    if kernel.suffix not in (".cu", ".ptx"):
        raise UsageFault(f"{kernel}: found the ending {kernel.suffix!r}, expected .cu or .ptx. Name such a file.")
    text = read_text(kernel, "CUDA C++ (.cu) or PTX (.ptx)")
    document = _json(spec)
    folder = Path() if spec == STDIN else spec.parent
    try:
        if kernel.suffix == ".ptx":
            return of_ptx(text, document, folder)
        site = Path(sysconfig.get_path("purelib"))
        return of_cuda(text, kernel, document, folder, header_dirs(os.environ, toolkit_roots(site)))
    except InvalidSpec as error:
        error.add_note(f"in {spec}")
        raise
    except PtxError as error:
        error.add_note(f"in {kernel}")
        raise


def _of_artifact(file: Path) -> Subject:
    text = read_text(file, "a kernel artifact, or - for standard input")
    try:
        return of_artifact(artifact_from_json(text))
    except (InvalidFusion, InvalidSpec, PtxError) as error:
        error.add_note(f"in {file}")
        raise


def _json(file: Path) -> object:
    text = read_text(file, _SPEC)
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _Twice as error:
        raise UsageFault(f"{file}: the field {error} stands twice in one object. Remove one.") from None
    except RecursionError:
        raise UsageFault(f"{file}: arrays or objects nested too deeply. Name {_SPEC}.") from None
    except ValueError as error:
        raise UsageFault(f"{file}: not JSON ({error}). Name {_SPEC}.") from None


class _Twice(ValueError):
    """A name that one object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(repr(name))
        found[name] = value
    return found
