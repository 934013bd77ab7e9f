"""What the commands say at their end, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from search.space.counted import told
from search.space.knobs import KnobValue
from search.tuning.candidates.candidate import Candidate
from search.tuning.prepared import Prepared
from search.tuning.progress import failure_counts
from search.tuning.results import TunedSubject, kernel_path
from search.tuning.timeline import Record
from search.tuning.trial import TrialState
from search.tuning.tuner import WHY_ENDED, SearchOutcome

if TYPE_CHECKING:  # as in `search.tuning.results`
    from search.proof.emulated.prepared import Proof

_SHOWN = 10


def describe_prepared(found: Prepared) -> str:
    """One line on a prepared fusion."""
    best = min((one.predicted_us for one in found.candidates if one.predicted_us is not None), default=None)
    predicted = "" if best is None else f", best predicted {best:.1f} us"
    given_up = f", {found.given_up} given up" if found.given_up else ""
    return (
        f"{found.name}: {told(found.points)} points, {told(found.legal)} legal, "
        f"{len(found.candidates)} kernels compiled, {len(found.failed)} failed or equal{given_up}{predicted}"
    )


def predicted_table(found: Prepared, proofs: Sequence[Proof]) -> Table:
    """The compiled candidates that the model thinks fastest, with what the emulator says of them: `-` where it was not
    asked. Knobs that are alike in all of one scheduler are told once."""
    verdicts = {proof.file: proof.found.verdict for proof in proofs}
    by_time = sorted(found.candidates, key=lambda one: (one.predicted_us is None, one.predicted_us))[:_SHOWN]
    alike = _alike([one.candidate for one in by_time])
    told = "\n".join(
        f"{name}(…): {', '.join(f'{k}={v}' for k, v in same.items())}" for name, same in alike.items() if same
    )
    table = Table(title=f"Predicted for {found.card}, not measured", title_justify="left", box=None, caption=told)
    table.caption_justify = "left"
    table.add_column("us", justify="right")
    table.add_column("emulator")
    table.add_column("candidate", overflow="fold")
    for one in by_time:
        same = alike[one.candidate.scheduler]
        differing = Candidate.of(
            one.candidate.scheduler, {k: v for k, v in one.candidate.knobs.items() if k not in same}
        )
        text = str(differing) if not same else f"{str(differing)[:-1]}{', ' if differing.point else ''}…)"
        time = "?" if one.predicted_us is None else f"{one.predicted_us:.1f}"
        table.add_row(time, verdicts.get(one.file, "-"), text)
    return table


def describe_proofs(kernel: Path, proofs: Sequence[Proof]) -> str:
    """The best predicted of the kernels that were proven, or that there is none. `kernel`: where it is kept."""
    right = [proof for proof in proofs if proof.kernel is not None]
    if not right:
        return f"No kernel was proven in the emulator, {len(proofs)} {'was' if len(proofs) == 1 else 'were'} tried."
    best = right[0]
    time = "" if best.predicted_us is None else f", predicted {best.predicted_us:.2f} us"
    return f"Best of {len(right)} proven in the emulator: {kernel}{time}\n  {best.candidate}"


def timeline_table(record: Record) -> Table:
    """What a tuning spent its time on, and how long the GPU waited."""
    titles, *rows = record.table()
    table = Table(title="Where the time went", title_justify="left", box=None, caption=record.words)
    table.caption_justify = "left"
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number < 2 else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _alike(candidates: Sequence[Candidate]) -> dict[str, dict[str, KnobValue]]:
    """By scheduler, the knobs that have one value in all its candidates; none for a scheduler that has one."""
    knobs: dict[str, list[dict[str, KnobValue]]] = {}
    for one in candidates:
        knobs.setdefault(one.scheduler, []).append(one.knobs)
    return {
        name: {k: v for k, v in every[0].items() if all(other.get(k) == v for other in every)} if every[1:] else {}
        for name, every in knobs.items()
    }


def describe_outcome(out: Path, subject: TunedSubject, outcome: SearchOutcome) -> str:
    """The winner, or why there is none, and what became of the trials."""
    states = Counter(trial.state for trial in outcome.trials)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    lines = [
        f"{subject.name}: {told(subject.points)} points, {told(subject.legal)} legal, "
        f"{len(outcome.trials)} trials ({counts})"
    ]
    if outcome.winner is None:
        failures = ", ".join(f"{count} {why}" for why, count in failure_counts(outcome.trials).items())
        lines.append(
            f"No kernel was both verified and timed. Failures: {failures or 'none; the budget was too small'}."
        )
        lines.append(f"Stopped: {WHY_ENDED[outcome.ended]}.")
        return "\n".join(lines)
    trial = outcome.winner.trial
    if trial.median_us is not None and subject.floor_us is not None:
        lines.append(
            f"Winner: trial {trial.number}, {trial.median_us:.2f} us measured on {subject.card}, "
            f"{trial.median_us / subject.floor_us:.2f} times the floor of {subject.floor_us:.2f} us, "
            "right on all input sets"
        )
    lines.append(f"  {trial.candidate}")
    if outcome.winner.tied:
        lines.append(f"  a tie with trials {', '.join(map(str, outcome.winner.tied))}: time does not tell them apart")
    lines.append(f"Kernel: {kernel_path(out, subject.name)}")
    lines.append(f"Stopped: {WHY_ENDED[outcome.ended]}.")
    if outcome.ended == "interrupted":
        lines.append("The search was interrupted; run the same command to go on.")
    if states[TrialState.CANCELLED]:
        lines.append(f"{states[TrialState.CANCELLED]} candidates were under way at the end and were not tried.")
    return "\n".join(lines)
