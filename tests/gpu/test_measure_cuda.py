"""What only a real GPU shows: kernels that break the process for good, checks around memory, the eager baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compiler.arch import arch_named, arch_names
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from compiler.pipeline import artifact
from fusetune.wire.artifact import KernelArtifact
from search.cost.roofline import floor_us
from search.measure.child_device import ChildDevice, Deadlines, handler_of
from search.measure.cuda import CudaDevice
from search.measure.cuda_child import CudaBackend
from search.measure.device import Baseline, Effort
from search.measure.eager import EagerForm, eager_form
from search.tuning.attached import card_of
from search.tuning.trial import TrialState
from tests.search.measure.kernels import add_fusion, compiled_once, cuda_artifact, fusion_of, value
from tests.search.schedulers.fusions import suite_fusions
from tests.search.schedulers.points import generated

pytestmark = pytest.mark.gpu

HANG_LIMIT_S = 5.0


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    with CudaDevice(limits=Deadlines(measure_s=HANG_LIMIT_S)) as device:
        device.open(add_fusion())
        yield device


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        pytest.param("crash", "illegal memory access|illegal address", id="illegal-address"),
        pytest.param("poison", "trap|illegal instruction|launch failure|unspecified", id="trap-poisons-the-context"),
    ],
)
def test_a_broken_context_is_blamed_on_its_kernel(device: CudaDevice, role: str, reason: str) -> None:
    assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
    restarts = device.restarts
    result = device.measure(cuda_artifact(role))
    assert result.state is TrialState.CRASHED
    assert any(part in result.reason.lower() for part in reason.split("|")), result.reason
    assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
    assert device.restarts == restarts + 1


def test_an_endless_kernel_is_killed_at_its_limit(device: CudaDevice) -> None:
    assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
    began = time.monotonic()
    assert device.measure(cuda_artifact("hang")).state is TrialState.TIMED_OUT
    assert HANG_LIMIT_S <= time.monotonic() - began < HANG_LIMIT_S + 10
    assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("wrong", "elements are wrong; element ["),
        ("outside", "4 bytes outside the buffers were written"),
        ("unwritten", "1 of 1048576 elements were never written"),
        ("unstable", "elements differ between two runs"),
        ("overwrites", "1 elements of the inputs were overwritten"),
    ],
)
def test_a_wrong_kernel_is_found_without_a_restart(device: CudaDevice, role: str, reason: str) -> None:
    assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
    restarts = device.restarts
    result = device.measure(cuda_artifact(role))
    assert result.state is TrialState.WRONG_RESULT
    assert reason in result.reason
    assert device.restarts == restarts


def test_a_time_is_near_what_memory_allows(device: CudaDevice) -> None:
    """12 MiB a call over rotating buffers: from the L2 it would take a third of the time that device memory needs."""
    result = device.measure(cuda_artifact("good"), Effort.LEADER)
    assert result.timing is not None
    facts = device.facts()
    least_us = 3 * 4 * (1 << 20) / 8e12 * 1e6  # no card of today moves 8 TB/s
    assert least_us < result.timing.median_us < 200
    assert result.timing.conditions["buffer_sets"] * 12 * (1 << 20) >= 8 * facts.l2_bytes
    assert result.timing.p90_us < 1.5 * result.timing.p10_us


def kernel_of(fusion: Fusion, scheduler: str, capability: tuple[int, int]) -> KernelArtifact:
    """The first point of the scheduler's space: right, if not fast."""
    arch = next(name for name in arch_names() if arch_named(name).capability == capability)
    made = generated(scheduler, fusion, arch)
    return artifact(made, compiled_once(made.source, arch))


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        ("bias_gelu_bf16_8192x12288", "flat"),
        ("add_bf16_12289x4099", "flat"),
        ("transpose_f32_4099x8191", "tile2d"),
    ],
)
def test_the_baseline_is_plausible_and_kernels_go_on(name: str, scheduler: str) -> None:
    """From the L2 alone it would take less than half of what device memory allows."""
    fusion = suite_fusions()[name]
    with CudaDevice() as device:
        device.open(fusion)
        facts = device.facts()
        kernel = kernel_of(fusion, scheduler, facts.capability)
        for _ in range(2):
            baseline = device.baseline()
            assert baseline.timing is not None, baseline.why
            floor = floor_us(fusion, card_of(facts)[0])
            assert 0.5 * floor <= baseline.timing.median_us <= 20 * floor
            assert baseline.timing.p90_us < 1.5 * baseline.timing.p10_us
            result = device.measure(kernel, Effort.ALL_SETS)
            assert result.state is TrialState.MEASURED, result.reason
            assert result.timing is not None
            assert result.timing.conditions["buffer_sets"] == baseline.timing.conditions["buffer_sets"]
        assert device.restarts == 0


def half_chain(elems: int) -> Fusion:
    """max(x + 1.7, -0.3) / x in bf16, without a cast: literals meet half precision, eager rounds every result."""
    ops = (
        Op(OpKind.ADD, ("i0", Literal(1.7)), "v0"),
        Op(OpKind.MAXIMUM, (Literal(-0.3), "v0"), "v1"),
        Op(OpKind.MUL, ("v1", "i0"), "v2"),
        Op(OpKind.DIV, (Literal(0.7), "v2"), "v3"),
    )
    results = tuple(value(op.output, (elems,), DType.BF16) for op in ops)
    return fusion_of((value("i0", (elems,), DType.BF16),), results, ops, "v3")


def test_literals_and_half_precision_can_be_captured() -> None:
    with CudaDevice() as device:
        device.open(half_chain(1 << 22))
        baseline = device.baseline()
        assert baseline.timing is not None, baseline.why


class BrokenEager(CudaBackend):
    """The real device with an eager form that fails in one way."""

    def __init__(self, how: str) -> None:
        super().__init__(0)
        self.how = how

    def baseline(self, name: str) -> Baseline:
        import torch

        def form_of(fusion: Fusion) -> EagerForm:
            right = eager_form(fusion)
            changes: dict[str, EagerForm] = {
                "wrong": lambda inputs: (right(inputs)[0] * 1.01,),
                "synchronises": lambda inputs: (right(inputs)[0] + inputs[0][0].item() * 0.0,),
                "starved": right,
            }
            return changes[self.how]

        if self.how == "starved":
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(1e-6)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("search.measure.cuda_child.eager_form", form_of)
            return super().baseline(name)


def serve_broken_eager(how: str) -> Callable[[Any], Any]:
    return handler_of(BrokenEager(how))


@pytest.mark.parametrize(
    ("how", "why", "restarts"),
    [
        pytest.param("wrong", "the eager form is wrong: random inputs: output 0: element [0]", 0, id="wrong"),
        pytest.param("synchronises", "the eager form failed: ", 1, id="cannot-be-captured"),
        pytest.param("starved", "the eager form failed: CUDA out of memory", 1, id="out-of-memory"),
    ],
)
def test_a_failed_baseline_has_no_time_and_the_device_works_on(how: str, why: str, restarts: int) -> None:
    with ChildDevice("broken", "tests.gpu.test_measure_cuda:serve_broken_eager", how) as device:
        device.open(add_fusion())
        assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
        baseline = device.baseline()
        assert baseline.timing is None
        assert baseline.why.startswith(why)
        assert device.measure(cuda_artifact("good")).state is TrialState.MEASURED
        assert device.restarts == restarts
