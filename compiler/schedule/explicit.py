"""Explicit schedules as data (docs/contracts.md, "Explicit schedules"): the one reader of that format.

A case names ready-made tensors in every memory, the operators between them, and the steps that schedule them. Reading
it gives the same scheduled fusion that a trace gives. Documents are untrusted: whatever is wrong with one is a
MalformedCase with the place, and nothing else is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Literal, Op, Operand, Value, dense_strides
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.iter_domain import axis as make_axis
from compiler.ir.ops import OpKind
from compiler.ir.size import Size
from compiler.ir.tensor import Allocation, BufferKind, CopyVia, TensorOp, TensorView
from compiler.schedule import steps

DTYPES = {
    "float64": DType.F64,
    "float32": DType.F32,
    "float16": DType.F16,
    "bfloat16": DType.BF16,
    "int64": DType.I64,
    "int32": DType.I32,
    "int16": DType.I16,
    "int8": DType.I8,
    "uint8": DType.U8,
    "bool": DType.BOOL,
    "complex64": DType.C64,
    "complex128": DType.C128,
    "float4_e2m1": DType.F4E2M1,
    "float8_e4m3": DType.F8E4M3,
    "float8_e5m2": DType.F8E5M2,
}
OPS = {"set": OpKind.COPY, "broadcast": OpKind.BROADCAST_TO} | {
    kind.value: kind for kind in OpKind if kind is not OpKind.BROADCAST_TO
}
MAX_RANK = 64
MAX_EXTENT = 1 << 62


class MalformedCase(ValueError):
    """A document that is no explicit schedule: `where`, what was `found` and `expected`."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(where, found, expected)
        self.where = where
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


@dataclass(frozen=True)
class ExplicitCase:
    """One document: the fusion before its first step, and the steps still as data, since a step may count axes from
    the end and so needs the fusion that it is taken on (`read_step`).

    `arch_min`, `arch_below`: bounds on the compute capability times ten; `needs_smem_bytes`: what the case asks a
    device to offer.
    """

    name: str
    start: ScheduledFusion
    steps: tuple[Mapping[str, Any], ...]
    scalars: Mapping[str, int]
    arch_min: int | None = None
    arch_below: int | None = None
    needs_smem_bytes: int | None = None


def read_case(data: object) -> ExplicitCase:
    """A case from parsed JSON. Raises MalformedCase."""
    root = _Place(data, "case")
    tensors = root.at("tensors")
    ops = [_read_op(o, tensors) for o in root.at("ops").items()]
    inputs = tuple(n.text() for n in root.at("inputs").items())
    outputs = tuple(n.text() for n in root.at("outputs").items())
    for name in (*inputs, *outputs):
        tensors.at(name)
    views = _tensors(tensors, ops, inputs, _runtime(root, inputs))
    regions = root.get("managed", {}).get("tmem_regions", [])
    start = ScheduledFusion(
        _graph(views, ops, inputs, outputs),
        tuple(views.values()),
        tuple(ops),
        tmem_regions=tuple(tuple(n.text() for n in region.items()) for region in regions.items()),
    )
    return ExplicitCase(
        name=root.get("name", "").text(),
        start=start,
        steps=tuple(s.mapping() for s in root.at("schedule").items()),
        scalars={k: v.integer() for k, v in root.get("scalars", {}).members()},
        arch_min=root.get("arch_min", None).optional_integer(),
        arch_below=root.get("arch_below", None).optional_integer(),
        needs_smem_bytes=root.get("needs_smem_bytes", None).optional_integer(),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A value of the document and where it stands."""

    value: Any
    path: str

    def fail(self, expected: str) -> MalformedCase:
        text = repr(self.value)
        return MalformedCase(self.path, text if len(text) <= 60 else f"{text[:57]}...", expected)

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        return self.value

    def at(self, key: str) -> _Place:
        if key not in self.mapping():
            raise MalformedCase(f"{self.path}.{key}", "nothing", "this field")
        return _Place(self.value[key], f"{self.path}.{key}")

    def get(self, key: str, default: object) -> _Place:
        """The member, or the default where it is missing or null."""
        found = self.mapping().get(key)
        return _Place(default if found is None else found, f"{self.path}.{key}")

    def members(self) -> Iterator[tuple[str, _Place]]:
        return ((k, _Place(v, f"{self.path}.{k}")) for k, v in self.mapping().items())

    def items(self) -> list[_Place]:
        if not isinstance(self.value, list):
            raise self.fail("a list")
        return [_Place(v, f"{self.path}[{i}]") for i, v in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail("a text")
        return self.value

    def integer(self, least: int = -MAX_EXTENT, most: int = MAX_EXTENT) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.fail(f"an integer from {least} to {most}")
        return self.value

    def optional_integer(self) -> int | None:
        return None if self.value is None else self.integer()

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def one_of(self, names: Mapping[str, Any]) -> Any:
        if not isinstance(self.value, str) or self.value not in names:
            raise self.fail(f"one of {', '.join(names)}")
        return names[self.value]


_VIAS = {v.value: v for v in CopyVia}
_MEMORIES = {m.value: m for m in MemoryType}


def _read_op(o: _Place, tensors: _Place) -> TensorOp:
    kind: OpKind = o.at("op").one_of(OPS)
    inputs: list[Operand] = [n.text() for n in o.at("in").items()]
    for name in (*inputs, o.at("out").text()):
        tensors.at(str(name))
    if (scalar := o.get("scalar", None).value) is not None:
        if isinstance(scalar, bool) or not isinstance(scalar, int | float | str):
            raise o.at("scalar").fail("a number or the name of a scalar")
        inputs.append(Literal(scalar if isinstance(scalar, int | float) else 0.0))
    if not any(isinstance(x, str) for x in inputs):
        raise o.at("in").fail("at least one tensor")
    dims: tuple[int, ...] = ()
    match kind:
        case OpKind.PERMUTE:
            dims = tuple(d.integer(0, MAX_RANK) for d in o.at("dims").items())
        case OpKind.BROADCAST_TO:
            flags = [f.flag() for f in o.at("broadcast_flags").items()]
            dims = tuple(i for i, new in enumerate(flags) if not new)
        case OpKind.SUM:
            dims = tuple(d.integer(-MAX_RANK, MAX_RANK) for d in o.at("axes").items())
    via = o.get("via", CopyVia.PLAIN.value).one_of(_VIAS)
    return TensorOp(kind, tuple(inputs), o.at("out").text(), dims, via)


@dataclass(frozen=True, slots=True)
class _Runtime:
    """What a launch binds an input to: shape and strides in elements (None where the declaration gives them), bytes by
    which its first element lies past an aligned base."""

    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    byte_offset: int = 0


def _runtime(root: _Place, inputs: Sequence[str]) -> dict[str, _Runtime]:
    """By input name. The document lists them by name, or in the order of the inputs."""
    given = root.get("runtime_inputs", {})
    members = list(zip(inputs, given.items(), strict=False)) if isinstance(given.value, list) else list(given.members())
    found = {}
    for name, place in members:
        if place.value is None:
            continue
        shape = place.get("shape", None)
        found[name] = _Runtime(
            tuple(n.integer(0) for n in shape.items()) if shape.value is not None else None,
            tuple(n.integer() for n in place.get("strides", []).items()),
            place.get("byte_offset", 0).integer(0),
        )
    return found


def _tensors(
    tensors: _Place, ops: Sequence[TensorOp], inputs: Sequence[str], runtime: Mapping[str, _Runtime]
) -> dict[str, TensorView]:
    """Every tensor that an operator or the interface names, producers first."""
    views: dict[str, TensorView] = {}
    for position, name in enumerate(inputs):
        views[name] = _input(name, position, tensors.at(name), runtime.get(name, _Runtime()))
    for op in ops:
        place = tensors.at(op.output)
        if op.output in views:
            raise place.fail("one operator that makes the tensor, and no input")
        sources = []
        for name in op.tensor_inputs:
            if name not in views:
                raise MalformedCase(
                    f"case.ops: {op.output}", f"{name} before it is made", "an earlier result or an input"
                )
            sources.append(views[name])
        views[op.output] = _result(op, place, sources)
    return views


def _input(name: str, position: int, place: _Place, runtime: _Runtime) -> TensorView:
    shape = _shape(place)
    bound = runtime.shape if runtime.shape is not None and len(runtime.shape) == len(shape) else shape
    symbolic = _flags(place, "symbolic", len(shape))
    broadcast = _axes(place, "broadcast_axes", len(shape))
    reduced = _axes(place, "reduction_axes", len(shape))
    source = place.get("allocation", None)
    flags = _contiguity(place)
    axes = []
    for d, extent in enumerate(shape):
        size = Size.symbol(f"size[{position}][{d}]", bound[d]) if symbolic[d] else Size(extent)
        declared_none = source.value is None and d < len(flags) and flags[d] is None
        is_broadcast = d in broadcast or (declared_none and d not in reduced) or (extent == 1 and not symbolic[d])
        kind = IterKind.BROADCAST if is_broadcast else IterKind.ITERATION
        axes.append(make_axis(f"{name}.{d}", Size(extent) if is_broadcast else size, kind))
        if d in reduced:
            axes[d] = make_axis(f"{name}.{d}", size, IterKind.REDUCTION)
    logical = tuple(axes)
    allocation = _source_allocation(name, source, logical, flags) if source.value is not None else None
    if allocation is None:
        flags = flags or tuple(None if a.is_broadcast or a.is_reduction else True for a in logical)
        if len(flags) != len(logical):
            raise place.at("contiguity").fail(f"{len(logical)} flags")
        allocation = Allocation(logical, (None,) * len(logical), (), flags)
    align = _alignment(runtime.byte_offset)
    serial = (ParallelType.SERIAL,) * len(logical)
    memory = place.get("memory", "global").one_of(_MEMORIES)
    return TensorView(
        name,
        place.at("dtype").one_of(DTYPES),
        memory,
        logical,
        logical,
        serial,
        (),
        allocation,
        align=align,
        runtime_strides=runtime.strides,
    )


def _source_allocation(
    name: str, place: _Place, logical: tuple[IterDomain, ...], flags: tuple[bool | None, ...]
) -> Allocation:
    raise place.fail("no `allocation`: inputs whose shape is a view of their memory are not read yet")


def _result(op: TensorOp, place: _Place, sources: Sequence[TensorView]) -> TensorView:
    """The tensor that an operator makes: sizes and kinds come from what it reads, checked against the document."""
    shape = _shape(place)
    name = op.output
    symbolic = _flags(place, "symbolic", len(shape))
    broadcast = _axes(place, "broadcast_axes", len(shape))
    reduced = _axes(place, "reduction_axes", len(shape))
    if op.kind is OpKind.SUM:
        reduced = reduced | {d % len(shape) for d in op.dims} if shape else frozenset()
    read: list[list[IterDomain]] = [[] for _ in shape]
    for source in sources:
        for d, a in _mapped(op, source, len(shape), place):
            read[d].append(a)
    axes = []
    for d, extent in enumerate(shape):
        real = [a for a in read[d] if not a.is_broadcast]
        unknown = next((a.size for a in real if a.symbolic is not None), None)
        size = unknown if unknown is not None and symbolic[d] else Size(extent)
        if real and real[0].extent != size.value and not symbolic[d]:
            raise place.at("shape").fail(f"extent {real[0].extent} in axis {d}, as {op.kind} makes it")
        if d in reduced:
            kind = IterKind.REDUCTION
        elif d in broadcast or (not real and extent == 1):
            kind = IterKind.BROADCAST
        else:
            kind = IterKind.ITERATION
        axes.append(make_axis(f"{name}.{d}", size, kind))
    logical = tuple(axes)
    memory = place.get("memory", "local").one_of(_MEMORIES)
    allocation = None
    if memory is MemoryType.GLOBAL:
        dense = tuple(None if a.is_broadcast or a.is_reduction else True for a in logical)
        allocation = Allocation(logical, (None,) * len(logical), (), _contiguity(place) or dense)
    serial = (ParallelType.SERIAL,) * len(logical)
    return TensorView(
        name, place.at("dtype").one_of(DTYPES), memory, logical, logical, serial, (), allocation, align=_alignment(0)
    )


def _mapped(op: TensorOp, source: TensorView, rank: int, place: _Place) -> Iterator[tuple[int, IterDomain]]:
    """Each axis of the result that reads an axis of the source."""
    elements = [a for a in source.logical if not a.is_reduction]
    match op.kind:
        case OpKind.PERMUTE:
            if sorted(op.dims) != list(range(len(elements))) or rank != len(elements):
                raise place.at("shape").fail(f"a permutation of the {len(elements)} axes of {source.name}")
            pairs = [(c, elements[p]) for c, p in enumerate(op.dims)]
        case OpKind.BROADCAST_TO:
            if len(op.dims) != len(elements) or any(d >= rank for d in op.dims):
                raise place.at("shape").fail(f"one axis that is kept for each of the {len(elements)} of {source.name}")
            pairs = list(zip(op.dims, elements, strict=True))
        case _:
            if len(elements) != rank:
                raise place.at("shape").fail(f"{len(elements)} axes, as {source.name} has")
            pairs = list(enumerate(elements))
    return iter(pairs)


def _graph(
    views: Mapping[str, TensorView], ops: Sequence[TensorOp], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Fusion:
    """The fusion that the tensors stand for; it has no fingerprint, since only a schedule is looked at."""
    values = []
    for t in views.values():
        shape = tuple(a.extent for a in t.logical if not a.is_reduction)
        values.append(Value(t.name, shape, t.dtype, dense_strides(shape), t.align))
    plain = tuple(Op(op.kind, op.inputs, op.output, op.dims) for op in ops)
    return Fusion(tuple(values), inputs, plain, outputs, fingerprint="", binding_hash="")


def _shape(place: _Place) -> tuple[int, ...]:
    items = place.at("shape").items()
    if len(items) > MAX_RANK:
        raise place.at("shape").fail(f"at most {MAX_RANK} axes")
    shape = tuple(n.integer(1) for n in items)
    if prod(shape) > MAX_EXTENT:
        raise place.at("shape").fail(f"at most {MAX_EXTENT} elements")
    return shape


def _flags(place: _Place, key: str, rank: int) -> tuple[bool, ...]:
    """One flag for all axes, or one for each."""
    given = place.get(key, False)
    if isinstance(given.value, bool):
        return (given.value,) * rank
    flags = tuple(f.flag() for f in given.items())
    if len(flags) != rank:
        raise given.fail(f"{rank} flags")
    return flags


def _axes(place: _Place, key: str, rank: int) -> frozenset[int]:
    return frozenset(n.integer(-rank, rank - 1) % rank for n in place.get(key, []).items())


def _contiguity(place: _Place) -> tuple[bool | None, ...]:
    given = place.get("contiguity", None)
    if given.value is None:
        return ()
    if isinstance(given.value, bool):
        return (given.value,) * len(_shape(place))
    return tuple(None if f.value is None else f.flag() for f in given.items())


def _alignment(byte_offset: int, base: int = 256) -> int:
    """What divides the address of an element that lies so far from a base that the allocator aligned."""
    return min(base, byte_offset & -byte_offset) if byte_offset else base


def read_step(data: Mapping[str, Any], sf: ScheduledFusion, scalars: Mapping[str, int], where: str) -> steps.Step:
    """The step that a document's object stands for, taken on `sf`. Raises MalformedCase.

    Axes may count from the end; a split factor may be a run-time scalar.
    """
    place = _Place(dict(data), where)
    do = place.at("do").text()
    reader = _STEPS.get(do)
    if reader is None:
        raise place.at("do").fail(f"one of {', '.join(_STEPS)}")
    if do == "inline_most":
        return steps.InlineMost()
    return reader(place, _view(place.at("tv"), sf), scalars)


def _view(place: _Place, sf: ScheduledFusion) -> TensorView:
    name = place.text()
    if name not in sf.by_name:
        raise place.fail(f"one of the tensors {', '.join(sf.by_name)}")
    return sf.tensor(name)


def _axis(place: _Place, count: int) -> int:
    """A position among `count` axes; one outside stays outside, and the step refuses it."""
    n = place.integer(-MAX_RANK * 4, MAX_RANK * 4)
    return n + count if n < 0 else n


def _split(place: _Place, t: TensorView, scalars: Mapping[str, int], count: int | None = None) -> steps.Split:
    factor = place.at("factor")
    if isinstance(factor.value, dict):
        name = factor.at("scalar").text()
        if name not in scalars:
            raise factor.fail(f"one of the scalars {', '.join(scalars) or '(none)'}")
        n = scalars[name]
    else:
        n = factor.integer()
    axis = _axis(place.at("axis"), len(t.loop) if count is None else count)
    return steps.Split(t.name, axis, n, place.get("inner", True).flag())


def _merge(place: _Place, t: TensorView, scalars: Mapping[str, int], count: int | None = None) -> steps.Merge:
    count = len(t.loop) if count is None else count
    other = place.get("with", None)
    axis = _axis(place.at("axis"), count)
    return steps.Merge(t.name, axis, None if other.value is None else _axis(other, count))


def _reorder(place: _Place, t: TensorView, scalars: Mapping[str, int], count: int | None = None) -> steps.Reorder:
    count = len(t.loop) if count is None else count
    given = place.at("map")
    if isinstance(given.value, list):
        pairs = [(_Place(i, given.path), new) for i, new in enumerate(given.items())]
    else:
        pairs = [(_Place(_number(k), f"{given.path}.{k}"), new) for k, new in given.members()]
    return steps.Reorder(t.name, tuple((_axis(old, count), _axis(new, count)) for old, new in pairs))


def _number(text: object) -> object:
    """JSON spells the keys of a map as texts."""
    try:
        return int(str(text))
    except ValueError:
        return text


def _swizzle(place: _Place, t: TensorView, scalars: Mapping[str, int], count: int | None = None) -> steps.Swizzle:
    place.get("kind", "xor").one_of({"xor": None, "XOR": None})
    axes = place.at("axes")
    if len(axes.items()) != 2:
        raise axes.fail("two axes")
    x, y = (_axis(n, len(t.loop) if count is None else count) for n in axes.items())
    return steps.Swizzle(t.name, x, y)


def _parallelize(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.Parallelize:
    types = {p.value: p for p in ParallelType}
    return steps.Parallelize(t.name, _axis(place.at("axis"), len(t.loop)), place.at("type").one_of(types))


def _allocation(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.SetAllocationDomain:
    given = place.at("axes")
    axes = tuple(range(len(t.loop))) if given.value == "loop" else tuple(_axis(n, len(t.loop)) for n in given.items())
    count = len(axes)
    transforms: list[steps.Split | steps.Merge | steps.Reorder | steps.Swizzle] = []
    for item in place.get("transforms", []).items():
        reader = _TRANSFORMS.get(item.at("do").text())
        if reader is None:
            raise item.at("do").fail(f"one of {', '.join(_TRANSFORMS)}")
        transforms.append(reader(item, t, scalars, count))
        count += {"split": 1, "merge": -1}.get(item.at("do").text(), 0)
    strides = tuple(n.optional_integer() for n in place.get("strides", []).items())
    contiguity = place.get("contiguity", True)
    flags: tuple[bool | None, ...] = ()
    if contiguity.value is not True:
        items = [contiguity] * count if isinstance(contiguity.value, bool) else contiguity.items()
        flags = tuple(None if f.value is None else f.flag() for f in items)
    return steps.SetAllocationDomain(t.name, axes, tuple(transforms), strides, flags)


def _dimsep(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.TmemDimsep:
    return steps.TmemDimsep(t.name, place.at("position").integer(-MAX_RANK, MAX_RANK))


def _inline_at(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.InlineAt:
    return steps.InlineAt(t.name, _axis(place.at("position"), len(t.loop) + 1))


def _compute_at(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.ComputeAt:
    return steps.ComputeAt(t.name, place.at("consumer").text(), place.at("position").integer(-MAX_RANK, MAX_RANK))


def _compute_with(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.ComputeWith:
    return steps.ComputeWith(t.name, place.at("position").integer(-MAX_RANK, MAX_RANK))


def _circular(place: _Place, t: TensorView, scalars: Mapping[str, int]) -> steps.CircularBuffer:
    on = place.get("on", None)
    registers = place.get("registers", None)
    pair = None
    if registers.value is not None:
        if len(registers.items()) != 2:
            raise registers.fail("two numbers, for threads that load and that compute")
        load, compute = (n.integer() for n in registers.items())
        pair = (load, compute)
    return steps.CircularBuffer(
        t.name,
        place.at("stages").integer(),
        place.get("prefetch", -1).integer(),
        place.get("kind", BufferKind.PIPELINED.value).one_of({k.value: k for k in BufferKind}),
        None if on.value is None else on.one_of({p.value: p for p in ParallelType}),
        pair,
        place.get("slice_position", None).optional_integer(),
        place.get("war_mbarrier", False).flag(),
    )


_TRANSFORMS: dict[str, Callable[..., steps.Split | steps.Merge | steps.Reorder | steps.Swizzle]] = {
    "split": _split,
    "merge": _merge,
    "reorder": _reorder,
    "swizzle": _swizzle,
}
_STEPS: dict[str, Callable[..., steps.Step]] = {
    **_TRANSFORMS,
    "parallelize": _parallelize,
    "set_allocation_domain": _allocation,
    "tmem_dimsep": _dimsep,
    "inline_at": _inline_at,
    "inline_most": lambda *_: steps.InlineMost(),
    "compute_at": _compute_at,
    "compute_with": _compute_with,
    "circular_buffer": _circular,
}
