"""The GPUs that measure for one search, each one kernel at a time. One that is lost costs what it had in hand.

While a GPU measures a kernel the next one may wait for it in its thread: what the search does with a result takes about
as long as measuring one, and the GPU need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from fusetune.wire.artifact import KernelArtifact
from search.measure.device import DeviceLost, Effort, MeasureResult, MeasuringDevice, NeverBegun
from search.tuning.build import Build
from search.tuning.identity import KernelId
from search.tuning.timeline import Timeline
from search.tuning.trial import TrialState

LATE_S = 10.0
"""How long the end of a search waits for what a GPU beside the first one measures: that one may be far away."""


@dataclass(frozen=True, slots=True)
class WaitingKernel:
    """A compiled candidate that waits for a device, or for an equal kernel that does."""

    build: Build
    artifact: KernelArtifact
    id: KernelId


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device that measures for a search. `opened`: the opening of the fusion there; None where it is open."""

    device: MeasuringDevice
    opened: Future[None] | None = None


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What became of a kernel on a device; without a `result` nothing did, and it waits for another one."""

    kernel: WaitingKernel
    result: MeasureResult | None


class Lane:
    """One GPU and the thread that waits for it."""

    def __init__(self, gpu: Gpu, number: int, timeline: Timeline) -> None:
        self.device = gpu.device
        self.number = number
        self.under_way: tuple[WaitingKernel, Future[MeasureResult]] | None = None
        self.next: tuple[WaitingKernel, Future[MeasureResult]] | None = None
        self._opened = gpu.opened
        self._timeline = timeline
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measure")

    def start(self, kernel: WaitingKernel) -> None:
        """Measure a kernel, behind the one under way; `under_way` itself from when that is collected until it is."""
        assert self.next is None, "one kernel waits at most"
        self.next = (kernel, self._thread.submit(self._measured, kernel.artifact))
        if self.under_way is None:
            self.advance()

    def advance(self) -> None:
        """What was under way has been collected."""
        self.under_way, self.next = self.next, None

    def take_back(self) -> list[WaitingKernel]:
        """The kernel that waits, unless it has begun meanwhile."""
        if self.next is None or not self.next[1].cancel():
            return []
        (kernel, _), self.next = self.next, None
        return [kernel]

    def drop(self) -> list[WaitingKernel]:
        """All that was in hand; nobody waits for it here any more."""
        kernels = [one[0] for one in (self.under_way, self.next) if one is not None]
        self.under_way = self.next = None
        return kernels

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Other work for the device, in its turn."""
        return self._thread.submit(self._done, work)

    def wait_open(self) -> None:
        """Raises what opening the fusion raised: DeviceLost if the device does not work."""
        if self._opened is not None:
            self._opened.result()

    def close(self, *, waits: bool) -> None:
        """No more work; what is under way is waited for, or left."""
        self._thread.shutdown(wait=waits, cancel_futures=True)

    def _measured(self, artifact: KernelArtifact) -> MeasureResult:
        try:
            self.wait_open()
        except DeviceLost as error:
            raise NeverBegun(error.device, error.reason) from error
        with self.measuring():
            return self.device.measure(artifact, Effort.SCREEN)

    def _done(self, work: Callable[[], None]) -> None:
        with self.measuring():
            work()

    def measuring(self) -> AbstractContextManager[None]:
        """While this lasts the GPU is busy, says the timeline."""
        return self._timeline.measuring(self.number)


class Lanes:
    """The lanes of a search. The first that lives is where leaders are settled; `joining` is asked for those that come.

    `timeline` is told which are there and when they are busy. `lost` hears of every GPU that is lost while others are
    left.
    """

    def __init__(
        self,
        first: Gpu,
        joining: Callable[[], Sequence[Gpu]],
        timeline: Timeline,
        lost: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._joining = joining
        self._lost = lost
        self._timeline = timeline
        self._lanes = [Lane(first, 0, timeline)]
        self._came = 1
        self._left: list[Lane] = []
        self._taken_back: list[WaitingKernel] = []
        self._settles: Lane | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.close(waits=lane not in self._left)
        self._settles = self.first
        for lane in self._lanes:
            if lane is not self._settles:
                self._timeline.left(lane.number)

    @property
    def first(self) -> Lane:
        """The GPU that settles leaders: one that is not still busy with what nobody waits for, if there is one."""
        return next((lane for lane in self._lanes if lane not in self._left), self._lanes[0])

    @property
    def count(self) -> int:
        """GPUs that measure."""
        return len(self._lanes)

    @property
    def idle(self) -> Lane | None:
        """A GPU that has nothing to measure."""
        return next((lane for lane in self._lanes if lane.under_way is None), None)

    @property
    def has_results(self) -> bool:
        """Whether one has measured what has not been collected: what it measures now may be its last."""
        return any(future.done() for future in self.pending)

    def free(self, *, ahead: bool) -> Lane | None:
        """A GPU that has nothing to measure, or, with `ahead`, nothing to measure next."""
        found = self.idle
        return next((lane for lane in self._lanes if lane.next is None), None) if found is None and ahead else found

    @property
    def under_way(self) -> list[WaitingKernel]:
        """What is being measured, or is next."""
        return [one[0] for lane in self._lanes for one in (lane.under_way, lane.next) if one is not None]

    @property
    def pending(self) -> list[Future[Any]]:
        """What to wait for."""
        return [lane.under_way[1] for lane in self._lanes if lane.under_way is not None]

    def join(self) -> None:
        """Takes in the GPUs that have come."""
        for gpu in self._joining():
            self._lanes.append(Lane(gpu, self._came, self._timeline))
            self._timeline.joined(self._came)
            self._came += 1

    def collect(self) -> list[LaneResult]:
        """What has been measured since the last call. Raises DeviceLost once no GPU is left, and what devices raise."""
        found = []
        for lane in list(self._lanes):
            while lane.under_way is not None and lane.under_way[1].done():
                kernel, future = lane.under_way
                lane.advance()
                try:
                    found.append(LaneResult(kernel, future.result()))
                except DeviceLost as error:
                    behind = lane.drop()
                    self.lose(lane, error)
                    found.append(LaneResult(kernel, None if isinstance(error, NeverBegun) else lost_with(error)))
                    found += [LaneResult(one, None) for one in behind]
        return found

    def lose(self, lane: Lane, error: DeviceLost) -> None:
        """A GPU is gone. Raises `error` if it was the last."""
        if lane in self._lanes:
            if len(self._lanes) == 1:
                raise error
            self._lanes.remove(lane)
            lane.close(waits=False)
            self._timeline.left(lane.number)
            if lane is self._settles:
                self._settles = self.first
                self._timeline.joined(self._settles.number)
            self._lost(f"{error}. The search goes on without it.")

    def wind_down(self) -> None:
        """Waits for what is measured: on the first GPU to its end, which the device bounds, on others for a while."""
        for lane in self._lanes:
            self._taken_back += lane.take_back()
        wait([one[1] for one in (self.first.under_way, self.first.next) if one is not None])
        wait(self.pending, timeout=LATE_S)
        self._left = [lane for lane in self._lanes if lane.under_way is not None and not lane.under_way[1].done()]

    def given_up(self) -> list[WaitingKernel]:
        """What is still under way when nobody waits any more."""
        return [*self._taken_back, *(kernel for lane in self._lanes for kernel in lane.drop())]


def lost_with(error: DeviceLost) -> MeasureResult:
    """The end of a kernel that a device had in hand when it was lost: it may have been the kernel's doing."""
    return MeasureResult(TrialState.CRASHED, f"{error.device} was lost while it had this kernel: {error.reason}")
