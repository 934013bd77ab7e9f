"""The conditions of a measurement (`Timing.conditions`) as a reader wants them: named, rounded, with units."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_THROTTLES = (
    (0x1, "idle"),
    (0x2, "clocks set by the operator"),
    (0x4, "power limit"),
    (0x8, "hardware slowdown"),
    (0x10, "synchronised with other GPUs"),
    (0x20, "temperature, by the driver"),
    (0x40, "temperature, by the hardware"),
    (0x80, "power brake"),
    (0x100, "clocks of the display"),
)
"""Bits of NVML's mask of reasons why clocks are held down (nvml.h, nvmlClocksEventReason…)."""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _unit(unit: str) -> Callable[[Any], str]:
    return lambda value: f"{value:,.0f} {unit}"


def _yes_or_no(value: Any) -> str:
    return "yes, the first were too far apart" if value else "no"


def _throttles(mask: Any) -> str:
    reasons = [name for bit, name in _THROTTLES if mask & bit]
    if unknown := mask & ~sum(bit for bit, _ in _THROTTLES):
        reasons.append(f"{unknown:#x}")
    return ", ".join(reasons) or "nothing"


_SHOWN: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "calls_per_sample": ("Calls in a sample", _plain),
    "buffer_sets": ("Rotating buffer sets", _plain),
    "retaken": ("Samples taken twice", _yes_or_no),
    "sm_clock_mhz": ("SM clock", _unit("MHz")),
    "memory_clock_mhz": ("Memory clock", _unit("MHz")),
    "power_w": ("Power", _unit("W")),
    "temperature_c": ("Temperature", _unit("°C")),
    "throttle_reasons": ("Clocks held down by", _throttles),
    "other_processes": ("Other processes on the GPU", _plain),
    "driver": ("Driver", _plain),
    "torch": ("torch", _plain),
    "nvml": ("Clocks and power", lambda why: f"not read: {why}"),
}
"""What `search.measure` notes down, in the order of a page: label, and how a value is written."""


def condition_lines(conditions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each condition; one that is not known, or not of its usual type, as it stands."""
    known = [name for name in _SHOWN if name in conditions]
    others = sorted(conditions.keys() - _SHOWN.keys())
    return [_line(name, conditions[name]) for name in (*known, *others)]


def _line(name: str, value: Any) -> tuple[str, str]:
    label, write = _SHOWN.get(name, (name.replace("_", " "), _plain))
    try:
        return label, write(value)
    except (TypeError, ValueError):
        return label, _plain(value)
