"""Both ends of a measuring device that lives in a child process: what a kernel breaks there is replaced."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, Self

from compiler.child import Child, ChildDied, ChildError, ChildGone, ChildTimedOut, LastReply
from compiler.ir.fusion import Fusion
from fusetune.launch import KernelError, NoDevice
from fusetune.wire.artifact import KernelArtifact
from search.measure.device import EAGER, Baseline, CardFacts, DeviceLost, Effort, MeasureResult
from search.tuning.timeline import GPU, SearchStage, Span, Timeline, taken
from search.tuning.trial import TrialState

_OPEN_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines in seconds. `start_s` covers imports and the CUDA context, `open_s` inputs and reference."""

    start_s: float = 120.0
    open_s: float = 120.0
    measure_s: float = 5.0
    all_sets_s: float = 60.0
    baseline_s: float = 60.0

    def of(self, effort: Effort) -> float:
        """The deadline of one kernel."""
        return self.all_sets_s if effort is Effort.ALL_SETS else self.measure_s


@dataclass(frozen=True, slots=True)
class OpenFusion:
    """Request: make inputs and reference. Answer: None."""

    fusion: Fusion


@dataclass(frozen=True, slots=True)
class MeasureKernel:
    """Request: verify and time. Answer: MeasureResult."""

    artifact: KernelArtifact
    effort: Effort


@dataclass(frozen=True, slots=True)
class TimeBaseline:
    """Request: check and time what the fusion is without us. Answer: Baseline."""

    name: str


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """Request: CardFacts."""


class ContextPoisoned(Exception):
    """The process can no longer use its device: every further call would fail, whoever makes it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the child answers, and what it spent its time on since the answer before."""

    value: Any
    spans: tuple[Span, ...]


class Backend(Protocol):
    """What runs in the child; it adds what it spends its time on to `spans`.

    `measure` raises KernelError for a kernel that cannot run, ContextPoisoned for good. `baseline` raises the latter
    too, and puts every other reason why there is no time into its answer. `idle` does a piece of work that a later
    request may need, and says whether there is more.
    """

    @property
    def spans(self) -> list[Span]: ...

    def open(self, fusion: Fusion) -> None: ...

    def measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult: ...

    def baseline(self, name: str) -> Baseline: ...

    def facts(self) -> CardFacts: ...

    def idle(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DeviceHandler:
    """The child's handler: requests to calls of the backend, what kernels raise to results."""

    backend: Backend

    def __call__(self, request: OpenFusion | MeasureKernel | TimeBaseline | ReadFacts) -> Answered | LastReply:
        value, spans = self._answer(request), self.backend.spans
        answered = Answered(value.value if isinstance(value, LastReply) else value, tuple(spans))
        spans.clear()
        return LastReply(answered) if isinstance(value, LastReply) else answered

    def idle(self) -> bool:
        """See `compiler.child`."""
        return self.backend.idle()

    def _answer(self, request: OpenFusion | MeasureKernel | TimeBaseline | ReadFacts) -> Any:
        backend = self.backend
        match request:
            case OpenFusion(fusion):
                with taken(SearchStage.INPUTS, backend.spans):
                    return backend.open(fusion)
            case ReadFacts():
                with taken(SearchStage.LIMITS, backend.spans):
                    return backend.facts()
            case MeasureKernel(artifact, effort):
                return _measure(backend, artifact, effort)
            case TimeBaseline(name):
                with taken(SearchStage.BASELINE, backend.spans):
                    return _baseline(backend, name)


def handler_of(backend: Backend) -> DeviceHandler:
    """What a child's target returns."""
    return DeviceHandler(backend)


def _measure(backend: Backend, artifact: KernelArtifact, effort: Effort) -> MeasureResult | LastReply:
    try:
        return backend.measure(artifact, effort)
    except ContextPoisoned as error:
        return LastReply(MeasureResult(TrialState.CRASHED, f"the kernel broke the CUDA context: {error}"))
    except KernelError as error:
        return MeasureResult(TrialState.UNSUPPORTED, str(error))


def _baseline(backend: Backend, name: str) -> Baseline | LastReply:
    try:
        return backend.baseline(name)
    except ContextPoisoned as error:
        return LastReply(Baseline(name, None, str(error)))


class ChildDevice:
    """The parent's end; a MeasuringDevice. `target` makes the child's handler (see `compiler.child`); `child` is such
    a child that was begun before."""

    def __init__(
        self,
        name: str,
        target: str,
        init: Any = None,
        limits: Deadlines | None = None,
        child: Child | None = None,
    ) -> None:
        self.name = name
        self.limits = limits or Deadlines()
        # No memory limit: CUDA reserves address space for all of the GPU's memory.
        self._child = child or Child(target, init, name=name, start_timeout_s=self.limits.start_s)
        self._fusion: Fusion | None = None
        self._opened_in_start: int | None = None
        self._told_start = 0
        self._timeline: Timeline | None = None
        self._untold: list[Span] = []

    def tell(self, timeline: Timeline) -> None:
        """What the child spends its time on is told there from now on, and what it took to start it."""
        self._timeline = timeline
        self._keep()

    @property
    def restarts(self) -> int:
        """How often the process had to be replaced."""
        return max(self._child.starts - 1, 0)

    def open(self, fusion: Fusion) -> None:
        """Raises DeviceLost where the device cannot be opened, and what making inputs and reference raises."""
        self._fusion = fusion
        self._opened_in_start = None
        self._make_ready()

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        """Raises DeviceLost only: whatever the kernel breaks is its result.

        A kernel whose process somebody killed is measured once more: that may not have been its doing.
        """
        try:
            try:
                return self._measure(artifact, effort)
            except ChildDied as error:
                if not error.is_killed:
                    raise
                return self._measure(artifact, effort)
        except ChildTimedOut as error:
            return MeasureResult(TrialState.TIMED_OUT, str(error))
        except ChildDied as error:
            return MeasureResult(TrialState.CRASHED, str(error))

    def _measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        result: MeasureResult = self._ask_ready(MeasureKernel(artifact, effort), self.limits.of(effort))
        return result

    def baseline(self, name: str = EAGER) -> Baseline:
        """Raises ValueError for a name that is not EAGER, and DeviceLost; whatever else happens is the answer."""
        if name != EAGER:
            raise ValueError(f"there is no baseline {name!r}: the one that is measured is {EAGER!r}")
        try:
            baseline: Baseline = self._ask_ready(TimeBaseline(name), self.limits.baseline_s)
        except ChildError as error:
            return Baseline(name, None, str(error))
        return baseline

    def facts(self) -> CardFacts:
        """Raises DeviceLost."""
        try:
            facts: CardFacts = self._request(ReadFacts(), self.limits.start_s)
        except (ChildError, KernelError) as error:
            raise DeviceLost(self.name, str(error)) from error
        return facts

    def close(self) -> None:
        """Ends the process."""
        self._child.close()
        self._opened_in_start = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_ready(self, request: MeasureKernel | TimeBaseline, timeout_s: float) -> Any:
        """The answer of a process that has the fusion open; one that ends after it opened it is replaced."""
        for _ in range(_OPEN_ATTEMPTS):
            self._make_ready()
            with suppress(ChildGone):
                return self._request(request, timeout_s, life=self._opened_in_start)
        raise DeviceLost(self.name, str(ChildGone(self.name)))

    def _request(self, request: Any, timeout_s: float, life: int | None = None) -> Any:
        answered: Answered = self._child.request(request, timeout_s, life=life)
        self._keep(*answered.spans)
        return answered.value

    def _keep(self, *spans: Span) -> None:
        """Tells spans, those of the start first; keeps them while there is nowhere to tell them."""
        up = self._child.start_up
        if up is not None and self._told_start != self._child.starts:
            self._told_start = self._child.starts
            start = Span.of_start(GPU, up)
            inside = [one for one in spans if one.begun_s < up.ended_s]  # of the context, which is no import
            wall_s, cpu_s = (sum(getattr(one, name) for one in inside) for name in ("wall_s", "cpu_s"))
            self._untold.append(replace(start, ended_s=start.ended_s - wall_s, cpu_s=max(0.0, start.cpu_s - cpu_s)))
        self._untold += spans
        if self._timeline is not None:
            self._timeline.add(*self._untold)
            self._untold.clear()

    def _make_ready(self) -> None:
        """A running process with the fusion open. Two attempts: the first may meet the remains of a bad kernel."""
        if self._fusion is None:
            raise ValueError("no fusion is open: call open(fusion) first")
        for attempt in range(_OPEN_ATTEMPTS):
            try:
                self._child.start()
                if self._opened_in_start != self._child.starts:
                    self._request(OpenFusion(self._fusion), self.limits.open_s)
                    self._opened_in_start = self._child.starts
                return
            except (ChildError, KernelError) as error:
                if attempt == _OPEN_ATTEMPTS - 1 or isinstance(error, NoDevice):
                    raise DeviceLost(self.name, str(error)) from error
