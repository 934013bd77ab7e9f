"""Input sets: the data that a kernel must be right on before it is timed (`random`) or served (all of them).

    random    ordinary values; the only set that candidates are checked and timed on. Of products over dimensions
              these lie near one, and integers are odd: others have only zeros and infinities to tell
    large     hundreds to thousands: saturation, overflow to infinity in f16
    tiny      far below one: cancellation, results near the smallest numbers
    ties      few distinct values: equal operands of maximum and minimum, sums that lie between two numbers
    zeros     +0, -0 and +-1
    inf_nan   ordinary values with +inf, -inf and NaN among them, few enough that some rows of a reduction have none
    near      what decisions turn on: few values and the numbers of comparisons, many a unit of the last place beside
              them; values halfway between two numbers of a shorter float; zeros and subnormal numbers
    positive  for reductions: of one sign; what folds a zero of its own into a maximum or minimum
    negative  is seen
    lone      for maxima, minima and comparisons that are folded: one element that decides in most runs of a fold, or
              NaN; where few results are folded, several sets, so that it stands in many places
    deciding  for comparisons that are folded: all alike, and one that decides (search/proof/verify/truths.py)
    peaks     for reductions: nearly all the same, few elements that count, among them the last along each dimension;
              where everything counts alike, one element of many could be left out unseen

Integers and bools have sets of the same names (search/proof/verify/integers.py); integers that decide where something
is read are in range in all of them. f64 values have more bits than f32 holds. A fusion that only moves data has one
set, `random` with every special value mixed in: its outputs must be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.dtypes import FP8, DType
from compiler.ir.fusion import Fusion, Literal, Value
from compiler.ir.index_ranges import index_ranges
from compiler.ir.ops import CARRIES, COMPARE, CONTRACTIONS, EXTREMES, FOLDS, SCANS, OpKind, Zero
from compiler.reference import FLOAT_FORMATS
from search.proof.verify.arrays import Array, Arrays
from search.proof.verify.integers import (
    bools,
    compared,
    indices,
    integers,
    is_folded_to_few,
    is_greatest,
    lone_elements,
    lone_turn,
    moved_integers,
)
from search.proof.verify.truths import DECIDING, deciding_sets, deciding_values

RANDOM = "random"
NEAR = "near"
POSITIVE, NEGATIVE = "positive", "negative"
PEAKS = "peaks"
ALL_SETS = (RANDOM, "large", "tiny", "ties", "zeros", "inf_nan", NEAR)
"""Of every fusion that computes."""

LONE = tuple(f"lone{number}" for number in range(64))
FOLDED_SETS = (POSITIVE, NEGATIVE, PEAKS)
"""Of reductions, beside the others."""

_FEWEST_LONE = 8
_LONE_ELEMS = 2**30
"""Elements that all sets with a lone one have together, where that lets there be more than the fewest."""

_FINE = frozenset({RANDOM, "large", "tiny"})
_PEAKS_IN_A_FOLD = 24
_LARGEST_COMPARED = 1000.0
_POWERS_IN_A_PRODUCT = 64.0
"""Of two. Those of factors above one come to 0.4 of this, the mean of a normal value's positive part."""

_SPECIAL = (math.inf, -math.inf, math.nan, 0.0, -0.0, 2.0**-130, -(2.0**-24))
_HALFWAY = (2.0**-8, 2.0**-11)
"""What lies halfway between 1 and the next bf16, and the next f16; fusions with floats of 8 bits have theirs too."""

_LARGE = {DType.F16: 300.0, DType.F8E4M3: 100.0}
_LARGE_F8E5M2 = 30000.0
_TINY = {DType.F16: 2.0**-12, DType.F8E5M2: 2.0**-12, DType.F8E4M3: 2.0**-6}

_TIES = (-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)


def only_moves(fusion: Fusion) -> bool:
    """Whether every op carries values unchanged, so that outputs must be exact."""
    return all(op.kind in CARRIES for op in fusion.ops)


def input_sets(fusion: Fusion) -> tuple[str, ...]:
    """The names of the sets that a kernel for this fusion must pass, `random` first."""
    if only_moves(fusion):
        return (RANDOM,)
    if _reduction_length(fusion) <= 1:
        return ALL_SETS
    if not any(op.kind in EXTREMES for op in fusion.ops):
        return (*ALL_SETS, *FOLDED_SETS)
    few = is_folded_to_few(fusion)
    return (*ALL_SETS, *FOLDED_SETS, *LONE[: _lone_sets(fusion) if few else 2], *deciding_sets(fusion, few))


def _lone_sets(fusion: Fusion) -> int:
    """Sets with a lone element where few results are folded: the more, the less there is to make and to work out. What
    a warp of a few, or a lane of 32, has is left out unseen if none of them lies there."""
    elems = max(fusion.value(name).elems for name in fusion.inputs)
    return max(_FEWEST_LONE, min(len(LONE), _LONE_ELEMS // max(1, elems)))


def make_inputs(fusion: Fusion, name: str, arrays: Arrays, length: int | None = None) -> list[Array]:
    """One flat storage an input, holes between strided elements included; the same values on every call.

    The values come from the fusion's binding, the set and the input's position. `name` is one of `input_sets(fusion)`.
    `length`: elements of each storage, where those are not the fusion's own; of the `random` set only.
    """
    assert length is None or name == RANDOM, "other sets know the last element of a row"
    ranges = index_ranges(fusion)
    storages = []
    for position, value in enumerate(fusion.value(n) for n in fusion.inputs):
        elems = length or value.storage_elems
        seed = (*ALL_SETS, *FOLDED_SETS, *LONE, *DECIDING).index(name) * 1000 + position
        if value.name in ranges and value.dtype is not DType.BOOL:
            made = indices(*ranges[value.name], name, seed, elems, arrays)
        else:
            made = _values(fusion, value, name, elems, seed, arrays)
        storages.append(arrays.store(made, value.dtype))
    return storages


def _values(fusion: Fusion, value: Value, name: str, elems: int, seed: int, arrays: Arrays) -> Array:
    moves = only_moves(fusion)
    if name in DECIDING:
        return deciding_values(fusion, value, name, elems, arrays)
    if name == PEAKS and (value.dtype.is_float or not compared(fusion, value.name).extent):
        return _peaks(fusion, value, elems, seed, arrays)
    if value.dtype is DType.BOOL:
        # Few that are false are to a minimum what peaks are to a maximum.
        if name == "large":
            return ~_is_last(value, elems, arrays)
        return bools(name, elems, seed, arrays, _reduction_length(fusion))
    if not value.dtype.is_float:
        if moves:
            return moved_integers(value.dtype, elems, seed, arrays)
        return integers(fusion, value.name, name, seed, elems, arrays, _reduction_length(fusion))
    made = (_mixed if moves else _MAKERS.get(name, _lone))(fusion, value.dtype, elems, seed, arrays)
    return _with_f64_bits(made, elems, seed, arrays) if value.dtype is DType.F64 and name in _FINE else made


def _with_f64_bits(values: Array, elems: int, seed: int, arrays: Arrays) -> Array:
    """f32 values and as much more as only f64 tells from them: arithmetic in f32 then gives other results."""
    xp = arrays.xp
    wide = xp.asarray(values, dtype=xp.float64)
    share = xp.asarray(arrays.uniform(elems, seed + 800), dtype=xp.float64)
    more = wide * (1.0 + share * 2.0**-26)
    return xp.where(xp.isfinite(wide), more, wide)


def _random(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    if OpKind.PROD in _kinds(fusion):
        return _factors(fusion, elems, seed, arrays)
    if _needs_positive(fusion):  # normal values would make half of the outputs NaN, which hides errors
        return arrays.uniform(elems, seed) * 1.9 + 0.1
    return arrays.normal(elems, seed)


def _factors(fusion: Fusion, elems: int, seed: int, arrays: Arrays) -> Array:
    """Sizes so near one that no product of as many as are folded leaves the range of f32."""
    spread = min(1.0, _POWERS_IN_A_PRODUCT / _reduction_length(fusion))
    sizes = 2.0 ** (arrays.normal(elems, seed) * spread)
    return sizes if _needs_positive(fusion) else sizes * _pick(arrays, elems, seed + 400, (1.0, -1.0))


def _large(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    if _kinds(fusion) & {OpKind.EXP, OpKind.EXP2, OpKind.EXPM1}:
        # exp leaves the range of f32, in which kernels compute, above 88; the f64 reference would go on.
        return (arrays.uniform(elems, seed) - 0.5) * 128.0
    return arrays.normal(elems, seed) * (_LARGE_F8E5M2 if _overflows_fp8(fusion, dtype) else _LARGE.get(dtype, 1000.0))


def _tiny(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    return arrays.normal(elems, seed) * _TINY.get(dtype, 2.0**-20)


def _near(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    xp = arrays.xp
    numbers = tuple(dict.fromkeys((*_TIES, *_compared_numbers(fusion))))
    base = abs(_pick(arrays, elems, seed, numbers)) if _needs_positive(fusion) else _pick(arrays, elems, seed, numbers)
    unit = 2.0 ** -FLOAT_FORMATS[dtype if dtype is not DType.F64 else DType.F32].precision * 2.0
    # A unit beside, halfway between two numbers of a shorter float, and a unit beside that.
    halfway = _HALFWAY + tuple(2.0 ** -FLOAT_FORMATS[short].precision for short in sorted(_fp8_of(fusion)))
    beside = _pick(arrays, elems, seed + 500, (0.0, 0.0, unit, -unit, *(h + u for h in halfway for u in (0.0, unit))))
    made = base + base * beside
    if _needs_positive(fusion):
        return made
    small = _pick(arrays, elems, seed + 600, (0.0, -0.0, 2.0**-130, -(2.0**-24), 2.0**-149, 2.0**-15))
    return xp.where(arrays.uniform(elems, seed + 700) < 0.125, small, made)


def _positive(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    return arrays.uniform(elems, seed) * 1.9 + 0.1


def _negative(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    made = _positive(fusion, dtype, elems, seed, arrays)
    return made * 0.5 if _needs_positive(fusion) else -made


def _lone(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    # The seeds of sets lie a thousand apart: great and small ones in turns, with some NaN in two of four. An infinity
    # shows what a maximum of a softmax has left out: without it the others become zero, with it NaN.
    number = seed // 1000
    quiet = arrays.uniform(elems, seed) * 0.5 + (0.5 if _needs_positive(fusion) else -0.25)
    least = (0.25, 0.0) if _needs_positive(fusion) else (-4.0, -math.inf)
    top, end = (4.0, math.inf) if is_greatest(fusion, seed) else least
    choices = ((top,), (top,), (top, end, math.nan), (math.nan,) if is_folded_to_few(fusion) else (top, end, math.nan))
    loud = _pick(arrays, elems, seed + 500, choices[number % 4])
    here = lone_elements(elems, _reduction_length(fusion), seed + 600, arrays, lone_turn(fusion, seed))
    return arrays.xp.where(here, loud, quiet)


def _ties(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    return _pick(arrays, elems, seed, _TIES)


def _zeros(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    kinds = _kinds(fusion)
    if {Zero.OPEN, Zero.TOLD} <= {kind.row.zero for kind in kinds - FOLDS}:
        # max(+0, -0) may be either zero, and 1/±0 tells which: no answer is wrong, so nothing can be compared.
        return _pick(arrays, elems, seed, (0.0, 1.0, -1.0))
    return _pick(arrays, elems, seed, (0.0, -0.0, 1.0, -1.0))


def _inf_nan(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    special = _pick(arrays, elems, seed + 500, _SPECIAL[:3])
    here = arrays.uniform(elems, seed + 600) < min(0.125, 0.5 / _reduction_length(fusion))
    return arrays.xp.where(here, special, _random(fusion, dtype, elems, seed, arrays))


def _mixed(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    special = _pick(arrays, elems, seed + 500, _SPECIAL)
    here = arrays.uniform(elems, seed + 600) < 0.1
    return arrays.xp.where(here, special, arrays.normal(elems, seed))


def _peaks(fusion: Fusion, value: Value, elems: int, seed: int, arrays: Arrays) -> Array:
    """Few enough in a reduction that each is more than bf16 may be off, 2^-7 of the result; the last is extreme."""
    last = _is_last(value, elems, arrays)
    if value.dtype is DType.BOOL:
        return last
    background, tops, top = _peak_values(fusion, value.dtype)
    made = _pick(arrays, elems, seed + 1, tops)
    here = arrays.uniform(elems, seed) < min(0.25, _PEAKS_IN_A_FOLD / _reduction_length(fusion))
    made = arrays.xp.where(here, made, arrays.xp.full_like(made, background))
    return arrays.xp.where(last, arrays.xp.full_like(made, top), made)


def _peak_values(fusion: Fusion, dtype: DType) -> tuple[float, tuple[float, ...], float]:
    """(nearly all elements, peaks, the last along a dimension)."""
    kinds = _kinds(fusion)
    if OpKind.PROD in kinds:
        return 1.0, (1.5, -1.0, 0.5, -2.0) if dtype.is_float else (3.0, 5.0, 7.0), 3.0
    is_least = OpKind.AMIN in kinds and OpKind.AMAX not in kinds
    top = -3.0 if is_least else 3.0
    if dtype is DType.U8:  # no peak is below zero
        return (3.0, (1.0, 2.0), 0.0) if is_least else (0.0, (1.0, 2.0), top)
    if not dtype.is_float:
        return 0.0, (1.0, -1.0, 2.0, -2.0), top
    if kinds & {OpKind.EXP, OpKind.EXP2}:
        return -40.0, (0.0, 0.5, 1.0), 2.0
    if _needs_positive(fusion):
        return 2.0**-10, (1.0, 1.5, 2.0), 3.0
    return 0.0, (1.0, -1.0, 1.5, -2.0), top


def _is_last(value: Value, elems: int, arrays: Arrays) -> Array:
    """Which elements of a storage are the last along a dimension."""
    xp, here = arrays.xp, arrays.empty(elems, DType.BOOL)
    here[:] = False
    shares_places = value.elems > elems or 0 in value.strides  # torch does not write through such a view
    places = xp.cumsum(xp.asarray(~here, dtype=xp.int64), 0) - 1 if shares_places else here
    view = arrays.strided(places, value.shape, value.strides)
    for dim, extent in enumerate(value.shape):
        if extent > 1:
            last = view[(slice(None),) * dim + (slice(-1, None),)]
            if shares_places:
                here[last.reshape(-1)] = True
            else:
                last[...] = True
    return here


def _pick(arrays: Arrays, elems: int, seed: int, values: tuple[float, ...]) -> Array:
    return arrays.pick(values, arrays.uniform(elems, seed) * len(values))


def _needs_positive(fusion: Fusion) -> bool:
    """Whether a logarithm or root is taken of what an input decides the sign of."""
    pending = [x for op in fusion.ops if op.kind.row.is_of_positive for x in op.tensor_inputs]
    seen = set(pending)
    while pending:
        op = fusion.producer(pending.pop())
        if op is None:
            return True
        if op.kind.row.is_never_negative or (op.kind is OpKind.MUL and len(set(op.inputs)) == 1):
            continue
        pending += [x for x in dict.fromkeys(op.tensor_inputs) if x not in seen]
        seen.update(op.tensor_inputs)
    return False


def _reduction_length(fusion: Fusion) -> int:
    """The most elements that one result of a reduction is made of; 1 without reductions."""
    lengths = dict.fromkeys(fusion.inputs, 1)
    for op in fusion.ops:
        longest = max((lengths[x] for x in op.tensor_inputs), default=1)
        if op.kind in FOLDS | SCANS:
            operand = fusion.value(op.tensor_inputs[0]).shape
            longest = max(longest, math.prod(operand[d] for d in op.dims))
        if op.kind in CONTRACTIONS:
            longest = max(longest, fusion.value(op.tensor_inputs[0]).shape[-1])
        lengths[op.output] = longest
    return max(lengths.values(), default=1)


def _compared_numbers(fusion: Fusion) -> tuple[float, ...]:
    """The numbers that floats are compared with, near enough to others that arithmetic on them stays in range."""
    numbers = (
        float(x.value)
        for op in fusion.ops
        if op.kind in COMPARE and fusion.value(op.tensor_inputs[0]).dtype.is_float
        for x in op.inputs
        if isinstance(x, Literal)
    )
    return tuple(x for x in numbers if math.isfinite(x) and abs(x) < _LARGEST_COMPARED)


def _fp8_of(fusion: Fusion) -> frozenset[DType]:
    """The floats of 8 bits that the fusion has values of."""
    return FP8.intersection(value.dtype for value in fusion.values)


def _overflows_fp8(fusion: Fusion, dtype: DType) -> bool:
    """Whether an input of this type may be cast to f8e5m2, whose largest number is 57344."""
    return DType.F8E5M2 in _fp8_of(fusion) and dtype in (DType.F64, DType.F32, DType.BF16)


def _kinds(fusion: Fusion) -> frozenset[OpKind]:
    return frozenset(op.kind for op in fusion.ops)


_MAKERS: dict[str, Callable[[Fusion, DType, int, int, Arrays], Array]] = {
    RANDOM: _random,
    "large": _large,
    "tiny": _tiny,
    "ties": _ties,
    "zeros": _zeros,
    "inf_nan": _inf_nan,
    NEAR: _near,
    POSITIVE: _positive,
    NEGATIVE: _negative,
}
