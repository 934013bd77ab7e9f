"""The first kernel that may be served: right on all input sets and timed, once, and only where somebody wants it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from search.measure.device import DeviceLost, Effort
from search.tuning.budget import Budget
from search.tuning.build import Builder
from search.tuning.first import FirstKernel
from search.tuning.journal import Journal
from search.tuning.leaders import Winner
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import SearchOutcome, SearchSettings, Tuner
from tests.search.tuning.test_tuner import KEY, Compiler, Device, Drafter, Scripted, artifact


def searched(
    folder: Path,
    scripts: list[str],
    is_wanted: Callable[[Device], bool] = lambda device: True,
    on_all_sets: tuple[str, ...] = (),
    publish: Callable[[Winner, float | None], None] | None = None,
) -> tuple[list[Winner], Device, SearchOutcome]:
    """A search of scripts from the first to the last, and the kernels that it gave before its end."""
    scheduler, device, given = Scripted(scripts), Device(on_all_sets), list[Winner]()
    first = FirstKernel(lambda: is_wanted(device), publish or (lambda winner, us: given.append(winner)))
    with Journal.open(folder / "journal.jsonl", KEY) as journal:
        sampler = RandomSampler(scheduler.spaces, seed=0)
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        settings = SearchSettings(queue_depth=1)
        outcome = Tuner(builder, device, sampler, journal, Budget(), settings, first=first).run()
    return given, device, outcome


def test_the_first_right_kernel_is_given_and_the_search_goes_on(tmp_path: Path) -> None:
    given, device, outcome = searched(tmp_path, [" 30", " 10", "wrong 5", " 20"])
    (winner,) = given
    at = device.calls.index((winner.artifact.source, Effort.ALL_SETS))
    right = [source for source, _ in device.calls[:at] if not source.startswith("wrong")]
    assert right == [winner.artifact.source], "it is verified at once"
    assert winner.artifact.evidence.model_dump() == {"correct": "verified_on_gpu", "time": "measured"}
    assert winner.artifact.timing is not None
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 10.0"


def test_one_that_fails_on_another_set_is_not_given(tmp_path: Path) -> None:
    given, _, outcome = searched(tmp_path, [" 10", " 20"], on_all_sets=(" 10.0",))
    assert [winner.artifact.source for winner in given] == [" 20.0"]
    assert outcome.winner is not None
    assert outcome.winner.artifact.source == " 20.0"


@pytest.mark.parametrize(
    ("predicted_us", "times", "after"),
    [
        pytest.param(10.0, [20.0], 1, id="twice as long"),
        pytest.param(10.0, [20.1], None, id="longer"),
        pytest.param(10.0, [90.0, 20.0], 2, id="a better one comes"),
        pytest.param(10.0, [90.0, 80.0, 70.0, 60.0], 4, id="none comes"),
        pytest.param(None, [90.0], 1, id="nothing is predicted"),
    ],
)
def test_one_far_from_what_is_predicted_waits_for_a_few(
    predicted_us: float | None, times: list[float], after: int | None
) -> None:
    class Settles:
        def settled(self, trial: Trial) -> Any:
            return trial

    first = FirstKernel(lambda: True, lambda winner, us: given.append((winner, us)), predicted_us)
    given: list[Any] = []
    measured: list[Trial] = []
    for number, us in enumerate(times, 1):
        measured.append(Trial(number, None, TrialState.MEASURED, median_us=us))  # type: ignore[arg-type]  # is not asked
        fastest = sorted(measured, key=lambda one: one.median_us or 0.0)
        first.offer(fastest, Settles())  # type: ignore[arg-type]  # settles as finals do
        assert bool(given) is (after is not None and number >= after)
    assert [(trial.median_us, us) for trial, us in given] == [(min(times), predicted_us)] * bool(after)


@pytest.mark.parametrize(
    ("is_wanted", "count"),
    [
        pytest.param(lambda device: False, 0, id="by-nobody"),
        pytest.param(lambda device: len(device.calls) >= 3, 1, id="by-somebody-who-comes-late"),
    ],
)
def test_it_is_given_to_who_wants_it(tmp_path: Path, is_wanted: Callable[[Device], bool], count: int) -> None:
    given, device, _ = searched(tmp_path, [" 30", " 10", " 20", " 40"], is_wanted)
    assert len(given) == count
    if given:
        known = {source for source, effort in device.calls[:3] if effort is Effort.SCREEN}
        assert given[0].artifact.source == min(known, key=float), "the fastest so far"


def test_what_publishing_raises_ends_the_search(tmp_path: Path) -> None:
    def lost(winner: Winner, us: float | None) -> None:
        raise RuntimeError("another run has it")

    with pytest.raises(RuntimeError, match="another run"):
        searched(tmp_path, [" 30", " 10"], publish=lost)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_other_work_for_the_device_waits_for_the_first_kernel(tmp_path: Path, is_wanted: bool) -> None:
    scheduler, device = Scripted([f" {us}" for us in (10, 20, 30)]), Device()
    done: list[int] = []
    first = FirstKernel(lambda: is_wanted, lambda winner, us: done.append(0))
    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        sampler = RandomSampler(scheduler.spaces, seed=0)
        builder = Builder(Drafter(scheduler), Compiler(), "sm_90a", artifact=artifact)
        settings = SearchSettings(queue_depth=1)

        def beside(measuring: Any) -> None:
            assert measuring is device
            done.append(len(device.calls))

        Tuner(builder, device, sampler, journal, Budget(), settings, first=first, beside=beside).run()
    assert len(done) == 1 + is_wanted
    if is_wanted:
        assert done[0] == 0
    assert 1 <= done[-1] <= 4, "once, as soon as a kernel was measured"


def test_other_work_is_done_where_no_kernel_was_measured(tmp_path: Path) -> None:
    done: list[str] = []
    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(Scripted(["wrong 1"])), Compiler(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(Scripted(["wrong 1"]).spaces, seed=0)
        Tuner(builder, Device(), sampler, journal, Budget(), beside=lambda device: done.append("done")).run()
    assert done == ["done"]


def test_kernels_are_built_while_the_device_opens(tmp_path: Path) -> None:
    """It opens once the first kernel is compiled here; none is measured before that."""
    scheduler, device, opened = Scripted([f" {us}" for us in (10, 20, 30)]), Device(), Future[None]()

    class Opening(Compiler):
        def submit(self, source: str, arch: str) -> Future[Any]:
            assert device.calls == [] or opened.done()
            found = super().submit(source, arch)
            if not opened.done():
                opened.set_result(None)
            return found

    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(scheduler), Opening(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(scheduler.spaces, seed=0)
        outcome = Tuner(builder, device, sampler, journal, Budget(), opened=opened).run()
    assert outcome.winner is not None


def test_a_device_that_cannot_be_opened_ends_the_search(tmp_path: Path) -> None:
    opened = Future[None]()
    opened.set_exception(DeviceLost("GPU 0", "it fell off the bus"))
    with Journal.open(tmp_path / "journal.jsonl", KEY) as journal:
        builder = Builder(Drafter(Scripted([" 10"])), Compiler(), "sm_90a", artifact=artifact)
        sampler = RandomSampler(Scripted([" 10"]).spaces, seed=0)
        with pytest.raises(DeviceLost, match="fell off"):
            Tuner(builder, Device(), sampler, journal, Budget(), opened=opened).run()
