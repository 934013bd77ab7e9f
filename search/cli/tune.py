"""`tune`: search one fusion for its fastest kernel on the attached GPU; without one, do all that needs none."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compiler.arch import card_or_default
from compiler.nvrtc import CompilePool
from compiler.pipeline import GENERATOR
from search.attached import Attached, Detached, find_device
from search.budget import Budget
from search.cli.faults import reports_faults
from search.cli.load import Named, load_one, sizes_of
from search.cli.options import (
    Bind,
    BudgetSeconds,
    CardOrAttached,
    Case,
    FusionFile,
    Seed,
)
from search.cli.prepare import prepare_one
from search.cli.report import describe_outcome, describe_prepared, describe_proofs, predicted_table
from search.drafting import DraftPool, drafters
from search.emulation.prepared import Proof, prove_prepared
from search.journal import Journal, JournalKey, spaces_key
from search.measure.device import TIMING_POLICY
from search.plan import Plan
from search.progress import progress_on
from search.results import Subject, usable_folder, write_outcome
from search.roofline import floor_us
from search.tuning import compilers, tune_on

_KERNELS_WITHOUT_GPU = 24
_PROVEN_WITHOUT_GPU = 3


@reports_faults
def tune(
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
) -> None:
    """Search a fusion for its fastest correct kernel. Stop it with Ctrl-C, resume it by running it again."""
    budget = Budget(seconds=budget_s, trials=trials)
    named = load_one(fusion, case, sizes_of(bind or []))
    card_or_default(card)  # an unknown card is refused before a GPU is looked for
    plan_fusion = named.bound()
    folder = usable_folder(out or Path("build/tune") / named.name)
    console = Console(highlight=False, soft_wrap=True)
    target = find_device(card)
    plan = Plan.of(plan_fusion, target.card)
    match target:
        case Detached():
            _without_gpu(named, plan, target, budget, folder, seed, console)
        case Attached():
            with closing(target.device):
                _on_gpu(named, plan, target, budget, folder, seed, console)


def _on_gpu(named: Named, plan: Plan, gpu: Attached, budget: Budget, folder: Path, seed: int, console: Console) -> None:
    for note in gpu.notes:
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
        Journal.open(folder / "journal.jsonl", key) as journal,
        progress_on(console, f"{named.name} on {gpu.card.name}") as progress,
    ):
        outcome = tune_on(gpu, plan, journal, budget, seed, progress)
    subject = Subject(named.name, plan.fusion, gpu.card.name, plan.points, plan.legal, floor)
    write_outcome(folder, subject, outcome)
    console.print(describe_outcome(folder, subject, outcome), markup=False)


def _without_gpu(
    named: Named, plan: Plan, target: Detached, budget: Budget, folder: Path, seed: int, console: Console
) -> None:
    """Enumerate, rank, compile, and prove the best predicted in the emulator; say what was not done.

    Ctrl-C ends it once there are kernels: those are kept, and what was proven of them.
    """
    console.print(f"{named.name}: no GPU, so kernels are ranked by prediction and proven in the emulator", markup=False)
    kernels = min(_KERNELS_WITHOUT_GPU, budget.trials or _KERNELS_WITHOUT_GPU)
    with CompilePool(compilers()) as pool, DraftPool(drafters(compilers())) as drafting:
        drafting.start()
        found = prepare_one(named, plan, target.card, pool, drafting, folder / named.name, kernels, seed, budget.left_s)
        console.print(describe_prepared(found), markup=False)
        proofs: list[Proof] = []
        was_interrupted = found.was_interrupted
        proving = prove_prepared(folder / named.name, found, pool, _PROVEN_WITHOUT_GPU, lambda: budget.left_s > 0)
        try:
            for proof in () if was_interrupted else proving:
                console.print(f"{folder / named.name}/{proof}", markup=False)
                proofs.append(proof)
        except KeyboardInterrupt:
            was_interrupted = True
    if was_interrupted:
        console.print("Interrupted: what was compiled is kept, not all was tried.", markup=False)
    right = any(proof.found.verification is not None for proof in proofs)
    console.print(predicted_table(found, proofs))
    console.print(describe_proofs(folder / named.name, proofs), markup=False)
    console.print(
        f"Nothing was {'timed' if right else 'verified or timed'}: {target.why}.\n"
        f"The order above is a prediction for the {target.card.name}.\n"
        f"The compiled kernels are in {folder}. On a machine with that GPU: python -m search measure {folder}",
        markup=False,
    )
