"""Input sets: the data that a kernel must be right on before it is timed (`random`) or served (all of them).

    random    ordinary values; the only set that candidates are checked and timed on
    large     hundreds to thousands: saturation, overflow to infinity in f16
    tiny      far below one: cancellation, results near the smallest numbers
    ties      few distinct values: equal operands of maximum and minimum, sums that lie between two numbers
    zeros     +0, -0 and +-1
    inf_nan   ordinary values with +inf, -inf and NaN among them

A fusion that only moves data has one set, `random` with every special value mixed in: its outputs must be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import MOVES, OpKind
from search.verify.arrays import Array, Arrays, storage_elems

RANDOM = "random"
ALL_SETS = (RANDOM, "large", "tiny", "ties", "zeros", "inf_nan")

_POSITIVE_DOMAIN = frozenset({OpKind.LOG, OpKind.SQRT, OpKind.RSQRT})
_SIGN_OF_ZERO_MATTERS = frozenset({OpKind.DIV, OpKind.RECIPROCAL, OpKind.RSQRT})
_SIGN_OF_ZERO_IS_FREE = frozenset({OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.RELU})
_SPECIAL = (math.inf, -math.inf, math.nan, 0.0, -0.0)
_TIES = (-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)


def only_moves(fusion: Fusion) -> bool:
    """Whether every op carries values unchanged, so that outputs must be exact."""
    return all(op.kind in MOVES for op in fusion.ops)


def input_sets(fusion: Fusion) -> tuple[str, ...]:
    """The names of the sets that a kernel for this fusion must pass, `random` first."""
    return (RANDOM,) if only_moves(fusion) else ALL_SETS


def make_inputs(fusion: Fusion, name: str, arrays: Arrays) -> list[Array]:
    """One flat storage an input, holes between strided elements included; the same values on every call.

    The values come from the fusion's binding, the set and the input's position. `name` is one of `input_sets(fusion)`.
    """
    make = _mixed if only_moves(fusion) else _MAKERS[name]
    storages = []
    for position, value in enumerate(fusion.value(n) for n in fusion.inputs):
        elems = storage_elems(value.shape, value.strides)
        seed = ALL_SETS.index(name) * 1000 + position
        storages.append(arrays.store(make(fusion, value.dtype, elems, seed, arrays), value.dtype))
    return storages


def _random(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    if _kinds(fusion) & _POSITIVE_DOMAIN:  # normal values would make half of the outputs NaN, which hides errors
        return arrays.uniform(elems, seed) * 1.9 + 0.1
    return arrays.normal(elems, seed)


def _large(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    if OpKind.EXP in _kinds(fusion):
        # exp leaves the range of f32, in which kernels compute, above 88; the f64 reference would go on.
        return (arrays.uniform(elems, seed) - 0.5) * 128.0
    return arrays.normal(elems, seed) * (300.0 if dtype is DType.F16 else 1000.0)


def _tiny(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    return arrays.normal(elems, seed) * (2.0**-12 if dtype is DType.F16 else 2.0**-20)


def _ties(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    return _pick(arrays, elems, seed, _TIES)


def _zeros(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    kinds = _kinds(fusion)
    if kinds & _SIGN_OF_ZERO_IS_FREE and kinds & _SIGN_OF_ZERO_MATTERS:
        # max(+0, -0) may be either zero, and 1/±0 tells which: no answer is wrong, so nothing can be compared.
        return _pick(arrays, elems, seed, (0.0, 1.0, -1.0))
    return _pick(arrays, elems, seed, (0.0, -0.0, 1.0, -1.0))


def _inf_nan(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    special = _pick(arrays, elems, seed + 500, _SPECIAL[:3])
    here = arrays.uniform(elems, seed + 600) < 0.125
    return arrays.xp.where(here, special, _random(fusion, dtype, elems, seed, arrays))


def _mixed(fusion: Fusion, dtype: DType, elems: int, seed: int, arrays: Arrays) -> Array:
    special = _pick(arrays, elems, seed + 500, _SPECIAL)
    here = arrays.uniform(elems, seed + 600) < 0.01
    return arrays.xp.where(here, special, arrays.normal(elems, seed))


def _pick(arrays: Arrays, elems: int, seed: int, values: tuple[float, ...]) -> Array:
    return arrays.pick(values, arrays.uniform(elems, seed) * len(values))


def _kinds(fusion: Fusion) -> frozenset[OpKind]:
    return frozenset(op.kind for op in fusion.ops)


_MAKERS: dict[str, Callable[[Fusion, DType, int, int, Arrays], Array]] = {
    RANDOM: _random,
    "large": _large,
    "tiny": _tiny,
    "ties": _ties,
    "zeros": _zeros,
    "inf_nan": _inf_nan,
}
