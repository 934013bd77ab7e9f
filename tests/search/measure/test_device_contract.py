"""What every measuring device keeps to: run over the fake one here, over a real GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from fusetune.wire.artifact import VERIFIER, KernelArtifact
from search.measure.child_device import ChildDevice, Deadlines
from search.measure.cuda import CudaDevice
from search.measure.device import EAGER, TIMING_POLICY, Effort
from search.measure.fake import FakeDevice
from search.proof.verify.inputs import ALL_SETS
from search.tuning.trial import TrialState
from tests.search.measure.kernels import add_fusion, cuda_artifact, fake_artifact, refused


@dataclass(frozen=True)
class Bench:
    device: ChildDevice
    kernel: Callable[[str], KernelArtifact]


@pytest.fixture(scope="module", params=["fake", pytest.param("cuda", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    device: ChildDevice
    if request.param == "fake":
        request.getfixturevalue("forked")
        device, kernel = FakeDevice(Deadlines(measure_s=0.5)), fake_artifact
    else:
        device, kernel = CudaDevice(limits=Deadlines(measure_s=5.0)), cuda_artifact
    with device:
        device.open(add_fusion())
        yield Bench(device, kernel)


def test_a_right_kernel_is_measured_with_its_evidence(bench: Bench) -> None:
    result = bench.device.measure(bench.kernel("good"))
    assert (result.state, result.reason) == (TrialState.MEASURED, "")
    assert result.verification is not None
    assert result.timing is not None
    assert result.verification.input_sets == ("random",)
    assert result.verification.deterministic
    assert result.verification.max_error <= result.verification.tolerance
    timing = result.timing
    assert timing.policy == TIMING_POLICY
    assert timing.card == bench.device.facts().name
    plain = (str, int, float, bool)
    assert {name: type(x) for name, x in timing.conditions.items() if type(x) not in plain} == {}
    assert 0 < min(timing.samples_us) <= timing.p10_us <= timing.median_us <= timing.p90_us <= max(timing.samples_us)


def test_efforts_differ_in_samples_and_sets(bench: Bench) -> None:
    kernel = bench.kernel("good")
    screen, leader = bench.device.measure(kernel), bench.device.measure(kernel, Effort.LEADER)
    assert screen.timing is not None
    assert leader.timing is not None
    assert len(leader.timing.samples_us) > len(screen.timing.samples_us)
    proved = bench.device.measure(kernel, Effort.ALL_SETS)
    assert proved.state is TrialState.MEASURED
    assert proved.verification is not None
    assert set(proved.verification.input_sets) == set(ALL_SETS)
    assert proved.verification.verifier == VERIFIER


def test_a_slower_kernel_is_slower(bench: Bench) -> None:
    good, slow = bench.device.measure(bench.kernel("good")), bench.device.measure(bench.kernel("slow"))
    assert good.timing is not None
    assert slow.timing is not None
    assert slow.timing.median_us > 1.5 * good.timing.median_us


def test_a_wrong_kernel_is_never_timed(bench: Bench) -> None:
    result = bench.device.measure(bench.kernel("wrong"))
    assert result.state is TrialState.WRONG_RESULT
    assert "element [" in result.reason
    assert result.timing is None
    assert result.verification is None


@pytest.mark.parametrize(
    ("role", "state"),
    [
        ("crash", TrialState.CRASHED),
        ("poison", TrialState.CRASHED),
        ("hang", TrialState.TIMED_OUT),
    ],
)
def test_a_kernel_that_breaks_the_process_costs_only_itself(bench: Bench, role: str, state: TrialState) -> None:
    assert bench.device.measure(bench.kernel("good")).state is TrialState.MEASURED
    restarts = bench.device.restarts
    broken = bench.device.measure(bench.kernel(role))
    assert broken.state is state
    assert broken.reason
    assert broken.timing is None
    assert bench.device.measure(bench.kernel("good")).state is TrialState.MEASURED
    assert bench.device.restarts == restarts + 1


def test_a_kernel_that_the_launcher_refuses_leaves_the_process_alone(bench: Bench) -> None:
    good = bench.kernel("good")
    restarts = bench.device.restarts
    kernel = fake_artifact("refuse") if isinstance(bench.device, FakeDevice) else refused(cuda_artifact("slow"))
    result = bench.device.measure(kernel)
    assert result.state is TrialState.UNSUPPORTED
    assert "guard" in result.reason
    assert bench.device.measure(good).state is TrialState.MEASURED
    assert bench.device.restarts == restarts


def test_another_fusion_can_be_opened_and_a_closed_device_opens_again(bench: Bench) -> None:
    bench.device.open(add_fusion())
    assert bench.device.measure(bench.kernel("good")).state is TrialState.MEASURED
    bench.device.close()
    assert bench.device.measure(bench.kernel("good")).state is TrialState.MEASURED


def test_the_baseline_is_timed_as_kernels_are(bench: Bench) -> None:
    baseline = bench.device.baseline()
    assert (baseline.name, baseline.why) == (EAGER, "")
    timing = baseline.timing
    assert timing is not None
    assert (timing.policy, timing.card) == (TIMING_POLICY, bench.device.facts().name)
    assert 0 < min(timing.samples_us) <= timing.p10_us <= timing.median_us <= timing.p90_us <= max(timing.samples_us)
    if isinstance(bench.device, FakeDevice):
        assert timing.median_us == 25.0


def test_kernels_and_the_baseline_leave_each_other_alone(bench: Bench) -> None:
    good = bench.kernel("good")
    assert bench.device.measure(good).state is TrialState.MEASURED
    restarts = bench.device.restarts
    assert bench.device.baseline().timing is not None
    assert bench.device.measure(good).state is TrialState.MEASURED
    assert bench.device.restarts == restarts


@pytest.mark.parametrize("role", ["crash", "poison", "hang", "wrong"])
def test_the_baseline_survives_the_kernel_before_it(bench: Bench, role: str) -> None:
    assert bench.device.measure(bench.kernel(role)).reason
    baseline = bench.device.baseline()
    assert baseline.timing is not None, baseline.why


def test_a_baseline_of_another_name_is_the_callers_mistake(bench: Bench) -> None:
    restarts = bench.device.restarts
    with pytest.raises(ValueError, match="no baseline 'compiled': the one that is measured is 'eager'"):
        bench.device.baseline("compiled")
    assert bench.device.restarts == restarts


def test_measuring_without_an_open_fusion_is_the_callers_mistake(bench: Bench) -> None:
    with (
        FakeDevice() if isinstance(bench.device, FakeDevice) else CudaDevice() as device,
        pytest.raises(ValueError, match="open"),
    ):
        device.measure(bench.kernel("good"))


def test_a_baseline_without_an_open_fusion_is_the_callers_mistake() -> None:
    with FakeDevice() as device, pytest.raises(ValueError, match="open"):
        device.baseline()
