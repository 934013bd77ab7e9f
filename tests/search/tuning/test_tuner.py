"""The tuning loop with a scripted compiler and device: what ends how, what is recorded, what wins."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from compiler.errors import CompileError, CompileTimeout, IllegalSchedule, InvalidStep, Unsupported, Violation
from fusetune.wire.artifact import VERIFIER, Conditions, KernelArtifact, LaunchSpec, Resources, Timing, Verification
from search.measure.device import EAGER, Baseline, Effort, MeasureResult
from search.measure.halving import median_interval
from search.space.knobs import Knob
from search.space.space import Space
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft
from search.tuning.failing import failure_of
from search.tuning.journal import Journal, JournalKey
from search.tuning.leaders import MOST_LATE, Leader, tied
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import Ending, SearchOutcome, SearchSettings, Tuner

KEY = JournalKey("fingerprint", "binding", "card", "policy", "generator")

ENDS: dict[str, BaseException] = {
    "illegal": IllegalSchedule((Violation("rule", "T1", 2, 1, "Halve it."),)),
    "bad_step": InvalidStep("split", "does not divide", "Use 4."),
    "unsupported": Unsupported("that", "Do this."),
    "no_compile": CompileError("error", "log"),
    "compile_timeout": CompileTimeout("late"),
}
RUNS = {
    "wrong": TrialState.WRONG_RESULT,
    "crash": TrialState.CRASHED,
    "hang": TrialState.TIMED_OUT,
    "untimed": TrialState.VERIFIED,
    "refused": TrialState.UNSUPPORTED,
}


@dataclasses.dataclass(frozen=True)
class Trace:
    """Stands for a schedule: what the scripted compiler and device do with the candidate."""

    script: str
    us: float


class Scripted:
    """A scheduler whose points are the numbers of a list of scripts (`us`, or a word of ENDS or RUNS, or both)."""

    name = "scripted"

    def __init__(self, scripts: list[str]) -> None:
        self.scripts = scripts
        self.spaces = {self.name: Space(self.name, (Knob("n", tuple(range(len(scripts)))),))}

    def refusal(self, fusion: Any, arch: Any) -> None:
        return None

    def space(self, fusion: Any, arch: Any) -> Space:
        return self.spaces[self.name]

    def trace(self, fusion: Any, point: Any) -> Any:
        script, _, us = self.scripts[point["n"]].rpartition(" ")
        if script in ("illegal", "bad_step"):
            raise ENDS[script]
        return Trace(script, float(us))


@dataclasses.dataclass(frozen=True)
class Generated:
    source: str


@dataclasses.dataclass(frozen=True)
class Compiled:
    source: str
    seconds: float = 0.25
    cpu_seconds: float = 0.2
    log: str = ""


class Compiler:
    """Answers at once, in scripted ways."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    def submit(self, source: str, arch: str) -> Future[Any]:
        self.sources.append(source)
        future: Future[Any] = Future()
        script = source.rpartition(" ")[0]
        if script in ENDS:
            future.set_exception(ENDS[script])
        else:
            future.set_result(Compiled(source))
        return future


class Drafter:
    """Generates what a scripted scheduler's traces say, at once."""

    def __init__(self, scheduler: Scripted) -> None:
        self.scheduler = scheduler

    def finish(self, candidate: Candidate, compiled: Any) -> Future[Any]:
        raise AssertionError(f"{candidate} has left nothing behind")

    def submit(self, candidate: Candidate) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            trace = self.scheduler.trace(None, candidate.knobs)
            if trace.script == "unsupported":
                raise ENDS["unsupported"]
        except (IllegalSchedule, InvalidStep, Unsupported) as error:
            future.set_result(failure_of(error))
        else:
            future.set_result(Draft(Generated(f"{trace.script} {trace.us}"), 1.0, 0.0))  # type: ignore[arg-type]  # a stand-in
        return future


def artifact(generated: Generated, compiled: Any) -> KernelArtifact:
    return KernelArtifact(
        fingerprint="f",
        binding="b",
        arch="sm_90a",
        inputs=(),
        outputs=(),
        launches=(LaunchSpec(entry="k", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        cubin=b"",
        cubin_sha256=sha256(b"").hexdigest(),
        source=compiled.source,
        ptx="",
        trace={},
        resources=Resources(registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0),
        code_hash=f"hash of {compiled.source}",
        conditions=Conditions(generator="1", nvrtc="13.0"),
    )


class Device:
    """Times a kernel at the `us` of its source. `on_all_sets` names sources that fail there, `late` whether by taking
    too long; `before` runs first."""

    def __init__(
        self,
        on_all_sets: tuple[str, ...] = (),
        before: Callable[[int], None] = lambda call: None,
        *,
        late: bool = False,
    ) -> None:
        self.calls: list[tuple[str, Effort]] = []
        self._on_all_sets = on_all_sets
        self._failing = TrialState.TIMED_OUT if late else TrialState.WRONG_RESULT
        self._before = before

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        self._before(len(self.calls))
        self.calls.append((artifact.source, effort))
        script, _, us = artifact.source.rpartition(" ")
        if script in RUNS:
            return MeasureResult(RUNS[script], f"{script} happened")
        if effort is Effort.ALL_SETS and artifact.source in self._on_all_sets:
            return MeasureResult(self._failing, "ties: element [3]")
        samples = tuple(float(us) + 0.01 * i for i in range(21))
        timing = Timing(
            policy="p",
            card="c",
            median_us=statistics.median(samples),
            p10_us=samples[2],
            p90_us=samples[18],
            samples_us=samples,
        )
        verification = Verification(device="d", input_sets=("random",), max_error=0, tolerance=0, deterministic=True)
        return MeasureResult(TrialState.MEASURED, "", verification, timing)

    def tell(self, timeline: Any) -> None: ...

    def open(self, fusion: Any) -> None: ...

    def baseline(self, name: str = EAGER) -> Baseline:
        return Baseline(name, None, "scripts have none")

    def facts(self) -> Any: ...

    def close(self) -> None: ...


class Tuning:
    """A tuning of scripts in a folder; `run` may be called again, to resume."""

    def __init__(self, folder: Path, scripts: list[str]) -> None:
        self.folder = folder
        self.scheduler = Scripted(scripts)
        self.compiler = Compiler()
        self.device = Device()

    def run(
        self,
        budget: Budget | None = None,
        settings: SearchSettings | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> SearchOutcome:
        builder = Builder(Drafter(self.scheduler), self.compiler, "sm_90a", artifact=artifact)
        with Journal.open(self.folder / "journal.jsonl", KEY) as journal:
            sampler = RandomSampler(self.scheduler.spaces, seed=0)
            return Tuner(
                builder, self.device, sampler, journal, budget or Budget(), settings, is_stopped=is_stopped
            ).run()


@pytest.fixture
def tuning(tmp_path: Path) -> Callable[[list[str]], Tuning]:
    return lambda scripts: Tuning(tmp_path, scripts)


Start = Callable[[list[str]], Tuning]


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        pytest.param("illegal 0", TrialState.ILLEGAL, "(rule). Halve it.", id="rules-refuse"),
        pytest.param("bad_step 0", TrialState.ILLEGAL, "does not divide", id="step-does-not-apply"),
        pytest.param("unsupported 0", TrialState.UNSUPPORTED, "not supported yet", id="not-built-yet"),
        pytest.param("no_compile 0", TrialState.COMPILE_FAILED, "log", id="compiler-refuses"),
        pytest.param("compile_timeout 0", TrialState.COMPILE_TIMED_OUT, "late", id="compiler-hangs"),
        pytest.param("wrong 0", TrialState.WRONG_RESULT, "wrong happened", id="wrong-result"),
        pytest.param("crash 0", TrialState.CRASHED, "crash happened", id="crash"),
        pytest.param("hang 0", TrialState.TIMED_OUT, "hang happened", id="hang"),
        pytest.param("untimed 0", TrialState.VERIFIED, "untimed happened", id="verified-but-not-timed"),
        pytest.param("refused 0", TrialState.UNSUPPORTED, "refused happened", id="device-refuses"),
    ],
)
def test_every_end_has_its_state_and_costs_only_its_candidate(
    tuning: Start, script: str, state: TrialState, reason: str
) -> None:
    outcome = tuning([script, " 20", " 10"]).run()
    (ended,) = [trial for trial in outcome.trials if trial.state is not TrialState.MEASURED]
    assert ended.state is state
    assert reason in ended.reason
    assert ended.median_us is None
    assert bool(ended.violations) == (script == "illegal 0")
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


def test_the_fastest_verified_kernel_wins_with_its_evidence(tuning: Start) -> None:
    outcome = tuning([" 30", " 10", " 20"]).run()
    assert outcome.ended == "exhausted"
    assert outcome.winner is not None
    artifact = outcome.winner.artifact
    assert artifact.evidence.model_dump() == {"correct": "verified_on_gpu", "time": "measured"}
    assert artifact.verification is not None
    assert artifact.timing is not None
    assert artifact.timing.median_us == outcome.winner.trial.median_us == pytest.approx(10.1)
    assert outcome.winner.tied == ()


def test_equal_kernels_are_measured_once(tuning: Start) -> None:
    started = tuning([" 10"] * 6 + [" 20"] * 2 + ["wrong 5"] * 2)
    outcome = started.run()
    screened = Counter(source for source, effort in started.device.calls if effort is Effort.SCREEN)
    assert screened == {" 10.0": 1, " 20.0": 1, "wrong 5.0": 1}
    originals = {t.number: t for t in outcome.trials if t.state is not TrialState.DUPLICATE}
    duplicates = [t for t in outcome.trials if t.state is TrialState.DUPLICATE]
    assert len(duplicates) == 7
    for trial in duplicates:
        assert trial.duplicate_of is not None
        original = originals[trial.duplicate_of]
        assert (trial.code_hash, trial.launch_hash) == (original.code_hash, original.launch_hash)
        assert (trial.median_us is None) == (original.state is TrialState.WRONG_RESULT)


def test_a_leader_that_fails_on_another_input_set_is_replaced_by_the_next(tuning: Start) -> None:
    started = tuning([f" {us}" for us in (10, 11, 12, 13)])
    started.device = Device(on_all_sets=(" 10.0", " 11.0"))
    outcome = started.run(settings=SearchSettings(leaders=2))
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 12.0"
    wrong = [t for t in outcome.trials if t.state is TrialState.WRONG_RESULT]
    assert len(wrong) == 2
    assert all("ties" in t.reason and t.median_us is None for t in wrong)


@pytest.mark.parametrize(("late", "proofs"), [(1, 2), (2, 2)])
def test_proofs_that_take_too_long_end_with_the_second(late: int, proofs: int, tuning: Start) -> None:
    started = tuning([f" {us}" for us in (10, 11, 12, 13)])
    started.device = Device(on_all_sets=(" 10.0", " 11.0")[:late], late=True)
    outcome = started.run(settings=SearchSettings(leaders=3))
    assert (outcome.winner is None) is (late == MOST_LATE)
    assert len([1 for _, effort in started.device.calls if effort is Effort.ALL_SETS]) == proofs


def test_no_kernel_that_fails_everywhere_is_served(tuning: Start) -> None:
    started = tuning([" 10", " 11"])
    started.device = Device(on_all_sets=(" 10.0", " 11.0"))
    assert started.run().winner is None


def test_leaders_are_timed_in_turns_and_a_tie_is_named(tuning: Start) -> None:
    started = tuning([" 10", " 10.001", " 30", " 40"])
    outcome = started.run(settings=SearchSettings(leaders=3, rounds=2))
    turns = [source for source, effort in started.device.calls if effort is Effort.LEADER]
    assert turns == [" 10.0", " 10.001", " 30.0", " 10.0", " 10.001"]
    assert outcome.winner is not None
    assert len(outcome.winner.tied) == 1
    assert len(outcome.winner.trial.samples_us) == 42


@pytest.mark.parametrize(("budget", "most"), [pytest.param(3, 3, id="trials"), pytest.param(0, 0, id="none")])
def test_the_budget_of_trials_is_kept_also_over_a_resume(tuning: Start, budget: int, most: int) -> None:
    started = tuning([f" {us}" for us in range(10, 30)])
    assert len(started.run(Budget(trials=budget)).trials) == most
    assert len(started.run(Budget(trials=budget)).trials) == most
    assert len(started.run(Budget(trials=budget + 2)).trials) == most + 2


def test_the_budget_of_seconds_keeps_time_for_the_leaders(tuning: Start) -> None:
    now = [0.0]
    started = tuning([f" {us}" for us in range(10, 60)])

    def takes_a_second(call: int) -> None:
        now[0] += 1.0

    started.device = Device(before=takes_a_second)
    outcome = started.run(
        Budget(seconds=10.0, clock=lambda: now[0]), SearchSettings(leaders=2, rounds=3, finals_share=0.5)
    )
    efforts = Counter(effort for _, effort in started.device.calls)
    assert outcome.ended == "budget"
    assert efforts[Effort.SCREEN] == 5
    assert efforts[Effort.LEADER] >= 2
    assert efforts[Effort.ALL_SETS] == 1


def test_a_resumed_tuning_repeats_nothing_and_keeps_the_best(tuning: Start, tmp_path: Path) -> None:
    scripts = [f" {us}" for us in range(10, 22)]
    first = tuning(scripts)
    first.run(Budget(trials=6))
    before = {source for source, effort in first.device.calls if effort is Effort.SCREEN}
    second = Tuning(tmp_path, scripts)
    outcome = second.run()
    screened = [source for source, effort in second.device.calls if effort is Effort.SCREEN]
    assert len(before) == 6
    assert before.isdisjoint(screened)
    assert len(screened) == 6
    assert sorted(t.number for t in outcome.trials) == list(range(12))
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


def test_what_an_older_verifier_found_is_verified_anew(tuning: Start, tmp_path: Path) -> None:
    once = tuning([" 20", " 10", " 30"])
    once.run()
    path = tmp_path / "journal.jsonl"
    path.write_text(path.read_text().replace(f'"verifier":{VERIFIER}', '"verifier":1'))
    again = tuning([" 20", "wrong 10", " 30"])  # what passed then is found wrong now
    outcome = again.run()
    screened = {source for source, effort in again.device.calls if effort is Effort.SCREEN}
    assert screened == {" 20.0", "wrong 10.0", " 30.0"}
    assert [trial.state for trial in outcome.trials[:3]] == [TrialState.CANCELLED] * 3
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 20.0"


def test_ctrl_c_keeps_the_best_and_cancels_what_was_under_way(tuning: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tuning([f" {us}" for us in range(10, 40)])
    ended: list[Trial] = []

    def record_then_interrupt(self: Journal, trial: Trial) -> None:
        ended.append(trial)
        record(self, trial)
        if len(ended) == 4:
            raise KeyboardInterrupt

    record = Journal.record
    monkeypatch.setattr(Journal, "record", record_then_interrupt)
    outcome = started.run()
    ending: Ending = outcome.ended
    states = Counter(trial.state for trial in outcome.trials)
    assert ending == "interrupted"
    assert states[TrialState.CANCELLED] > 0
    assert outcome.winner is not None
    fastest = min(t.median_us for t in outcome.trials if t.median_us is not None)
    assert outcome.winner.trial.median_us == fastest
    assert not any(effort is Effort.LEADER for _, effort in started.device.calls)

    monkeypatch.setattr(Journal, "record", record)
    assert Counter(t.state for t in started.run().trials)[TrialState.MEASURED] == 30


def test_a_stopped_search_gives_the_gpu_back_and_can_go_on(tuning: Start, tmp_path: Path) -> None:
    scripts = [f" {us}" for us in range(10, 40)]
    started = tuning(scripts)
    outcome = started.run(is_stopped=lambda: len(started.device.calls) >= 4)
    assert outcome.ended == "stopped"
    assert outcome.winner is None
    begun = len(started.device.calls)
    assert 4 <= begun <= 5, "the kernel that was next may have begun"
    assert {effort for _, effort in started.device.calls} == {Effort.SCREEN}
    states = Counter(trial.state for trial in outcome.trials)
    assert states[TrialState.MEASURED] == begun
    assert states[TrialState.CANCELLED] > 0
    assert set(states) == {TrialState.MEASURED, TrialState.CANCELLED}

    resumed = Tuning(tmp_path, scripts)
    final = resumed.run()
    again = {source for source, effort in resumed.device.calls if effort is Effort.SCREEN}
    assert len(again) == 30 - begun
    assert again.isdisjoint(source for source, _ in started.device.calls)
    assert final.winner is not None
    assert final.winner.artifact.source == " 10.0"


def test_a_search_that_is_stopped_before_it_begins_asks_for_nothing(tuning: Start) -> None:
    started = tuning([" 10", " 20"])
    outcome = started.run(is_stopped=lambda: True)
    assert (outcome.ended, outcome.winner, outcome.trials) == ("stopped", None, ())
    assert started.compiler.sources == []
    assert started.device.calls == []


def test_a_stop_in_the_finals_ends_the_rounds_and_keeps_the_winner(tuning: Start) -> None:
    started = tuning([" 10", " 10.001", " 10.002"])
    outcome = started.run(
        settings=SearchSettings(leaders=3, rounds=6),
        is_stopped=lambda: any(effort is Effort.LEADER for _, effort in started.device.calls),
    )
    turns = [source for source, effort in started.device.calls if effort is Effort.LEADER]
    assert len(turns) == 3  # one round, where six would be due
    assert outcome.ended == "exhausted"
    assert outcome.winner is not None
    assert outcome.winner.artifact.verification is not None


@pytest.mark.parametrize(
    ("samples", "interval"),
    [
        pytest.param((), (float("-inf"), float("inf")), id="nothing-known"),
        pytest.param((5.0,), (5.0, 5.0), id="one-sample"),
        pytest.param((3.0, 1.0, 2.0), (1.0, 3.0), id="few-give-the-range"),
        pytest.param(tuple(map(float, range(100))), (40.0, 60.0), id="hundred"),
    ],
)
def test_the_interval_of_a_median(samples: tuple[float, ...], interval: tuple[float, float]) -> None:
    assert median_interval(samples) == interval


def test_ties_are_those_whose_intervals_meet_the_best() -> None:
    def leader(*samples: float) -> Leader:
        trial = Trial(0, None, TrialState.MEASURED, samples_us=samples)  # type: ignore[arg-type]  # no candidate is asked
        return Leader(trial, None)  # type: ignore[arg-type]  # no kernel is asked

    slow, near, best = leader(5, 6, 7), leader(2.5, 3, 4), leader(1, 2, 3)
    assert tied([slow, near, best]) == [best, near]
    assert tied([]) == []
