"""From a candidate to a kernel artifact: drafted, then compiled. Every way to fail has its trial state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX
from typing import Any, Protocol

from compiler.errors import CompileError
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, artifact
from fusetune.wire.artifact import KernelArtifact
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft, LeftBehind
from search.tuning.candidates.finishing import BuiltElsewhere, Refine, finished
from search.tuning.failing import Failure, failure_of
from search.tuning.timeline import SearchStage, Span, Timeline


class Drafter(Protocol):
    """What schedules, generates and predicts candidates: `drafting.DraftPool`, or a fake of it."""

    def submit(self, candidate: Candidate) -> Future[Draft | Failure]:
        """The future raises only what is ours to mend."""
        ...

    def finish(self, candidate: Candidate, compiled: Compiled) -> Future[BuiltElsewhere | Failure]:
        """What comes of a draft that left its kernel behind, once it is compiled; raises as little."""
        ...


class Compiler(Protocol):
    """What compiles: `compiler.nvrtc.CompilePool`, or a fake of it."""

    def submit(self, source: str, arch: str) -> Future[Compiled]:
        """The future raises CompileError or CompileTimeout."""
        ...


@dataclass(slots=True)
class Build:
    """A candidate on its way: `compiled` is pending until it is drafted and the compiler answers, or until one of them
    refuses it; None where nothing is to be compiled.

    `predicted_terms` are what the model makes `predicted_us` of, known once it is compiled (`search.cost.model`).
    `seconds` gathers what the phases took; `generated` is there once the candidate is drafted.
    """

    number: int
    candidate: Candidate
    predicted_us: float | None = None
    predicted_terms: Mapping[str, float] = field(default_factory=dict)
    generated: Generated | None = None
    compiled: Future[Compiled | BuiltElsewhere | Failure] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """True if `Builder.finish` would not wait."""
        return self.compiled is None or self.compiled.done()

    def wait(self, seconds: float) -> bool:
        """Whether it is ready, or is after so many seconds."""
        if not self.is_ready:
            wait([self.compiled] if self.compiled is not None else [], timeout=min(max(seconds, 0.0), TIMEOUT_MAX))
        return self.is_ready

    def cancel(self) -> None:
        """Nobody waits for it any more: what has not begun of it never does."""
        if self.compiled is not None:
            self.compiled.cancel()


@dataclass(frozen=True)
class Builder:
    """Builds candidates for the architecture of this name; `refine` predicts them again once they are compiled. What
    compiling took is told in the timeline.

    `artifact` is `compiler.pipeline`'s; tests of the search give another.
    """

    drafter: Drafter
    compiler: Compiler
    arch: str
    refine: Refine | None = None
    timeline: Timeline = field(default_factory=Timeline)
    artifact: Callable[[Any, Compiled], KernelArtifact] = artifact
    elsewhere: int = 0

    def start(self, number: int, candidate: Candidate) -> Build:
        """Queue the draft, and the compile once there is one; waits for neither."""
        compiled: Future[Compiled | BuiltElsewhere | Failure] = Future()
        build = Build(number, candidate, compiled=compiled)
        drafting = self.drafter.submit(candidate)
        _cancel_with(compiled, drafting)
        drafting.add_done_callback(lambda drafted: self._compile(build, drafted, compiled))
        return build

    def finish(self, build: Build) -> KernelArtifact | Failure:
        """The artifact, waiting for the draft and the compiler if need be. Raises what is ours to mend."""
        if build.compiled is None:
            raise AssertionError(f"{build.candidate} was never started")
        compiled = build.compiled.result()
        if isinstance(compiled, Failure):
            return compiled
        if isinstance(compiled, BuiltElsewhere):
            return _taken(build, compiled)
        if build.generated is None:
            raise AssertionError(f"{build.candidate} was compiled and never generated")
        built = finished(build.generated, compiled, self.refine, self.artifact)
        return built if isinstance(built, Failure) else _taken(build, built)

    def _compile(
        self, build: Build, drafted: Future[Draft | Failure], ended: Future[Compiled | BuiltElsewhere | Failure]
    ) -> None:
        """Runs in a thread of the drafter, or in the caller's; `ended` is the build's future."""
        try:
            found = drafted.result()
        except (CancelledError, Exception) as error:  # noqa: BLE001 (whoever asks for the kernel gets it)
            _fail(ended, error)
            return
        if isinstance(found, Failure):
            _end(ended, found)
            return
        if ended.cancelled():
            return
        build.generated = None if isinstance(found.generated, LeftBehind) else found.generated
        build.predicted_us = found.predicted_us
        build.seconds["generate"] = found.seconds
        begun = time.perf_counter()
        try:
            compiling = self.compiler.submit(found.generated.source, self.arch)
        except RuntimeError as closed:  # the pool is being closed: nobody waits for it
            _fail(ended, closed)
            return
        _cancel_with(ended, compiling)
        stays = isinstance(found.generated, LeftBehind)
        compiling.add_done_callback(lambda compiled: self._settle(build, compiled, ended, begun, stays=stays))

    def _settle(
        self,
        build: Build,
        compiled: Future[Compiled],
        ended: Future[Compiled | BuiltElsewhere | Failure],
        begun: float,
        *,
        stays: bool,
    ) -> None:
        """Runs in a thread of the compiler, or in the caller's. `stays`: the kernel is where it was drafted, and
        what is made of both is made there."""
        try:
            result = compiled.result()
        except CompileError as error:
            build.seconds["compile"] = time.perf_counter() - begun
            _end(ended, failure_of(error))
        except (CancelledError, Exception) as error:  # noqa: BLE001 (whoever asks for the kernel gets it)
            _fail(ended, error)
        else:
            build.seconds["compile"] = result.seconds
            if stays:
                self._finish_there(build, result, ended)
            else:
                _end(ended, result)
            self.timeline.add(Span.just_ended(SearchStage.COMPILING, "compilers", result.seconds, result.cpu_seconds))

    def _finish_there(
        self, build: Build, compiled: Compiled, ended: Future[Compiled | BuiltElsewhere | Failure]
    ) -> None:
        try:
            finishing = self.drafter.finish(build.candidate, compiled)
        except RuntimeError as closed:  # the pool is being closed: nobody waits for it
            _fail(ended, closed)
            return
        _cancel_with(ended, finishing)
        finishing.add_done_callback(lambda finished: _pass_on(finished, ended))


def _taken(build: Build, built: BuiltElsewhere) -> KernelArtifact:
    """What was made of a build, with what is known of it now."""
    if built.predicted_us is not None:
        build.predicted_us, build.predicted_terms = built.predicted_us, built.predicted_terms
    build.seconds.update(built.seconds)
    return built.artifact


def _pass_on(finished: Future[BuiltElsewhere | Failure], ended: Future[Compiled | BuiltElsewhere | Failure]) -> None:
    """Runs in a thread of the drafter."""
    try:
        _end(ended, finished.result())
    except (CancelledError, Exception) as error:  # noqa: BLE001 (whoever asks for the kernel gets it)
        _fail(ended, error)


def _cancel_with(whole: Future[Compiled | BuiltElsewhere | Failure], part: Future[Any]) -> None:
    """Cancels a part of what a build waits for as soon as the whole is cancelled."""
    whole.add_done_callback(lambda ended: part.cancel() if ended.cancelled() else None)


def _end(ended: Future[Compiled | BuiltElsewhere | Failure], outcome: Compiled | BuiltElsewhere | Failure) -> None:
    with suppress(InvalidStateError):  # cancelled in the meantime: nobody waits for it
        ended.set_result(outcome)


def _fail(ended: Future[Compiled | BuiltElsewhere | Failure], error: BaseException) -> None:
    with suppress(InvalidStateError):
        ended.set_exception(error)
