"""What only a real GPU shows: kernels that break the process for good, and the checks around memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from search.measure.child_device import Limits
from search.measure.cuda import CudaDevice
from search.measure.device import Effort
from search.trial import TrialState
from tests.search.measure.kernels import add_fusion, cuda_artifact

pytestmark = pytest.mark.gpu

HANG_LIMIT_S = 5.0


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    with CudaDevice(limits=Limits(measure_s=HANG_LIMIT_S)) as device:
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
