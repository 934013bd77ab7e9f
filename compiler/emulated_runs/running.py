"""The run of a subject, what came of it as JSON, and its tensors before and after as files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Launch, Options
from compiler.emulate.report import EmulatorFault
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import written_by
from compiler.emulated_runs.subject import Subject

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorResult:
    """A tensor after the run: `written` of its `count` elements were written; the hash is over its dense bytes."""

    dtype: str
    shape: tuple[int, ...]
    count: int
    written: int
    sha256: str


@dataclass(frozen=True)
class EmulatedRun:
    """What came of a run. `finished`: how many of the launches ran, those after one with faults did not.
    `unlisted`: occurrences of faults beyond those listed.

    `before` and `after` hold the tensors by name, dense, where they were asked for.
    """

    subject: Subject
    options: Options
    faults: tuple[EmulatorFault, ...]
    counters: Mapping[str, Any]
    tensors: Mapping[str, TensorResult]
    finished: int
    unlisted: int = 0
    before: Mapping[str, Array] = field(default_factory=dict)
    after: Mapping[str, Array] = field(default_factory=dict)

    @property
    def launch(self) -> Launch:
        """The last launch that ran."""
        return self.subject.spec.launches[self.finished - 1]

    def to_json(self) -> dict[str, Any]:
        """The result as docs/emulator.md, "Output", has it."""
        return {
            "entry": self.launch.entry,
            "arch": self.launch.arch,
            "order": self.options.completion.value,
            "seed": self.options.seed,
            "faults": [fault_json(fault) for fault in self.faults],
            "faults_not_listed": self.unlisted,
            "counters": self.counters,
            "tensors": {name: {"written": t.written, "sha256": t.sha256} for name, t in self.tensors.items()},
        }

    def save(self, folder: Path) -> None:
        """Writes NAME.before.npy and NAME.after.npy into `folder`; bf16 as uint16, fp8 as uint8. Raises OSError."""
        for moment, arrays in (("before", self.before), ("after", self.after)):
            for name, array in arrays.items():
                np.save(folder / f"{name}.{moment}.npy", array, allow_pickle=False)


def fault_json(fault: EmulatorFault) -> dict[str, Any]:
    """A fault as an object; what is not known is null."""
    return {
        "kind": fault.kind.value,
        "message": fault.message,
        "instruction": fault.instruction,
        "ptx_line": fault.ptx_line,
        "source_line": fault.source_line,
        "block": None if fault.block is None else list(fault.block),
        "thread": None if fault.thread is None else list(fault.thread),
        "address": fault.address,
        "tensor": fault.tensor,
        "count": fault.count,
    }


def run(subject: Subject, options: Options, *, keep: bool = False) -> EmulatedRun:
    """Runs the launches in order, up to the first with faults. `keep`: the tensors before and after, for `save`.

    The tensors of the subject are changed: make a new one for another run. Raises BadLaunch where a launch cannot
    be made of the kernel.
    """
    spec = subject.spec
    before = _dense(subject) if keep else {}
    written = {name: np.zeros(tensor.data.size, np.bool_) for name, tensor in spec.tensors.items()}
    faults: tuple[EmulatorFault, ...] = ()
    counters: dict[str, Any] = {}
    finished = unlisted = 0
    for launch in spec.launches:
        outcome = emulate(subject.module, launch, options)
        counters = _summed(counters, outcome.counters) if counters else outcome.counters
        finished += 1
        for name, flags in outcome.written.items():
            written[name] |= flags
        written_by(launch, outcome)
        faults, unlisted = outcome.faults, outcome.unlisted
        if faults:
            break
    tensors = {}
    for name, layout in spec.layouts.items():
        dense = layout.dense(spec.tensors[name].data)
        tensors[name] = TensorResult(
            layout.element.name,
            layout.shape,
            layout.count,
            layout.touched(written[name]),
            hashlib.sha256(dense.tobytes()).hexdigest(),
        )
    after = _dense(subject) if keep else {}
    return EmulatedRun(subject, options, faults, counters, tensors, finished, unlisted, before, after)


def _dense(subject: Subject) -> dict[str, Array]:
    tensors = subject.spec.tensors
    return {name: layout.dense(tensors[name].data) for name, layout in subject.spec.layouts.items()}


def _summed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Counters of two launches together: objects are merged, numbers added."""
    both = dict(a)
    for name, value in b.items():
        if name not in both:
            both[name] = value
        elif isinstance(value, Mapping):
            both[name] = _summed(both[name], value)
        else:
            both[name] = both[name] + value
    return both
