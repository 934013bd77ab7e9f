"""Explicit schedules as data (docs/contracts.md, "Explicit schedules"): the one reader of that format.

A case names ready-made tensors in every memory, the operators between them, and the steps that schedule them. Reading
it gives the same scheduled fusion that a trace gives. Documents are untrusted: whatever is wrong with one is a
MalformedCase with the place, and nothing else is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Literal, Op, Operand, Value, dense_strides
from compiler.ir.ops import BINARY, CONTRACTIONS, OpKind
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.schedule.document import MAX_RANK, MalformedCase, Place
from compiler.schedule.explicit_steps import read_step
from compiler.schedule.explicit_tensors import Runtime, read_input, read_result

__all__ = ["OPS", "ExplicitCase", "MalformedCase", "read_case", "read_start", "read_step"]

UNNAMED = (
    OpKind.BROADCAST_TO,
    OpKind.VIEW,
    OpKind.RESHAPE,
    OpKind.SLICE,
    OpKind.CAT,
    OpKind.IOTA,
    OpKind.MEAN,
    OpKind.TAKE,
    OpKind.GATHER,
    OpKind.FLIP,
    OpKind.PAD,
    OpKind.FULL,
)
"""Operators for which documents have other words, or steps, or none: a slice is a resize, a mean a sum over a count."""
OPS = {"set": OpKind.COPY, "broadcast": OpKind.BROADCAST_TO} | {
    kind.value: kind for kind in OpKind if kind not in UNNAMED
}
MAX_TENSORS = 1024
MAX_STEPS = 4096
"""More than any schedule has; a longer document is refused before it costs anything."""
START_FIELDS = ("tensors", "ops", "inputs", "outputs", "runtime_inputs", "managed")
"""What the fusion before the first step is made from."""
CASE_FIELDS = (*START_FIELDS, "name", "schedule", "scalars", "arch_min", "arch_below", "needs_smem_bytes", "options")
CASE_NOTES = ("source", "family", "in_seed", "altered", "params", "expect", "swizzle_mode", "description")
"""What a case says of itself to people and to tests: where it is from, and what must be found."""


@dataclass(frozen=True)
class ExplicitCase:
    """One document: the fusion before its first step, and the steps still as data, since a step may count axes from
    the end and so needs the fusion that it is taken on (`read_step`).

    `arch_min`, `arch_below`: bounds on the compute capability times ten; `needs_smem_bytes`: what the case asks a
    device to offer; `options`: compiler switches.
    """

    name: str
    start: ScheduledFusion
    steps: tuple[Mapping[str, Any], ...]
    scalars: Mapping[str, int | float]
    arch_min: int | None = None
    arch_below: int | None = None
    needs_smem_bytes: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_case(data: object, start: ScheduledFusion | None = None) -> ExplicitCase:
    """A case from parsed JSON; `start` is what `read_start` made of the same document. Raises MalformedCase."""
    root = Place(data, "case").only(*CASE_FIELDS, *CASE_NOTES)
    return ExplicitCase(
        name=root.get("name", "").text(),
        start=read_start(data) if start is None else start,
        steps=tuple(s.mapping() for s in root.at("schedule").items(MAX_STEPS)),
        scalars=_scalars(root),
        arch_min=root.get("arch_min", None).optional_integer(),
        arch_below=root.get("arch_below", None).optional_integer(),
        needs_smem_bytes=root.get("needs_smem_bytes", None).optional_integer(),
        options=_options(root.get("options", {})),
    )


def read_start(data: object) -> ScheduledFusion:
    """The fusion of a case before its first step. Raises MalformedCase."""
    root = Place(data, "case")
    if "format" in root.mapping():
        raise root.at("format").fail("an explicit schedule, which has none: tensors, ops, inputs, outputs, schedule")
    tensors = root.at("tensors")
    if len(tensors.mapping()) > MAX_TENSORS:
        raise tensors.fail(f"at most {MAX_TENSORS} tensors")
    scalars = _scalars(root)
    named = tuple(n.text() for n in root.at("inputs").items(MAX_TENSORS))
    outputs = tuple(n.text() for n in root.at("outputs").items(MAX_TENSORS))
    if len(set(named)) < len(named):
        raise root.at("inputs").fail("each input once")
    inputs = tuple(n for n in named if n in tensors.value or n not in scalars)
    ops = [_read_op(o, tensors, scalars) for o in root.at("ops").items(MAX_TENSORS)]
    views = _tensors(tensors, ops, inputs, outputs, _runtime(root, named, inputs, scalars))
    for name in outputs:
        if name not in views:
            raise MalformedCase("case.outputs", name, "results of operators, or inputs")
    return ScheduledFusion(
        _graph(views.values(), ops, inputs, outputs),
        tuple(views.values()),
        tuple(ops),
        tmem_regions=_regions(root, views),
    )


def _regions(root: Place, views: Mapping[str, TensorView]) -> tuple[tuple[str, ...], ...]:
    found = []
    managed = root.get("managed", {}).only("tmem_regions")
    for region in managed.get("tmem_regions", []).items(MAX_TENSORS):
        names = tuple(n.text() for n in region.items(MAX_TENSORS))
        if any(n not in views for n in names):
            raise region.fail("tensors of the fusion")
        found.append(names)
    return tuple(found)


def _options(given: Place) -> Mapping[str, Any]:
    """The compiler switches by name; those of a list are on."""
    if isinstance(given.value, list):
        return {o.text(): True for o in given.items(MAX_TENSORS)}
    return given.mapping()


_VIAS = {v.value: v for v in CopyVia}


def _scalars(root: Place) -> dict[str, int | float]:
    """Values of the run-time scalars by name: numbers, or objects with a `value`; listed, each has its `name`."""
    given = root.get("scalars", {})
    if isinstance(given.value, list):
        listed = [item.only("name", "value", "dtype") for item in given.items(MAX_TENSORS)]
        members = [(item.at("name").text(), item.at("value")) for item in listed]
    else:
        members = [
            (n, v.only("value", "dtype").at("value") if isinstance(v.value, dict) else v) for n, v in given.members()
        ]
    return {name: value.number() for name, value in members}


def _read_op(o: Place, tensors: Place, scalars: Mapping[str, int | float]) -> TensorOp:
    o.only("op", "in", "out", "scalar", "dims", "axes", "broadcast_flags", "via")
    kind: OpKind = o.at("op").one_of(OPS)
    out = o.at("out").text()
    inputs: list[Operand] = []
    for name in (n.text() for n in o.at("in").items(MAX_RANK)):
        is_scalar = name in scalars and name not in tensors.value
        inputs.append(Literal(float(scalars[name])) if is_scalar else name)
    names = [n for n in inputs if isinstance(n, str)]
    for name in (*names, out):
        tensors.at(name)
    count = len(names)
    scalar = o.get("scalar", None)
    if scalar.value is not None:
        inputs.append(Literal(_scalar(scalar, scalars)))
    most = 2 if kind in BINARY else 1
    if kind in CONTRACTIONS:
        if count != 2 or len(inputs) != 2:
            raise o.at("in").fail(f"the two tensors that {kind} multiplies")
    elif not 1 <= count <= most:
        raise o.at("in").fail(f"{most} {'operands' if most > 1 else 'operand'} of {kind}, a tensor among them")
    dims: tuple[int, ...] = ()
    match kind:
        case OpKind.PERMUTE:
            dims = tuple(d.integer(-MAX_RANK, MAX_RANK) for d in o.at("dims").items(MAX_RANK))
            dims = tuple(d % len(dims) for d in dims)
        case OpKind.BROADCAST_TO:
            flags = [f.flag() for f in o.at("broadcast_flags").items(MAX_RANK)]
            dims = tuple(i for i, new in enumerate(flags) if not new)
        case OpKind.SUM | OpKind.AMAX | OpKind.AMIN:
            dims = tuple(d.integer(-MAX_RANK, MAX_RANK) for d in o.at("axes").items(MAX_RANK))
    via = o.get("via", CopyVia.PLAIN.value).one_of(_VIAS)
    return TensorOp(kind, tuple(inputs), out, dims, via)


def _scalar(place: Place, scalars: Mapping[str, int | float]) -> float:
    """A number, or the name of one that a launch gives; 0 where it is not given, since no rule asks for its value."""
    value = place.at("scalar").value if isinstance(place.value, dict) else place.value
    if isinstance(value, str):
        return float(scalars.get(value, 0))
    return float(Place(value, place.path).number())


def _runtime(
    root: Place, named: Sequence[str], inputs: Sequence[str], scalars: Mapping[str, int | float]
) -> dict[str, Runtime]:
    """By name of an input or output. The document lists them by name, or in the order of the inputs: of all that are
    `named`, scalars among them, or of the tensors."""
    given = root.get("runtime_inputs", {})
    if isinstance(given.value, list):
        order = inputs if len(given.value) == len(inputs) else named
        members = list(zip(order, given.items(MAX_TENSORS), strict=False))
    else:
        members = list(given.members())
    found = {}
    for name, place in members:
        if place.value is None or (name in scalars and name not in inputs):
            continue
        place.only("shape", "strides", "byte_offset", "dtype")
        shape, strides = place.get("shape", None), place.get("strides", None)
        found[name] = Runtime(
            tuple(n.integer(1) for n in shape.items(MAX_RANK)) if shape.value is not None else None,
            tuple(n.integer(0) for n in strides.items(MAX_RANK)) if strides.value is not None else None,
            place.get("byte_offset", 0).integer(0),
            place.path,
        )
    return found


def _tensors(
    tensors: Place,
    ops: Sequence[TensorOp],
    inputs: Sequence[str],
    outputs: Sequence[str],
    runtime: Mapping[str, Runtime],
) -> dict[str, TensorView]:
    """Every tensor that an operator or the interface names, producers first."""
    views: dict[str, TensorView] = {}
    for position, name in enumerate(inputs):
        views[name] = read_input(name, position, tensors.at(name), runtime.get(name, Runtime()))
    for op in ops:
        place = tensors.at(op.output)
        if op.output in views:
            raise place.fail("one operator that makes the tensor, and no input")
        for name in op.tensor_inputs:
            if name not in views:
                raise MalformedCase(
                    f"case.ops: {op.output}", f"{name} before it is made", "an earlier result or an input"
                )
        sources = [views[name] for name in op.tensor_inputs]
        bound = runtime.get(op.output, Runtime()) if op.output in outputs else Runtime()
        views[op.output] = read_result(op, place, sources, bound, is_output=op.output in outputs)
    return views


def _graph(
    views: Iterable[TensorView], ops: Sequence[TensorOp], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Fusion:
    """The fusion that the tensors stand for; it has no fingerprint, since only a schedule is looked at."""
    values = []
    for t in views:
        shape = tuple(a.extent for a in t.logical if not a.is_reduction)
        values.append(Value(t.name, shape, t.dtype, dense_strides(shape), t.align))
    plain = tuple(Op(op.kind, op.inputs, op.output, op.dims) for op in ops)
    return Fusion(tuple(values), inputs, plain, outputs, fingerprint="", binding_hash="")
