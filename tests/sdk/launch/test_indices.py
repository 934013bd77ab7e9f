"""What the SDK says where a kernel stopped at an index: which operators ask for one, of those that were launched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fusetune.errors import IndexOutOfRange, LaunchFailed
from fusetune.launch import indices
from fusetune.launch import launcher as launcher_module
from fusetune.launch.launcher import Launcher
from fusetune.wire.artifact import KernelArtifact, LaunchSpec, TensorArg
from tests.sdk.launch.test_launcher import ARTIFACT, STREAM, FakeDriver, Inside

FUSION = {
    "inputs": [{"name": "i0"}, {"name": "i1"}, {"name": "i2"}],
    "ops": [
        {"op": "cast", "in": ["i0"], "out": "v0", "dtype": "f32"},
        {"op": "take", "in": ["v0", "i1"], "out": "v1", "dim": 0},
        {"op": "gather", "in": ["i2", "i1"], "out": "v2", "dim": 1},
    ],
}
TAKE = "take v1 (of v0 along dimension 0, by input 1)"
GATHER = "gather v2 (of input 2 along dimension 1, by input 1)"
LAUNCHES = (LaunchSpec(entry="k_0", grid=(2, 1, 1), block=(32, 1, 1), args=(TensorArg(position=0),)),)
PLAIN = ARTIFACT.model_copy(update={"launches": LAUNCHES, "scratch": ()})
CHOOSING = PLAIN.model_copy(update={"trace": {"fusion": {"fusion": FUSION}}})


class Trapped(FakeDriver):
    """Answers what it is told to."""

    answer = SimpleNamespace(value=0, name="CUDA_SUCCESS")

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[Any]:  # noqa: N802 (the driver's name)
        return (self.answer,)

    def cuStreamSynchronize(self, stream: int) -> tuple[Any]:  # noqa: N802 (the driver's name)
        return (self.answer,)

    def cuGetErrorString(self, status: Any) -> tuple[Any, bytes]:  # noqa: N802 (the driver's name)
        return SimpleNamespace(value=0), b"unspecified launch failure"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Trapped:
    made = Trapped()
    module = SimpleNamespace(function=lambda launch: launch.entry)
    monkeypatch.setattr(indices, "_launched", {})
    monkeypatch.setattr(launcher_module, "driver", lambda: made)
    monkeypatch.setattr("fusetune.launch.driver.driver", lambda: made)
    monkeypatch.setattr(launcher_module, "current_context", Inside)
    monkeypatch.setattr(launcher_module, "acquire_module", lambda artifact, device: module)
    return made


def test_the_operators_that_ask_for_an_index_are_named() -> None:
    assert indices.choices_of(CHOOSING) == (TAKE, GATHER)
    assert indices.choices_of(PLAIN) == ()


@pytest.mark.parametrize(
    ("artifact", "status", "told"),
    [
        pytest.param(CHOOSING, "CUDA_ERROR_LAUNCH_FAILED", True, id="stopped"),
        pytest.param(CHOOSING, "CUDA_ERROR_ILLEGAL_INSTRUCTION", True, id="stopped-as-other-drivers-say"),
        pytest.param(CHOOSING, "CUDA_ERROR_ILLEGAL_ADDRESS", False, id="another-fault"),
        pytest.param(PLAIN, "CUDA_ERROR_LAUNCH_FAILED", False, id="of-no-index"),
    ],
)
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "at-the-next-call"])
def test_an_index_out_of_range_is_told_late(
    artifact: KernelArtifact, status: str, told: bool, waits: bool, driver: Trapped
) -> None:
    launcher = Launcher(artifact)
    launcher.launch((0x1000, 0x2000), STREAM)
    driver.answer = SimpleNamespace(value=719, name=status)
    with pytest.raises(LaunchFailed) as caught:
        launcher.wait(STREAM) if waits else launcher.launch((0x1000, 0x2000), STREAM)
    error = caught.value
    assert error.status == status
    assert isinstance(error, IndexOutOfRange) is told
    if isinstance(error, IndexOutOfRange):
        assert error.operators == (TAKE, GATHER)
        assert f"an index was out of range, of {TAKE} or {GATHER}" in str(error)


def test_a_kernel_that_was_never_launched_is_not_to_blame(driver: Trapped) -> None:
    launcher = Launcher(CHOOSING)
    driver.answer = SimpleNamespace(value=719, name="CUDA_ERROR_LAUNCH_FAILED")
    with pytest.raises(LaunchFailed) as caught:
        launcher.launch((0x1000, 0x2000), STREAM)
    assert not isinstance(caught.value, IndexOutOfRange)
