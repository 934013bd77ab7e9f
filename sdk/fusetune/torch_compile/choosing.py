"""One fusion for one binding, however many regions have it: its kernel, and whether that is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from fusetune.fusion import Fusion
from fusetune.jitting.clocks import Clock, TimedPair
from fusetune.kernel import Kernel
from fusetune.running import KernelSource
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash

State = Literal["waiting", "arrived", "timing", "faster", "taken", "slower", "failed"]

Engine = Literal["eager", "inductor"]
"""Who runs what no kernel does, and what kernels are timed against."""


class KernelChoice:
    """Changes between steps only (`settle`, `take`). `count` regions have it; `otherwise_us`, `kernel_us`: measured in
    place, what would run otherwise (`engine`) and the kernel."""

    def __init__(self, fusion: Fusion, binding: Binding, moved_bytes: int, engine: Engine = "eager") -> None:
        self.fusion, self.binding, self.moved_bytes, self.engine = fusion, binding, moved_bytes, engine
        self.key = fusion.fingerprint, binding_hash(fusion, binding)
        self.count = 0
        self.state: State = "waiting"
        self.kernel: Kernel | None = None
        self.otherwise_us: float | None = None
        self.kernel_us: float | None = None
        self.why = "no kernel yet"
        self._pending: TimedPair | None = None
        self._has_looked = False

    @property
    def weight(self) -> float:
        """What a kernel is worth: bytes that a step moves."""
        return float(self.count * self.moved_bytes)

    @property
    def name(self) -> str:
        """What ranks agree on, the same word on each of them."""
        return f"{self.engine}:{'/'.join(self.key)}"

    @property
    def is_taken(self) -> bool:
        """Whether the kernel runs."""
        return self.state == "taken"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come of it, unless the kernel fails."""
        return self.state in ("taken", "slower", "failed")

    @property
    def is_faster(self) -> bool:
        """Whether the kernel was measured faster than what would run otherwise."""
        return self.state in ("faster", "taken")

    def is_open(self, source: KernelSource) -> bool:
        """Whether something may still come of it without being asked for again."""
        if self.state == "waiting":
            return why_not(source, self) is None
        return self.state in ("arrived", "timing")

    def settle(self, source: KernelSource) -> None:
        """Looks what came, and what was measured. Called where no step is under way."""
        if self.state == "waiting":
            self.kernel = self._look(source)
            if self.kernel is not None:
                self.state, self.why = "arrived", "not timed yet"
            elif (said := why_not(source, self)) is not None:
                self.why = f"no kernel: {said.splitlines()[0]}"
        elif self.state == "timing" and self._pending is not None and (found := self._pending.us()) is not None:
            self._pending = None
            self.judge(*found)

    def _look(self, source: KernelSource) -> Kernel | None:
        """A key's hash takes milliseconds: it is worked out at the first look alone, where the source knows keys."""
        by_key = getattr(source, "kernel_of", None) if self._has_looked else None
        self._has_looked = True
        found: Kernel | None = source.peek(self.fusion, self.binding) if by_key is None else by_key(self.key)
        return found

    def judge(self, otherwise_us: float, kernel_us: float) -> None:
        """What was measured, here or in a process before."""
        self.otherwise_us, self.kernel_us = otherwise_us, kernel_us
        is_faster = kernel_us < otherwise_us
        self.state = "faster" if is_faster else "slower"
        told = f"{kernel_us:.1f} us by the kernel, {otherwise_us:.1f} us in {self.engine}"
        self.why = "not taken over yet" if is_faster else f"not faster: {told}"

    def take(self) -> bool:
        """The kernel runs from now on; whether it did not before."""
        if self.state != "faster":
            return False
        self.state, self.why = "taken", ""
        return True

    def time(self, clock: Clock, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> None:
        """Has both timed once."""
        self.state, self.why = "timing", "being timed"
        self._pending = clock.compare(otherwise, kernel)

    def fail(self, error: Exception) -> None:
        """What would run otherwise does from now on."""
        self.state, self.why = "failed", str(error)


class LibraryChoice(KernelChoice):
    """One whose kernel is an operator of torch, which is there at once."""

    def __init__(self, region_key: tuple[str, str], kernel: Any, like: KernelChoice) -> None:
        super().__init__(like.fusion, like.binding, like.moved_bytes, like.engine)
        self.key, self._there = region_key, kernel

    def _look(self, source: KernelSource) -> Any:
        return self._there


class KernelChoices:
    """All fusions of a process, each binding once, beside one engine."""

    def __init__(self, engine: Engine = "eager") -> None:
        self.engine: Engine = engine
        self.known: dict[tuple[str, str], KernelChoice] = {}

    def of(self, fusion: Fusion, binding: Binding, moved_bytes: int) -> KernelChoice:
        """The choice for this key, for one region more."""
        made = KernelChoice(fusion, binding, moved_bytes, self.engine)
        return self.adopt(made)

    def adopt(self, made: KernelChoice) -> KernelChoice:
        """The choice of this key that is known, or else this one, for one region more."""
        found = self.known.setdefault(made.key, made)
        found.count += 1
        return found


def why_not(source: KernelSource, choice: KernelChoice) -> str | None:
    """Why the source has given no kernel, where it says so."""
    told = getattr(source, "failure_of", None)
    found: str | None = None if told is None else told(choice.key)
    return found


def missing(choices: Iterable[KernelChoice]) -> list[KernelChoice]:
    """Those without a kernel, each once, the heaviest first."""
    once = {choice.key: choice for choice in choices if choice.kernel is None}
    return sorted(once.values(), key=lambda choice: (-choice.weight, choice.key))
