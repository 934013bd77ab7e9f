"""Clusters on a driver that says how many of them it has room for: a kernel that never fits is refused in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fusetune.errors import LaunchFailed, NoDevice
from fusetune.launch import clusters, driver
from fusetune.launch.clusters import cluster_config, is_in_clusters, refuse_clusters_without_room
from fusetune.wire.artifact import LaunchSpec

SPEC = LaunchSpec(entry="k", grid=(32, 2, 1), block=(256, 4, 1), cluster=(16, 1, 1), dynamic_smem_bytes=131072, args=())


class FakeDriver:
    """Answers how many clusters are resident at a time; keeps the configuration that it was asked about."""

    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4)

    def __init__(self, status: tuple[str, int], room: int) -> None:
        self.status = SimpleNamespace(name=status[0], value=status[1])
        self.room = room
        self.asked: Any = None

    def CUlaunchAttribute(self) -> Any:  # noqa: N802 (the driver's name)
        return SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def CUlaunchConfig(self) -> Any:  # noqa: N802 (the driver's name)
        return SimpleNamespace()

    def cuOccupancyMaxActiveClusters(self, function: str, config: Any) -> tuple[Any, int]:  # noqa: N802 (the driver's name)
        self.asked = (function, config)
        return self.status, self.room

    def cuGetErrorString(self, status: Any) -> tuple[Any, bytes]:  # noqa: N802 (the driver's name)
        return SimpleNamespace(value=0), b"as the driver says it"


def asked(monkeypatch: pytest.MonkeyPatch, status: tuple[str, int], room: int) -> FakeDriver:
    made = FakeDriver(status, room)
    monkeypatch.setattr(clusters, "driver", lambda: made)
    monkeypatch.setattr(driver, "driver", lambda: made)
    return made


def test_a_cluster_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = asked(monkeypatch, ("CUDA_SUCCESS", 0), 1)
    refuse_clusters_without_room(SPEC, "function")
    function, config = fake.asked
    dims = config.attrs[0].value.clusterDim
    assert (function, dims.x, dims.y, dims.z, config.sharedMemBytes) == ("function", 16, 1, 1, 131072)
    assert (config.gridDimX, config.gridDimY, config.blockDimX, config.blockDimY) == (32, 2, 256, 4)


@pytest.mark.parametrize(
    ("status", "room"),
    [
        pytest.param(("CUDA_SUCCESS", 0), 0, id="no-room-for-one"),
        pytest.param(("CUDA_ERROR_INVALID_CLUSTER_SIZE", 912), 0, id="a-size-that-the-device-does-not-grant"),
    ],
)
def test_a_cluster_that_never_fits_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: tuple[str, int], room: int
) -> None:
    asked(monkeypatch, status, room)
    with pytest.raises(NoDevice, match=r"no room for a cluster of 16 blocks of 1024 threads and 131072 bytes"):
        refuse_clusters_without_room(SPEC, "function")


def test_another_failure_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, ("CUDA_ERROR_INVALID_VALUE", 1), 0)
    with pytest.raises(LaunchFailed, match="cuOccupancyMaxActiveClusters"):
        refuse_clusters_without_room(SPEC, "function")


def test_one_block_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, ("CUDA_SUCCESS", 0), 1)
    assert not is_in_clusters(SPEC.model_copy(update={"cluster": (1, 1, 1)}))
    assert is_in_clusters(SPEC)
    assert cluster_config(SPEC, 7).hStream == 7
