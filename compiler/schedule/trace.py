"""A schedule as a replayable list of steps: of one kernel, or of several launches in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.schedule.apply import apply
from compiler.schedule.reference import propagated_steps
from compiler.schedule.start import start
from compiler.schedule.step_forms import step_from_json, step_text, step_to_json
from compiler.schedule.steps import Propagate, Step, Transform


@dataclass(frozen=True)
class ScheduleTrace:
    """A bound fusion and the steps that schedule it. Replaying gives the same scheduled fusion on any machine."""

    fusion: Fusion
    steps: tuple[Step, ...]

    @classmethod
    def that_made(cls, sf: ScheduledFusion, steps: Iterable[Step]) -> ScheduleTrace:
        """The trace of steps that led from the start to `sf`: who has applied them spares others the replay."""
        trace = cls(sf.fusion, tuple(steps))
        trace.__dict__["scheduled"] = sf
        return trace

    @cached_property
    def scheduled(self) -> ScheduledFusion:
        """What replaying gives, once. Raises InvalidStep or Unsupported."""
        return self.replay()

    def replay(self) -> ScheduledFusion:
        """The scheduled fusion. Raises InvalidStep or Unsupported."""
        sf = start(self.fusion)
        for step in self.steps:
            sf = apply(sf, step)
        return sf

    def transforms_of(self, name: str) -> list[Step]:
        """The transforms of one tensor's loops, with those that propagations repeat on it. Raises InvalidStep or
        Unsupported."""
        sf, found = start(self.fusion), list[Step]()
        for step in self.steps:
            if isinstance(step, Propagate) and name in step.to:
                found += propagated_steps(sf, step, name, apply)
            elif isinstance(step, Transform) and step.tv == name:
                found.append(step)
            sf = apply(sf, step)
        return found

    def steps_json(self) -> list[dict[str, Any]]:
        return [step_to_json(s) for s in self.steps]

    @property
    def hash(self) -> str:
        """sha256 over fingerprint, binding, the forms of functions, and steps."""
        forms = [self.fusion.grades] if self.fusion.grades else []
        return content_hash([self.fusion.fingerprint, self.fusion.binding_hash, *forms, self.steps_json()])

    def __str__(self) -> str:
        return "\n".join(step_text(s) for s in self.steps)


@dataclass(frozen=True)
class LaunchTrace:
    """One launch of several: a fusion of its own with its steps, and where its tensors are.

    `reads` has a name for each input of the launch's fusion, `writes` one for each output: that of an input or output
    of the whole fusion, or of a scratch value, `s0`, `s1`, …, in the order in which they are first written.
    """

    trace: ScheduleTrace
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class ProgramTrace:
    """A bound fusion as several launches, in order: each reads what the fusion is given or what earlier ones wrote."""

    fusion: Fusion
    launches: tuple[LaunchTrace, ...]

    @property
    def hash(self) -> str:
        """sha256 over fingerprint, binding, and each launch's steps and places."""
        parts = [[one.trace.hash, one.reads, one.writes] for one in self.launches]
        return content_hash([self.fusion.fingerprint, self.fusion.binding_hash, parts])

    def __str__(self) -> str:
        texts = (
            f"launch {number}: {', '.join(one.reads)} -> {', '.join(one.writes)}\n{one.trace}"
            for number, one in enumerate(self.launches)
        )
        return "\n\n".join(texts)


Trace = ScheduleTrace | ProgramTrace
"""How a fusion is carried out: by one kernel, or by several."""


def launches_of(trace: Trace) -> tuple[LaunchTrace, ...]:
    """The launches in order. That of a single kernel reads the fusion's inputs and writes its outputs."""
    if isinstance(trace, ProgramTrace):
        return trace.launches
    return (LaunchTrace(trace, trace.fusion.inputs, trace.fusion.outputs),)


def steps_from_json(data: list[Any], where: str = "steps") -> tuple[Step, ...]:
    """Steps from JSON. Raises MalformedStep with the place of what does not fit, below `where`."""
    return tuple(step_from_json(item, f"{where}[{i}]") for i, item in enumerate(data))


def content_hash(content: object) -> str:
    """The sha256 of JSON, written in one way."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
