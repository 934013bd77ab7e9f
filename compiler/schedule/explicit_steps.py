"""Reads the steps of explicit schedules (docs/contracts.md, "Explicit schedules")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, TensorView
from compiler.schedule import steps
from compiler.schedule.document import MAX_RANK, MalformedCase, Place

MAX_POSITION = MAX_RANK * 1024
"""Axis numbers beyond it are no axis of any tensor that a document can make."""


@dataclass(frozen=True, slots=True)
class Taken:
    """On what a step is taken: the fusion, one of its tensors, the document's run-time scalars, and how many axes the
    numbers of the step count."""

    sf: ScheduledFusion
    tensor: TensorView
    scalars: Mapping[str, int | float]
    count: int


def read_step(
    data: Mapping[str, Any], sf: ScheduledFusion, scalars: Mapping[str, int | float], where: str
) -> steps.Step:
    """The step that a document's object stands for, taken on `sf`. Raises MalformedCase.

    Axes may count from the end; a split factor may be a run-time scalar.
    """
    place = Place(data, where)
    if "do" not in place.mapping():
        raise MalformedCase(f"{where}.do", "nothing", f"the name of the step: one of {', '.join(_STEPS)}")
    do = place.at("do")
    reader = do.one_of(_STEPS)
    place.only("do", "tv", *FIELDS[do.text()])
    if reader is None:
        return steps.InlineMost()
    t = tensor_at(place.at("tv"), sf)
    step: steps.Step = reader(place, Taken(sf, t, scalars, len(t.loop)))
    return step


def tensor_at(place: Place, sf: ScheduledFusion) -> TensorView:
    """The tensor of the fusion that is named there."""
    name = place.text()
    if name not in sf.by_name:
        names = ", ".join(list(sf.by_name)[:20])
        raise place.fail(f"one of the tensors {names}")
    return sf.tensor(name)


def position_at(place: Place, count: int) -> int:
    """A position among `count`; negative ones count from the end, and one outside stays outside."""
    n = place.integer(-MAX_POSITION, MAX_POSITION)
    return n + count if n < 0 else n


def factor_at(place: Place, scalars: Mapping[str, int | float]) -> int | Size:
    """A number, or a run-time scalar as an unknown whose value is the one given."""
    if not isinstance(place.value, dict):
        return place.integer()
    name = place.at("scalar").text()
    if name not in scalars:
        raise place.fail(f"one of the scalars {', '.join(list(scalars)[:20]) or '(none)'}")
    return Size.symbol(name, Place(scalars[name], f"scalars.{name}").integer())


def _split(place: Place, on: Taken) -> steps.Split:
    axis = position_at(place.at("axis"), on.count)
    return steps.Split(on.tensor.name, axis, factor_at(place.at("factor"), on.scalars), place.get("inner", True).flag())


def _merge(place: Place, on: Taken) -> steps.Merge:
    other = place.get("with", None)
    axis = position_at(place.at("axis"), on.count)
    return steps.Merge(on.tensor.name, axis, None if other.value is None else position_at(other, on.count))


def _reorder(place: Place, on: Taken) -> steps.Reorder:
    given = place.at("map")
    if isinstance(given.value, list) and any(isinstance(pair, list) for pair in given.value):
        pairs = [_pair(p) for p in given.items(MAX_POSITION)]
    elif isinstance(given.value, list):
        pairs = [(Place(i, given.path), new) for i, new in enumerate(given.items(MAX_POSITION))]
    else:
        pairs = [(Place(_number(k), new.path), new) for k, new in given.members()]
    moves = ((position_at(old, on.count), position_at(new, on.count)) for old, new in pairs)
    return steps.Reorder(on.tensor.name, tuple(moves))


def _pair(place: Place) -> tuple[Place, Place]:
    """An old and a new position."""
    pair = place.items(2)
    if len(pair) != 2:
        raise place.fail("an old and a new position")
    return pair[0], pair[1]


def _number(text: str) -> object:
    """JSON spells the keys of a map as texts."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else text


def _swizzle(place: Place, on: Taken) -> steps.Swizzle:
    place.get("kind", "xor").one_of({"xor": None, "XOR": None})
    axes = place.at("axes").items(2)
    if len(axes) != 2:
        raise place.at("axes").fail("two axes")
    x, y = (position_at(n, on.count) for n in axes)
    return steps.Swizzle(on.tensor.name, x, y)


def _resize(place: Place, on: Taken) -> steps.Resize:
    left, right = (place.get(side, 0).integer() for side in ("left", "right"))
    return steps.Resize(on.tensor.name, position_at(place.at("axis"), on.count), left, right)


_TYPES = {p.value: p for p in ParallelType}


def _parallelize(place: Place, on: Taken) -> steps.Parallelize:
    return steps.Parallelize(on.tensor.name, position_at(place.at("axis"), on.count), place.at("type").one_of(_TYPES))


def _allocation(place: Place, on: Taken) -> steps.SetAllocationDomain:
    axes = allocation_axes(place.at("axes"), on.count)
    strides = tuple(n.optional_integer() for n in place.get("strides", []).items(MAX_POSITION))
    return steps.SetAllocationDomain(
        on.tensor.name, axes, read_transforms(place, on, len(axes)), strides, contiguity_at(place)
    )


def allocation_axes(place: Place, count: int) -> tuple[int, ...]:
    """The loops in allocation order: all of them as they stand, or a list."""
    if place.value == "loop":
        return tuple(range(count))
    return tuple(position_at(n, count) for n in place.items(MAX_POSITION))


def contiguity_at(place: Place) -> tuple[bool | None, ...] | bool:
    """One flag for every axis, or one for all: contiguous where nothing is said."""
    given = place.get("contiguity", True)
    if isinstance(given.value, bool):
        return given.value
    return tuple(f.optional_flag() for f in given.items(MAX_POSITION))


def read_transforms(place: Place, on: Taken, count: int, key: str = "transforms") -> tuple[steps.Transform, ...]:
    """Transforms of a list of `count` axes of the tensor."""
    found = []
    for item in place.get(key, []).items(MAX_POSITION):
        reader = item.at("do").one_of(_TRANSFORMS)
        item.only("do", "tv", *FIELDS[item.at("do").text()])
        step: steps.Transform = reader(item, Taken(on.sf, on.tensor, on.scalars, count))
        count += isinstance(step, steps.Split) - isinstance(step, steps.Merge)
        found.append(step)
    return tuple(found)


def _dimsep(place: Place, on: Taken) -> steps.TmemDimsep:
    return steps.TmemDimsep(on.tensor.name, place.at("position").integer(-MAX_POSITION, MAX_POSITION))


def _inline_at(place: Place, on: Taken) -> steps.InlineAt:
    return steps.InlineAt(on.tensor.name, position_at(place.at("position"), on.count + 1))


def _compute_at(place: Place, on: Taken) -> steps.ComputeAt:
    consumer = tensor_at(place.at("consumer"), on.sf)
    position = position_at(place.at("position"), len(consumer.loop) + 1)
    return steps.ComputeAt(on.tensor.name, consumer.name, position)


def _compute_with(place: Place, on: Taken) -> steps.ComputeWith:
    return steps.ComputeWith(on.tensor.name, position_at(place.at("position"), on.count + 1))


def _circular(place: Place, on: Taken) -> steps.CircularBuffer:
    type_ = place.get("on", None)
    registers = place.get("registers", None)
    pair = None
    if registers.value is not None:
        if len(registers.items(2)) != 2:
            raise registers.fail("two numbers, for threads that load and that compute")
        load, compute = (n.integer() for n in registers.items())
        pair = (load, compute)
    return steps.CircularBuffer(
        on.tensor.name,
        place.at("stages").integer(),
        place.get("prefetch", -1).integer(),
        place.get("kind", BufferKind.PIPELINED.value).one_of({k.value: k for k in BufferKind}),
        None if type_.value is None else type_.one_of(_TYPES),
        pair,
        place.get("slice_position", None).optional_integer(),
        place.get("war_mbarrier", False).flag(),
    )


def _multicast(place: Place, on: Taken) -> steps.Multicast:
    return steps.Multicast(on.tensor.name)


_TRANSFORMS: dict[str, Callable[[Place, Taken], steps.Transform]] = {
    "split": _split,
    "merge": _merge,
    "reorder": _reorder,
    "swizzle": _swizzle,
    "resize": _resize,
}
_STEPS: dict[str, Callable[[Place, Taken], steps.Step] | None] = {
    **_TRANSFORMS,
    "parallelize": _parallelize,
    "set_allocation_domain": _allocation,
    "tmem_dimsep": _dimsep,
    "inline_at": _inline_at,
    "inline_most": None,
    "compute_at": _compute_at,
    "compute_with": _compute_with,
    "circular_buffer": _circular,
    "multicast": _multicast,
}
CHECK = "check_domain_equivalence"
FIELDS: dict[str, tuple[str, ...]] = {
    "split": ("axis", "factor", "inner"),
    "merge": ("axis", "with"),
    "reorder": ("map",),
    "swizzle": ("axes", "kind"),
    "resize": ("axis", "left", "right"),
    "parallelize": ("axis", "type"),
    "set_allocation_domain": ("axes", "contiguity", "strides", "transforms"),
    "tmem_dimsep": ("position",),
    "inline_at": ("position",),
    "inline_most": (),
    "compute_at": ("consumer", "position"),
    "compute_with": ("position",),
    "circular_buffer": ("stages", "prefetch", "kind", "on", "registers", "slice_position", "war_mbarrier"),
    "multicast": (),
    CHECK: ("ids",),
}
"""Of each step, what is said beside its name and its tensor."""
