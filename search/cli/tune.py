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
from search.cost.roofline import floor_us
from search.measure.device import TIMING_POLICY
from search.proof.decidable import refuse_undecidable
from search.proof.emulated.apart import PROVING_SHARE, Prover
from search.proof.emulated.prepared import Proof, prove_prepared
from search.tuning.attached import Attached, Detached, find_device
from search.tuning.budget import Budget
from search.tuning.candidates.drafting import DraftPool, drafters
from search.tuning.candidates.plan import Plan
from search.tuning.journal import Journal, JournalKey, spaces_key
from search.tuning.prepared import Prepared, prepared_before
from search.tuning.progress import failure_counts, progress_on
from search.tuning.results import TunedSubject, kernel_path, usable_folder, write_outcome, write_proven
from search.tuning.tune import compilers, tune_on
from search.tuning.tuner import Ending

_KERNELS_WITHOUT_GPU = 24
_PROVEN_WITHOUT_GPU = 3


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
) -> None:
    """Search a fusion for its fastest correct kernel. Stop it with Ctrl-C, resume it by running it again."""
    budget = Budget(seconds=budget_s, trials=trials)
    if isinstance(context.obj, float):  # when the process began: imports count
        budget.started = context.obj
    named = load_one(fusion, case, sizes_of(bind or []))
    card_or_default(card)  # an unknown card is refused before a GPU is looked for
    plan_fusion = named.bound()
    refuse_undecidable(plan_fusion)
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
        prepared = prepared_before(folder / named.name, plan.fusion)
        outcome = tune_on(gpu, plan, journal, budget, seed, progress, first=prepared)
    subject = TunedSubject(named.name, plan.fusion, gpu.card.name, plan.points, plan.legal, floor)
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
    place = folder / named.name
    proofs: list[Proof] = []
    with CompilePool(compilers()) as pool, DraftPool(drafters(compilers())) as drafting, Prover() as prover:
        drafting.start()
        compiling_s = (1 - PROVING_SHARE) * budget.left_s
        found = prepare_one(named, plan, target.card, pool, drafting, place, kernels, seed, compiling_s)
        console.print(describe_prepared(found), markup=False)
        pool.abandon()
        drafting.abandon()
        was_interrupted = found.was_interrupted
        proving = prove_prepared(place, found, prover.prove, _PROVEN_WITHOUT_GPU, lambda: budget.left_s)
        try:
            for proof in () if was_interrupted else proving:
                console.print(f"{place}/{proof}", markup=False)
                proofs.append(proof)
        except KeyboardInterrupt:
            was_interrupted = True
    if was_interrupted:
        console.print("Interrupted: what was compiled is kept, not all was tried.", markup=False)
    if not found.candidates:
        console.print(_nothing_compiled(found, budget, target), markup=False)
        return
    subject = TunedSubject(named.name, plan.fusion, target.card.name, plan.points, plan.legal, found.floor_us)
    ended: Ending = "interrupted" if was_interrupted else "budget" if budget.left_s <= 0 else "exhausted"
    if ended == "budget":
        console.print(
            f"The budget of {budget.seconds:g} s ended: what was compiled is kept, not all was tried.", markup=False
        )
    is_kept = write_proven(folder, subject, proofs, ended)
    right = any(proof.kernel is not None for proof in proofs)
    console.print(predicted_table(found, proofs))
    console.print(describe_proofs(kernel_path(folder, named.name) if is_kept else place, proofs), markup=False)
    if right and not is_kept:
        console.print(f"{kernel_path(folder, named.name)} was measured before and stays.", markup=False)
    console.print(
        f"Nothing was {'timed' if right else 'verified or timed'}: {target.why}.\n"
        f"The order above is a prediction for the {target.card.name}.\n"
        f"The compiled kernels are in {folder}. On a machine with that GPU: python -m search measure {folder}",
        markup=False,
    )


def _nothing_compiled(found: Prepared, budget: Budget, target: Detached) -> str:
    """Why there is nothing to show: the budget, or every candidate failed."""
    if budget.seconds is not None and (found.given_up or not found.failed):
        why = f"The budget of {budget.seconds:g} s ended before a kernel was compiled. Give it more with --budget-s."
    else:
        failures = ", ".join(f"{count} {why}" for why, count in failure_counts(found.failed).items())
        why = f"No kernel was compiled: {failures or 'none was tried'}."
    return f"{why}\nNothing was compiled, verified or timed: {target.why}."
