"""When two kernels are one: a device is asked only once for those."""

from __future__ import annotations

import hashlib
import json

from fusetune.wire.artifact import KernelArtifact

KernelId = tuple[str, str]
"""Machine code and launch: kernels with both equal behave alike."""


def kernel_id(artifact: KernelArtifact) -> KernelId:
    """The hash of the code, and one of how it is launched: grid, memory, arguments, tensor maps, scratch."""
    launch = artifact.model_dump(mode="json", include={"launches", "scratch"})
    text = json.dumps(launch, sort_keys=True, separators=(",", ":"))
    return artifact.code_hash, hashlib.sha256(text.encode()).hexdigest()
