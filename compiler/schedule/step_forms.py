"""Steps as JSON and as lines of text: the names by which documents and people call them."""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from compiler.ir.size import Size
from compiler.schedule.document import Malformed
from compiler.schedule.steps import (
    CacheInput,
    CacheOutput,
    CapRegisters,
    CircularBuffer,
    ComputeAt,
    ComputeWith,
    Deal,
    InlineAt,
    InlineMost,
    InlineSelectedAt,
    Merge,
    Multicast,
    Online,
    Parallelize,
    ParallelizeLike,
    ParallelizeLoops,
    Park,
    ProductsInFlight,
    Propagate,
    Recompute,
    Reorder,
    Resize,
    SetAllocationDomain,
    SetCache,
    SetMemory,
    Shift,
    Split,
    Step,
    Straddle,
    Swizzle,
    TmemDimsep,
    Window,
)

_NAMES: dict[str, type[Step]] = {
    "split": Split,
    "merge": Merge,
    "reorder": Reorder,
    "swizzle": Swizzle,
    "resize": Resize,
    "shift": Shift,
    "window": Window,
    "parallelize": Parallelize,
    "parallelize_loops": ParallelizeLoops,
    "propagate": Propagate,
    "parallelize_like": ParallelizeLike,
    "set_allocation_domain": SetAllocationDomain,
    "tmem_dimsep": TmemDimsep,
    "inline_at": InlineAt,
    "inline_selected_at": InlineSelectedAt,
    "inline_most": InlineMost,
    "compute_at": ComputeAt,
    "compute_with": ComputeWith,
    "circular_buffer": CircularBuffer,
    "cache_input": CacheInput,
    "cache_output": CacheOutput,
    "set_memory": SetMemory,
    "recompute": Recompute,
    "online": Online,
    "cache_policy": SetCache,
    "straddle": Straddle,
    "multicast": Multicast,
    "park": Park,
    "in_flight": ProductsInFlight,
    "deal": Deal,
    "cap_registers": CapRegisters,
}
_TYPES: dict[type[Step], str] = {cls: name for name, cls in _NAMES.items()}
_HINTS: dict[str, dict[str, Any]] = {name: get_type_hints(cls) for name, cls in _NAMES.items()}
_JSON_NAMES = {int: "an integer", str: "a text", bool: "true or false", type(None): "null"}


_LATER = frozenset(("contiguity", "kind", "on", "registers", "slice_position", "war_mbarrier", "others", "start"))
"""Fields that steps of stored traces do not have: left out at their default, so that traces keep their hashes."""


def step_to_json(step: Step) -> dict[str, Any]:
    """A step as a JSON object; `do` names it."""
    out: dict[str, Any] = {"do": _TYPES[type(step)]}
    for f in fields(step):
        value = getattr(step, f.name)
        if f.name in _LATER and value == f.default:
            continue
        if f.name == "transforms":
            value = [step_to_json(s) for s in value]
        elif isinstance(value, Size):
            value = value.value
        elif isinstance(value, tuple):
            value = [list(v) if isinstance(v, tuple) else v for v in value]
        out[f.name] = value
    return out


class MalformedStep(Malformed):
    """JSON that is no step; `where` is a path from the step's parent."""


def step_from_json(data: object, where: str = "step") -> Step:
    """The inverse of `step_to_json`. Raises MalformedStep, with places below `where`."""
    return _step_from_json(data, tuple(_TYPES), where)


def _step_from_json(data: object, allowed: tuple[type[Step], ...], where: str) -> Step:
    """A step of one of the classes `allowed`."""
    if not isinstance(data, dict):
        raise MalformedStep(where, _short(data), 'an object with "do"')
    cls = next((c for c in allowed if _TYPES[c] == data.get("do")), None)
    if cls is None:
        expected = f"one of {', '.join(_TYPES[c] for c in allowed)}"
        raise MalformedStep(f"{where}.do", _short(data["do"]) if "do" in data else "nothing", expected)
    hints = _HINTS[_TYPES[cls]]
    for key in data:
        if key != "do" and key not in hints:
            raise MalformedStep(f"{where}.{key}", "an unknown field", f"one of {', '.join(hints)}")
    for f in fields(cls):
        if f.default is MISSING and f.name not in data:
            raise MalformedStep(f"{where}.{f.name}", "nothing", f"this field of {_TYPES[cls]}")
    return cls(**{key: _field_from_json(v, hints[key], f"{where}.{key}") for key, v in data.items() if key != "do"})


def _field_from_json(value: object, hint: Any, where: str) -> Any:
    """`value` as the annotation `hint` wants it."""
    if get_origin(hint) is tuple:
        return _list_from_json(value, get_args(hint), where)
    kinds = tuple(k for k in get_args(hint) or (hint,) if k is not Size)
    if type(None) in kinds and value is None:
        return None
    if (lists := [k for k in kinds if get_origin(k) is tuple]) and isinstance(value, list):
        return _list_from_json(value, get_args(lists[0]), where)
    plain = tuple(k for k in kinds if get_origin(k) is not tuple)
    if all(kind in _TYPES for kind in plain):
        return _step_from_json(value, plain, where)
    names = next((k for k in plain if issubclass(k, StrEnum)), None)
    if names is not None:
        if not isinstance(value, str) or value not in set(names):
            raise MalformedStep(where, _short(value), f"one of {', '.join(names)}")
        return names(value)
    if type(value) not in plain:
        expected = [_JSON_NAMES[kind] for kind in plain] + ["a list" for _ in lists]
        raise MalformedStep(where, _short(value), " or ".join(expected))
    return value


def _list_from_json(value: object, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    """`kinds`: one annotation for each element, or one for all of them and an ellipsis."""
    any_length = kinds[-1] is Ellipsis
    if not isinstance(value, list) or not (any_length or len(value) == len(kinds)):
        raise MalformedStep(where, _short(value), "a list" if any_length else f"a list of {len(kinds)}")
    each = kinds[:1] * len(value) if any_length else kinds
    pairs = zip(value, each, strict=True)
    return tuple(_field_from_json(v, kind, f"{where}[{i}]") for i, (v, kind) in enumerate(pairs))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def step_text(step: Step) -> str:
    """One line, as errors and `show` print it."""
    parts = [f"{f.name}={_text(getattr(step, f.name))}" for f in fields(step)]
    return f"{_TYPES[type(step)]}({', '.join(parts)})"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        transforms = (Split, Merge, Reorder, Swizzle, Resize, Shift, Window)
        return f"[{', '.join(step_text(v) if isinstance(v, transforms) else _text(v) for v in value)}]"
    return str(value)
