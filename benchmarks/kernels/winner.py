"""What a tuned kernel is and what the cost model says of it: why this candidate, beside its time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.arch import Card
from compiler.pipeline import GeneratedLaunch, generate
from compiler.schedule import steps
from compiler.wire import trace_from_json
from fusetune.wire.artifact import KernelArtifact, LaunchSpec, TensorMapArg
from search.cost.predicting import predict_launch


def describe(artifact: KernelArtifact, card: Card) -> dict[str, Any]:
    """Launches with their resources, and the terms of their predicted times in microseconds on `card`.

    The terms come from the schedule, not from a measurement; those that overlap do not add up to the total.
    """
    generated = generate(trace_from_json(artifact.trace), card.arch)
    pairs = zip(artifact.launches, generated.launches, strict=True)
    return {
        "registers": artifact.resources.registers,
        "spill_bytes": artifact.resources.spill_store_bytes + artifact.resources.spill_load_bytes,
        "approximations": list(artifact.approximations),
        "launches": [{**_launched(spec), **_scheduled(launch, card)} for spec, launch in pairs],
    }


def _launched(spec: LaunchSpec) -> dict[str, Any]:
    maps = [arg for arg in spec.args if isinstance(arg, TensorMapArg)]
    return {
        "grid": list(spec.grid),
        "block": list(spec.block),
        "cluster": spec.cluster[0],
        "smem_bytes": spec.dynamic_smem_bytes,
        "tensor_maps": [{"tensor": m.position, "box": list(m.box), "swizzle": m.swizzle} for m in maps],
    }


def _scheduled(launch: GeneratedLaunch, card: Card) -> dict[str, Any]:
    predicted = predict_launch(card, launch)
    return {
        "stages": dict(_stages(launch)),
        "predicted_us": predicted.total_us,
        "cost_terms_us": dict(predicted.terms),
    }


def _stages(launch: GeneratedLaunch) -> Iterator[tuple[str, int]]:
    for step in launch.trace.steps:
        if isinstance(step, steps.CircularBuffer):
            yield step.tv, step.stages
