"""Knobs and values that had other names before, which journals, prepared folders and rows of a database keep.

Who reads a point asks here; what is written has the names of today.
"""

from __future__ import annotations

from collections.abc import Mapping

from search.space.knobs import KnobValue

Setting = tuple[str, KnobValue]
"""A knob and its value."""

RENAMED: Mapping[str, Mapping[Setting, Setting]] = {
    "0.1.0": {
        ("store", "register"): ("store", "vector"),
        ("operands", "at_use"): ("operands", "late"),
        ("operands", "ahead"): ("operands", "early"),
        ("rows_begin", "vector"): ("row_span", "vector"),
        ("rows_begin", "sector"): ("row_span", "sector"),
        ("rows_begin", "line"): ("row_span", "line"),
    },
}
"""By the version that renamed them, the oldest first. No scheduler has an old setting any more."""

SCHEDULERS = frozenset({"tile2d"})
"""Those that had them."""


def point_today(point: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """A point under the names of today; of several launches, knobs are called `0.store`, `1.store`, …"""
    found: dict[str, KnobValue] = {}
    for name, value in point.items():
        launch, dot, knob = name.rpartition(".")
        for settings in RENAMED.values():
            knob, value = settings.get((knob, value), (knob, value))
        found[f"{launch}{dot}{knob}"] = value
    return found


def setting_before(scheduler: str, name: str, value: KnobValue) -> Setting:
    """What a setting of a scheduler was called by the first version: a hash of these outlives a change of names."""
    if scheduler not in SCHEDULERS:
        return name, value
    for settings in reversed(tuple(RENAMED.values())):
        name, value = {new: old for old, new in settings.items()}.get((name, value), (name, value))
    return name, value
