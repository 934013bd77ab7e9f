"""`tune` where no GPU is: all that needs none."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import KernelArtifact
from search.cli.load import Named
from search.cli.prepare import prepare_one
from search.cli.report import describe_prepared, describe_proofs, predicted_table
from search.cost.unpriced import left_out
from search.proof.emulated.apart import PROVING_SHARE, Prover
from search.proof.emulated.check import EmulatedProof
from search.proof.emulated.prepared import Proof, prove_prepared
from search.tuning.attached import Detached
from search.tuning.budget import Budget
from search.tuning.candidates.drafting import DraftPool
from search.tuning.candidates.plan import Plan
from search.tuning.hands import compilers, drafters
from search.tuning.prepared import Prepared
from search.tuning.progress import failure_counts
from search.tuning.results import TunedSubject, kernel_path, write_proven
from search.tuning.timeline import SearchStage, Timeline
from search.tuning.tuner import Ending

_KERNELS_WITHOUT_GPU = 24
_PROVEN_WITHOUT_GPU = 3


def tune_without_gpu(
    named: Named,
    plan: Plan,
    target: Detached,
    budget: Budget,
    folder: Path,
    seed: int,
    console: Console,
    times: Timeline,
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
        prover.start()
        compiling_s = (1 - PROVING_SHARE) * budget.left_s
        found = prepare_one(named, plan, target.card, pool, drafting, place, kernels, seed, compiling_s, times)
        console.print(describe_prepared(found), markup=False)
        pool.abandon()
        drafting.abandon()
        was_interrupted = found.was_interrupted

        def prove(kernel: KernelArtifact, seconds: float) -> EmulatedProof:
            with times.span(SearchStage.PROVING):
                return prover.prove(kernel, seconds)

        proving = prove_prepared(place, found, prove, _PROVEN_WITHOUT_GPU, lambda: budget.left_s)
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
    is_kept = write_proven(folder, subject, proofs, ended, times.record())
    right = any(proof.kernel is not None for proof in proofs)
    console.print(predicted_table(found, proofs))
    console.print(describe_proofs(kernel_path(folder, named.name) if is_kept else place, proofs), markup=False)
    if right and not is_kept:
        console.print(f"{kernel_path(folder, named.name)} was measured before and stays.", markup=False)
    unpriced = left_out(one.candidate.knobs for one in found.candidates)
    console.print(
        f"Nothing was {'timed' if right else 'verified or timed'}: {target.why}.\n"
        f"The order above is a prediction for the {target.card.name}.{unpriced and f' {unpriced}'}\n"
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
