"""From a candidate to a kernel artifact: trace, generate, compile. Every way to fail has its trial state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from compiler.arch import Arch
from compiler.errors import CompileError, CompileTimeout, IllegalSchedule, InvalidStep, Unsupported, Violation
from compiler.ir.fusion import Fusion
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, artifact, generate
from fusetune.wire.artifact import KernelArtifact, Resources
from search.candidate import Candidate
from search.space.protocol import Scheduler
from search.trial import TrialState

_REASON_CHARS = 2000


class Compiler(Protocol):
    """What compiles: `compiler.nvrtc.CompilePool`, or a fake of it."""

    def submit(self, source: str, arch: str) -> Future[Compiled]:
        """The future raises CompileError or CompileTimeout."""
        ...


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no artifact."""

    state: TrialState
    reason: str
    violations: tuple[Violation, ...] = ()


@dataclass(slots=True)
class Build:
    """A candidate on its way: `compiled` is pending until the compiler answers, None if it was never asked.

    `seconds` gathers what the phases took; `failure` is set when the candidate did not get as far as the compiler.
    """

    number: int
    candidate: Candidate
    predicted_us: float | None = None
    generated: Generated | None = None
    compiled: Future[Compiled] | None = None
    failure: Failure | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _submitted: float = 0.0

    @property
    def is_ready(self) -> bool:
        """True if `Builder.finish` would not wait."""
        return self.compiled is None or self.compiled.done()


Predict = Callable[[Generated], float | None]
"""Microseconds that a generated kernel should take, None if the model does not know its like."""

Refine = Callable[[Generated, Resources], float]
"""Microseconds that a kernel should take of which the compiler has said what it uses."""


@dataclass(frozen=True)
class Builder:
    """Builds candidates of one bound fusion for one architecture; `predict` ranks them if there is one, and `refine`
    once they are compiled.

    `generate` and `artifact` are `compiler.pipeline`'s; tests of the search give others.
    """

    fusion: Fusion
    arch: Arch
    schedulers: Mapping[str, Scheduler]
    compiler: Compiler
    predict: Predict | None = None
    refine: Refine | None = None
    generate: Callable[[Any, Arch], Any] = generate
    artifact: Callable[[Any, Compiled], KernelArtifact] = artifact

    def start(self, number: int, candidate: Candidate) -> Build:
        """Schedule and generate, then queue the compile."""
        build = Build(number, candidate)
        begun = time.perf_counter()
        try:
            trace = self.schedulers[candidate.scheduler].trace(self.fusion, candidate.knobs)
            build.generated = self.generate(trace, self.arch)
            build.predicted_us = self.predict(build.generated) if self.predict else None
        except (IllegalSchedule, InvalidStep, Unsupported) as error:
            build.failure = _failure(error)
        except Exception as error:  # ours to mend, not the candidate's fault: say which candidate shows it
            error.add_note(f"while generating {candidate}")
            raise
        else:
            build.compiled = self.compiler.submit(build.generated.source, self.arch.name)
        finally:
            build.seconds["generate"] = time.perf_counter() - begun
        build._submitted = time.perf_counter()
        return build

    def finish(self, build: Build) -> KernelArtifact | Failure:
        """The artifact, waiting for the compiler if need be."""
        if build.failure is not None:
            return build.failure
        if build.generated is None or build.compiled is None:
            raise AssertionError(f"{build.candidate} was neither generated nor refused")
        try:
            compiled = build.compiled.result()
        except CompileError as error:
            build.seconds["compile"] = time.perf_counter() - build._submitted
            return _failure(error)
        build.seconds["compile"] = compiled.seconds
        artifact = self.artifact(build.generated, compiled)
        if self.refine is not None:
            build.predicted_us = self.refine(build.generated, artifact.resources)
        return artifact


def _failure(error: CompileError | IllegalSchedule | InvalidStep | Unsupported) -> Failure:
    reason = str(error)[:_REASON_CHARS]
    match error:
        case IllegalSchedule():
            return Failure(TrialState.ILLEGAL, reason, error.violations)
        case InvalidStep():
            return Failure(TrialState.ILLEGAL, reason)
        case Unsupported():
            return Failure(TrialState.UNSUPPORTED, reason)
        case CompileTimeout():
            return Failure(TrialState.COMPILE_TIMED_OUT, reason)
        case CompileError():
            return Failure(TrialState.COMPILE_FAILED, reason)
