"""What the commands say at their end, in words and tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.table import Table

from search.prepared import Prepared
from search.progress import failure_counts
from search.results import Subject, kernel_path
from search.trial import TrialState
from search.tuner import Outcome

_SHOWN = 10


def describe_prepared(found: Prepared) -> str:
    """One line on a prepared fusion."""
    best = min((one.predicted_us for one in found.candidates if one.predicted_us is not None), default=None)
    predicted = "" if best is None else f", best predicted {best:.1f} us"
    return (
        f"{found.name}: {found.points:,} points, {found.legal:,} legal, {len(found.candidates)} kernels compiled, "
        f"{len(found.failed)} failed or equal{predicted}"
    )


def predicted_table(found: Prepared) -> Table:
    """The compiled candidates that the model thinks fastest."""
    table = Table(title=f"Predicted for {found.card}, not measured", title_justify="left", box=None)
    table.add_column("us", justify="right")
    table.add_column("candidate", overflow="fold")
    by_time = sorted(found.candidates, key=lambda one: (one.predicted_us is None, one.predicted_us))
    for one in by_time[:_SHOWN]:
        table.add_row("?" if one.predicted_us is None else f"{one.predicted_us:.1f}", str(one.candidate))
    return table


def describe_outcome(out: Path, subject: Subject, outcome: Outcome) -> str:
    """The winner, or why there is none, and what became of the trials."""
    states = Counter(trial.state for trial in outcome.trials)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    lines = [
        f"{subject.name}: {subject.points:,} points, {subject.legal:,} legal, {len(outcome.trials)} trials ({counts})"
    ]
    if outcome.winner is None:
        failures = ", ".join(f"{count} {why}" for why, count in failure_counts(outcome.trials).items())
        lines.append(
            f"No kernel was both verified and timed. Failures: {failures or 'none; the budget was too small'}."
        )
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
    if outcome.ended == "interrupted":
        lines.append("The search was interrupted; run the same command to go on.")
    if states[TrialState.CANCELLED]:
        lines.append(f"{states[TrialState.CANCELLED]} candidates were under way at the end and were not tried.")
    return "\n".join(lines)
