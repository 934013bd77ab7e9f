"""Compiled kernels and schedule traces as wire documents."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from compiler.arch import ALLOCATION_ALIGN
from compiler.dtypes import DType
from compiler.errors import InvalidFusion, Problem
from compiler.ir.fusion import Fusion, Scalar
from compiler.ir.scalars import integer_range
from compiler.lower.kernel_ir import Kernel
from compiler.lower.operands import ListTable
from compiler.nvrtc import Compiled
from compiler.schedule.scratch import Buffer
from compiler.schedule.step_forms import MalformedStep
from compiler.schedule.steps import Step
from compiler.schedule.trace import LaunchTrace, ScheduleTrace, Trace, steps_from_json
from compiler.wire.fusions import fusion_from_json, fusion_to_json
from compiler.wire.orders import outside
from compiler.wire.programs import program_of
from fusetune.wire.artifact import (
    Arg,
    Conditions,
    Guard,
    KernelArtifact,
    LaunchSpec,
    ListArg,
    Resources,
    ScalarInputArg,
    ScalarSpec,
    Scratch,
    ScratchArg,
    TensorArg,
    TensorMapArg,
    TensorSpec,
)
from fusetune.wire.fusion import show

__all__ = ["KernelArtifact", "Launched", "artifact_from_json", "kernel_artifact", "trace_from_json", "trace_to_json"]

TRACE_FORMAT = "fusetune.trace/1"
"""The trace of one kernel."""

LAUNCHES_FORMAT = "fusetune.trace/2"
"""The trace of several launches."""

_TRACE_FIX = "Write it as `python -m search trace` does."
_ARTIFACT_FIX = "Take the file as `python -m search tune` wrote it."
_EXPECTED: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}


@dataclass(frozen=True)
class Launched:
    """A kernel and where its tensors are: `places` has, for each of the kernel's own positions, that of an input, an
    output or, beyond those, a scratch buffer. `scratch`: the buffers in which its own blocks hand over sums."""

    kernel: Kernel
    places: tuple[int, ...]
    scratch: tuple[int, ...] = ()


def trace_to_json(trace: Trace) -> dict[str, Any]:
    """A trace as a JSON document, the same for equal traces."""
    if isinstance(trace, ScheduleTrace):
        return {"format": TRACE_FORMAT, "fusion": fusion_to_json(trace.fusion), "steps": trace.steps_json()}
    launches = [
        {
            "fusion": fusion_to_json(one.trace.fusion),
            "reads": list(one.reads),
            "writes": list(one.writes),
            "steps": one.trace.steps_json(),
        }
        for one in trace.launches
    ]
    return {"format": LAUNCHES_FORMAT, "fusion": fusion_to_json(trace.fusion), "launches": launches}


def trace_from_json(document: Mapping[str, Any]) -> Trace:
    """The trace in `document`. Raises InvalidFusion with the place of what does not fit."""
    several = document.get("format") == LAUNCHES_FORMAT
    fields: dict[str, type] = {"fusion": dict, "launches" if several else "steps": list}
    problems = list(_field_problems(document, fields, optional=("format",)))
    if not several and document.get("format") != TRACE_FORMAT:
        expected = f"{TRACE_FORMAT!r}, or {LAUNCHES_FORMAT!r} for several launches"
        problems.insert(0, Problem("format", show(document.get("format")), expected, _TRACE_FIX))
    if problems:
        raise InvalidFusion(tuple(problems))
    fusion = fusion_from_json(document["fusion"])
    if several:
        return program_of(fusion, [_launch_from_json(one, n) for n, one in enumerate(document["launches"])])
    return ScheduleTrace(fusion, _steps(document["steps"], "steps"))


def _launch_from_json(document: object, number: int) -> LaunchTrace:
    """One launch of several. Raises InvalidFusion."""
    where = f"launches[{number}]"
    if not isinstance(document, dict):
        raise InvalidFusion((Problem(where, show(document), "an object", _TRACE_FIX),))
    fields = {"fusion": dict, "reads": list, "writes": list, "steps": list}
    problems = [*_field_problems(document, fields, f"{where}.")]
    if not problems:
        for name in ("reads", "writes"):
            problems += [
                Problem(f"{where}.{name}[{n}]", show(x), "the name of a tensor", _TRACE_FIX)
                for n, x in enumerate(document[name])
                if not isinstance(x, str)
            ]
    if problems:
        raise InvalidFusion(tuple(problems))
    try:
        fusion = fusion_from_json(document["fusion"])
    except InvalidFusion as error:
        inside = (Problem(f"{where}.fusion.{p.where}", p.found, p.expected, p.fix) for p in error.problems)
        raise InvalidFusion(tuple(inside)) from None
    trace = ScheduleTrace(fusion, _steps(document["steps"], f"{where}.steps"))
    return LaunchTrace(trace, tuple(document["reads"]), tuple(document["writes"]))


def _field_problems(
    document: Mapping[str, Any], fields: Mapping[str, type], where: str = "", optional: tuple[str, ...] = ()
) -> Iterator[Problem]:
    for name, kind in fields.items():
        if not isinstance(document.get(name), kind):
            yield Problem(f"{where}{name}", show(document.get(name)), _EXPECTED[kind], _TRACE_FIX)
    known = (*optional, *fields)
    for name in document.keys() - set(known):
        yield Problem(f"{where}{show(name)}", "an unknown field", ", ".join(known), "Remove it.")


def _steps(data: list[Any], where: str) -> tuple[Step, ...]:
    try:
        return steps_from_json(data, where)
    except MalformedStep as error:
        raise InvalidFusion((Problem(error.where, error.found, error.expected, "Correct that step."),)) from None


def artifact_from_json(text: str) -> KernelArtifact:
    """The kernel artifact in a JSON text. Raises InvalidFusion with the place of each fault."""
    try:
        return KernelArtifact.model_validate_json(text)
    except ValidationError as error:
        raise InvalidFusion(tuple(map(_artifact_problem, error.errors(include_url=False)))) from None


def _artifact_problem(fault: ErrorDetails) -> Problem:
    place = ".".join(map(str, fault["loc"])) or "artifact"
    if fault["type"] == "missing":
        return Problem(place, "nothing", "that field", _ARTIFACT_FIX)
    return Problem(place, show(fault["input"]), fault["msg"], _ARTIFACT_FIX)


def kernel_artifact(
    trace: Trace,
    launches: tuple[Launched, ...],
    scratch: tuple[Buffer, ...],
    compiled: Compiled,
    source: str,
    alignments: Mapping[int, int],
    approximations: tuple[str, ...],
    generator: str,
) -> KernelArtifact:
    """The artifact of a candidate's kernels, without evidence: nothing has run yet.

    `alignments`: for each tensor position (inputs, then outputs), the bytes that must divide its address.
    """
    fusion = trace.fusion
    names = (*fusion.inputs, *fusion.outputs)
    specs = tuple(_spec(fusion, name, alignments.get(p, 1)) for p, name in enumerate(names))
    inputs, outputs = specs[: len(fusion.inputs)], specs[len(fusion.inputs) :]
    into = fusion.alias_places
    entries = compiled.entries or (compiled.entry,)
    return KernelArtifact(
        fingerprint=fusion.fingerprint,
        binding=fusion.binding_hash,
        arch=compiled.arch,
        inputs=inputs,
        outputs=tuple(spec.model_copy(update={"alias": into.get(n)}) for n, spec in enumerate(outputs)),
        scalars=tuple(_scalar(fusion, x) for x in fusion.scalars),
        launches=tuple(launch_spec(one, entry, len(names)) for one, entry in zip(launches, entries, strict=True)),
        scratch=tuple(
            Scratch(bytes=buffer.nbytes, align=ALLOCATION_ALIGN, init="zero" if buffer.is_zeroed else "none")
            for buffer in scratch
        ),
        guards=tuple(_alignment_guard(p, n) for p, n in sorted(alignments.items()) if n > 1),
        cubin=b64encode(compiled.cubin),
        cubin_sha256=sha256(compiled.cubin).hexdigest(),
        source=source,
        ptx=compiled.ptx,
        trace=trace_to_json(trace),
        resources=_resources(compiled),
        code_hash=compiled.code_hash,
        approximations=approximations,
        deterministic=True,  # no kernel has atomics: every sum has one order, which the schedule tells
        conditions=Conditions(generator=generator, nvrtc=compiled.nvrtc_version),
    )


def _spec(fusion: Fusion, name: str, align: int) -> TensorSpec:
    value = fusion.value(name)
    shape, strides = outside(value, dict(fusion.orders).get(name, tuple(range(len(value.shape)))))
    least = max(align, value.dtype.nbytes)
    return TensorSpec(shape=shape, strides=strides, dtype=value.dtype.value, align=least)


def _scalar(fusion: Fusion, scalar: Scalar) -> ScalarSpec:
    if scalar.dtype is DType.F64:
        return ScalarSpec(dtype="f64")
    low, high = integer_range(fusion, scalar.name)
    return ScalarSpec(dtype="i64", low=low, high=high)


def _alignment_guard(position: int, align: int) -> Guard:
    return Guard(
        expr=f"ptr[{position}] % {align} == 0",
        message=f"tensor {position} must start on a multiple of {align} bytes: the kernel's accesses are that wide",
    )


def launch_spec(launched: Launched, entry: str, tensors: int) -> LaunchSpec:
    """How a kernel is launched. `tensors`: how many inputs and outputs there are; places from there on are scratch
    buffers."""
    kernel, places = launched.kernel, launched.places
    listed = () if kernel.table is None else dict(kernel.table.pointers)
    pointers: list[Arg] = [
        TensorArg(position=place) if place < tensors else ScratchArg(index=place - tensors)
        for place in (places[p.position] for p in kernel.pointers if p.name not in listed)
    ]
    if kernel.table is not None:
        pointers.append(_list_arg(kernel, kernel.table, places))
    maps: list[Arg] = [
        TensorMapArg(
            position=places[m.position],
            dtype=m.element,
            dims=m.dims,
            strides_bytes=m.strides_bytes,
            box=m.box,
            element_strides=m.element_strides,
            swizzle=_span(m.swizzle),
        )
        for m in kernel.tensor_maps
    ]
    numbers: list[Arg] = [ScalarInputArg(position=x.position, dtype=_parameter(x.dtype)) for x in kernel.numbers]
    return LaunchSpec(
        entry=entry,
        grid=kernel.grid,
        block=kernel.block,
        cluster=(kernel.cluster, 1, 1),
        dynamic_smem_bytes=kernel.smem_bytes,
        args=tuple(pointers + maps + numbers + [ScratchArg(index=n) for n in launched.scratch]),
    )


def _list_arg(kernel: Kernel, table: ListTable, places: tuple[int, ...]) -> ListArg:
    """The table of a kernel over lists; each slot has the position of the tensor whose memory it is."""
    at = {p.name: places[p.position] for p in kernel.pointers}
    positions = tuple(next(at[name] for name, own in table.pointers if own == slot) for slot in range(len(table.slots)))
    single = tuple(places[position] for position in table.single)
    return ListArg(positions=positions, rows=table.rows, tile=table.chunk, step=table.step, single=single)


def _parameter(dtype: DType) -> Any:
    """The type of a parameter as the wire's literal type, which the model validates."""
    return dtype.value


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
