"""Compiled kernels and schedule traces as wire documents."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from compiler.errors import InvalidFusion, Problem
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import Kernel
from compiler.nvrtc import Compiled
from compiler.schedule.steps import MalformedStep
from compiler.schedule.trace import ScheduleTrace, steps_from_json
from compiler.wire.fusions import fusion_from_json, fusion_to_json
from fusetune.wire.artifact import (
    Arg,
    Conditions,
    Guard,
    KernelArtifact,
    LaunchSpec,
    Resources,
    TensorArg,
    TensorMapArg,
    TensorSpec,
)
from fusetune.wire.fusion import show

__all__ = ["KernelArtifact", "artifact_from_json", "kernel_artifact", "trace_from_json", "trace_to_json"]

TRACE_FORMAT = "fusetune.trace/1"
_TRACE_FIX = "Write it as `python -m search trace` does."
_ARTIFACT_FIX = "Take the file as `python -m search tune` wrote it."
_EXPECTED = {dict: "an object", list: "a list"}


def trace_to_json(trace: ScheduleTrace) -> dict[str, Any]:
    """A trace as a JSON document, the same for equal traces."""
    return {"format": TRACE_FORMAT, "fusion": fusion_to_json(trace.fusion), "steps": trace.steps_json()}


def trace_from_json(document: Mapping[str, Any]) -> ScheduleTrace:
    """The trace in `document`. Raises InvalidFusion with the place of what does not fit."""
    fields = {"fusion": dict, "steps": list}
    problems = [
        Problem(name, show(document.get(name)), _EXPECTED[kind], _TRACE_FIX)
        for name, kind in fields.items()
        if not isinstance(document.get(name), kind)
    ]
    if document.get("format") != TRACE_FORMAT:
        problems.insert(0, Problem("format", show(document.get("format")), repr(TRACE_FORMAT), _TRACE_FIX))
    for name in document.keys() - {"format", *fields}:
        problems.append(Problem(show(name), "an unknown field", "format, fusion, steps", "Remove it."))
    if problems:
        raise InvalidFusion(tuple(problems))
    try:
        return ScheduleTrace(fusion_from_json(document["fusion"]), steps_from_json(document["steps"]))
    except MalformedStep as error:
        raise InvalidFusion((Problem(error.where, error.found, error.expected, "Correct that step."),)) from None


def artifact_from_json(text: str) -> KernelArtifact:
    """The kernel artifact in a JSON text. Raises InvalidFusion with the place of each fault."""
    try:
        return KernelArtifact.model_validate_json(text)
    except ValidationError as error:
        problems = tuple(
            Problem(".".join(map(str, e["loc"])) or "artifact", show(e["input"]), e["msg"], _ARTIFACT_FIX)
            for e in error.errors(include_url=False)
        )
        raise InvalidFusion(problems) from None


def kernel_artifact(
    trace: ScheduleTrace,
    kernel: Kernel,
    compiled: Compiled,
    source: str,
    alignments: Mapping[int, int],
    approximations: tuple[str, ...],
    generator: str,
) -> KernelArtifact:
    """The artifact of one kernel, without evidence: nothing has run yet.

    `alignments`: for each tensor position (inputs, then outputs), the bytes that must divide its address.
    """
    fusion = trace.fusion
    names = (*fusion.inputs, *fusion.outputs)
    specs = tuple(_spec(fusion, name, alignments.get(p, 1)) for p, name in enumerate(names))
    return KernelArtifact(
        fingerprint=fusion.fingerprint,
        binding=fusion.binding_hash,
        arch=compiled.arch,
        inputs=specs[: len(fusion.inputs)],
        outputs=specs[len(fusion.inputs) :],
        launches=(_launch(kernel, compiled.entry),),
        guards=tuple(_alignment_guard(p, n) for p, n in sorted(alignments.items()) if n > 1),
        cubin=b64encode(compiled.cubin),
        cubin_sha256=sha256(compiled.cubin).hexdigest(),
        source=source,
        ptx=compiled.ptx,
        trace=trace_to_json(trace),
        resources=_resources(compiled),
        code_hash=compiled.code_hash,
        approximations=approximations,
        conditions=Conditions(generator=generator, nvrtc=compiled.nvrtc_version),
    )


def _spec(fusion: Fusion, name: str, align: int) -> TensorSpec:
    value = fusion.value(name)
    least = max(align, value.dtype.nbytes)
    return TensorSpec(shape=value.shape, strides=value.strides, dtype=value.dtype.value, align=least)


def _alignment_guard(position: int, align: int) -> Guard:
    return Guard(
        expr=f"ptr[{position}] % {align} == 0",
        message=f"tensor {position} must start on a multiple of {align} bytes: the kernel's accesses are that wide",
    )


def _launch(kernel: Kernel, entry: str) -> LaunchSpec:
    pointers: list[Arg] = [TensorArg(position=p.position) for p in kernel.pointers]
    maps: list[Arg] = [
        TensorMapArg(
            position=m.position,
            dtype=m.dtype.value,
            dims=m.dims,
            strides_bytes=m.strides_bytes,
            box=m.box,
            element_strides=m.element_strides,
            swizzle=_span(m.swizzle),
        )
        for m in kernel.tensor_maps
    ]
    return LaunchSpec(
        entry=entry,
        grid=kernel.grid,
        block=kernel.block,
        dynamic_smem_bytes=kernel.smem_bytes,
        args=tuple(pointers + maps),
    )


def _span(nbytes: int) -> Any:
    """A swizzle span as the wire's literal type, which the model validates."""
    return nbytes


def _resources(compiled: Compiled) -> Resources:
    r = compiled.resources
    return Resources(
        registers=r.registers,
        spill_store_bytes=r.spill_store_bytes,
        spill_load_bytes=r.spill_load_bytes,
        stack_bytes=r.stack_bytes,
        static_smem_bytes=r.static_smem_bytes,
        barriers=r.barriers,
    )
