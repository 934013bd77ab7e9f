"""Regions inside Inductor: found beside a running graph, timed, compiled in, and taken between steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.exc import InductorError

import fusetune
from benchmarks.models.catalogue import MODELS, Setting, seed
from fusetune.errors import FusetuneWarning
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.inside.notes import Notes
from fusetune.torch_compile.inside.sized import SizedGraph
from fusetune.torch_compile.reporting import report_of
from fusetune.wire import fingerprint
from tests.sdk.torch_compile.inside.interpreted import interpreted
from tests.sdk.torch_compile.reference_kernels import BrokenKernels, FakeKernels, FixedClock, OneKernel, RunningClock
from tests.sdk.torch_compile.stepping import EqualLayers, a_step

INSIDE: dict[str, Any] = {"engine": "inductor", "least_bytes": 0, "strict": True}

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")

X, Y, W = torch.randn(8, 32), torch.randn(8, 32), torch.randn(32, 32)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def around(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two regions with a product between them."""
    return torch.softmax(torch.nn.functional.silu(x * 2 + y) @ w, -1) * x


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2) + y


def backend(source: Any = None, clock: FixedClock | None = None, notes: Notes | None = None) -> CompileBackend:
    chosen: Any = source or FakeKernels()
    return CompileBackend(chosen, clock or FixedClock(), notes, interpreted)


def compiled(function: Callable[..., Any], ours: CompileBackend, **options: Any) -> Callable[..., Any]:
    dynamic = options.pop("dynamic", False)
    return torch.compile(function, backend=ours, options={**INSIDE, **options}, dynamic=dynamic)


def graph_of(ours: CompileBackend) -> SizedGraph:
    (session,) = ours._inside
    return next(iter(session.graphs.values()))


def keys_of(ours: CompileBackend) -> Any:
    """The kernels of the version that runs."""
    version = graph_of(ours).version
    assert version is not None
    return version.keys


def settled(ours: CompileBackend, step: Callable[[], Any], most: int = 60) -> Any:
    """Steps until nothing more comes; the last one's result."""
    for _ in range(most):
        found = step()
        fusetune.wait(60)
        if ours._inside and ours._inside[0].graphs and graph_of(ours).is_quiet:
            return step()
    return found


def calls(source: FakeKernels) -> int:
    return sum(kernel.calls for kernel in source.kernels.values())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "convnext" else pytest.mark.long) for name in MODELS]
)
def test_outputs_and_gradients_are_inductors_before_and_after_the_swap(name: str) -> None:
    seed()
    module, inputs = MODELS[name].make(Setting(torch.device("cpu"), torch.float32, is_small=True))
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    plain, source = copy.deepcopy(module), FakeKernels()
    ours = backend(source)
    run = compiled(module, ours)
    expected = a_step(plain, plain, inputs)

    def step() -> None:
        for mine, theirs in zip(a_step(run, module, inputs), expected, strict=True):
            pairs = zip(mine.shape, mine.stride(), theirs.stride(), strict=True)
            assert all(size == 1 or one == other for size, one, other in pairs)
            torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5 * float(theirs.abs().max()))

    settled(ours, step)
    graph = graph_of(ours)
    assert graph.version is not None
    assert graph.version.keys == frozenset(graph.choices)
    before = calls(source)
    step()
    assert calls(source) - before == sum(bool(x.choices) for x in graph.reported) > 0


def test_the_first_step_is_inductors_alone_and_nothing_is_looked_at() -> None:
    source = FakeKernels()
    ours = backend(source)
    run = compiled(around, ours)
    run(X, Y, W)
    assert (source.looks, source.asked, graph_of(ours).regions) == (0, [], None)


def test_a_kernel_that_is_not_faster_than_inductors_stays_out() -> None:
    source, clock = FakeKernels(), FixedClock(1.0, 2.0)
    ours = backend(source, clock)
    run = compiled(around, ours)
    torch.testing.assert_close(settled(ours, lambda: run(X, Y, W)), around(X, Y, W))
    assert (calls(source), graph_of(ours).version, len(clock.compared)) == (0, None, 2)
    assert report_of(ours.reported).rows[0].why == "not faster: 2.0 us by the kernel, 1.0 us in inductor"


def test_a_backward_belongs_to_its_forward() -> None:
    source = FakeKernels()
    ours = backend(source)
    run = compiled(around, ours)
    x, early = X.clone().requires_grad_(), X.clone().requires_grad_()
    held = run(early, Y, W)
    settled(ours, lambda: run(x, Y, W).sum().backward())
    before = calls(source)
    held.sum().backward()
    assert calls(source) == before
    plain = X.clone().requires_grad_()
    around(plain, Y, W).sum().backward()
    torch.testing.assert_close(early.grad, plain.grad)


def test_a_second_process_takes_what_the_first_has_found(tmp_path: Path) -> None:
    first = backend(notes=Notes(tmp_path))
    run = compiled(around, first)
    settled(first, lambda: run(X, Y, W))
    torch._dynamo.reset()
    source, clock = FakeKernels(), FixedClock()
    second = backend(source, clock, Notes(tmp_path))
    run = compiled(around, second)
    torch.testing.assert_close(run(X, Y, W), around(X, Y, W))
    assert (calls(source), source.asked, clock.compared) == (2, [], [])
    rows = report_of(second.reported).rows
    assert [(row.why, row.otherwise_us, row.kernel_us) for row in rows] == [("", 2.0, 1.0)] * 2
    assert "test_sessions.py" in rows[0].line


def test_another_kernel_is_timed_again(tmp_path: Path) -> None:
    first = backend(notes=Notes(tmp_path))
    run = compiled(around, first)
    settled(first, lambda: run(X, Y, W))
    torch._dynamo.reset()
    source, clock = FakeKernels(code="another"), FixedClock()
    second = backend(source, clock, Notes(tmp_path))
    run = compiled(around, second)
    run(X, Y, W)
    assert calls(source) == 0
    settled(second, lambda: run(X, Y, W))
    assert len(clock.compared) == 2


def test_a_kernel_that_fails_costs_a_warning_and_then_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = FakeKernels()
    ours = backend(source)
    run = compiled(around, ours, strict=False)
    settled(ours, lambda: run(X, Y, W))
    for kernel in source.kernels.values():
        kernel.is_broken = True
    torch.testing.assert_close(run(X, Y, W), around(X, Y, W))
    torch.testing.assert_close(settled(ours, lambda: run(X, Y, W)), around(X, Y, W))
    assert keys_of(ours) == frozenset()
    assert sum("CUDA_ERROR" in record.message for record in caplog.records) == 2
    assert "CUDA_ERROR_INVALID_VALUE" in report_of(ours.reported).rows[0].why


def test_a_kernel_that_cannot_be_timed_stays_out() -> None:
    ours = backend(BrokenKernels(), RunningClock())
    run = compiled(around, ours, strict=False)
    torch.testing.assert_close(settled(ours, lambda: run(X, Y, W)), around(X, Y, W))
    assert all("CUDA_ERROR" in row.why for row in report_of(ours.reported).rows)


def test_an_odd_address_is_no_fault() -> None:
    ours = backend(FakeKernels(align=16))
    run = compiled(around, ours)
    settled(ours, lambda: run(X, Y, W))
    shifted = torch.randn(8 * 32 + 1)[1:].view(8, 32)
    torch.testing.assert_close(run(shifted, Y, W), around(shifted, Y, W))


def test_an_input_that_is_written_is_written() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        before = torch.relu(x) * 3 + y
        x.mul_(0.5).add_(y)
        return torch.relu(x) * 2 + before

    ours = backend()
    run = compiled(step, ours)
    mine, theirs = X.clone(), X.clone()

    def both() -> None:
        torch.testing.assert_close(run(mine, Y), step(theirs, Y))
        torch.testing.assert_close(mine, theirs)

    settled(ours, both)
    assert graph_of(ours).version is not None


def test_sizes_that_are_open_have_a_version_each() -> None:
    ours = backend()
    run = compiled(around, ours, dynamic=True)
    sizes = (8, 12, 16)

    def all_sizes() -> None:
        for rows in sizes:
            x, y = torch.randn(rows, 32), torch.randn(rows, 32)
            torch.testing.assert_close(run(x, y, W), around(x, y, W))

    for _ in range(12):
        all_sizes()
        fusetune.wait(60)
    (session,) = ours._inside
    assert len(session.graphs) == len(sizes)
    assert all(graph.version is not None for graph in session.graphs.values())


@pytest.mark.parametrize(
    ("function", "inputs", "regions"), [(scaled, (X, Y), 1), (around, (X, Y, W), 2)], ids=["one", "two"]
)
def test_block_runs_kernels_in_the_first_step(function: Any, inputs: Any, regions: int) -> None:
    source = FakeKernels(ready_after=3)
    ours = backend(source)
    run = compiled(function, ours, mode="block")
    torch.testing.assert_close(run(*inputs), function(*inputs))
    assert len(keys_of(ours)) == regions


def test_a_graph_that_inductor_fails_over_runs_in_eager_with_its_regions() -> None:
    def failing(gm: Any, inputs: Any, **settings: Any) -> Any:
        raise InductorError(IndexError("list index out of range"), None)

    source: Any = FakeKernels()
    ours = CompileBackend(source, FixedClock(), None, failing)
    run = compiled(around, ours, strict=False)
    for _ in range(3):
        torch.testing.assert_close(run(X, Y, W), around(X, Y, W))
    assert [choice.is_taken for choice in ours.choices.known.values()] == [True, True]
    torch._dynamo.reset()
    with pytest.raises(InductorError, match="out of range"):
        compiled(around, CompileBackend(source, FixedClock(), None, failing))(X, Y, W)


def test_cached_asks_nobody() -> None:
    source = FakeKernels(ready_after=1000)
    ours = backend(source)
    run = compiled(around, ours, mode="cached")
    for _ in range(4):
        run(X, Y, W)
        fusetune.wait(60)
    assert source.asked == []
    assert source.looks > 0


def test_nothing_changes_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeKernels()
    ours = backend(source)
    run = compiled(around, ours)
    for _ in range(3):
        run(X, Y, W)
        fusetune.wait(60)
    monkeypatch.setattr("fusetune.torch_compile.inside.sessions.is_capturing", lambda: True)
    looks = source.looks
    for _ in range(20):
        run(X, Y, W)
        fusetune.wait(60)
    assert (source.looks, graph_of(ours).version) == (looks, None)


def test_kernels_that_come_one_by_one_are_taken_together() -> None:
    source = OneKernel()
    ours = backend(source)
    run = compiled(around, ours)
    for _ in range(12):
        run(X, Y, W)
        fusetune.wait(60)
    assert graph_of(ours).version is None
    source.gives_all = True
    settled(ours, lambda: run(X, Y, W))
    assert len(keys_of(ours)) == 2


def test_what_cannot_be_compiled_again_runs_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    calls = count()

    def fails(*args: Any, **settings: Any) -> Any:
        if next(calls):
            raise RuntimeError("no memory")
        return interpreted(*args, **settings)

    source: Any = FakeKernels()
    ours = CompileBackend(source, FixedClock(), None, fails)
    run = compiled(around, ours, strict=False)
    for _ in range(6):
        torch.testing.assert_close(run(X, Y, W), around(X, Y, W))
        fusetune.wait(60)
    assert any("no memory" in record.message for record in caplog.records)


def test_strict_raises_what_failed_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(*args: Any) -> Any:
        raise RuntimeError("lost")

    monkeypatch.setattr(CompileBackend, "lower", lower)
    run = compiled(around, backend())

    def steps() -> None:
        for _ in range(4):
            run(X, Y, W)
            fusetune.wait(60)

    with pytest.raises(Exception, match="lost"):
        steps()


def test_without_a_card_inductor_runs_and_says_so_once() -> None:
    ours = CompileBackend(inner=interpreted)
    run = torch.compile(around, backend=ours, options={"engine": "inductor"})
    with pytest.warns(FusetuneWarning, match="Inductor runs alone"):
        found = run(X, Y, W)
    torch.testing.assert_close(found, around(X, Y, W))
    torch.compile(scaled, backend=ours, options={"engine": "inductor"})(X, Y)  # and says nothing now


def test_the_same_regions_cost_one_timing() -> None:
    source, clock = FakeKernels(), FixedClock()
    ours = backend(source, clock)
    run = compiled(EqualLayers(), ours)
    with torch.no_grad():
        settled(ours, lambda: run(X))
    assert (len(graph_of(ours).reported), len(clock.compared), len(source.kernels)) == (3, 1, 1)


def behind_product(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, approximate: str = "tanh") -> torch.Tensor:
    inner = torch.nn.functional.linear(x, w, b)
    return torch.nn.functional.gelu(inner, approximate=approximate) @ w


B = torch.randn(32)


def library_rows(ours: CompileBackend) -> list[str]:
    return [row.why for row in report_of(ours.reported).rows if row.evidence == "torch's own operator"]


def test_a_tanh_gelu_is_computed_with_its_product_where_that_is_faster() -> None:
    source = FakeKernels()
    ours = backend(source)
    run = compiled(behind_product, ours)
    with torch.no_grad():
        found = settled(ours, lambda: run(X.view(2, 4, 32), W, B))
        torch.testing.assert_close(found, behind_product(X.view(2, 4, 32), W, B), rtol=1e-4, atol=1e-4)
    assert library_rows(ours) == [""]
    assert calls(source) == 0  # the region's own kernel is not asked, though it is faster than Inductor's code


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda x, w, b: behind_product(x, w, b, "none"), id="an-exact-gelu"),
        pytest.param(lambda x, w, b: torch.nn.functional.gelu(x @ w, approximate="tanh") @ w, id="without-a-bias"),
        pytest.param(
            lambda x, w, b: (y := torch.addmm(b, x, w)) + torch.nn.functional.gelu(y, approximate="tanh") @ w,
            id="the-product-is-wanted-too",
        ),
    ],
)
def test_other_functions_are_no_epilogue(other: Callable[..., Any]) -> None:
    ours = backend()
    run = compiled(other, ours)
    with torch.no_grad():
        torch.testing.assert_close(settled(ours, lambda: run(X, W, B)), other(X, W, B), rtol=1e-4, atol=1e-4)
    assert library_rows(ours) == []


def test_what_would_be_asked_for_inside_inductor_is_known_ahead_of_time() -> None:
    found = fusetune.regions_of(around, X, Y, W, options={"engine": "inductor", "least_bytes": 0})
    source = FakeKernels(ready_after=1000)
    ours = backend(source)
    run = compiled(around, ours)
    for _ in range(3):
        run(X, Y, W)
        fusetune.wait(60)
    assert [(fingerprint(x.fusion), x.weight) for x in found] == source.asked
    assert all("test_sessions.py" in line for x in found for line in x.lines)
