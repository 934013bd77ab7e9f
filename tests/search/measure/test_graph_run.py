"""How many replays a timing takes, and what it says of them: over a stand-in for torch's CUDA that counts them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from search.measure.cuda_timing import WARM_MS, GraphRun, Samples
from search.measure.halving import FEW

BUFFERS = 4


class Clocked:
    """torch.cuda as far as `GraphRun` goes. A call takes `us` (of the replay's number), events read the clock."""

    def __init__(self, us: Callable[[int], float]) -> None:
        self.us = us
        self.now_us = 0.0
        self.replays = 0
        self.captured = 0
        self.is_capturing = False

    def call(self) -> None:
        if self.is_capturing:
            self.captured += 1
        else:
            self.now_us += self.us(0)

    def replay(self) -> None:
        self.replays += 1
        self.now_us += self.captured * self.us(self.replays)

    def Stream(self) -> Any:  # noqa: N802  # torch's name
        return self

    current_stream = Stream

    def wait_stream(self, stream: Any) -> None: ...

    def stream(self, stream: Any) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def CUDAGraph(self) -> Any:  # noqa: N802  # torch's name
        return self

    def capture_begin(self, capture_error_mode: str) -> None:
        self.is_capturing = True

    def capture_end(self) -> None:
        self.is_capturing = False

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802  # torch's name
        return Event(self)


class Event:
    def __init__(self, clock: Clocked) -> None:
        self._clock = clock
        self.us = 0.0

    def record(self, stream: Any = None) -> None:
        self.us = self._clock.now_us

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: Event) -> float:
        return (other.us - self.us) / 1000.0


class Calls:
    """Calls that change their inputs or not."""

    sets = BUFFERS

    def __init__(self, clock: Clocked, *, restores: bool) -> None:
        self._clock = clock
        self._restores = restores
        self.restored = 0

    def restore(self) -> bool:
        self.restored += self._restores
        return self._restores

    def __call__(self, call: int, stream: Any) -> None:
        self._clock.call()


class Arrays:
    def __init__(self, clock: Clocked) -> None:
        self.xp = type("Torch", (), {"cuda": clock})


def timed(
    us: float | Callable[[int], float], reach_us: float, *, restores: bool = False
) -> tuple[Samples, int, GraphRun]:
    """The samples, the replays of which the first is to see how long one takes and others warm up, and the run."""
    clock = Clocked(us if callable(us) else lambda replay: us)
    GraphRun.last_work_s = math.inf  # the GPU has just been busy
    run = GraphRun(Calls(clock, restores=restores), Arrays(clock))  # type: ignore[arg-type]  # stand-ins
    return run.samples(10.0, reach_us), clock.replays, run


WARMING = 1 + math.ceil(WARM_MS)


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize(
    ("us", "reach_us", "count", "ended_early", "untimed"),
    [
        pytest.param(10.0, math.inf, 10, False, 0, id="nothing-is-known"),
        pytest.param(10.0, 9.2, 10, False, 1, id="near-the-best"),
        pytest.param(10.0, 9.0, FEW, True, 0, id="beyond-it"),
        pytest.param(10_000.0, 10.0, 3, False, 0, id="so-slow-that-there-are-few"),
    ],
)
def test_how_many_samples_are_taken(
    us: float, reach_us: float, count: int, ended_early: bool, untimed: int, restores: bool
) -> None:
    samples, replays, run = timed(us, reach_us, restores=restores)
    assert samples.us == pytest.approx((us,) * count)
    assert (samples.ended_early, samples.retaken, samples.calls_per_sample) == (ended_early, False, run.calls)
    assert replays >= count
    if us == 10.0:
        assert replays == WARMING + count + (0 if restores else untimed)


def test_noisy_samples_are_taken_once_more_but_not_of_what_is_slower_beyond_doubt() -> None:
    def jumps(replay: int) -> float:
        return 10.0 if replay % 2 else 20.0

    near, _, _ = timed(jumps, 9.2)
    far, _, _ = timed(jumps, 5.0)
    assert (near.retaken, near.ended_early) == (True, False)
    assert (far.retaken, far.ended_early, len(far.us)) == (False, True, FEW)
    assert len(near.us) > len(far.us)
