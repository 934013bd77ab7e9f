"""Several GPUs for one search: candidates are shared out, one GPU settles the leaders, a lost one costs what it had."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from search.measure.device import DeviceLost, Effort, MeasureResult, NeverBegun
from search.tuning.budget import Budget
from search.tuning.build import Build, Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.elsewhere import HostLost, SharedBuilds
from search.tuning.failing import Failure
from search.tuning.journal import Journal
from search.tuning.lanes import Gpu, Lane, Lanes, WaitingKernel
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.timeline import Timeline
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import Awaited, Builds, SearchOutcome, SearchSettings, Tuner
from tests.search.tuning.test_tuner import KEY, Compiler, Device, Drafter, Generated, Scripted, artifact
from tests.search.tuning.test_tuner import Compiled as ScriptedCompile


class Together(Device):
    """Two of these measure their first kernels at the same time, or the barrier breaks."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self._barrier = barrier

    def measure(self, artifact: Any, effort: Effort = Effort.SCREEN) -> MeasureResult:
        if not self.calls:
            self._barrier.wait(20)
        return super().measure(artifact, effort)


class Dies(Device):
    """Is lost at its call number `at`, counted from 0, and stays so."""

    def __init__(self, at: int, error: type[DeviceLost] = DeviceLost) -> None:
        super().__init__()
        self._at = at
        self._error = error
        self.is_dead = threading.Event()

    def measure(self, artifact: Any, effort: Effort = Effort.SCREEN) -> MeasureResult:
        if len(self.calls) >= self._at:
            self.is_dead.set()
            raise self._error("GPU 1", "it fell off the bus")
        return super().measure(artifact, effort)


def searched(
    folder: Path,
    scripts: list[str],
    devices: list[Any],
    builds: Callable[[Builder], Builds] = lambda builder: builder,
    timeline: Timeline | None = None,
) -> SearchOutcome:
    """A search on the first of the devices, which the others join at once."""
    scheduler = Scripted(scripts)
    others = [Gpu(device) for device in devices[1:]]

    def joining() -> list[Gpu]:
        came, others[:] = list(others), []
        return came

    with Journal.open(folder / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(scheduler.spaces, seed=0)
        return Tuner(
            builds(builder), devices[0], sampler, journal, Budget(), SearchSettings(queue_depth=4),
            timeline=timeline, joining=joining,
        ).run()  # fmt: skip


def outliving(dies: Dies) -> Device:
    """Measures one kernel, and no other before that GPU is lost: so the other has its turns."""
    return Device(before=lambda call: None if call == 0 else _assert(dies.is_dead.wait(20)))


def _assert(is_so: bool) -> None:
    assert is_so


def screened(device: Device) -> list[str]:
    return [source for source, effort in device.calls if effort is Effort.SCREEN]


def test_two_gpus_share_the_candidates_and_one_settles_the_leaders(tmp_path: Path) -> None:
    barrier = threading.Barrier(2)
    devices = [Together(barrier), Together(barrier)]
    outcome = searched(tmp_path, [f" {us}" for us in range(10, 30)], devices)
    shares = [screened(device) for device in devices]
    assert sorted(shares[0] + shares[1]) == sorted(f" {float(us)}" for us in range(10, 30))
    assert all(shares)
    assert {effort for _, effort in devices[1].calls} == {Effort.SCREEN}
    assert {effort for _, effort in devices[0].calls} == set(Effort)
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


class Told(Timeline):
    """Keeps what it is told of GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, int]] = []

    def joined(self, gpu: int) -> None:
        self.told.append(("joined", gpu))
        super().joined(gpu)

    def left(self, gpu: int) -> None:
        self.told.append(("left", gpu))
        super().left(gpu)

    def measured(self, gpu: int, begun_s: float, ended_s: float) -> None:
        self.told.append(("measured", gpu))
        super().measured(gpu, begun_s, ended_s)


def test_the_timeline_is_told_of_every_gpu(tmp_path: Path) -> None:
    barrier, timeline = threading.Barrier(2), Told()
    devices = [Together(barrier), Together(barrier)]
    searched(tmp_path, [f" {us}" for us in range(10, 30)], devices, timeline=timeline)
    told = Counter(timeline.told)
    assert (told["joined", 1], told["left", 1]) == (1, 1)
    assert told["measured", 1] == len(screened(devices[1]))
    assert told["measured", 0] == len(screened(devices[0])) + 2  # what is done beside, and the finals
    assert timeline.told[-2:] == [("left", 1), ("measured", 0)]
    assert not {("joined", 0), ("left", 0)} & set(told)


def test_the_timeline_is_told_of_a_gpu_that_is_lost(tmp_path: Path) -> None:
    dies, timeline = Dies(at=2), Told()
    searched(tmp_path, [f" {us}" for us in range(10, 22)], [outliving(dies), dies], timeline=timeline)
    assert timeline.told.count(("left", 1)) == 1
    assert timeline.told.count(("measured", 1)) == 3  # the one that it was lost with, too


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_gpu_costs_the_candidate_that_it_had(tmp_path: Path, lost: int) -> None:
    dies = Dies(at=2)
    devices = [outliving(dies), dies] if lost else [dies, outliving(dies)]
    outcome = searched(tmp_path, [f" {us}" for us in range(10, 22)], devices)
    ends = [trial.state for trial in outcome.trials]
    assert ends.count(TrialState.CRASHED) == 1
    assert ends.count(TrialState.MEASURED) == 11
    (cost,) = [trial for trial in outcome.trials if trial.state is TrialState.CRASHED]
    assert "fell off the bus" in cost.reason
    assert outcome.winner is not None
    assert outcome.winner.trial.median_us == min(t.median_us for t in outcome.trials if t.median_us is not None)


def test_what_a_lost_gpu_had_not_begun_is_measured_by_another(tmp_path: Path) -> None:
    dies = Dies(2, NeverBegun)
    outcome = searched(tmp_path, [f" {us}" for us in range(10, 22)], [outliving(dies), dies])
    assert dies.is_dead.is_set()
    assert {trial.state for trial in outcome.trials} == {TrialState.MEASURED}
    assert len(outcome.trials) == 12


def test_a_gpu_that_is_lost_among_the_leaders_costs_the_one_that_it_had(tmp_path: Path) -> None:
    class DiesLate(Device):
        def measure(self, artifact: Any, effort: Effort = Effort.SCREEN) -> MeasureResult:
            if effort is Effort.LEADER and artifact.source == " 10.0":
                raise DeviceLost("GPU 0", "it fell off the bus")
            return super().measure(artifact, effort)

    other = Device()
    outcome = searched(tmp_path, [f" {us}" for us in range(10, 16)], [DiesLate(), other])
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 11.0"
    assert [t.state for t in outcome.trials].count(TrialState.CRASHED) == 1
    assert Effort.ALL_SETS in {effort for _, effort in other.calls}


def test_a_search_ends_with_its_last_gpu(tmp_path: Path) -> None:
    with pytest.raises(DeviceLost, match="fell off"):
        searched(tmp_path, [f" {us}" for us in range(10, 22)], [Dies(1), Dies(2)])


def test_one_that_cannot_be_opened_costs_nothing(tmp_path: Path) -> None:
    opened = Future[None]()
    opened.set_exception(DeviceLost("GPU 1", "no memory"))
    scheduler = Scripted([" 10", " 20", " 30"])
    others = [Gpu(Device(), opened)]

    def joining() -> list[Gpu]:
        came, others[:] = list(others), []
        return came

    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(scheduler.spaces, seed=0)
        outcome = Tuner(builder, Device(), sampler, journal, Budget(), joining=joining).run()
    assert {trial.state for trial in outcome.trials} == {TrialState.MEASURED}


class OtherHost:
    """Has room for two; makes what scripts say, at once. `loses`: how many of the first it loses."""

    hands = 2

    def __init__(self, scheduler: Scripted, loses: int = 0) -> None:
        self.room = 2
        self.made: list[Candidate] = []
        self._scheduler = scheduler
        self._loses = loses

    def joined(self) -> tuple[()]:
        return ()

    def build(self, candidate: Candidate) -> Future[BuiltElsewhere | Failure]:
        self.made.append(candidate)
        found: Future[BuiltElsewhere | Failure] = Future()
        if len(self.made) <= self._loses:
            found.set_exception(HostLost("it does not answer"))
        else:
            trace = self._scheduler.trace(None, candidate.knobs)
            source = f"{trace.script} {trace.us}"
            built = artifact(Generated(source), ScriptedCompile(source))
            found.set_result(BuiltElsewhere(built, 7.0, {"dram": 6.0}, {"compile": 0.5}))
        return found


@pytest.mark.parametrize("loses", [0, 2])
def test_other_hosts_build_what_this_one_has_no_hands_for(tmp_path: Path, loses: int) -> None:
    scripts = [f" {us}" for us in range(10, 22)]
    host = OtherHost(Scripted(scripts), loses)
    outcome = searched(tmp_path, scripts, [Device()], lambda home: SharedBuilds(home, host, at_home=0))
    assert len(host.made) == 12
    assert {trial.state for trial in outcome.trials} == {TrialState.MEASURED}
    told = [trial for trial in outcome.trials if trial.predicted_us == 7.0]
    assert len(told) == 12 - loses
    assert all(trial.predicted_terms == {"dram": 6.0} and trial.seconds["compile"] == 0.5 for trial in told)
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


class Failing(OtherHost):
    """Each of its builds ends so."""

    def __init__(self, scheduler: Scripted, end: Callable[[Future[BuiltElsewhere | Failure]], object]) -> None:
        super().__init__(scheduler)
        self._end = end

    def build(self, candidate: Candidate) -> Future[BuiltElsewhere | Failure]:
        found: Future[BuiltElsewhere | Failure] = Future()
        self._end(found)
        return found


@pytest.mark.parametrize(
    "end",
    [
        lambda found: found.set_exception(HostLost("it left")),
        lambda found: found.set_exception(ValueError("no artifact")),
        lambda found: found.set_exception(NeverBegun("GPU 1", "it left")),
        lambda found: found.cancel() and found.set_running_or_notify_cancel(),
    ],
    ids=["lost", "a fault of its own", "another's word", "taken back"],
)
def test_however_a_build_elsewhere_ends_it_is_made_here(
    tmp_path: Path, end: Callable[[Future[BuiltElsewhere | Failure]], object]
) -> None:
    scripts = [f" {us}" for us in range(10, 14)]
    host = Failing(Scripted(scripts), end)
    outcome = searched(tmp_path, scripts, [Device()], lambda home: SharedBuilds(home, host, at_home=0))
    assert [trial.state for trial in outcome.trials] == [TrialState.MEASURED] * 4


@pytest.mark.parametrize("is_drafted", [False, True], ids=["not begun", "not drafted"])
def test_what_cannot_be_made_here_either_is_raised(is_drafted: bool) -> None:
    class Broken:
        elsewhere = 0

        def start(self, number: int, candidate: Candidate) -> Build:
            if not is_drafted:
                raise RuntimeError("no pool")
            ended: Future[Any] = Future()
            ended.set_exception(RuntimeError("no pool"))
            return Build(number, candidate, compiled=ended)

    host = Failing(Scripted([" 10"]), lambda found: found.set_exception(HostLost("it left")))
    build = SharedBuilds(Broken(), host, at_home=0).start(0, Candidate.of("any", {}))  # type: ignore[arg-type]  # no builder
    assert build.compiled is not None
    with pytest.raises(RuntimeError, match="no pool"):
        build.compiled.result(timeout=5)


def test_a_build_that_is_cancelled_is_not_made_here() -> None:
    class Nobody:
        elsewhere = 0

        def start(self, number: int, candidate: Candidate) -> Build:
            raise AssertionError("nobody waits for it")

    sent: list[Future[BuiltElsewhere | Failure]] = []
    build = SharedBuilds(Nobody(), Failing(Scripted([" 10"]), sent.append), at_home=0).start(  # type: ignore[arg-type]  # no builder
        0, Candidate.of("any", {})
    )
    build.cancel()
    assert sent[0].cancelled()
    assert build.compiled is not None
    assert build.compiled.cancelled()


def test_what_was_to_be_done_beside_a_search_is_done_by_the_gpu_that_is_left(tmp_path: Path) -> None:
    """The first GPU is lost with a kernel in hand while the other work waits behind it."""
    measuring, failing = threading.Event(), threading.Event()

    class DiesBusy(Device):
        def measure(self, artifact: Any, effort: Effort = Effort.SCREEN) -> MeasureResult:
            measuring.set()
            failing.wait(20)
            raise DeviceLost("GPU 0", "it fell off the bus")

    first, done = DiesBusy(), list[Any]()
    other = Device(before=lambda call: _assert(measuring.wait(20)) if call == 0 else failing.set())
    scheduler, others = Scripted([f" {us}" for us in range(10, 16)]), [Gpu(other)]

    def joining() -> list[Gpu]:
        came, others[:] = list(others), []
        return came

    def beside(device: Any) -> None:
        if device is first:
            raise DeviceLost("GPU 0", "it fell off the bus")
        done.append(device)

    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(scheduler.spaces, seed=0)
        outcome = Tuner(
            builder, first, sampler, journal, Budget(), SearchSettings(queue_depth=4), beside=beside, joining=joining
        ).run()
    assert done == [other]
    assert [trial.state for trial in outcome.trials].count(TrialState.CRASHED) == 1


def test_finals_on_another_gpu_are_its_time(tmp_path: Path) -> None:
    class DiesLate(Device):
        def measure(self, artifact: Any, effort: Effort = Effort.SCREEN) -> MeasureResult:
            if effort is not Effort.SCREEN:
                raise DeviceLost("GPU 0", "it fell off the bus")
            return super().measure(artifact, effort)

    timeline = Told()
    searched(tmp_path, [f" {us}" for us in range(10, 16)], [DiesLate(), Device()], timeline=timeline)
    assert timeline.told[-4:] == [("measured", 0), ("left", 0), ("joined", 1), ("measured", 1)]
    assert timeline.told.index(("left", 1)) < timeline.told.index(("left", 0))


class Waits:
    """Has two candidates at hand; asked for more, it needs what it waits for."""

    def __init__(self, candidates: list[Candidate], there: Future[None]) -> None:
        self._left, self._there, self._asked = candidates, there, 0

    def ask(self) -> Candidate | None:
        self._asked += 1
        assert self._asked <= 2 or self._there.done()
        return self._left.pop(0) if self._left else None

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        if len(self._left) <= 2 and state is TrialState.MEASURED and not self._there.done():
            self._there.set_result(None)


def test_a_search_goes_on_with_what_it_has_while_its_sampler_waits(tmp_path: Path) -> None:
    scheduler, there = Scripted([" 10", " 20", " 30", " 40"]), Future[None]()
    (space,) = scheduler.spaces.items()
    candidates = [Candidate.of(space[0], point) for point in space[1].sample(4, seed=0)]
    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        sampler = Waits(candidates, there)
        outcome = Tuner(builder, Device(), sampler, journal, Budget(), awaited=Awaited(there, 2)).run()
    assert [trial.state for trial in outcome.trials] == [TrialState.MEASURED] * 4


def test_a_gpu_goes_on_while_the_search_keeps_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel that is next waits in the GPU's thread, and begins whatever the search is busy with."""
    has_next, has_begun = threading.Event(), threading.Event()
    start, record = Lane.start, Journal.record

    def starting(lane: Lane, kernel: WaitingKernel) -> None:
        start(lane, kernel)
        if lane.next is not None:
            has_next.set()

    def recording(journal: Journal, trial: Trial) -> None:
        _assert(trial.state is not TrialState.MEASURED or has_begun.wait(20))
        record(journal, trial)

    def before(call: int) -> None:
        _assert(call > 0 or has_next.wait(20))
        if call > 0:
            has_begun.set()

    monkeypatch.setattr(Lane, "start", starting)
    monkeypatch.setattr(Journal, "record", recording)
    outcome = searched(tmp_path, [f" {us}" for us in range(10, 16)], [Device(before=before)])
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


def test_lanes_say_when_a_result_waits_to_be_collected() -> None:
    measuring = threading.Event()
    lanes = Lanes(Gpu(Device(before=lambda call: _assert(measuring.wait(20)))), tuple, Timeline())
    kernel = WaitingKernel(
        Build(0, Candidate.of("scripted", {})), artifact(Generated(" 10"), ScriptedCompile(" 10")), ("", "")
    )
    said = [lanes.has_results]
    with lanes:
        lanes.first.start(kernel)
        said.append(lanes.has_results)
        measuring.set()
        wait(lanes.pending)
        said.append(lanes.has_results)
        assert [one.kernel for one in lanes.collect()] == [kernel]
        said.append(lanes.has_results)
    assert said == [False, False, True, False]
