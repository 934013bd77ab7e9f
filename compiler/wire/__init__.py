"""Between the wire and the IR: the one place of the compiler that knows the wire's types.

`fusions`: a fusion and its binding in, a bound fusion out. `artifacts`: a compiled kernel out, traces in and out.
"""

from compiler.wire.artifacts import (
    KernelArtifact,
    Launched,
    artifact_from_json,
    kernel_artifact,
    trace_from_json,
    trace_to_json,
)
from compiler.wire.fusions import bind, fusion_from_json, fusion_to_json, to_wire

__all__ = [
    "KernelArtifact",
    "Launched",
    "artifact_from_json",
    "bind",
    "fusion_from_json",
    "fusion_to_json",
    "kernel_artifact",
    "to_wire",
    "trace_from_json",
    "trace_to_json",
]
