from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.arch import card_named
from compiler.child import Child
from fusetune.launch import NoDevice
from search.measure import early
from search.measure.child_device import ChildDevice, Deadlines
from search.measure.cuda_timing import MAX_SETS, ONE_SET_BYTES, sets_for
from search.measure.device import Baseline, DeviceLost, MeasureResult
from search.measure.fake import FACTS, FakeDevice
from search.tuning.trial import TrialState
from tests.search.measure.kernels import add_fusion, fake_artifact

pytestmark = pytest.mark.usefixtures("forked")


def device(why: str) -> ChildDevice:
    return ChildDevice("broken", "tests.search.measure.broken_children:serve_broken", why)


def test_a_device_that_dies_on_opening_is_tried_twice_and_then_lost() -> None:
    with device("dies") as broken:
        with pytest.raises(DeviceLost, match="exit code 9"):
            broken.open(add_fusion())
        assert broken.restarts == 1
        with pytest.raises(DeviceLost):
            broken.measure(fake_artifact("good"))
        with pytest.raises(DeviceLost):
            broken.baseline()


def test_a_missing_device_is_lost_at_once() -> None:
    with device("no device") as broken:
        with pytest.raises(DeviceLost, match="nothing there"):
            broken.open(add_fusion())
        with pytest.raises(DeviceLost, match="nothing there"):
            broken.facts()
        assert broken.restarts == 0


def test_a_fusion_that_cannot_be_opened_is_its_own_error() -> None:
    with device("reference") as broken, pytest.raises(ArithmeticError, match="the reference failed"):
        broken.open(add_fusion())


@pytest.mark.parametrize(
    ("how", "why", "restarts"),
    [
        ("dies", r"exit code 9", 1),
        ("hangs", r"no answer in 0\.5 s", 1),
        ("poisons", r"^out of memory in a capture$", 1),
        ("says something unpicklable", r"cannot be pickled", 0),
        ("is wrong", r"^the form is wrong$", 0),
    ],
)
def test_a_baseline_that_fails_says_why_and_the_device_works_on(how: str, why: str, restarts: int) -> None:
    target = "tests.search.measure.broken_children:serve_broken_eager"
    with ChildDevice("broken", target, how, Deadlines(baseline_s=0.5)) as broken:
        broken.open(add_fusion())
        baseline = broken.baseline()
        assert (baseline.name, baseline.timing) == ("eager", None)
        assert re.search(why, baseline.why)
        assert broken.measure(fake_artifact("good")).state is TrialState.MEASURED
        assert broken.restarts == restarts


@pytest.mark.parametrize(
    ("call_bytes", "free_bytes", "sets"),
    [
        pytest.param(400 << 20, 1 << 37, 2, id="never-fewer-than-two"),
        pytest.param(240 << 20, 1 << 37, 2, id="eight-times-60-MiB-in-two"),
        pytest.param((240 << 20) - 1, 1 << 37, 3, id="one-byte-less-needs-a-third"),
        pytest.param(48 << 20, 1 << 37, 10, id="ten"),
        pytest.param(1 << 10, 1 << 37, MAX_SETS, id="tiny-calls-are-capped"),
        pytest.param(ONE_SET_BYTES, 1 << 37, 2, id="largest-call-that-rotates"),
        pytest.param(ONE_SET_BYTES + 1, 1 << 37, 1, id="larger-flushes-by-itself"),
        pytest.param(48 << 20, 4 * (48 << 20), 2, id="half-of-the-free-memory"),
        pytest.param(1 << 30, 1 << 20, 1, id="no-memory-still-tries-one"),
    ],
)
def test_buffer_sets_for_a_call(call_bytes: int, free_bytes: int, sets: int) -> None:
    assert sets_for(call_bytes, l2_bytes=60 << 20, free_bytes=free_bytes) == sets


def test_facts_that_differ_from_the_table_are_named() -> None:
    card = card_named("H200")
    assert FACTS.differences(card) == {
        "memory_bytes": (FACTS.memory_bytes, card.memory_bytes),
    }


@pytest.mark.parametrize(
    ("by", "times", "state", "attempts"),
    [
        pytest.param(signal.SIGKILL, 1, TrialState.MEASURED, 2, id="killed-once"),
        pytest.param(signal.SIGTERM, 1, TrialState.MEASURED, 2, id="told-to-stop"),
        pytest.param(signal.SIGKILL, 2, TrialState.CRASHED, 2, id="killed-again"),
        pytest.param(signal.SIGSEGV, 1, TrialState.CRASHED, 1, id="broke-by-itself"),
    ],
)
def test_a_kernel_whose_process_somebody_killed_gets_another_chance(
    tmp_path: Path, by: signal.Signals, times: int, state: TrialState, attempts: int
) -> None:
    target = "tests.search.measure.broken_children:serve_killed"
    with ChildDevice("killed", target, (str(tmp_path / "count"), times, by)) as device:
        device.open(add_fusion())
        result = device.measure(fake_artifact("good"))
    assert result.state is state
    assert (by.name in result.reason) == (state is TrialState.CRASHED)
    assert len((tmp_path / "count").read_text()) == attempts


@pytest.mark.parametrize(
    "ask", [lambda device: device.measure(fake_artifact("good")), lambda device: device.baseline()]
)
def test_a_process_that_dies_between_two_requests_is_nobodys_fault(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[ChildDevice], MeasureResult | Baseline]
) -> None:
    with FakeDevice() as device:
        device.open(add_fusion())
        kills = [signal.SIGKILL]
        make_ready = device._make_ready

        def ready_and_dead() -> None:
            make_ready()
            process = device._child._process
            assert process is not None
            if kills:
                process._popen.send_signal(kills.pop())
                process._popen.wait()

        monkeypatch.setattr(device, "_make_ready", ready_and_dead)
        assert ask(device).timing is not None
        assert device.restarts == 1


def test_a_device_whose_process_never_lives_long_enough_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeDevice() as device:
        device.open(add_fusion())
        make_ready = device._make_ready

        def ready_and_dead() -> None:
            make_ready()
            process = device._child._process
            assert process is not None
            process.kill()
            process._popen.wait()

        monkeypatch.setattr(device, "_make_ready", ready_and_dead)
        with pytest.raises(DeviceLost, match="ended before"):
            device.measure(fake_artifact("good"))


def test_a_child_that_was_begun_before_is_taken_over() -> None:
    child = Child("search.measure.fake:serve", FACTS, name="early")
    child.begin()
    with ChildDevice("fake device", "search.measure.fake:serve", FACTS, None, child) as taken_over:
        assert taken_over.facts() == FACTS
        taken_over.open(add_fusion())
        assert taken_over.measure(fake_artifact("good")).state is TrialState.MEASURED
        assert child.starts == 1


def test_what_broke_an_early_start_is_told_and_not_tried_again() -> None:
    child = Child("tests.search.measure.broken_children:serve_nothing", None, name="early")
    child.begin()
    with ChildDevice("gone", "tests.search.measure.broken_children:serve_nothing", None, None, child) as gone:
        with pytest.raises(DeviceLost, match="nothing there"):
            gone.facts()
        assert child.starts == 1


def test_an_early_start_is_for_one_taker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "CUDA_TARGET", "tests.search.measure.broken_children:serve_nothing")
    early.begin(7)
    child = early.taken(7)
    assert child is not None
    with pytest.raises(NoDevice):
        child.start()
    assert early.taken(7) is None
