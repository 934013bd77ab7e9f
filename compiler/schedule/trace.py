"""A schedule as a replayable list of steps."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from compiler.schedule.steps import Step, step_from_json, step_text, step_to_json


@dataclass(frozen=True)
class ScheduleTrace:
    """A bound fusion and the steps that schedule it. Replaying gives the same scheduled fusion on any machine."""

    fusion: Fusion
    steps: tuple[Step, ...]

    def replay(self) -> ScheduledFusion:
        """The scheduled fusion. Raises InvalidStep or Unsupported."""
        sf = start(self.fusion)
        for step in self.steps:
            sf = apply(sf, step)
        return sf

    def steps_json(self) -> list[dict[str, Any]]:
        return [step_to_json(s) for s in self.steps]

    @property
    def hash(self) -> str:
        """sha256 over fingerprint, binding and steps."""
        text = json.dumps([self.fusion.fingerprint, self.fusion.binding_hash, self.steps_json()], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        return "\n".join(step_text(s) for s in self.steps)


def steps_from_json(data: list[Any]) -> tuple[Step, ...]:
    """Steps from JSON. Raises MalformedStep with the place of what does not fit."""
    return tuple(step_from_json(item, f"steps[{i}]") for i, item in enumerate(data))
