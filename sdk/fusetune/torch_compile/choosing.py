"""One fusion for one binding, however many regions have it: its kernel, and whether that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from fusetune.fusion import Fusion
from fusetune.kernel import Kernel
from fusetune.running import KernelSource
from fusetune.torch_compile.clocks import Clock, TimedPair
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash

State = Literal["waiting", "arrived", "timing", "taken", "slower", "failed"]


class KernelChoice:
    """Changes between steps only (`settle`). `count` regions have it; `eager_us`, `kernel_us`: measured in place."""

    def __init__(self, fusion: Fusion, binding: Binding, moved_bytes: int) -> None:
        self.fusion, self.binding, self.moved_bytes = fusion, binding, moved_bytes
        self.key = fusion.fingerprint, binding_hash(fusion, binding)
        self.count = 0
        self.state: State = "waiting"
        self.kernel: Kernel | None = None
        self.eager_us: float | None = None
        self.kernel_us: float | None = None
        self.why = "no kernel yet"
        self._pending: TimedPair | None = None

    @property
    def weight(self) -> float:
        """What a kernel is worth: bytes that a step moves."""
        return float(self.count * self.moved_bytes)

    @property
    def is_taken(self) -> bool:
        """Whether the kernel runs."""
        return self.state == "taken"

    def settle(self, source: KernelSource) -> None:
        """Looks what came, and what was measured. Called where no step is under way."""
        if self.state == "waiting":
            self.kernel = source.peek(self.fusion, self.binding)
            if self.kernel is not None:
                self.state, self.why = "arrived", "not timed yet"
        elif self.state == "timing" and self._pending is not None and (found := self._pending.us()) is not None:
            self.eager_us, self.kernel_us = found
            self._pending = None
            is_faster = self.kernel_us < self.eager_us
            self.state = "taken" if is_faster else "slower"
            told = f"{self.kernel_us:.1f} us by the kernel, {self.eager_us:.1f} us in eager"
            self.why = "" if is_faster else f"not faster: {told}"

    def time(self, clock: Clock, eager: Callable[[], Any], kernel: Callable[[], Any]) -> None:
        """Has both timed once."""
        self.state, self.why = "timing", "being timed"
        self._pending = clock.compare(eager, kernel)

    def fail(self, error: Exception) -> None:
        """Eager runs from now on."""
        self.state, self.why = "failed", str(error)


class KernelChoices:
    """All fusions of a process, each binding once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], KernelChoice] = {}

    def of(self, fusion: Fusion, binding: Binding, moved_bytes: int) -> KernelChoice:
        """The choice for this key, for one region more."""
        made = KernelChoice(fusion, binding, moved_bytes)
        found = self.known.setdefault(made.key, made)
        found.count += 1
        return found


def is_capturing() -> bool:
    """Whether what is launched now is recorded into a CUDA graph: nothing is swapped or timed then."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
