"""`ci`: what a CI job runs. It needs no database and no running service."""

from __future__ import annotations

import os
from contextlib import closing, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import card_or_default
from compiler.errors import UnknownCard, Unsupported
from compiler.faults import UsageFault, reporting
from fusetune.errors import InvalidRequest, PackageMissing, UnusableKey
from fusetune.signer import Signer
from fusetune.signing import Trust
from search.cli.load import sizes_of
from search.cli.options import MAX_BUDGET_S, Bind, Seed
from search.measure.fake import FACTS, FakeDevice
from search.tuning.attached import Attached, Detached, card_of, find_device
from search.tuning.budget import Budget
from service.ci.junit import junit_xml
from service.ci.lock import LockError
from service.ci.run import CiRun, Target, run
from service.ci.summary import markdown_summary, text_summary

GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub Actions shows on a job's page; what a step appends to it is kept."""


class Device(StrEnum):
    """`fake` has no hardware: it takes every kernel for right and invents times, on a card named "fake"."""

    AUTO = "auto"
    NONE = "none"
    FAKE = "fake"


@reporting(UsageFault, LockError, UnknownCard, Unsupported, UnusableKey, InvalidRequest, PackageMissing, OSError)
def ci(
    fusions: Annotated[
        Path, typer.Option("--fusions", help="Folder of fusion files (*.json), or of suites.", metavar="DIR")
    ],
    lock: Annotated[Path, typer.Option("--lock", help="The lock file, kept in version control.", metavar="FILE")],
    update: Annotated[
        bool, typer.Option("--update", help="Tune what has no kernel in the lock, and write the lock.")
    ] = False,
    bind: Bind = None,
    card: Annotated[
        str | None,
        typer.Option("--card", help="GPU model. Default: the attached one, else that of each entry.", metavar="NAME"),
    ] = None,
    budget_s: Annotated[
        float, typer.Option("--budget-s", help="Seconds for each fusion that is tuned.", min=1, max=MAX_BUDGET_S)
    ] = 60.0,
    trials: Annotated[
        int | None, typer.Option("--trials", help="Candidates at most for each fusion that is tuned.", min=1)
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Percent by which a kernel may be slower than its lock.", min=0)
    ] = 10.0,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write a JUnit XML report.", metavar="FILE")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            "--summary", help=f"Write a Markdown summary. Default: the file in ${GITHUB_SUMMARY}.", metavar="FILE"
        ),
    ] = None,
    sign_key: Annotated[
        Path | None, typer.Option("--sign-key", help="Sign a lock that is written with this key.", metavar="FILE")
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust", help="Take a lock only if this public key has signed it. May be repeated.", metavar="KEY"
        ),
    ] = None,
    seed: Seed = 0,
    device: Annotated[
        Device, typer.Option("--device", help="none: rebuild only, although there is a GPU.", metavar="auto|none")
    ] = Device.AUTO,
) -> None:
    """Hold a folder of fusions against a lock file: every kernel is rebuilt, compared, verified and timed.

    A fusion whose fingerprint, binding, card or timing policy is not that of its entry is a lock miss, and so is,
    without a GPU, an entry that an older verifier proved; --update mends it and writes the lock, and so does a first
    run without a lock file. Sizes that --bind does not give are those of the lock. Without a GPU kernels are rebuilt
    and compared, not run, and nothing can be tuned.

    Exit codes, the first that applies: 2 a file or an option cannot be used, or the lock is damaged; 1 a kernel is
    wrong, changed or slower, or could not be rebuilt or run; 3 lock miss; 4 nothing was wrong, but something needs a
    GPU that this machine lacks (not for rebuilt kernels if --device none was given); 0 all good.
    """
    github = os.environ.get(GITHUB_SUMMARY) if summary is None else None
    sizes = sizes_of(bind or [])
    for option, path in (("--lock", lock), ("--junit", junit), ("--summary", summary)):
        if path is not None:
            _refuse_unwritable(option, path)
    job = CiRun(
        fusions=fusions,
        lock=lock,
        update=update,
        sizes=sizes,
        card=card_or_default(card).name if card else None,
        budget=lambda: Budget(seconds=budget_s, trials=trials),
        tolerance=tolerance / 100,
        seed=seed,
        signer=Signer.load(sign_key) if sign_key is not None else None,
        trust=Trust.of(trust) if trust else None,
        asks_for_gpu=device is not Device.NONE,
    )
    target = _target(device, card)
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    with closing(target.device) if isinstance(target, Attached) else nullcontext():
        report = run(job, target, console)
    typer.echo(text_summary(report))
    if junit is not None:
        junit.write_text(junit_xml(report), encoding="utf-8")
    if summary is not None:
        summary.write_text(markdown_summary(report), encoding="utf-8")
    elif github:
        with Path(github).open("a", encoding="utf-8") as page:
            page.write(markdown_summary(report))
    raise typer.Exit(report.exit_code)


def _target(device: Device, card: str | None) -> Target:
    match device:
        case Device.AUTO:
            return find_device(card)
        case Device.NONE:
            return Detached(card_or_default(card), "--device none was given")
        case Device.FAKE:
            found, notes = card_of(FACTS)
            return Attached(FakeDevice(), FACTS, found, notes)


def _refuse_unwritable(option: str, path: Path) -> None:
    """Raises UsageFault: minutes of tuning must not end at a file that cannot be written."""
    folder = path.resolve().parent
    if path.is_dir():
        raise UsageFault(f"{option}: {path} is a folder. Name a file.")
    if not folder.is_dir():
        raise UsageFault(f"{option}: {folder} is no folder. Make it, or name a file in another one.")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise UsageFault(f"{option}: {path} cannot be written. Name a file that can.")
