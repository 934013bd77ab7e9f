"""What a tuning says of itself while it runs."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from compiler.errors import Violation
from search.cli.report import describe_outcome
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.journal import Journal
from search.tuning.leaders import Winner
from search.tuning.progress import LiveProgress, PlainProgress, Snapshot, facts, failure_counts, progress_on
from search.tuning.results import TunedSubject
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import WHY_ENDED, Ending, SearchOutcome, SearchSettings, Tuner
from tests.search.schedulers.fusions import permute
from tests.search.tuning.test_tuner import KEY, Compiler, Device, Drafter, Scripted, artifact
from tests.service.jobs.benches import winner

POINT = Candidate.of("flat", {"vector": 8})
BEST = Trial(7, POINT, TrialState.MEASURED, median_us=20.0)
RUNNING = Snapshot(
    phase="searching",
    states={TrialState.MEASURED: 8, TrialState.DUPLICATE: 1, TrialState.CRASHED: 1},
    best=BEST,
    floor_us=15.0,
    elapsed_s=5.0,
    budget_s=60.0,
    compiling=3,
    failures={"crashed": 1},
)


def said(snapshot: Snapshot) -> dict[str, str]:
    return dict(facts(snapshot))


def test_everything_known_is_said() -> None:
    assert said(RUNNING) == {
        "phase": "searching",
        "best": "best 20.00 us, 75% of the roofline (trial 7)",
        "trials": "10 trials, 8 measured, 1 duplicates",
        "rate": "2.0 trials/s, 3 compiling",
        "failed": "failed: 1 crashed",
        "time": "5 s, 55 s left",
    }


def test_the_first_kernel_is_told() -> None:
    assert said(replace(RUNNING, first_s=1.26))["time"] == "5 s, 55 s left, first kernel after 1.3 s"


def test_what_is_not_known_is_left_out() -> None:
    assert said(Snapshot(phase="searching")).keys() == {"phase", "trials", "rate", "time"}
    assert said(Snapshot(phase="searching"))["time"] == "0 s"


def test_failures_are_counted_by_state_and_rule() -> None:
    def breach(*rules: str) -> Trial:
        violations = tuple(Violation(rule, "T1", 2, 1, "") for rule in rules)
        return Trial(0, POINT, TrialState.ILLEGAL, violations=violations)

    crashed = Trial(1, POINT, TrialState.CRASHED)
    counts = failure_counts([breach("a"), crashed, breach("a", "b"), crashed, crashed, BEST])
    assert list(counts.items()) == [("crashed", 3), ("illegal (a)", 2), ("illegal (b)", 1)]


@pytest.mark.parametrize(("terminal", "kind"), [(True, LiveProgress), (False, PlainProgress)])
def test_both_forms_show_the_best_and_the_notes(terminal: bool, kind: type) -> None:
    out = io.StringIO()
    progress = progress_on(Console(file=out, force_terminal=terminal, width=120), "title")
    assert type(progress) is kind
    with progress:
        progress.show(RUNNING)
        progress.note("a note [that] stays")
    assert "20.00 us, 75% of the roofline" in out.getvalue()
    assert "a note [that] stays" in out.getvalue()
    assert "title" in out.getvalue()


def test_lines_come_with_a_new_best_and_not_with_every_trial() -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200))
    for _ in range(50):
        progress.show(RUNNING)
    assert len(out.getvalue().splitlines()) == 1


def test_a_search_says_all_of_it(tmp_path: Path) -> None:
    out = io.StringIO()
    scheduler = Scripted([f" {us}" for us in range(10, 16)])
    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        settings = SearchSettings(queue_depth=2, floor_us=5.0)
        progress = PlainProgress(Console(file=out, width=300), "softmax on H200")
        sampler = RandomSampler(scheduler.spaces, seed=0)
        Tuner(builder, Device(), sampler, journal, Budget(seconds=60.0), settings, progress).run()
    last = out.getvalue().splitlines()[-1]
    for told in (
        "softmax on H200: done", r"best 10\.\d\d us, 50% of the roofline \(trial \d\)", "6 trials, 6 measured",
        r"\d trials/s", r"(59|60) s left", r"first kernel after \d+\.\d s",
    ):  # fmt: skip
        assert re.search(told, last), last


@pytest.mark.parametrize("ended", list(WHY_ENDED))
@pytest.mark.parametrize("kernel", [None, winner(12.5)], ids=["no-kernel", "a-kernel"])
def test_why_a_search_stopped_is_said(ended: Ending, kernel: Winner | None, tmp_path: Path) -> None:
    subject = TunedSubject("softmax", permute((64, 96), (1, 0), "f32"), "H200", 10, 5, 5.0)
    told = describe_outcome(tmp_path, subject, SearchOutcome(kernel, (), ended))
    assert f"Stopped: {WHY_ENDED[ended]}." in told.splitlines()
