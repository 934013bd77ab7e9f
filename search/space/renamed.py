"""Knobs and values that had other names before, which journals, prepared folders, locks, packs and rows of a database
keep.

Who reads a point asks here; what is written has the names of today.
"""

from __future__ import annotations

from collections.abc import Mapping

from search.space.knobs import KnobValue

Setting = tuple[str, KnobValue]
"""A knob and its value."""

RENAMED: Mapping[str, Mapping[str, Mapping[Setting, Setting]]] = {
    "0.1.0": {
        "tile2d": {
            ("store", "register"): ("store", "vector"),
            ("operands", "at_use"): ("operands", "late"),
            ("operands", "ahead"): ("operands", "early"),
            ("rows_begin", "vector"): ("row_span", "vector"),
            ("rows_begin", "sector"): ("row_span", "sector"),
            ("rows_begin", "line"): ("row_span", "line"),
        },
        "column": {
            ("registers", 0): ("resident", 0),
            ("registers", 32): ("resident", 2048),
            ("registers", 40): ("resident", 1536),
            ("registers", 64): ("resident", 1024),
        },
    },
}
"""By the version that renamed them, the oldest first, and the scheduler that had them. No scheduler has an old setting
any more, so whose a point is need not be known, and of several launches is not."""


def point_today(point: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """A point under the names of today; of several launches, knobs are called `0.store`, `1.store`, …"""
    found: dict[str, KnobValue] = {}
    for name, value in point.items():
        launch, dot, knob = name.rpartition(".")
        for schedulers in RENAMED.values():
            for settings in schedulers.values():
                knob, value = settings.get((knob, value), (knob, value))
        found[f"{launch}{dot}{knob}"] = value
    return found


def setting_before(scheduler: str, name: str, value: KnobValue) -> Setting:
    """What a setting of a scheduler was called by the first version: a hash of these outlives a change of names."""
    for schedulers in reversed(tuple(RENAMED.values())):
        old_of = {new: old for old, new in schedulers.get(scheduler, {}).items()}
        name, value = old_of.get((name, value), (name, value))
    return name, value
