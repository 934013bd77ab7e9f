"""`tune`: search one fusion for its fastest kernel on the attached GPU; without one, do all that needs none."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import card_or_default
from compiler.faults import UsageFault
from compiler.generator import GENERATOR
from search.cli.faults import reports_faults
from search.cli.load import Named, load_one, sizes_of
from search.cli.options import (
    Bind,
    BudgetSeconds,
    CardOrAttached,
    Case,
    FusionFile,
    RankerFile,
    Seed,
)
from search.cli.rank import learnt_of
from search.cli.report import describe_outcome, timeline_table
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY
from search.proof.decidable import refuse_undecidable
from search.tuning.attached import Attached, Detached, find_device, others_like
from search.tuning.budget import Budget
from search.tuning.candidates.plan import Plan
from search.tuning.journal import Journal, JournalKey, spaces_key
from search.tuning.past_folders import PastFolders
from search.tuning.prepared import prepared_before
from search.tuning.progress import progress_on
from search.tuning.results import TunedSubject, usable_folder, write_outcome
from search.tuning.stopping import StopRules
from search.tuning.timeline import MAIN, SearchStage, Span, Timeline
from search.tuning.tune import tune_on


@reports_faults
def tune(
    context: typer.Context,
    fusion: FusionFile,
    bind: Bind = None,
    card: CardOrAttached = None,
    budget_s: BudgetSeconds = 60.0,
    trials: Annotated[int | None, typer.Option(help="Candidates at most, resumed ones included.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of results. Default: build/tune/NAME.", metavar="DIR")
    ] = None,
    seed: Seed = 0,
    case: Case = None,
    within_floor: Annotated[
        float | None,
        typer.Option(help="Stop once the best takes at most so many % more than the card allows.", min=0.0),
    ] = None,
    improvement: Annotated[
        float | None,
        typer.Option(help="Stop once what is left is expected to save less than so many %.", min=0.0, max=100.0),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="Folder of results of earlier tunings, whose best points are tried first.", metavar="DIR"),
    ] = None,
    ranker: RankerFile = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Show at the end what took how long.")] = False,
    gpus: Annotated[str, typer.Option(help="GPUs of one kind that measure: a number, or `all`.", metavar="N")] = "1",
) -> None:
    """Search a fusion for its fastest correct kernel. Stop it with Ctrl-C, resume it by running it again."""
    budget, rules = Budget(seconds=budget_s, trials=trials), StopRules(_share(within_floor), _share(improvement))
    times = Timeline()
    if isinstance(context.obj, float):  # when the process began: imports count
        budget.started, times = context.obj, Timeline(context.obj)
        times.add(Span(SearchStage.IMPORTS, MAIN, context.obj, time.monotonic(), time.process_time()))
    if history is not None and not history.is_dir():
        raise UsageFault(f"--history: {history} is no folder. Name one that an earlier tuning has written (--out).")
    most_gpus = _gpus(gpus)
    named = load_one(fusion, case, sizes_of(bind or []))
    card_or_default(card)  # an unknown card is refused before a GPU is looked for
    plan_fusion = named.bound()
    refuse_undecidable(plan_fusion)
    folder = usable_folder(out or Path("build/tune") / named.name)
    console = Console(highlight=False, soft_wrap=True)
    target = find_device(card)
    with times.span(SearchStage.SPACES):
        plan = Plan.of(plan_fusion, target.card).ranked_by(learnt_of(target.card, ranker))
    match target:
        case Detached():
            without_gpu = import_module("search.cli.without_gpu")  # loads the emulator
            without_gpu.tune_without_gpu(named, plan, target, budget, folder, seed, console, times)
        case Attached():
            with closing(target.device):
                _on_gpu(named, plan, target, budget, folder, seed, console, times, rules, history, most_gpus)
    if timeline:
        console.print(timeline_table(times.record()))


def _gpus(wanted: str) -> int | None:
    """How many GPUs may measure; None for all. Raises UsageFault."""
    if wanted == "all":
        return None
    if not wanted.isascii() or not wanted.isdigit() or not 1 <= int(wanted) <= _MOST_GPUS:
        raise UsageFault(f"--gpus: found {wanted}, expected 1 to {_MOST_GPUS}, or all.")
    return int(wanted)


_MOST_GPUS = 64


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _on_gpu(
    named: Named,
    plan: Plan,
    gpu: Attached,
    budget: Budget,
    folder: Path,
    seed: int,
    console: Console,
    times: Timeline,
    rules: StopRules,
    history: Path | None,
    most_gpus: int | None,
) -> None:
    others, left_out = others_like(gpu, None if most_gpus is None else most_gpus - 1)
    for note in (*gpu.notes, *left_out):
        console.print(note, markup=False)
    spaces = plan.searchable
    floor = floor_us(plan.fusion, gpu.card)
    key = JournalKey(
        fingerprint=plan.fusion.fingerprint,
        binding=plan.fusion.binding_hash,
        card=gpu.card.key,
        policy=TIMING_POLICY,
        generator=GENERATOR,
        spaces=spaces_key(spaces),
    )
    with (
        ExitStack() as stack,
        Journal.open(folder / "journal.jsonl", key) as journal,
        progress_on(console, f"{named.name} on {gpu.card.name}") as progress,
    ):
        for device in others:
            stack.callback(device.close)
        prepared = prepared_before(folder / named.name, plan.fusion)
        past = None if history is None else PastFolders(history)
        outcome = tune_on(
            gpu, plan, journal, budget, seed, progress, first=prepared, timeline=times, enough=lambda: rules,
            history=past, others=others,
        )  # fmt: skip
    subject = TunedSubject(named.name, plan.fusion, gpu.card.name, plan.points, plan.legal, floor)
    write_outcome(folder, subject, outcome, times.record())
    console.print(describe_outcome(folder, subject, outcome), markup=False)
