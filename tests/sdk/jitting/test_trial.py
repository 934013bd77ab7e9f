"""A kernel is taken where it is measured faster than eager, and nobody waits for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fusetune
from fusetune.errors import FusetuneError, LaunchFailed, NotCached
from fusetune.jitting.function import JitFunction
from tests.sdk.jitting.sources import ReferenceSource

FASTER, SLOWER, EQUAL = (20.0, 10.0), (10.0, 20.0), (10.0, 10.0)


class ScriptedClock:
    """Runs both twice, and knows after so many questions what they took."""

    def __init__(self, us: tuple[float, float], late: int = 0) -> None:
        self.found, self.late, self.compared = us, late, 0

    def compare(self, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> ScriptedClock:
        self.compared += 1
        for call in (otherwise, kernel) * 2:
            call()
        return self

    def us(self) -> tuple[float, float] | None:
        self.late -= 1
        return None if self.late >= 0 else self.found


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def jitted(function: Any, clock: ScriptedClock, **options: Any) -> JitFunction:
    made: JitFunction = fusetune.jit(function, source=ReferenceSource(is_prompt=True), **options)
    made._clock = clock
    return made


def runs(function: JitFunction) -> list[tuple[str, int]]:
    return [(row["runs"], row["calls"]) for row in function.keys()]  # noqa: SIM118 (no dictionary)


@pytest.mark.parametrize("mode", ["background", "block"])
@pytest.mark.parametrize(
    ("us", "runs_then", "said"),
    [
        pytest.param(FASTER, "reference", "measured here: 10.0 us by the kernel, 20.0 us in eager", id="faster"),
        pytest.param(SLOWER, "eager", "not faster: 20.0 us by the kernel, 10.0 us in eager", id="slower"),
        pytest.param(EQUAL, "eager", "not faster", id="as fast"),
    ],
)
def test_a_kernel_is_taken_where_it_is_faster(mode: str, us: tuple[float, float], runs_then: str, said: str) -> None:
    clock, x = ScriptedClock(us), torch.randn(8)
    function = jitted(scaled, clock, mode=mode)
    for _ in range(4):
        torch.testing.assert_close(function(x), scaled(x))
    assert runs(function) == [(runs_then, 4)]
    assert said in function.explain(x)
    assert clock.compared == 1


def test_a_call_does_not_wait_for_the_clock() -> None:
    clock, x = ScriptedClock(FASTER, late=3), torch.randn(8)
    function = jitted(scaled, clock)
    function(x)  # asked for
    seen = []
    for _ in range(5):
        function(x)
        seen += [row["runs"] for row in function.keys()]  # noqa: SIM118 (no dictionary)
    assert seen[0] == "eager"
    assert seen[-1] == "reference"
    assert clock.compared == 1


@pytest.mark.parametrize("options", [{"take": "always"}, {"mode": "cached"}, {"fallback": "raise", "mode": "block"}])
def test_what_somebody_decided_is_not_judged(options: dict[str, Any]) -> None:
    clock, x = ScriptedClock(SLOWER), torch.randn(8)
    function = jitted(scaled, clock, **options)
    source: Any = function.source
    source.request(function.lower(x), function._specialized((x,), {}).binding, weight=1.0)
    function(x)
    function(x)
    assert [how for how, _ in runs(function)] == ["reference"]
    assert clock.compared == 0


def test_in_assert_cached_a_kernel_that_is_there_runs() -> None:
    clock, x = ScriptedClock(SLOWER, late=100), torch.randn(8)
    function = jitted(scaled, clock)
    with fusetune.assert_cached():
        with pytest.raises(NotCached):
            function(x)
        function(x)
    assert clock.compared == 0


def test_in_assert_cached_a_kernel_that_is_not_faster_runs() -> None:
    clock, x = ScriptedClock(SLOWER), torch.randn(8)
    function = jitted(scaled, clock, mode="block")
    function(x)
    assert runs(function) == [("eager", 1)]
    with fusetune.assert_cached():
        torch.testing.assert_close(function(x), scaled(x))
    assert runs(function) == [("reference", 2)]
    assert clock.compared == 1


def test_what_a_call_changes_is_changed_once() -> None:
    function = jitted(lambda x, y: x.mul_(2).add(y), ScriptedClock(FASTER), mode="block")
    x, y = torch.ones(4), torch.ones(4)
    for n in range(1, 4):
        assert function(x, y).tolist() == [2.0**n + 1] * 4
        assert x.tolist() == [2.0**n] * 4
    assert runs(function) == [("reference", 3)]


class Counted(nn.Module):
    """Changes a buffer."""

    sums: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sums += x
        return x * 2


def test_what_a_module_holds_is_changed_once() -> None:
    module = Counted()
    function = jitted(module, ScriptedClock(FASTER), mode="block")
    for n in range(1, 4):
        function(torch.ones(4))
        assert module.sums.tolist() == [float(n)] * 4


@pytest.mark.parametrize("us", [FASTER, SLOWER])
def test_with_gradients_both_halves_are_timed_and_nobodys_grad_is_changed(us: tuple[float, float]) -> None:
    clock = ScriptedClock(us)
    function = jitted(lambda x, w: torch.tanh(x * w).sum(-1), clock, mode="block", grad=True)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    for _ in range(3):
        x.grad = w.grad = None
        function(x, w).sum().backward()
        found = x.grad, w.grad
        x.grad = w.grad = None
        torch.tanh(x * w).sum(-1).sum().backward()
        torch.testing.assert_close(found, (x.grad, w.grad))
    assert clock.compared == 1
    assert [how for how, _ in runs(function)] == ["reference" if us is FASTER else "eager"]


class Failing(ScriptedClock):
    """Of no use."""

    def __init__(self, error: Exception) -> None:
        super().__init__(FASTER)
        self.error = error

    def compare(self, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> ScriptedClock:
        raise self.error


@pytest.mark.parametrize("error", [FusetuneError("the guard"), RuntimeError("out of memory\nand more")])
def test_what_cannot_be_timed_runs_in_eager(error: Exception) -> None:
    function, x = jitted(scaled, Failing(error), mode="block"), torch.randn(8)
    for _ in range(2):
        torch.testing.assert_close(function(x), scaled(x))
    assert runs(function) == [("eager", 2)]
    assert f"its kernel could not be timed: {str(error).splitlines()[0]}" in function.explain(x)


def test_after_a_launch_that_failed_nothing_is_tried() -> None:
    function = jitted(scaled, Failing(LaunchFailed("cuLaunchKernel", "CUDA_ERROR_ILLEGAL_ADDRESS", 700)), mode="block")
    with pytest.raises(LaunchFailed):
        function(torch.randn(8))


def test_a_sync_point_takes_what_is_faster() -> None:
    x = torch.randn(8)
    quick, slow = (jitted(scaled, ScriptedClock(us), swap="sync_point") for us in (FASTER, SLOWER))
    for function in (quick, slow, quick, slow):
        function(x)
    assert fusetune.sync_point() == 1
    assert runs(quick) == [("reference", 2)]
    assert runs(slow) == [("eager", 2)]
