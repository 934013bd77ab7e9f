"""A schedule for people: what is done alike to several tensors in a row is said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_DEFAULTS: Mapping[str, Any] = {
    "inner": True,
    "other": None,
    "via": "plain",
    "strides": [],
    "transforms": [],
    "others": [],
}
"""Fields that say nothing where they have these values (compiler/schedule/steps.py)."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Steps taken one after the other on each of `tensors`."""

    tensors: tuple[str, ...]
    steps: tuple[str, ...]


def steps_of(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The steps in a trace's JSON. Those of several launches come one after the other, with what each reads and writes
    as a step before its own."""
    steps: list[Mapping[str, Any]] = list(trace.get("steps", []))
    for number, launch in enumerate(trace.get("launches", [])):
        places = {"reads": launch["reads"], "writes": launch["writes"]}
        steps += [{"do": "launch", "tensor": f"launch {number}", **places}, *launch["steps"]]
    return steps


def knobs_by_launch(point: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The settings of a point by launch: those of several launches are called `0.vector`, `1.vector`, …, and what holds
    for all of them has no number."""
    shared = "all launches" if any("." in name for name in point) else ""
    found: dict[str, dict[str, Any]] = {}
    for name, value in point.items():
        number, dot, knob = name.partition(".")
        launch, knob = (f"launch {number}", knob) if dot else (shared, name)
        found.setdefault(launch, {})[knob] = value
    return list(found.items())


def parts(steps: Sequence[Mapping[str, Any]]) -> tuple[TextPart, ...]:
    """The steps of a trace's JSON in their order, neighbours that differ in the tensor alone put together."""
    runs = [(tensor, tuple(map(_text, run))) for tensor, run in groupby(steps, key=_tensor)]
    return tuple(
        TextPart(tuple(tensor for tensor, _ in alike), done) for done, alike in groupby(runs, key=lambda run: run[1])
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
