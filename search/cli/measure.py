"""`measure`: verify and time prepared kernels on the attached GPU, resuming where it stopped."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import Card, card_named
from compiler.errors import UnknownCard
from compiler.generator import GENERATOR
from fusetune.wire.artifact import KernelArtifact
from search.cli.faults import BROKEN, UsageFault, reports_faults
from search.cli.options import BudgetSeconds
from search.cli.report import describe_outcome
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY, Effort, MeasuringDevice
from search.tuning.attached import Attached, Detached, find_device
from search.tuning.budget import Budget
from search.tuning.journal import Journal, JournalKey
from search.tuning.prepared import MANIFEST, InOrder, Prepared, PreparedBuilds
from search.tuning.progress import progress_on
from search.tuning.results import TunedSubject, usable_folder, write_outcome
from search.tuning.tuner import SearchOutcome, SearchSettings, Tuner


@reports_faults
def measure(
    folder: Annotated[Path, typer.Argument(help="What `prepare` has filled.", metavar="DIR")],
    budget_s: BudgetSeconds = 420.0,
) -> None:
    """Verify and time prepared kernels; each fusion gets an equal share of the time that is left."""
    budget = Budget(seconds=budget_s)
    waiting = [(path.parent, Prepared.read(path.parent)) for path in sorted(folder.glob(f"*/{MANIFEST}"))]
    if not waiting:
        raise UsageFault(
            f"{folder}: no prepared fusions here. Fill it with `python -m search prepare … --out {folder}`."
        )
    usable_folder(folder)
    console = Console(highlight=False, soft_wrap=True)
    gpu = find_device(None)
    if isinstance(gpu, Detached):
        typer.echo(f"error: nothing can be measured here: {gpu.why}. The prepared kernels stay as they are.", err=True)
        raise typer.Exit(BROKEN)
    for note in gpu.notes:
        console.print(note, markup=False)
    foreign = [prepared for _, prepared in waiting if _is_foreign(prepared, gpu.card)]
    for prepared in foreign:
        why = f"was compiled for {prepared.card}, whose code the {gpu.card.name} cannot run"
        console.print(f"{prepared.name} {why}: not measured.", markup=False)
    waiting = [(place, prepared) for place, prepared in waiting if prepared not in foreign]
    with closing(gpu.device):
        if not waiting:
            typer.echo(f"error: nothing here can run on the {gpu.card.name}. Prepare it again for that card.", err=True)
            raise typer.Exit(BROKEN)
        for position, (place, prepared) in enumerate(waiting):
            _note_other_card(console, prepared, gpu.card)
            outcome = _measure_one(
                place, prepared, gpu, budget, len(waiting) - position, folder, console, position == 0
            )
            if outcome.ended == "interrupted":
                break


def _measure_one(
    place: Path,
    prepared: Prepared,
    gpu: Attached,
    budget: Budget,
    waiting: int,
    out: Path,
    console: Console,
    is_first: bool,
) -> SearchOutcome:
    """`waiting`: the fusions, this one included, that share what is left of the budget."""
    fusion = prepared.fusion
    floor = floor_us(fusion, gpu.card)
    subject = TunedSubject(prepared.name, fusion, gpu.card.name, prepared.points, prepared.legal, floor)
    key = JournalKey(fusion.fingerprint, fusion.binding_hash, gpu.card.key, TIMING_POLICY, GENERATOR)
    with (
        Journal.open(place / "journal.jsonl", key) as journal,
        progress_on(console, f"{prepared.name} on {gpu.card.name}") as progress,
    ):
        builds = PreparedBuilds(place, prepared)
        gpu.device.open(fusion)
        if is_first:
            _warm_up(gpu.device, prepared, builds)
        share = Budget(seconds=budget.left_s / waiting)
        tuner = Tuner(
            builds=builds,
            device=gpu.device,
            sampler=InOrder(prepared),
            journal=journal,
            budget=share,
            settings=SearchSettings(queue_depth=4, floor_us=floor),
            progress=progress,
        )
        outcome = tuner.run()
    write_outcome(out, subject, outcome)
    console.print(describe_outcome(out, subject, outcome), markup=False)
    return outcome


def _warm_up(device: MeasuringDevice, prepared: Prepared, builds: PreparedBuilds) -> None:
    """Measures a kernel in no fusion's share: the first measurement of all starts CUDA, loads libraries and makes
    inputs and references, which took as long as an H200 needs for thirty kernels."""
    for number, one in enumerate(prepared.candidates):
        made = builds.finish(builds.start(number, one.candidate))
        if isinstance(made, KernelArtifact):
            device.measure(made, Effort.SCREEN)
            return


def _is_foreign(prepared: Prepared, card: Card) -> bool:
    """Whether it was compiled for another architecture than the card's; False for a card that the table lacks."""
    try:
        return card_named(prepared.card).arch != card.arch
    except UnknownCard:
        return False


def _note_other_card(console: Console, prepared: Prepared, card: Card) -> None:
    if prepared.card != card.name:
        console.print(
            f"{prepared.name} was ranked for {prepared.card}; it is measured, and its results count, on {card.name}.",
            markup=False,
        )
