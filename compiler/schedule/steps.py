"""Schedule steps as values. Axis numbers refer to the tensor's loop domain at the moment of the step.

The first group is the explicit-schedule vocabulary (design: contracts, "Schedule"); `CacheInput`, `CacheOutput`,
`SetCache`, `Approximate` and `CapRegisters` are the ones a generated schedule needs besides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CachePolicy, CopyVia, MathGrade


@dataclass(frozen=True, slots=True)
class Split:
    """[n] -> [ceil(n/factor), factor] (inner) or [factor, ceil(n/factor)] (outer)."""

    tv: str
    axis: int
    factor: int
    inner: bool = True


@dataclass(frozen=True, slots=True)
class Merge:
    """[a, b] -> [a*b] at the smaller position; `axis` is the outer one, `other` (default axis + 1) the inner."""

    tv: str
    axis: int
    other: int | None = None


@dataclass(frozen=True, slots=True)
class Reorder:
    """Moves axis old to position new for each (old, new); unnamed axes fill the free places in their old order."""

    tv: str
    moves: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Swizzle:
    """[x, y] -> [x, y xor x]; equal power-of-two extents."""

    tv: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Parallelize:
    """Says how a loop axis is carried out."""

    tv: str
    axis: int
    type: ParallelType


@dataclass(frozen=True, slots=True)
class SetAllocationDomain:
    """Fixes the memory order to these loop axes (in this order), then applies `transforms` to that list only.

    `strides`: one for each axis after the transforms, None where contiguity gives it; empty for all contiguous.
    """

    tv: str
    axes: tuple[int, ...]
    transforms: tuple[Split | Merge | Reorder | Swizzle, ...] = ()
    strides: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class InlineAt:
    """Computes the tensor inside the first `position` loops of its consumers."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """Keeps `stages` copies of a shared tensor and fills `prefetch` of them ahead; prefetch < 0 counts from stages."""

    tv: str
    stages: int
    prefetch: int = -1


@dataclass(frozen=True, slots=True)
class CacheInput:
    """Inserts out = copy(tensor) in `memory` between a tensor and all its consumers; `via` carries the new copy."""

    tensor: str
    out: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class CacheOutput:
    """Computes a tensor into `out` in `memory` first, then copies it; `via` carries the copy out -> tensor."""

    tensor: str
    out: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class SetMemory:
    """Moves an intermediate tensor to another memory; `via` carries the op that writes it."""

    tensor: str
    memory: MemoryType
    via: CopyVia = CopyVia.PLAIN


@dataclass(frozen=True, slots=True)
class SetCache:
    """Cache hint of the global access by which `tv` is loaded or stored."""

    tv: str
    policy: CachePolicy


@dataclass(frozen=True, slots=True)
class Approximate:
    """The op that makes `tv` uses the instruction form of this grade, where it has one."""

    tv: str
    grade: MathGrade


@dataclass(frozen=True, slots=True)
class CapRegisters:
    """At most this many registers a thread (multiple of 8)."""

    count: int


Step = (
    Split
    | Merge
    | Reorder
    | Swizzle
    | Parallelize
    | SetAllocationDomain
    | InlineAt
    | CircularBuffer
    | CacheInput
    | CacheOutput
    | SetMemory
    | SetCache
    | Approximate
    | CapRegisters
)

_NAMES: dict[str, type[Step]] = {
    "split": Split,
    "merge": Merge,
    "reorder": Reorder,
    "swizzle": Swizzle,
    "parallelize": Parallelize,
    "set_allocation_domain": SetAllocationDomain,
    "inline_at": InlineAt,
    "circular_buffer": CircularBuffer,
    "cache_input": CacheInput,
    "cache_output": CacheOutput,
    "set_memory": SetMemory,
    "cache_policy": SetCache,
    "approximate": Approximate,
    "cap_registers": CapRegisters,
}
_TYPES = {cls: name for name, cls in _NAMES.items()}
_ENUMS = {"type": ParallelType, "memory": MemoryType, "via": CopyVia, "policy": CachePolicy, "grade": MathGrade}


def step_to_json(step: Step) -> dict[str, Any]:
    """A step as a JSON object; `do` names it."""
    out: dict[str, Any] = {"do": _TYPES[type(step)]}
    for f in fields(step):
        value = getattr(step, f.name)
        if f.name == "transforms":
            value = [step_to_json(s) for s in value]
        elif isinstance(value, tuple):
            value = [list(v) if isinstance(v, tuple) else v for v in value]
        out[f.name] = value
    return out


def step_from_json(data: dict[str, Any]) -> Step:
    """The inverse of `step_to_json`. Raises ValueError naming an unknown step or a field that does not fit."""
    cls = _NAMES.get(str(data.get("do")))
    if cls is None:
        raise ValueError(f"unknown step {data.get('do')!r}; the steps are {', '.join(_NAMES)}")
    known = {f.name for f in fields(cls)}
    unknown = set(data) - known - {"do"}
    if unknown:
        raise ValueError(f"step {data['do']}: unknown fields {sorted(unknown)}; it takes {sorted(known)}")
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key == "do":
            continue
        if key in _ENUMS:
            value = _ENUMS[key](value)
        elif key == "transforms":
            value = tuple(step_from_json(v) for v in value)
        elif isinstance(value, list):
            value = tuple(tuple(v) if isinstance(v, list) else v for v in value)
        values[key] = value
    try:
        return cls(**values)
    except TypeError as e:
        raise ValueError(f"step {data['do']}: {e}") from None


def step_text(step: Step) -> str:
    """One line, as errors and `show` print it."""
    parts = [f"{f.name}={_text(getattr(step, f.name))}" for f in fields(step)]
    return f"{_TYPES[type(step)]}({', '.join(parts)})"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(step_text(v) if type(v) in _TYPES else _text(v) for v in value) + "]"
    return str(value)
