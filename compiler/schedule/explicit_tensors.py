"""Reads the tensors of explicit schedules: declared shapes and memories, and what a launch binds inputs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from compiler.arch import ALLOCATION_ALIGN
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, dense_strides
from compiler.ir.id_exprs import Merge, Split, with_axes
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.iter_domain import axis as make_axis
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.size import Size
from compiler.ir.tensor import Allocation, TensorOp, TensorView
from compiler.schedule.axes import AxisList, transform
from compiler.schedule.document import MAX_EXTENT, MAX_RANK, Place
from compiler.schedule.explicit_steps import Taken, allocation_axes, contiguity_at, read_transforms
from compiler.schedule.refusals import Site, refusals
from compiler.schedule.start_requests import accumulator

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
TENSOR_FIELDS = (
    "shape",
    "dtype",
    "memory",
    "symbolic",
    "contiguity",
    "broadcast_axes",
    "reduction_axes",
    "allocation",
)
_MEMORIES = {m.value: m for m in MemoryType}
_TRANSFORM_LISTS = ("transforms", "steps", "schedule")
"""What an allocation may call its transforms."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a launch binds a tensor to: shape and strides in elements (None where the declaration gives them), bytes by
    which its first element lies past an aligned base."""

    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    byte_offset: int = 0
    path: str = ""


def read_input(name: str, position: int, place: Place, runtime: Runtime) -> TensorView:
    """An input of the fusion, the `position`-th; what is unknown of its shape is named as guards name it."""
    shape = shape_of(place.only(*TENSOR_FIELDS))
    fits = runtime.shape is not None and len(runtime.shape) == len(shape)
    bound = runtime.shape if fits and runtime.shape is not None else shape
    symbolic = _flags(place, "symbolic", len(shape))
    broadcast = _axes(place, "broadcast_axes", len(shape))
    reduced = _axes(place, "reduction_axes", len(shape))
    flags = contiguity_at(place)
    source = place.get("allocation", None)
    if source.value is None and place.get("contiguity", None).value is None and runtime.strides is not None:
        flags = _contiguity_of(bound, runtime.strides)
    if source.value is None and not isinstance(flags, bool):
        if len(flags) != len(shape):
            raise place.at("contiguity").fail(f"{len(shape)} flags")
        broadcast |= {d for d, flag in enumerate(flags) if flag is None and d not in reduced}
    axes = []
    for d, extent in enumerate(shape):
        size = Size.symbol(f"size[{position}][{d}]", bound[d]) if symbolic[d] else Size(extent)
        kind = IterKind.ITERATION
        if d in reduced:
            kind = IterKind.REDUCTION
        elif d in broadcast or (extent == 1 and not symbolic[d]):
            kind, size = IterKind.BROADCAST, Size(extent)
        axes.append(make_axis(f"{name}.{d}", size, kind))
    logical = tuple(axes)
    strides = _bound_strides(runtime, logical)
    if source.value is None:
        allocation = Allocation(logical, (None,) * len(logical), (), _held(flags, logical))
    else:
        allocation = _viewed(name, source, logical, flags)
        strides = strides or _strides_of(allocation, logical)
    return TensorView(
        name,
        place.at("dtype").one_of(DTYPES),
        place.get("memory", MemoryType.GLOBAL.value).one_of(_MEMORIES),
        logical,
        logical,
        (ParallelType.SERIAL,) * len(logical),
        (),
        allocation,
        align=_alignment(runtime.byte_offset),
        runtime_strides=strides,
        runtime_shape=runtime.shape or (),
    )


def _bound_strides(runtime: Runtime, logical: Sequence[IterDomain]) -> tuple[int, ...]:
    """Strides of a launch, one for each axis that it binds."""
    count_ = len(runtime.shape or [a for a in logical if not a.is_reduction])
    if runtime.strides is not None and len(runtime.strides) != count_:
        raise Place(list(runtime.strides), f"{runtime.path}.strides").fail(f"{count_} strides")
    return runtime.strides or ()


def _strides_of(allocation: Allocation, logical: Sequence[IterDomain]) -> tuple[int, ...]:
    """Strides of the logical axes where the allocation that an input is declared with is dense."""
    held = [a for a in allocation.axes if not a.is_broadcast and not a.is_reduction]
    at = dict(zip(held, dense_strides(tuple(a.extent for a in held)), strict=True))
    for e in allocation.exprs if allocation.is_source else reversed(allocation.exprs):
        match e:
            case Split(source=whole, outer=outer, inner=inner):
                is_cut = allocation.is_source
            case Merge(out=whole, outer=outer, inner=inner):
                is_cut = not allocation.is_source
            case _:
                return ()
        if is_cut and whole in at:
            at[outer], at[inner] = at[whole] * inner.extent, at[whole]
        elif not is_cut and inner in at:
            at[whole] = at[inner]
    return tuple(at.get(a, 0) for a in logical if not a.is_reduction)


def _contiguity_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[bool | None, ...] | bool:
    """What strides say of contiguity where the declaration says nothing."""
    if len(strides) != len(shape):
        return True
    inner = [*(n * s for n, s in zip(shape[1:], strides[1:], strict=True)), 1]
    return tuple(s == wanted or n == 1 for n, s, wanted in zip(shape, strides, inner, strict=True))


def _viewed(
    name: str, place: Place, logical: tuple[IterDomain, ...], flags: tuple[bool | None, ...] | bool
) -> Allocation:
    """An allocation that the logical axes are a view of (`shape`, then transforms), or that is a view of them (`axes`,
    then transforms)."""
    if isinstance(place.value, list):
        place = Place({"axes": place.value}, place.path)
    place.only("shape", "axes", "contiguity", "symbolic", *_TRANSFORM_LISTS)
    key = next((k for k in _TRANSFORM_LISTS if k in place.mapping()), "transforms")
    flags = contiguity_at(place) if "contiguity" in place.mapping() else flags
    if "shape" in place.mapping():
        names = (f"{name}.m{n}" for n in count())
        shape = shape_of(place)
        unknown = _flags(place, "symbolic", len(shape))
        start = tuple(
            make_axis(f"{name}.a{d}", Size.symbol(f"allocation[{name}][{d}]", n) if unknown[d] else Size(n))
            for d, n in enumerate(shape)
        )
        listed = _transformed(name, place, start, start, key, names)
        if tuple(a.extent for a in listed.axes) != tuple(a.extent for a in logical):
            raise place.fail(f"an allocation whose transforms give the extents {[a.extent for a in logical]}")
        renamed = dict(zip(listed.axes, logical, strict=True))
        exprs = tuple(with_axes(e, renamed) for e in listed.exprs)
        start = tuple(renamed.get(a, a) for a in start)
        return Allocation(start, (None,) * len(start), exprs, _held(flags, start), is_source=True)
    order = allocation_axes(place.at("axes"), len(logical))
    if len(set(order)) != len(order) or any(not 0 <= i < len(logical) for i in order):
        raise place.at("axes").fail("axes of the tensor, each once")
    names = (f"{name}.{n}" for n in count(len(logical)))
    listed = _transformed(name, place, logical, tuple(logical[i] for i in order), key, names)
    return Allocation(listed.axes, (None,) * len(listed.axes), listed.exprs, _held(flags, listed.axes))


def _transformed(
    name: str,
    place: Place,
    logical: tuple[IterDomain, ...],
    axes: tuple[IterDomain, ...],
    key: str,
    names: Iterator[str],
) -> AxisList:
    """The axes after the transforms of an allocation, which must apply to them as they would to loops."""
    t = TensorView(name, DType.F32, MemoryType.GLOBAL, logical, logical, (ParallelType.SERIAL,) * len(logical))
    sf = ScheduledFusion(Fusion((), (name,), (), (), "", ""), (t,), ())
    listed = AxisList(axes)
    for i, step in enumerate(read_transforms(place, Taken(sf, t, {}, len(axes)), len(axes), key)):
        refused = refusals(Site(sf, name, listed), step)
        if refused:
            raise Place(place.value[key][i], f"{place.path}.{key}[{i}]").fail(refused[0].fix)
        listed = transform(listed, step, names)
    return listed


def _held(flags: tuple[bool | None, ...] | bool, axes: Sequence[IterDomain]) -> tuple[bool | None, ...]:
    """Contiguity of each axis; there is none where no data is."""
    each = (flags,) * len(axes) if isinstance(flags, bool) else flags
    if len(each) != len(axes):
        return each
    return tuple(None if a.is_broadcast or a.is_reduction else f for a, f in zip(axes, each, strict=True))


def read_result(
    op: TensorOp, place: Place, sources: Sequence[TensorView], runtime: Runtime, is_output: bool
) -> TensorView:
    """The tensor that an operator makes: sizes and kinds come from what it reads, checked against the document.

    A launch may say where an output lies.
    """
    logical = _result_axes(op, place.only(*TENSOR_FIELDS), sources)
    default = MemoryType.GLOBAL if is_output else MemoryType.LOCAL
    memory = place.get("memory", default.value).one_of(_MEMORIES)
    allocation = None
    if memory is MemoryType.GLOBAL:
        flags = contiguity_at(place)
        if not isinstance(flags, bool) and len(flags) != len(logical):
            raise place.at("contiguity").fail(f"{len(logical)} flags")
        allocation = Allocation(logical, (None,) * len(logical), (), _held(flags, logical))
    return TensorView(
        op.output,
        place.at("dtype").one_of(DTYPES),
        memory,
        logical,
        logical,
        (ParallelType.SERIAL,) * len(logical),
        (),
        allocation,
        align=_alignment(runtime.byte_offset),
        runtime_strides=_bound_strides(runtime, logical),
        runtime_shape=runtime.shape or (),
    )


def _result_axes(op: TensorOp, place: Place, sources: Sequence[TensorView]) -> tuple[IterDomain, ...]:
    """The logical axes of a result: of the sizes that are read, broadcast where nothing else is read."""
    shape, reduced = _result_shape(op, place, sources)
    broadcast = _axes(place, "broadcast_axes", len(shape))
    _flags(place, "symbolic", len(shape_of(place)))
    read: list[list[IterDomain]] = [[] for _ in shape]
    for source in sources:
        for d, a in _mapped(op, source, len(shape), place):
            read[d].append(a)
    axes = []
    for d, extent in enumerate(shape):
        real = [a for a in read[d] if not a.is_broadcast]
        known = next((a for a in real if a.symbolic is None), None)
        size = real[0].size if real and known is None else Size(extent)
        if known is not None and known.extent != extent:
            raise place.at("shape").fail(f"extent {known.extent} in axis {d}, as {op.kind} makes it")
        expanded = next((a.extent for a in read[d] if a.is_broadcast and a.extent not in (1, extent)), None)
        if expanded is not None:
            raise place.at("shape").fail(f"extent {expanded} in axis {d}, to which what {op.kind} reads is expanded")
        if real and d in broadcast and d not in reduced:
            raise place.at("broadcast_axes").fail(
                f"axes along which nothing is read, and axis {d} is read by {op.kind}"
            )
        if d in reduced:
            kind = IterKind.REDUCTION
        elif d in broadcast or (not real and (extent == 1 or bool(read[d]))):
            kind = IterKind.BROADCAST
        else:
            kind = IterKind.ITERATION
        axes.append(make_axis(f"{op.output}.{d}", size, kind))
    return tuple(axes)


def _result_shape(op: TensorOp, place: Place, sources: Sequence[TensorView]) -> tuple[tuple[int, ...], frozenset[int]]:
    """Extents of a result, and which axes are summed over; a document may leave the latter out of the shape."""
    shape = shape_of(place)
    elements = [a for a in sources[0].logical if not a.is_reduction]
    if op.kind in CONTRACTIONS:
        _expect_a_contraction(op, place, sources, len(shape))
    if op.kind is not OpKind.SUM:
        return shape, _axes(place, "reduction_axes", len(shape))
    rank = len(elements)
    if any(not -rank <= d < rank for d in op.dims):
        raise place.fail(f"a sum over some of the {rank} axes of {sources[0].name}")
    reduced = frozenset(d % rank for d in op.dims)
    if len(shape) == rank - len(reduced):
        kept = iter(shape)
        shape = tuple(elements[d].extent if d in reduced else next(kept) for d in range(rank))
    return shape, reduced


def _expect_a_contraction(op: TensorOp, place: Place, sources: Sequence[TensorView], rank: int) -> None:
    """Sums along the last axis of its operands, in the type that sums of them have."""
    if _axes(place, "reduction_axes", rank) != {rank - 1}:
        raise place.at("reduction_axes").fail(f"[{rank - 1}], the last axis, which {op.kind} sums along")
    if sources[0].dtype is not sources[1].dtype:
        raise place.fail(f"{op.kind} of one type, not of {sources[0].dtype} and {sources[1].dtype}")
    made, wanted = place.at("dtype").one_of(DTYPES), accumulator(op.kind, sources[0].dtype)
    if made is not wanted:
        raise place.at("dtype").fail(f"{wanted}, in which sums of {sources[0].dtype} are made")


def _mapped(op: TensorOp, source: TensorView, rank: int, place: Place) -> Iterator[tuple[int, IterDomain]]:
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


def shape_of(place: Place) -> tuple[int, ...]:
    """The declared extents."""
    shape = tuple(n.integer(1) for n in place.at("shape").items(MAX_RANK))
    if prod(shape) > MAX_EXTENT:
        raise place.at("shape").fail(f"at most {MAX_EXTENT} elements")
    return shape


def _flags(place: Place, key: str, rank: int) -> tuple[bool, ...]:
    """One flag for all axes, or one for each."""
    given = place.get(key, False)
    if isinstance(given.value, bool):
        return (given.value,) * rank
    flags = tuple(f.flag() for f in given.items(MAX_RANK))
    if len(flags) != rank:
        raise given.fail(f"{rank} flags")
    return flags


def _axes(place: Place, key: str, rank: int) -> frozenset[int]:
    """Axes that a field lists, from the end where negative."""
    return frozenset(n.integer(-rank, rank - 1) % rank for n in place.get(key, []).items(MAX_RANK))


def _alignment(byte_offset: int) -> int:
    """What divides the address of an element that lies so far from a base that the allocator aligned."""
    return min(ALLOCATION_ALIGN, byte_offset & -byte_offset) if byte_offset else ALLOCATION_ALIGN
