"""When two kernels are one: a device is asked only once for those."""

from __future__ import annotations

from fusetune.wire.artifact import KernelArtifact

KernelId = tuple[str, str]
"""Machine code and launch: kernels with both equal behave alike."""


def kernel_id(artifact: KernelArtifact) -> KernelId:
    """The hash of the code, and one of how it is launched."""
    return artifact.code_hash, artifact.launch_hash
