"""Schedule steps as values. Axis numbers refer to the tensor's loop domain at the moment of the step.

The first group is the explicit-schedule vocabulary (docs/contracts.md, "Schedule"); `Propagate`, `ParallelizeLike`
and `InlineSelectedAt` say of many tensors what is said of one; `CacheInput`, `CacheOutput`, `Recompute`, `Online`,
`SetCache`, `Straddle`, `Multicast`, `Park` and `CapRegisters` say what a finished schedule needs besides.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, CachePolicy, CopyVia
from compiler.ir.tensor import CircularBuffer as BufferOptions


@dataclass(frozen=True, slots=True)
class Split:
    """[n] -> [ceil(n/factor), factor] (inner) or [factor, ceil(n/factor)] (outer).

    A factor that is a `Size` is known at launch only; a trace is of one binding and stores its value there.
    """

    tv: str
    axis: int
    factor: int | Size
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
class Resize:
    """[n] -> [left + n + right]: places are added, or cut where negative."""

    tv: str
    axis: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Shift:
    """[n] -> [n + modulus]: every row is moved by its phase, (start + sum of factors * index of the axes `by`) mod
    modulus.

    With the strides of a global tensor as `factors`, and the element at which its first row begins as `start`, places
    of the new axis that are multiples of the modulus are addresses that are multiples of it, though rows begin at any
    address. `by` are positions of loop axes. An axis that is summed over keeps its elements: the places beside them
    take no part.
    """

    tv: str
    axis: int
    by: tuple[int, ...]
    factors: tuple[int, ...]
    modulus: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """[n] -> [ceil((n + before) / step), size]: tiles of `size` elements, one every `step`, the first `before` elements
    before the axis' own first.

    They overlap: each block loads the halo of its tile itself. A run of `step` elements that its readers moved by less
    than `before` + 1 places (`Shift`) lies in one tile, of a shared or register tensor.
    """

    tv: str
    axis: int
    step: int
    size: int
    before: int


Transform = Split | Merge | Reorder | Swizzle | Resize | Shift | Window
"""What can be done to a list of axes."""


@dataclass(frozen=True, slots=True)
class Parallelize:
    """Says how a loop axis is carried out."""

    tv: str
    axis: int
    type: ParallelType


@dataclass(frozen=True, slots=True)
class Propagate:
    """Repeats the transforms of the reference `tv` on the axes of the tensors `to` that its axes are, and puts their
    loops in its order (nvFuser, propagation of transforms).

    [a, b] -> [a/4, b, 4] of `tv` makes the same of [a, b], and [a/4, 4] of a tensor [a] that b was folded for. What a
    tensor has of these transforms stays, and so does an axis that is transformed otherwise; loops that are none of the
    reference's come last.
    """

    tv: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParallelizeLike:
    """Gives the loops of the tensors `to` the parallel types of the loops of the reference `tv` that they are (nvFuser,
    parallelizeAllLike). Loops that are none of the reference's keep theirs."""

    tv: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetAllocationDomain:
    """Fixes the memory order to these loop axes (in this order), then applies `transforms` to that list only.

    `strides`: one for each axis after the transforms, None where contiguity gives it; empty for all contiguous.
    `contiguity`: one flag for each axis after the transforms, None on broadcast and reduction axes; or one flag for all
    axes that hold data.
    """

    tv: str
    axes: tuple[int, ...]
    transforms: tuple[Transform, ...] = ()
    strides: tuple[int | None, ...] = ()
    contiguity: tuple[bool | None, ...] | bool = True


@dataclass(frozen=True, slots=True)
class TmemDimsep:
    """Allocation axes left of `position` are lanes of tensor memory, the rest columns; negative counts from the end."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class InlineAt:
    """Computes the tensor inside the first `position` loops of its consumers."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class InlineSelectedAt:
    """Computes each of the tensors inside the first `position` loops of its consumers, or as many as it shares with all
    of them (nvFuser, inlining: inlineSelectedAt)."""

    tensors: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class InlineMost:
    """Inlines every tensor as deep as its own axes and its consumers allow."""


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Inlines every tensor on the way from `tv` to `consumer` at the consumer's `position`."""

    tv: str
    consumer: str
    position: int


@dataclass(frozen=True, slots=True)
class ComputeWith:
    """Computes the tensor inside the first `position` loops of its consumers, though it is allocated further out."""

    tv: str
    position: int


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """Keeps `stages` copies of a tensor and fills `prefetch` of them ahead; prefetch < 0 counts from stages.

    `on`, `registers` and `slice_position` belong to a buffer that warps of their own fill (`kind`).
    """

    tv: str
    stages: int
    prefetch: int = -1
    kind: BufferKind = BufferKind.PIPELINED
    on: ParallelType | None = None
    registers: tuple[int, int] | None = None
    slice_position: int | None = None
    war_mbarrier: bool = False

    @property
    def options(self) -> BufferOptions:
        """What the tensor has after the step, its prefetch counted from 0."""
        prefetch = self.prefetch + self.stages if self.prefetch < 0 else self.prefetch
        own = (self.kind, self.on, self.registers, self.slice_position, self.war_mbarrier)
        return BufferOptions(self.stages, prefetch, *own)


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
class Recompute:
    """Gives `consumer` a copy `out` of `tensor`, made by an operator of its own from the same operands.

    A value that two passes over a row read is then computed, or loaded, twice instead of kept. `others`: consumers that
    read the same copy.
    """

    tensor: str
    consumer: str
    out: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Online:
    """Folds `sums` along with the maximum `tensor`, in one pass instead of one after it.

    [k: m = amax x], [k: s = sum exp(x - m)] -> [k: m = amax x; s = s * exp(m before - m) + sum exp(x - m)]: s is scaled
    once in each turn of the loops that both share. What a thread folds in one turn is the chunk.
    """

    tensor: str
    sums: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetCache:
    """Cache hint of the global access by which `tv` is loaded or stored."""

    tv: str
    policy: CachePolicy


@dataclass(frozen=True, slots=True)
class Straddle:
    """Words of the copy `tv` from global memory begin at any element: a thread loads the two aligned words that one of
    its own straddles, and shifts them (CUB, batched memory copies)."""

    tv: str


@dataclass(frozen=True, slots=True)
class Multicast:
    """The bulk copy into the shared tensor `tv` is made once for all blocks of a cluster: the first of them asks for
    it, and it comes to all (PTX ISA, cp.async.bulk: multicast::cluster).

    The axis of `tv` on Cluster is a broadcast one: the blocks read the same tile.
    """

    tv: str


@dataclass(frozen=True, slots=True)
class Park:
    """Elements of the register tensor `tv` from `first` on are kept in shared memory, each thread's at its own places.

    A row that fills the registers of a block leaves no room for a second one: in both memories there is room for more.
    What is parked comes past the registers (PTX ISA, cp.async), and is read vector by vector where it is used.
    """

    tv: str
    first: int


@dataclass(frozen=True, slots=True)
class CapRegisters:
    """At most this many registers a thread: a multiple of 8, from 16 to 248.

    Registers are allocated to a warp in units of 256 (cuda_occupancy.h), 8 a thread; a thread has at most 255.
    """

    count: int


Step = (
    Split
    | Merge
    | Reorder
    | Swizzle
    | Resize
    | Shift
    | Window
    | Parallelize
    | Propagate
    | ParallelizeLike
    | SetAllocationDomain
    | TmemDimsep
    | InlineAt
    | InlineSelectedAt
    | InlineMost
    | ComputeAt
    | ComputeWith
    | CircularBuffer
    | CacheInput
    | CacheOutput
    | SetMemory
    | Recompute
    | Online
    | SetCache
    | Straddle
    | Multicast
    | Park
    | CapRegisters
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


class MalformedStep(ValueError):
    """JSON that is no step: `where` (a path from the step's parent), what was `found` and `expected`."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(where, found, expected)
        self.where = where
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


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
