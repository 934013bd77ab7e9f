"""Launches in thread-block clusters: their configuration, and whether a device has room for one cluster at all."""

from __future__ import annotations

from math import prod
from typing import Any

from fusetune.errors import NoDevice
from fusetune.launch.driver import check, driver
from fusetune.wire.artifact import LaunchSpec

_INVALID_CLUSTER_SIZE = "CUDA_ERROR_INVALID_CLUSTER_SIZE"


def is_in_clusters(spec: LaunchSpec) -> bool:
    """True for a launch whose clusters have more than one block."""
    return prod(spec.cluster) > 1


def cluster_config(spec: LaunchSpec, stream: int) -> Any:
    """The configuration of a launch in clusters on a stream (CUDA driver API, cuLaunchKernelEx)."""
    cuda = driver()
    attribute = cuda.CUlaunchAttribute()
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dims = attribute.value.clusterDim
    dims.x, dims.y, dims.z = spec.cluster
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = spec.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = spec.block
    config.sharedMemBytes = spec.dynamic_smem_bytes
    config.hStream = stream
    config.attrs = [attribute]
    config.numAttrs = 1
    return config


def refuse_clusters_without_room(spec: LaunchSpec, function: Any) -> None:
    """Raises NoDevice where the current device cannot keep one cluster of the launch resident.

    All blocks of a cluster run at once on the multiprocessors of one GPC (CUDA guide, thread block clusters). How many
    those are, and whether clusters of more than eight blocks are granted, is a matter of the device:
    cuOccupancyMaxActiveClusters knows, and a launch would only fail. Raises LaunchFailed where it cannot be asked.
    """
    answer = driver().cuOccupancyMaxActiveClusters(function, cluster_config(spec, 0))
    if answer[0].name == _INVALID_CLUSTER_SIZE or check("cuOccupancyMaxActiveClusters", answer) < 1:
        raise NoDevice(
            f"the device has no room for a cluster of {prod(spec.cluster)} blocks of {prod(spec.block)} threads and "
            f"{spec.dynamic_smem_bytes} bytes of dynamic shared memory each ({spec.entry})",
            "Tune the fusion for this card.",
        )
