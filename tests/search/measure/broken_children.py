"""Measuring children that break: what they run stands apart from the tests, for a child imports it when it starts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.ir.fusion import Fusion
from fusetune.launch import NoDevice
from fusetune.wire.artifact import KernelArtifact
from search.measure.child_device import ContextPoisoned, handler_of
from search.measure.device import Baseline, CardFacts, Effort, MeasureResult
from search.measure.fake import FakeBackend
from search.tuning.timeline import Span


class Broken:
    """A backend that cannot open anything."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.spans: list[Span] = []

    def open(self, fusion: Fusion) -> None:
        if self.why == "reference":
            raise ArithmeticError("the reference failed")
        if self.why == "no device":
            raise NoDevice("nothing there", "Plug one in.")
        os._exit(9)

    def measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        raise AssertionError("nothing was opened")

    def baseline(self, name: str) -> Baseline:
        raise AssertionError("nothing was opened")

    def facts(self) -> CardFacts:
        raise NoDevice("nothing there", "Plug one in.")

    def idle(self) -> bool:
        return False


def serve_broken(why: str) -> Callable[[Any], Any]:
    return handler_of(Broken(why))


def serve_nothing(init: None) -> Callable[[Any], Any]:
    raise NoDevice("nothing there", "Plug one in.")


class BrokenEager(FakeBackend):
    """Measures kernels as the fake device does; its baseline breaks the process, or answers without a time."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def baseline(self, name: str) -> Baseline:
        match self.how:
            case "dies":
                os._exit(9)
            case "hangs":
                time.sleep(3600)
            case "poisons":
                raise ContextPoisoned("out of memory in a capture")
            case "says something unpicklable":
                return Baseline(name, lambda: None)  # type: ignore[arg-type]  # what cannot be pickled
        return Baseline(name, None, "the form is wrong")


def serve_broken_eager(how: str) -> Callable[[Any], Any]:
    return handler_of(BrokenEager(how))


class Killed(FakeBackend):
    """Somebody kills its process during the first so many kernels, which are counted in a file."""

    def __init__(self, path: str, times: int, by: signal.Signals) -> None:
        super().__init__()
        self.path = Path(path)
        self.times = times
        self.by = by

    def measure(self, artifact: KernelArtifact, effort: Effort) -> MeasureResult:
        with self.path.open("a") as file:
            file.write("x")
        if len(self.path.read_text()) <= self.times:
            os.kill(os.getpid(), self.by)
        return super().measure(artifact, effort)


def serve_killed(init: tuple[str, int, signal.Signals]) -> Callable[[Any], Any]:
    return handler_of(Killed(*init))
