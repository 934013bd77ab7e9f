"""What earlier tunings know of a fusion, or of one like it: a search begins with their best points.

Whoever keeps results says which are of kin (`History`); here it is said which of them are worth a trial, and what they
are in the spaces at hand. A point of another size may be illegal here, or name values that this space has not: it
becomes the nearest legal point.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import inf, log2
from typing import Protocol

import numpy as np

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpClass
from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate

MOST_STARTS = 4
"""Points of earlier tunings that are tried first: kernels of one fusion at other sizes mostly agree in what matters."""


class Kin(IntEnum):
    """How a result is related to a tuning, the nearest first."""

    SIZES = 0
    """The same fusion at other sizes, on such a card."""

    CARD = 1
    """The same fusion on another card."""

    STRUCTURE = 2
    """The same structure with other operators or element types, on such a card."""


@dataclass(frozen=True, slots=True)
class Past:
    """The best point of an earlier tuning. `apart`: how far its sizes are, in doublings, and of equally far ones how
    many are smaller."""

    candidate: Candidate
    kin: Kin
    apart: tuple[float, int] = (inf, 0)
    name: str = ""


class History(Protocol):
    """Results of earlier tunings: a service's database, or folders of results."""

    def alike(self, fusion: Fusion, card: Card) -> Sequence[Past]:
        """What won in tunings of kin, measured, in any order."""
        ...


def starts(
    pasts: Sequence[Past], spaces: Mapping[str, Space], at_most: int = MOST_STARTS
) -> list[tuple[Past, Candidate]]:
    """Up to so many distinct legal candidates, those of the nearest kin and sizes first, each with what it is of."""
    found: dict[Candidate, Past] = {}
    nearest: dict[Candidate, Past] = {}  # looking for a legal point takes milliseconds, and many sizes share theirs
    for past in sorted(pasts, key=lambda one: (one.kin, one.apart)):
        nearest.setdefault(past.candidate, past)
    for past in nearest.values():
        if len(found) == at_most:
            break
        space = spaces.get(past.candidate.scheduler)
        near = None if space is None else nearest_of(space, past.candidate.knobs)
        if near is not None:
            found.setdefault(Candidate.of(past.candidate.scheduler, near), past)
    return [(past, candidate) for candidate, past in found.items()]


def begun_from(warm: Sequence[tuple[Past, Candidate]]) -> str:
    """In words, what a search begins with."""
    names = {Kin.SIZES: "of other sizes", Kin.CARD: "of other cards", Kin.STRUCTURE: "of fusions of its structure"}
    counts = [(sum(past.kin is kin for past, _ in warm), words) for kin, words in names.items()]
    return f"Begun from {', '.join(f'{count} {words}' for count, words in counts if count)}."


def nearest_of(space: Space, point: Mapping[str, KnobValue]) -> dict[str, KnobValue] | None:
    """The legal point nearest to one of a space like it, of a large space one that is near; None where they have too
    little in common."""
    shared = [knob for knob in space.knobs if knob.name in point]
    if 2 * len(shared) < len(space.knobs):
        return None
    wanted = {knob.name: _nearest_value(knob, point.get(knob.name)) for knob in space.knobs}
    if space.is_legal(wanted):
        return wanted
    return space.nearest_legal(wanted) if space.points <= _SEARCHED else _one_near(space, wanted)


_SEARCHED, _DRAWN = 1 << 20, 2048
"""Up to so many points the nearest is looked for, which in a transpose's 500 million took 40 s; of more, so many legal
ones are drawn."""


def _one_near(space: Space, wanted: Mapping[str, KnobValue]) -> dict[str, KnobValue] | None:
    """The nearest of some legal points, with as many of the wanted values as are legal together with the rest of it."""
    rows = space.draw(_DRAWN, seed=0)
    if not len(rows):
        return None
    steps = np.abs(rows.astype(np.int64) - np.array(space.positions(wanted))).sum(axis=1)
    found = space.at(tuple(rows[int(np.argmin(steps))].tolist()))
    is_nearer = True
    while is_nearer:
        is_nearer = False
        for name, value in wanted.items():
            if found[name] != value and space.is_legal(nearer := {**found, name: value}):
                found, is_nearer = nearer, True
    return found


def _nearest_value(knob: Knob, value: KnobValue | None) -> KnobValue:
    """The value itself where the knob has it, else the number nearest to it, else the knob's first."""
    same = [one for one in knob.values if one == value and type(one) is type(value)]
    if same or not knob.is_numeric or not isinstance(value, int | float):
        return same[0] if same else knob.values[0]
    return min(knob.values, key=lambda one: abs(float(one) - value))


def apart(sizes: Sequence[int], others: Sequence[int]) -> tuple[float, int]:
    """How far other sizes are from these, in doublings, and of equally far ones how many are smaller."""
    if len(sizes) != len(others):
        return inf, 0
    ratios = [max(other, 1) / max(size, 1) for size, other in zip(sizes, others, strict=True)]
    return sum(abs(log2(ratio)) for ratio in ratios), sum(ratio < 1 for ratio in ratios)


def sizes_of(fusion: Fusion) -> list[int]:
    """The sizes of all inputs, one after the other."""
    return [extent for name in fusion.inputs for extent in fusion.value(name).shape]


_POINTWISE = frozenset(
    {OpClass.CAST, OpClass.UNARY, OpClass.BINARY, OpClass.TERNARY, OpClass.COMPARISON, OpClass.SELECTION}
)


def same_at_other_sizes(fusion: Fusion) -> str:
    """A hash of all of a fusion but its sizes."""
    ops = [[op.kind.value, _operands(op), op.output, op.dims, op.step, op.is_term] for op in fusion.ops]
    types = [[value.name, value.dtype.value, len(value.shape)] for value in fusion.values]
    return _hashed([ops, types, fusion.outputs, fusion.aliases, fusion.is_list])


def structure_of(fusion: Fusion) -> str:
    """A hash of how data flows: which operators fold, which move elements and along what; not which operators they are,
    nor the types and sizes of elements."""
    ops = [
        ["pointwise" if op.kind.row.cls in _POINTWISE else op.kind.row.cls.value, op.tensor_inputs, op.output, op.dims]
        for op in fusion.ops
    ]
    return _hashed([ops, fusion.outputs, fusion.is_list])


def _operands(op: Op) -> list[str | float]:
    return [x.value if isinstance(x, Literal) else x if isinstance(x, str) else x.name for x in op.inputs]


def _hashed(told: object) -> str:
    return hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest()[:16]
