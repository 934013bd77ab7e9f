"""Outputs that say by themselves whether they can be right: whatever was rounded, one value has one set of bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Law(Enum):
    """What holds of the outputs of a witness.

    HIT     in every row some element equals the row's own maximum, or minimum: [whether one does, whether one is NaN]
    SAME    a value equals itself worked out again: [whether elements differ that are not NaN]
    TWICE   a value and itself worked out again, both stored, have the same bits: [value, value again]
            (as SAME, where nothing in how the two are read tells them apart: see `readers`)
    INDEX   the index chosen in a row is that of the first element that equals the maximum: [value, index]
    """

    HIT = "hit"
    SAME = "same"
    TWICE = "twice"
    INDEX = "index"


@dataclass(frozen=True)
class Witness:
    """A law of the value `of`, and the positions of its outputs. `dim`: along which an index was chosen."""

    law: Law
    of: str
    outputs: tuple[int, ...]
    dim: int = 0


def violations(witnesses: Sequence[Witness], outputs: Sequence[Array]) -> list[str]:
    """What no rounding explains, a sentence for each witness that does not hold. 16-bit floats come as f32."""
    found = []
    for witness in witnesses:
        told = _TOLD[witness.law](witness, *(outputs[n] for n in witness.outputs))
        if told:
            found.append(f"{witness.law.value} of {witness.of} (outputs {witness.outputs}): {told}")
    return found


def _hit(witness: Witness, hit: Array, is_nan: Array) -> str:
    missed = (hit != 1) & (is_nan == 0)
    return f"{_of(missed)} rows have no element that equals their own extremum" if missed.any() else ""


def _same(witness: Witness, differs: Array) -> str:
    return f"{_of(differs != 0)} flags say that it differs from itself" if differs.any() else ""


def _twice(witness: Witness, value: Array, again: Array) -> str:
    differs = (value.view(f"u{value.itemsize}") != again.view(f"u{again.itemsize}")) & ~(
        np.isnan(value) & np.isnan(again)
    )
    if not differs.any():
        return ""
    first = np.unravel_index(int(np.argmax(differs)), differs.shape)
    return f"{_of(differs)} elements differ, the first {value[first]!r} and {again[first]!r}"


def _index(witness: Witness, value: Array, index: Array) -> str:
    rows = np.moveaxis(value, witness.dim, -1).reshape(-1, value.shape[witness.dim])
    chosen = index.reshape(-1)
    plain = ~np.isnan(rows).any(axis=1)
    outside = plain & ((chosen < 0) | (chosen >= rows.shape[1]))
    if outside.any():
        return f"{_of(outside)} rows have no winner: the index is {chosen[outside][0]} of {rows.shape[1]}"
    first = (rows == rows.max(axis=1, keepdims=True)).argmax(axis=1)
    wrong = plain & (chosen != first)
    return f"{_of(wrong)} rows have another winner than their largest element" if wrong.any() else ""


_TOLD: dict[Law, Callable[..., str]] = {Law.HIT: _hit, Law.SAME: _same, Law.TWICE: _twice, Law.INDEX: _index}


def _of(flags: Array) -> str:
    return f"{int(flags.sum())} of {flags.size}"
