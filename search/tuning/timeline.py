"""Where the time of a tuning goes: what each of its processes did, how long, and how long the GPUs waited.

All stages report spans here: their begin and end on the system's monotonic clock, which processes of one machine share,
and the processor time in between. What is kept is their sum for each stage and process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Any

from compiler.child import StartUp

MAIN, GPU = "main", "gpu"
"""Processes by name: the one that tunes, and the child that measures. Others are called after what they do."""


class SearchStage(StrEnum):
    """What a tuning spends time on, in the order in which it begins."""

    IMPORTS = "imports"
    CONTEXT = "context"
    LIMITS = "card limits"
    INPUTS = "reference and inputs"
    BASELINE = "baseline"
    SPACES = "spaces"
    RANKING = "ranking"
    DRAFTING = "drafting"
    COMPILING = "compiling"
    PROVING = "proving"
    VERIFYING = "verifying"
    TIMING = "timing"
    FIRST = "first kernel"
    FINALS = "finals"


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of work of a process: seconds on the monotonic clock, and of a processor."""

    stage: SearchStage
    process: str
    begun_s: float
    ended_s: float
    cpu_s: float

    @property
    def wall_s(self) -> float:
        """How long it took."""
        return self.ended_s - self.begun_s

    @classmethod
    def just_ended(cls, stage: SearchStage, process: str, wall_s: float, cpu_s: float) -> Span:
        """A span that has ended now."""
        now = time.monotonic()
        return cls(stage, process, now - wall_s, now, cpu_s)

    @classmethod
    def of_start(cls, process: str, up: StartUp) -> Span:
        """The start of a child: the interpreter's, and the imports of what it does."""
        return cls(SearchStage.IMPORTS, process, up.begun_s, up.ended_s, up.cpu_s)


@dataclass(frozen=True, slots=True)
class Spent:
    """All spans of one stage in one process: how many, their sums, when the first began and the last ended, in seconds
    of the tuning."""

    stage: SearchStage
    process: str
    spans: int
    wall_s: float
    cpu_s: float
    begun_s: float
    ended_s: float


@contextmanager
def taken(stage: SearchStage, into: list[Span], process: str = GPU) -> Iterator[None]:
    """Adds what is done inside by this process, whose parent keeps the timeline, to a list that goes there."""
    begun, cpu = time.monotonic(), time.process_time()
    try:
        yield
    finally:
        into.append(Span(stage, process, begun, time.monotonic(), time.process_time() - cpu))


@dataclass(slots=True)
class _Presence:
    """A GPU of a tuning: from when on it could measure and until when, and when it did, in seconds of the tuning. One
    that was not needed any more may be so again."""

    stretches: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, math.inf)])
    busy: list[tuple[float, float]] = field(default_factory=list)

    @property
    def last_s(self) -> float:
        """When its last measurement ended, or it left in the middle of that; 0 where there was none."""
        ends = (min(ended, left) for begun, ended in self.busy for joined, left in self.stretches if begun < left)
        return max(ends, default=0.0)

    def leave(self, second: float) -> None:
        """It measures no more."""
        self.stretches[-1] = (self.stretches[-1][0], min(second, self.stretches[-1][1]))

    def within(self, start: float, end: float) -> tuple[float, float]:
        """How long it measured between two seconds, and how long it could have."""
        there = [(max(start, joined), min(end, left)) for joined, left in self.stretches]
        busy = sum(
            max(0.0, min(ended, last) - max(begun, begin)) for begin, last in there for begun, ended in self.busy
        )
        return busy, sum(max(0.0, last - begin) for begin, last in there)


class Timeline:
    """The spans of one tuning; threads may share it. `began_s`: when it began, on the monotonic clock."""

    def __init__(self, began_s: float | None = None) -> None:
        self.began_s = time.monotonic() if began_s is None else began_s
        self._lock = Lock()
        self._spent: dict[tuple[SearchStage, str], Spent] = {}
        self._gpus: dict[int, _Presence] = {}
        self._first_cubin_s: float | None = None
        self._first_kernel_s: float | None = None
        self.begun_from = ""
        """In words, what the search began with; empty where nothing was known."""

    def first_kernel(self) -> None:
        """A kernel is right on random inputs and has a time: the first of them is told."""
        with self._lock:
            if self._first_kernel_s is None:
                self._first_kernel_s = time.monotonic() - self.began_s

    @contextmanager
    def span(self, stage: SearchStage, process: str = MAIN) -> Iterator[None]:
        """What is done inside, by this thread."""
        begun, cpu = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self.add(Span(stage, process, begun, time.monotonic(), time.thread_time() - cpu))

    def add(self, *spans: Span) -> None:
        """Adds spans that were taken elsewhere; those of an earlier tuning are left out."""
        with self._lock:
            for one in spans:
                if one.ended_s > self.began_s:
                    self._add(one)

    def _add(self, one: Span) -> None:
        begun, ended = one.begun_s - self.began_s, one.ended_s - self.began_s
        key = one.stage, one.process
        before = self._spent.get(key, Spent(one.stage, one.process, 0, 0.0, 0.0, begun, ended))
        self._spent[key] = Spent(
            one.stage,
            one.process,
            before.spans + 1,
            before.wall_s + one.wall_s,
            before.cpu_s + one.cpu_s,
            min(before.begun_s, begun),
            max(before.ended_s, ended),
        )
        if one.stage is SearchStage.COMPILING:
            self._first_cubin_s = ended if self._first_cubin_s is None else min(self._first_cubin_s, ended)

    def joined(self, gpu: int) -> None:
        """That GPU of the tuning can measure from now on, or again. The first, 0, is there from the beginning."""
        now = time.monotonic() - self.began_s
        with self._lock:
            if gpu not in self._gpus:
                self._gpus[gpu] = _Presence([(now, math.inf)])
            elif self._gpus[gpu].stretches[-1][1] < now:
                self._gpus[gpu].stretches.append((now, math.inf))

    def left(self, gpu: int) -> None:
        """That GPU measures no more for the tuning: it is lost, or given back."""
        with self._lock:
            self._gpus.setdefault(gpu, _Presence()).leave(time.monotonic() - self.began_s)

    @contextmanager
    def measuring(self, gpu: int = 0) -> Iterator[None]:
        """While this lasts that GPU works on a kernel; one of another host, its way there and back included."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.measured(gpu, begun, time.monotonic())

    def measured(self, gpu: int, begun_s: float, ended_s: float) -> None:
        """That GPU worked on a kernel between two seconds of the monotonic clock."""
        with self._lock:
            presence = self._gpus.setdefault(gpu, _Presence())
            presence.busy.append((begun_s - self.began_s, ended_s - self.began_s))

    def record(self) -> Record:
        """What there is to say by now."""
        with self._lock:
            order = list(SearchStage)
            spent = sorted(self._spent.values(), key=lambda one: (order.index(one.stage), one.process))
            return Record(
                tuple(spent),
                time.monotonic() - self.began_s,
                self._first_cubin_s,
                self._idle(),
                self._first_kernel_s,
                self.begun_from,
            )

    def _idle(self) -> float | None:
        """Of the time of all GPUs from the first cubin to the end of the last measurement, while they were there, the
        share in which they measured nothing; None where no kernel was measured."""
        if self._first_cubin_s is None or not any(gpu.busy for gpu in self._gpus.values()):
            return None
        last = max(gpu.last_s for gpu in self._gpus.values())
        shares = [gpu.within(self._first_cubin_s, last) for gpu in self._gpus.values()]
        busy, there = (sum(seconds) for seconds in zip(*shares, strict=True))
        return max(0.0, 1.0 - busy / there) if there > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """A timeline as it is kept.

    `spent`: on what; `wall_s`: the whole. `first_cubin_s`, `first_kernel_s`: when the first kernel was compiled, and
    had a time. `gpu_idle`: share of the GPUs' time, from the first compiled kernel on, in which they had nothing to
    measure; None where nothing was measured. The rest: what the search began with.
    """

    spent: tuple[Spent, ...]
    wall_s: float
    first_cubin_s: float | None
    gpu_idle: float | None
    first_kernel_s: float | None = None
    begun_from: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object; seconds by the millisecond, processor seconds by the tenth of one."""
        return {
            "stages": [_rounded(asdict(one)) for one in self.spent],
            "wall_s": round(self.wall_s, 3),
            "first_cubin_s": None if self.first_cubin_s is None else round(self.first_cubin_s, 3),
            "gpu_idle": None if self.gpu_idle is None else round(self.gpu_idle, 3),
            "first_kernel_s": None if self.first_kernel_s is None else round(self.first_kernel_s, 3),
            "begun_from": self.begun_from,
        }

    def table(self) -> list[tuple[str, ...]]:
        """Rows of text, the first of them titles: the stages, and at the end the whole and the GPU."""
        rows: list[tuple[str, ...]] = [("stage", "process", "times", "from s", "to s", "wall s", "cpu s")]
        for one in self.spent:
            seconds = (one.begun_s, one.ended_s, one.wall_s, one.cpu_s)
            rows.append((one.stage.value, one.process, str(one.spans), *(f"{s:.2f}" for s in seconds)))
        cpu = sum(one.cpu_s for one in self.spent)
        rows.append(("all", "", "", "0.00", f"{self.wall_s:.2f}", f"{self.wall_s:.2f}", f"{cpu:.2f}"))
        return rows

    @property
    def words(self) -> str:
        """What the table does not say, in a sentence."""
        if self.gpu_idle is None:
            return "No kernel was measured."
        return f"From the first cubin on, GPUs had nothing to measure for {self.gpu_idle:.0%} of their time."


def _rounded(spent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in spent.items()}
