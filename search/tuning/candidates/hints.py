"""Knobs that choose hints: they change a kernel's time by little, and a prediction of it by nothing or next to nothing.

A space has every structure of a kernel as often as there are combinations of hints. To rank structures, each is looked
at once, with the hints that seldom lose; then the best of them are tried with other hints, one changed at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from search.space.knobs import Knob, KnobValue
from search.space.space import Rows, Space

SELDOM_LOSE: Mapping[str, tuple[KnobValue, ...]] = {
    "cache_load": ("default",),
    "cache_store": ("default",),
    "cache_broadcast": ("default",),
    "math": ("approx",),
}
"""Values by hint, the first that a space has. H200, pairs of kernels that differ in nothing else, medians: loads that
pass L1 3 to 5 % slower than plain ones (78 pairs), streaming ones of rows 0.1 % (100); streaming stores 0.1 % (83) to
1.5 % (135 of tiles); exact functions 0.5 % (60) to 2 % slower than approximate ones, coarse ones as fast."""


def settled(space: Space, point: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """The point with hints that seldom lose, as many of them as are legal with the rest."""
    plain = {knob.name: value for knob in space.knobs if (value := _value(knob)) is not None}
    whole = {**point, **plain}
    if whole == point or space.is_legal(whole):
        return whole
    changed = dict(point)
    for name, value in plain.items():
        if changed[name] != value and space.is_legal({**changed, name: value}):
            changed[name] = value
    return changed


def settled_rows(space: Space, rows: Rows) -> Rows:
    """`settled` of many points, and of those that become equal one."""
    plain = [(i, knob.position(value)) for i, knob in enumerate(space.knobs) if (value := _value(knob)) is not None]
    whole = rows.copy()
    for i, position in plain:
        whole[:, i] = position
    legal = space.are_legal(whole)
    found = np.where(legal[:, None], whole, rows)
    for i, position in plain:
        changed = found.copy()
        changed[:, i] = position
        is_taken = ~legal & (found[:, i] != position)
        is_taken[is_taken] = space.are_legal(changed[is_taken])
        found[is_taken] = changed[is_taken]
    _, first = np.unique(found, axis=0, return_index=True)
    return found[np.sort(first)]


def other_hints(space: Space, point: Mapping[str, KnobValue]) -> Iterator[dict[str, KnobValue]]:
    """Legal points that differ from this one in one hint, or in two where the one is legal with the other alone.

    H200, pairs of kernels that differ in nothing else: loads that pass L1, legal with streaming stores alone, take 5 %
    longer in most kernels (235 pairs), but 4 % less for a sum of 6 MB and 9 % less where parts of sectors are stored.
    """
    hints, is_legal = [knob for knob in space.knobs if is_hint(knob)], space.around(point)
    for knob in hints:
        for value in knob.values:
            if value == point[knob.name]:
                continue
            changed = {**point, knob.name: value}
            if is_legal(knob, value):
                yield changed
            else:
                beside = space.around(changed)
                yield from (pair for other in hints if other is not knob for pair in _changed(beside, changed, other))


def neighbours(space: Space, point: Mapping[str, KnobValue]) -> Iterator[dict[str, KnobValue]]:
    """Legal points one step away in one knob that is no hint: the next numbers up and down, any other word."""
    is_legal = space.around(point)
    for knob in space.knobs:
        if not is_hint(knob):
            here = knob.position(point[knob.name])
            near = knob.values[max(0, here - 1) : here + 2] if knob.is_numeric else knob.values
            yield from _changed(is_legal, point, knob, near)


def neighbouring_rows(space: Space, row: NDArray[np.int16], columns: Iterable[int]) -> Rows:
    """The points one step away in one of these knobs, those that are hints left out, legal or not."""
    found = []
    for i in columns:
        knob, here = space.knobs[i], int(row[i])
        last = len(knob.values) - 1
        near = range(max(0, here - 1), min(last, here + 1) + 1) if knob.is_numeric else range(last + 1)
        for position in () if is_hint(knob) else near:
            if position != here:
                changed = row.copy()
                changed[i] = position
                found.append(changed)
    return np.array(found, dtype=np.int16).reshape(len(found), len(row))


def _changed(
    is_legal: Callable[[Knob, KnobValue], bool],
    point: Mapping[str, KnobValue],
    knob: Knob,
    values: tuple[KnobValue, ...] | None = None,
) -> Iterator[dict[str, KnobValue]]:
    """The legal points with another value of a knob, by `Space.around` of the point."""
    for value in knob.values if values is None else values:
        if value != point[knob.name] and is_legal(knob, value):
            yield {**point, knob.name: value}


def is_hint(knob: Knob) -> bool:
    """Whether it chooses a hint."""
    return _hint(knob) in SELDOM_LOSE


def _hint(knob: Knob) -> str:
    """The knob's name in the space of its own launch: those of several launches bear its number."""
    return knob.name.rpartition(".")[2]


def _value(knob: Knob) -> KnobValue | None:
    return next((value for value in SELDOM_LOSE.get(_hint(knob), ()) if value in knob.values), None)
