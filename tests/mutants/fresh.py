"""Inputs by which it is judged whether a mutant is wrong: 32 sets of many kinds, none of them the verifier's.

They are made here, from seeds of their own, so that a set that the verifier lacks is missed by the verifier alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Value
from compiler.ir.ops import COMPARE, OpKind
from search.proof.verify.arrays import NumpyArrays
from tests.mutants.machine.numbers import NUMPY, Array

SETS = 32
_SEED = 0x5EED_F00D
_ARRAYS = NumpyArrays()
_POSITIVE = frozenset({OpKind.LOG, OpKind.SQRT, OpKind.RSQRT})
_GRID = np.arange(-8, 9) / 4.0

Rng = np.random.Generator


def fresh(fusion: Fusion) -> list[Array]:
    """By input, the flat storages of all sets: [set, element]."""
    found = []
    for position, value in enumerate(map(fusion.value, fusion.inputs)):
        one = [_storage(fusion, value, number, position) for number in range(SETS)]
        found.append(np.stack(one))
    return found


def _storage(fusion: Fusion, value: Value, number: int, position: int) -> Array:
    rng = np.random.default_rng((_SEED, number, position))
    elems = value.storage_elems
    if value.dtype is DType.BOOL:
        share = (0.5, 0.05, 0.95, 1.0, 0.0, 0.5, 0.2, 0.8)[number % 8]
        return (rng.random(elems) < share).astype(np.uint8)
    if not value.dtype.is_float:
        return _integers(fusion, value, number, rng, elems)
    made = _FLOATS[number % len(_FLOATS)](rng, elems, value.dtype)
    if number % 2 and any(op.kind in _POSITIVE for op in fusion.ops):
        made = np.abs(made)
    if _becomes_integers(fusion):
        made = np.where(np.isfinite(made), made, 1.0)
    return np.asarray(_ARRAYS.store(made if value.dtype is DType.F64 else made.astype(np.float32), value.dtype))


def _becomes_integers(fusion: Fusion) -> bool:
    """True if floats are cast to integers: of NaN and infinities that is undefined (docs/contracts.md, "Fusion")."""
    return any(
        op.kind is OpKind.CAST
        and fusion.value(op.tensor_inputs[0]).dtype.is_float
        and not fusion.value(op.output).dtype.is_float
        and fusion.value(op.output).dtype is not DType.BOOL
        for op in fusion.ops
    )


def _integers(fusion: Fusion, value: Value, number: int, rng: Rng, elems: int) -> Array:
    """Small ones, ones of a hundred, any at all; those that are compared hit what they are compared with."""
    ends = np.iinfo(NUMPY[value.dtype])
    reach = (3, 100, None, 12)[number % 4]
    sizes = chain.from_iterable(v.shape for v in fusion.values)
    beside = max((n for n in sizes), default=0) if any(op.kind in COMPARE for op in fusion.ops) else 0
    if beside and number % 4 != 2:
        made = rng.integers(-1, min(beside, ends.max), elems, endpoint=True)
    elif reach is None:
        made = rng.integers(ends.min, ends.max, elems, dtype=np.int64, endpoint=True)
    else:
        made = rng.integers(-reach, reach, elems, endpoint=True)
    return np.asarray(made, NUMPY[value.dtype])


def _normal(rng: Rng, elems: int, dtype: DType) -> Array:
    return rng.standard_normal(elems)


def _uniform(rng: Rng, elems: int, dtype: DType) -> Array:
    return np.asarray(rng.uniform(0.05, 3.0, elems))


def _of_all_sizes(rng: Rng, elems: int, dtype: DType) -> Array:
    return np.asarray(np.exp2(rng.uniform(-10, 6, elems)) * rng.choice((-1.0, 1.0), elems))


def _on_a_grid(rng: Rng, elems: int, dtype: DType) -> Array:
    return rng.choice(_GRID, elems)


def _near_ties(rng: Rng, elems: int, dtype: DType) -> Array:
    """Few values, and their neighbours in the type."""
    unit = {DType.F64: 2.0**-52, DType.F32: 2.0**-23, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}[dtype]
    return np.asarray(rng.choice((-1.25, -0.75, 1.0, 1.5, 2.0), elems) * (1.0 + unit * rng.integers(-1, 2, elems)))


def _zeros(rng: Rng, elems: int, dtype: DType) -> Array:
    return np.where(rng.random(elems) < 0.5, rng.choice((0.0, -0.0), elems), rng.standard_normal(elems))


def _specials(rng: Rng, elems: int, dtype: DType) -> Array:
    """Few enough that most folds have none."""
    strange = rng.choice((np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**-130, 40.0, -40.0), elems)
    return np.where(rng.random(elems) < 1.0 / 128, strange, rng.standard_normal(elems))


def _peaks(rng: Rng, elems: int, dtype: DType) -> Array:
    """Most of a fold is in few of its elements; signs lean to one side."""
    large = np.where(rng.random(elems) < 0.02, rng.uniform(4, 8, elems), 0.01)
    return np.asarray(large * rng.standard_normal(elems) - 0.25)


_FLOATS: tuple[Callable[[Rng, int, DType], Array], ...] = (
    _normal,
    _uniform,
    _of_all_sizes,
    _on_a_grid,
    _near_ties,
    _zeros,
    _specials,
    _peaks,
)
