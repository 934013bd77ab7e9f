"""Input sets for comparisons that are folded to one truth value: `any`, `all`, "are these equal".

Of values drawn at large hardly a row has one element alone on the other side of what it is compared with, so a kernel
that leaves an element out, or goes on from the row before, would make the same of it. Here all elements lie alike, but
for one in most folds. For each way to compare, and for the least and the greatest of its answers, one of four patterns
has that element decide:

    pattern      all others         the lone one       decides
    0            equal              greater            any of > and !=, all of ==, <=
    1            equal              less               any of < and !=, all of ==, >=
    2            greater            equal              any of == and <=, all of > and !=
    3            less               equal              any of == and >=, all of < and !=
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Value
from compiler.ir.ops import COMPARE, EXTREMES
from search.proof.verify.arrays import Array, Arrays
from search.proof.verify.integers import origin

_TURNS = 3
DECIDING = tuple(f"deciding{number}" for number in range(2 * _TURNS * 4))
"""The four patterns, by turns with the lone elements in other places. In the second half other inputs have them: two
that are compared with one another are not alone in the same set."""

_PATTERNS = ((0.0, 4.0), (0.0, -4.0), (1.0, 0.0), (-1.0, 0.0))
"""How far all others, and the lone one, are from what they are compared with."""

_LARGEST_COMPARED = 1000.0


@dataclass(frozen=True, slots=True)
class _Fold:
    """Elements of a fold of truth values, at least one (an extreme of none is refused when a document is read), and
    whether they lie apart, or as neighbours do."""

    length: int
    lie_apart: bool


def deciding_sets(fusion: Fusion, is_folded_to_few: bool) -> tuple[str, ...]:
    """Those that the fusion needs: where there are many results, the first turn has lone elements in all places."""
    is_compared = any(op.kind in COMPARE and not _is_bool(fusion, op.tensor_inputs[0]) for op in fusion.ops)
    if not is_compared or not _folds(fusion):
        return ()
    halves = 2 if sum(not _is_bool(fusion, name) for name in fusion.inputs) > 1 else 1
    turns = _TURNS if is_folded_to_few else 1
    firsts = [(half * _TURNS + turn) * 4 for half in range(halves) for turn in range(turns)]
    return tuple(name for first in firsts for name in DECIDING[first : first + 4])


def deciding_values(fusion: Fusion, value: Value, name: str, elems: int, arrays: Arrays) -> Array:
    """Floats, 64-bit integers or bools of one of these sets."""
    if value.dtype is DType.BOOL:  # a mask hides nothing
        return arrays.uniform(elems, 0) < 1.0
    half, rest = divmod(DECIDING.index(name), _TURNS * 4)
    turn, pattern = divmod(rest, 4)
    position, numbers = fusion.inputs.index(value.name), _compared(fusion, value.name)
    centre = numbers[turn % len(numbers)]
    others, lone = (centre + off for off in _PATTERNS[pattern])
    if half != position % 2:  # is what those of the other inputs are compared with
        others = lone = centre
    like = arrays.uniform(elems, 0)
    if not value.dtype.is_float:
        low, high = value.dtype.integer_range
        others, lone = (int(min(max(x, low), high)) for x in (others, lone))
        like = arrays.integers(0, 0, elems, 0)
    lengths = _folds(fusion)
    fold = _Fold(
        max(x.length for x in lengths), all(x.lie_apart for x in lengths) or (turn == 1 and lengths[0].lie_apart)
    )
    here = _lone(value, elems, fold, turn, 9000 + position, arrays)
    xp = arrays.xp
    return xp.where(here, xp.full_like(like, lone), xp.full_like(like, others))


def _folds(fusion: Fusion) -> list[_Fold]:
    """The folds of truth values, those that lie apart first."""
    found = []
    for op in fusion.ops:
        if op.kind in EXTREMES and _is_bool(fusion, op.tensor_inputs[0]):
            shape = fusion.value(op.tensor_inputs[0]).shape
            found.append(_Fold(math.prod(shape[dim] for dim in op.dims), len(shape) - 1 not in op.dims))
    return sorted(found, key=lambda fold: not fold.lie_apart)


def _lone(value: Value, elems: int, fold: _Fold, turn: int, seed: int, arrays: Arrays) -> Array:
    """Which elements of a storage lie alone: at most one in each fold, and often the last."""
    if value.elems > elems or 0 in value.strides:  # elements that share a place
        return _lone_in_folds(elems, fold, turn, seed, arrays)
    here = arrays.empty(elems, DType.BOOL)
    here[:] = False
    dense = _lone_in_folds(value.elems, fold, turn, seed, arrays)
    arrays.strided(here, value.shape, value.strides)[...] = dense.reshape(value.shape)
    return here


def _lone_in_folds(elems: int, fold: _Fold, turn: int, seed: int, arrays: Arrays) -> Array:
    """`_lone` of elements without holes between them."""
    xp = arrays.xp
    here = arrays.empty(elems, DType.BOOL)
    here[:] = False
    length = min(fold.length, elems)
    folds = elems // length
    within = xp.asarray(xp.floor(arrays.uniform(folds, seed) * length), dtype=xp.int64)
    order = xp.cumsum(xp.full_like(within, 1), 0) - 1
    place = (_places(order) + 2 * turn) % 5
    within = xp.where(place % 3 == 0, xp.full_like(within, length - 1), within)
    lone = within * folds + order if fold.lie_apart else order * length + within
    here[lone[(place % 3 == 0) | (place == 2)]] = True
    return here


def _places(order: Array) -> Array:
    """A number for each fold. Modulo five they say where the lone element stands: 0 and 3 at the end, 2 anywhere, 1 and
    4 nowhere. However far apart the folds lie that a block makes one after the other, some that have one are followed
    by some that have none: no distance maps the numbers to themselves."""
    places, power = order, 5
    while power <= len(order):
        places = places + order // power
        power *= 5
    return places


def _compared(fusion: Fusion, name: str) -> tuple[float, ...]:
    """The numbers that an input is compared with, as it is or moved or cast; else those of any comparison, or 0."""
    own: list[float] = []
    others: list[float] = []
    for op in fusion.ops:
        if op.kind not in COMPARE:
            continue
        numbers = [float(x.value) for x in op.inputs if isinstance(x, Literal)]
        numbers = [x for x in numbers if math.isfinite(x) and abs(x) < _LARGEST_COMPARED]
        is_own = any(isinstance(x, str) and origin(fusion, x) == name for x in op.inputs)
        (own if is_own else others).extend(numbers)
    return tuple(dict.fromkeys(own or others)) or (0.0,)


def _is_bool(fusion: Fusion, name: str) -> bool:
    return fusion.value(name).dtype is DType.BOOL
