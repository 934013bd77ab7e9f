"""A schedule for people: what is done alike to several tensors in a row is said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_DEFAULTS: Mapping[str, Any] = {"inner": True, "other": None, "via": "plain", "strides": [], "transforms": []}
"""Fields that say nothing where they have these values (compiler/schedule/steps.py)."""


@dataclass(frozen=True, slots=True)
class Part:
    """Steps taken one after the other on each of `tensors`."""

    tensors: tuple[str, ...]
    steps: tuple[str, ...]


def parts(steps: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """The steps of a trace's JSON in their order, neighbours that differ in the tensor alone put together."""
    runs = [(tensor, tuple(map(_text, run))) for tensor, run in groupby(steps, key=_tensor)]
    return tuple(
        Part(tuple(tensor for tensor, _ in alike), done) for done, alike in groupby(runs, key=lambda run: run[1])
    )


def step_lines(steps: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Every step on a line of its own."""
    return tuple(f"{_tensor(step)}: {_text(step)}" if _tensor(step) else _text(step) for step in steps)


def _tensor(step: Mapping[str, Any]) -> str:
    return str(step.get("tv") or step.get("tensor") or "")


def _text(step: Mapping[str, Any]) -> str:
    settings = {name: value for name, value in step.items() if name not in ("do", "tv", "tensor")}
    said = (f"{name} {_value(v)}" for name, v in settings.items() if name not in _DEFAULTS or v != _DEFAULTS[name])
    return f"{step.get('do')} {', '.join(said)}".rstrip()


def _value(value: Any) -> str:
    match value:
        case {"do": _}:
            return f"[{_text(value)}]"
        case list():
            return "(" + " ".join(_value(one) for one in value) + ")"
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case _:
            return str(value)
