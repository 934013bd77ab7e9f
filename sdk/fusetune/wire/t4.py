"""Trials as T4, the results format that Kernel Tuner and other tuners share (github.com/odgaard/TuningSchema).

What is written says of each trial its configuration, how it ended and what was measured; a reader needs nothing of
ours. What is read may be of any tuner: configurations, and times in one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = "1.0.0"
SCHEDULER = "scheduler"
"""The parameter that names the scheduler of a configuration: our spaces have one for each."""

Setting = str | int | float | bool

_ENDS = {
    "measured": "correct",
    "verified": "correct",
    "duplicate": "correct",
    "illegal": "constraints",
    "unsupported": "constraints",
    "compile_failed": "compile",
    "compile_timed_out": "timeout",
    "timed_out": "timeout",
    "crashed": "runtime",
    "wrong_result": "correctness",
}
"""T4's word for how each trial ended; one without a verdict is no result."""

_MS = 1e3
"""Microseconds in a millisecond."""

_IN_MS = {
    "ms": 1.0,
    "milliseconds": 1.0,
    "miliseconds": 1.0,
    "s": 1e3,
    "seconds": 1e3,
    "us": 1e-3,
    "microseconds": 1e-3,
    "ns": 1e-6,
}
"""Units by name; one is spelled as published tables spell it."""


class T4Error(ValueError):
    """A document that is no T4: `where`, what was found and what was expected."""

    def __init__(self, where: str, found: object, expected: str) -> None:
        super().__init__(where, found, expected)
        self.where = where
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.where}: found {self.found!r:.80}, expected {self.expected}."


@dataclass(frozen=True, slots=True)
class T4Result:
    """One configuration: its time in microseconds, None where it has none, and T4's word for how it ended."""

    configuration: Mapping[str, Setting]
    us: float | None
    invalidity: str


def written(trials: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Trials, as a journal and the service keep them, as a T4 document; those without a verdict are left out."""
    results = [_result(trial) for trial in trials if trial["state"] in _ENDS]
    return {"schema_version": SCHEMA, "metadata": dict(metadata or {}), "results": results}


def _result(trial: Mapping[str, Any]) -> dict[str, Any]:
    seconds, us = trial.get("seconds") or {}, trial.get("median_us")
    end = _ENDS[trial["state"]]
    return {
        "configuration": {SCHEDULER: trial["scheduler"], **trial["point"]},
        "objectives": ["time"],
        "times": {
            "compilation_time": seconds.get("compile", 0.0) * 1e3,
            "framework": seconds.get("generate", 0.0) * 1e3,
            "validation": seconds.get("verify", 0.0) * 1e3,
            "benchmark": seconds.get("time", 0.0) * 1e3,
            "runtimes": [sample / _MS for sample in trial.get("samples_us") or ()],
        },
        "invalidity": end,
        "correctness": int(end == "correct"),
        "measurements": [] if us is None else [{"name": "time", "value": us / _MS, "unit": "ms"}],
    }


def read(document: Any) -> list[T4Result]:
    """The results of a T4 document, of any tuner. Raises T4Error for what is none."""
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        raise T4Error("the document", document, "an object with a list of results")
    return [_read(result, f"results[{n}]") for n, result in enumerate(document["results"])]


def _read(result: Any, where: str) -> T4Result:
    configuration = result.get("configuration") if isinstance(result, dict) else None
    if not isinstance(configuration, dict) or not configuration:
        raise T4Error(f"{where}.configuration", configuration, "an object of parameters")
    for name, value in configuration.items():
        if not isinstance(value, str | int | float | bool):
            raise T4Error(f"{where}.configuration.{name}", value, "a number, a text or a boolean")
    invalidity = result.get("invalidity", "correct")
    if invalidity != "correct":
        return T4Result(configuration, None, str(invalidity))
    return T4Result(configuration, _time_us(result, where), "correct")


def _time_us(result: Mapping[str, Any], where: str) -> float | None:
    """The first objective among the measurements. A unit that is not named is milliseconds, Kernel Tuner's."""
    objective = next(iter(result.get("objectives") or ["time"]))
    for n, measured in enumerate(result.get("measurements") or []):
        if measured.get("name") != objective:
            continue
        value, unit = measured.get("value"), measured.get("unit") or "ms"
        if type(value) not in (int, float) or not value > 0:
            raise T4Error(f"{where}.measurements[{n}].value", value, "a positive number")
        if unit not in _IN_MS:
            raise T4Error(f"{where}.measurements[{n}].unit", unit, f"one of {', '.join(_IN_MS)}")
        return float(value) * _IN_MS[unit] * _MS
    return None
