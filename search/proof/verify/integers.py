"""Integers and bools of the input sets.

A tensor that is compared with positions (an iota) holds indices, and one that is compared with a number is asked for
it: values drawn at large would hardly ever be equal, and a kernel with all masks wrong would pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Number, Op
from compiler.ir.ops import COMPARE, EXTREMES, MOVES, OpKind
from search.proof.verify.arrays import Array, Arrays

_GOLDEN = (5**0.5 - 1) / 2
"""Steps of this share of a line fall evenly on it, however many they are (Knuth, volume 3, section 6.4, theorem S)."""

FEW_RESULTS = 64
"""Elements of a result of which each has a deciding element of its own, in one set or another."""

_ORDINARY = 100
_SPANS = {
    "tiny": (-1, 1),
    "ties": (-3, 3),
    "zeros": (-1, 1),
    "near": (-2, 2),
    "positive": (1, 100),
    "negative": (-100, -1),
}
_MOST_PLACES = 2**40
"""More are no index of a tensor (fusetune.wire.infer, MAX_TENSOR_BYTES)."""

_FEW_PLACES = ("ties", "zeros")
"""Sets in which the same is read again and again."""

_ODD = ("random", "large", "positive", "negative")
"""Sets of odd integers, where products are folded."""

_TRUE = {"random": 0.5, "tiny": 0.1, "ties": 0.5, "zeros": 0.0, "inf_nan": 1.0, "near": 0.5}
"""How many bools are true in each set: all of them and none among these."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What an input is held against: positions up to `extent` (0: none), and numbers."""

    extent: int
    numbers: tuple[int, ...]


def bools(set_name: str, elems: int, seed: int, arrays: Arrays, length: int = 1) -> Array:
    """Truth values; their share depends on the set. `length`: of the longest reduction, of which the results of
    `positive` and `negative` are half of one kind: one lone element decides, here or there, or none does."""
    if set_name in ("positive", "negative") or set_name.startswith("lone"):
        here = lone_elements(elems, length, seed, arrays) & (arrays.uniform(elems, seed + 1) < 0.7)
        return here if set_name == "negative" or (set_name != "positive" and seed // 1000 % 2) else ~here
    return arrays.uniform(elems, seed) < _TRUE[set_name]


def lone_elements(elems: int, length: int, seed: int, arrays: Arrays, turn: int = 0) -> Array:
    """A flag for each element of a storage: true of one in every run of `length` neighbours, here or there. Those of
    sets of different `turn` lie spread over the run."""
    here = arrays.empty(elems, DType.BOOL)
    here[:] = False
    xp = arrays.xp
    share = arrays.uniform(max(1, elems // length), seed if turn == 0 else 0) + turn * _GOLDEN
    within = (share - xp.floor(share)) * min(length, elems)
    within = xp.asarray(xp.floor(within), dtype=xp.int64)
    here[xp.cumsum(xp.full_like(within, length), 0) - length + within] = True
    return here


def is_greatest(fusion: Fusion, seed: int) -> bool:
    """Whether the lone elements of a set are greater than all others: of every second one, but where inputs as they are
    are folded to minima alone, or to maxima alone; there the others would decide nothing."""
    folds = [op for op in fusion.ops if op.kind in EXTREMES]
    kinds = {op.kind for op in folds}
    if len(kinds) == 1 and all(_carried(fusion, op.tensor_inputs[0]) for op in folds):
        return kinds == {OpKind.AMAX}
    return bool(seed // 1000 % 2)


def lone_turn(fusion: Fusion, seed: int) -> int:
    """Which of the places of a fold lone elements take, where so few results are folded that each set shows one."""
    return seed // 1000 if is_folded_to_few(fusion) else 0


def is_folded_to_few(fusion: Fusion) -> bool:
    """Whether an extreme has so few results that one element of each, drawn at large, may miss what it is to show."""
    results = [fusion.value(op.output).elems for op in fusion.ops if op.kind in EXTREMES]
    return min(results, default=FEW_RESULTS) < FEW_RESULTS


def _carried(fusion: Fusion, name: str) -> bool:
    """Whether a value is an input's, moved or cast between floats: greater stays greater."""
    for op in _up(fusion, name):
        floats = all(fusion.value(x).dtype.is_float for x in (op.output, *op.tensor_inputs))
        if op.kind not in MOVES and not (op.kind is OpKind.CAST and floats):
            return False
    return True


def moved_integers(dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    """Any bits: for fusions that only move them."""
    return arrays.integers(*dtype.integer_range, elems, seed)


def integers(fusion: Fusion, name: str, set_name: str, seed: int, elems: int, arrays: Arrays, length: int = 1) -> Array:
    """64-bit integers that the input's dtype holds. `length`: of the longest reduction.

    random: up to 100 either side of zero, or indices; large: any; inf_nan: the ends of the range among random ones.
    Unsigned ones are as far apart, from zero up.
    """
    lowest, highest = fusion.value(name).dtype.integer_range
    found = compared(fusion, name)
    low, high = _SPANS.get(set_name, (-_ORDINARY, _ORDINARY))
    if low < lowest:
        low, high = lowest, high - low
    if found.extent:
        low, high = 0, min(found.extent - 1, highest)
    elif set_name == "large":
        low, high = lowest, highest
    values = arrays.integers(low, high, elems, seed)
    xp = arrays.xp
    if not found.extent and set_name in _ODD and any(op.kind is OpKind.PROD for op in fusion.ops):
        values = values | 1  # of even numbers 64 make 0, whatever the others are
    if set_name.startswith("lone") and not found.extent:
        here = lone_elements(elems, length, seed + 600, arrays, lone_turn(fusion, seed))
        values = xp.where(here, xp.full_like(values, high if is_greatest(fusion, seed) else low), values // 4)
    strange = (*found.numbers, -1, found.extent) if found.extent else found.numbers
    if set_name == "inf_nan":
        strange = (*strange, lowest, highest)
    for turn, number in enumerate(n for n in strange if lowest <= n <= highest):
        here = arrays.uniform(elems, seed + 700 + turn) < 1.0 / (4 + 2 * len(strange))
        values = xp.where(here, xp.full_like(values, number), values)
    return values


def indices(low: int, high: int, set_name: str, seed: int, elems: int, arrays: Arrays) -> Array:
    """Integers that decide where something is read, between two ends: the first place, the last one, some more than
    once. Where a kernel bounds an index itself the range is all of its type, and numbers around zero are drawn too."""
    xp = arrays.xp
    if high - low > _MOST_PLACES:
        span = 2**63 - 1 if set_name == "large" else _ORDINARY
        low, high = max(low, -span), min(high, span)
    spread = min(high - low, 2) if set_name in _FEW_PLACES else high - low
    values = arrays.integers(low, low + spread, elems, seed)
    if set_name == "random":  # is timed, so that ends which many ask for would make what is read too little
        values[-1] = values[elems // 3]
        values[elems // 2], values[0] = low, high
        return values
    for turn, end in enumerate((low, high)):
        here = arrays.uniform(elems, seed + 700 + turn) < 1.0 / 8
        values = xp.where(here, xp.full_like(values, end), values)
    return values


def compared(fusion: Fusion, name: str) -> Compared:
    """What input `name` is compared with, seen through moves and casts."""
    extents, numbers = [0], []
    for op in fusion.ops:
        if op.kind not in COMPARE:
            continue
        sides = [x if isinstance(x, Number) else origin(fusion, x) for x in op.inputs]
        if name not in sides:
            continue
        for side in sides:
            if isinstance(side, Literal):
                numbers.append(int(side.value))
            elif isinstance(side, Op):
                extents.append(fusion.value(side.output).shape[side.dims[0]])
    return Compared(max(extents), tuple(dict.fromkeys(numbers)))


def origin(fusion: Fusion, name: str) -> str | Op | None:
    """The input, or the iota, that a value is a move or a cast of; None for another value."""
    for op in _up(fusion, name):
        if op.kind is OpKind.IOTA:
            return op
        if op.kind not in MOVES | {OpKind.CAST}:
            return None
        name = op.tensor_inputs[0]
    return name


def _up(fusion: Fusion, name: str) -> Iterator[Op]:
    op = fusion.producer(name)
    while op is not None:
        yield op
        op = fusion.producer(op.tensor_inputs[0]) if op.tensor_inputs else None
