"""Products with what surrounds them: what is found, what runs without a kernel, and what is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.regions.memory import peak_of
from fusetune.torch_compile.regions.operators import name_of
from fusetune.torch_compile.regions.order import steps_of
from fusetune.torch_compile.regions.products import WithProducts, with_products
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.reporting import report_of
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock

FOREIGN = {"mm", "addmm", "bmm", "sort", "_softmax", "rand_like"}
HALF, FULL, BYTE = torch.bfloat16, torch.float32, torch.int8

DRAWS = "the region: it draws random numbers, with its product."

Shape = tuple[tuple[int, ...], torch.dtype]
X, W, B = ((64, 32), HALF), ((32, 32), HALF), ((32,), HALF)


def graph_of(fn: Callable[..., object], shapes: Sequence[Shape]) -> fx.Graph:
    gm = make_fx(fn, tracing_mode="fake")(*(torch.ones(shape, dtype=dtype) for shape, dtype in shapes))
    gm.graph.eliminate_dead_code()
    for n, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        node._rename(f"primals_{n}")  # the caller's, which holds them
    return gm.graph


def found_in(fn: Callable[..., object], shapes: Sequence[Shape], least: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    flow, regions = propose(graph_of(fn, shapes), lambda node: name_of(node) not in FOREIGN)
    ways = with_products(flow, regions, least)
    steps_of(flow, [way.region for way in ways])  # none needs another that needs it
    return [(units_of(way), way.covers) for way in ways]


def units_of(way: WithProducts) -> str:
    return " ".join(name_of(unit.head) for unit in way.region.units)


def test_f32_is_ours_where_torch_may_multiply_it_in_tf32() -> None:
    shapes = [((64, 32), FULL), ((32, 32), FULL)]
    torch.set_float32_matmul_precision("high")
    try:
        assert found_in(lambda x, w: torch.relu(x @ w) + 1, shapes) == [("mm relu add", (0,))]
    finally:
        torch.set_float32_matmul_precision("highest")
    assert found_in(lambda x, w: torch.relu(x @ w) + 1, shapes) == []


FOUND = [
    pytest.param(lambda x, w: torch.relu(x @ w) + 1, [X, W], [("mm relu add", (0,))], id="a-region-behind"),
    pytest.param(lambda x, w: torch.relu(x @ w), [X, W], [("mm relu", ())], id="one-operator-behind-is-enough"),
    pytest.param(
        lambda x, w, b: F.silu(torch.addmm(b, x, w).view(2, 32, 32)) * 2, [X, W, B], [("addmm silu mul", (0,))],
        id="a-view-between",
    ),
    pytest.param(
        lambda x, w, v: F.silu(x @ w) * (x @ v), [X, W, W], [("mm silu mm mul", (0,))], id="a-gate-and-what-it-scales"
    ),
    pytest.param(
        lambda x, w: (y := x @ w, torch.relu(y) + 1), [X, W], [("mm relu add", (0,))], id="the-product-is-saved-too"
    ),
    pytest.param(
        lambda x, w: F.silu(torch.relu(x @ w) @ w) * 2, [X, W], [("mm relu", ()), ("mm silu mul", (0,))],
        id="each-product-has-what-follows-it",
    ),
    pytest.param(
        lambda x, w: x @ w.to(HALF), [X, ((32, 32), BYTE)], [("_to_copy mm", ())], id="weights-of-bytes-before-it"
    ),
    pytest.param(
        lambda x, w, s: (x @ (w.to(HALF) * s)).relu(), [X, ((32, 32), BYTE), B], [("mul mm relu", ())],
        id="weights-of-bytes-with-scales-and-what-follows",
    ),
    pytest.param(lambda x, w: x @ w, [X, W], [], id="a-product-alone-is-the-librarys"),
    pytest.param(
        lambda x, w: (y := x @ w).sort(1)[0] + torch.relu(y), [X, W], [], id="what-else-reads-it-is-not-ours"
    ),
    pytest.param(
        lambda x, w: torch.relu(x @ w) + 1, [((64, 32), FULL), ((32, 32), FULL)], [], id="f32-is-the-librarys"
    ),
    pytest.param(
        lambda x, w, u, v: torch.addcmul(x @ w, x @ u, x @ v), [X, W, W, W], [], id="three-products-are-no-kernel"
    ),
    pytest.param(
        lambda x, w: torch.relu(x @ w) * 2 * torch.rand_like(x), [X, W], [], id="what-is-drawn-behind-it-for-the-region"
    ),
    pytest.param(
        lambda x, w: (torch.relu(x @ w) * 2 * torch.rand_like(x), torch.relu(x @ w) + 1), [X, W],
        [("mm relu add", (1,))], id="what-is-drawn-costs-no-other-product",
    ),
    pytest.param(
        lambda x, w: (torch.relu(x) * 2) @ w, [X, W], [], id="what-is-made-of-as-many-bytes-stays-before-it"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "shapes", "expected"), FOUND)
def test_what_is_found(fn: Callable[..., object], shapes: list[Shape], expected: list[Any]) -> None:
    assert found_in(fn, shapes) == expected


def test_what_moves_little_is_left_alone() -> None:
    moved = 2 * (64 * 32 + 32 * 32 + 64 * 32)
    assert found_in(lambda x, w: torch.relu(x @ w), [X, W], moved) != []
    assert found_in(lambda x, w: torch.relu(x @ w), [X, W], moved + 1) == []


def test_none_holds_more_memory_than_eager() -> None:
    """A product's wide operand lives on until the operand that comes late is there, if both are one kernel."""

    def late(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        wide = torch.sort(x.repeat(1, 16), 1)[0]
        narrow = wide @ w
        other = torch.sort(torch.sort((x @ v).repeat(1, 15), 1)[0], 1)[0]
        return torch.relu(narrow + other[:, :8]) * 2

    shapes: list[Shape] = [X, ((512, 8), HALF), ((32, 32), HALF)]
    flow, regions = propose(graph_of(late, shapes), lambda node: name_of(node) not in {*FOREIGN, "repeat", "clone"})
    ways = with_products(flow, regions, 0)
    limit = peak_of(flow, steps_of(flow, ())).bytes
    covered = {n for way in ways for n in way.covers}
    every = [*(way.region for way in ways), *(x for n, x in enumerate(regions) if n not in covered)]
    assert peak_of(flow, steps_of(flow, every)).bytes <= 1.02 * limit
    assert ways == ()


def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(torch.addmm(b, x, w)) * x


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(5)
    return [torch.randn(shape).to(dtype) for shape, dtype in (X, W, B)]


def run_of(source: Any, clock: FixedClock) -> tuple[Callable[[], torch.Tensor], CompileBackend]:
    torch._dynamo.reset()
    ours = CompileBackend(source, clock)
    run = torch.compile(layer, backend=ours, options={"engine": "eager", "least_bytes": 0, "strict": True})
    return lambda: run(*inputs()), ours


@pytest.mark.parametrize(("clock", "is_taken"), [(FixedClock(2.0, 1.0), True), (FixedClock(1.0, 2.0), False)])
def test_a_product_with_its_neighbours_is_taken_where_that_was_faster(clock: FixedClock, is_taken: bool) -> None:
    source = FakeKernels()
    run, ours = run_of(source, clock)
    for _ in range(4):
        torch.testing.assert_close(run(), layer(*inputs()), rtol=2e-2, atol=2e-2)
    rows = report_of(ours.proposed).rows
    assert [row.operators for row in rows] == [2, 3]
    assert {row.why for row in rows} == ({""} if is_taken else {"not faster: 2.0 us by the kernel, 1.0 us in eager"})
    both = next(kernel for kernel in source.kernels.values() if any(op.op == "matmul" for op in kernel.fusion.ops))
    assert both.calls == (3 if is_taken else 0)  # of four steps


def test_without_its_kernel_the_region_in_it_has_its_own() -> None:
    class Own(FakeKernels):
        def peek(self, fusion: Any, binding: Any) -> Any:
            return None if any(op.op == "matmul" for op in fusion.ops) else super().peek(fusion, binding)

    source = Own()
    run, ours = run_of(source, FixedClock())
    for _ in range(4):
        torch.testing.assert_close(run(), layer(*inputs()), rtol=2e-2, atol=2e-2)
    assert sum(kernel.calls for kernel in source.kernels.values()) == 3
    assert [row.why for row in report_of(ours.proposed).rows] == ["", "no kernel yet"]
    assert len(source.asked) == 1  # the region's was there


@pytest.mark.parametrize(
    ("dropped", "whys"),
    [
        pytest.param(lambda x, w: F.dropout(torch.relu(x @ w), 0.5, True) * 2, ["", DRAWS], id="in-a-region"),
        pytest.param(lambda x, w: F.dropout(x @ w, 0.5, True), [DRAWS], id="alone-behind-a-product"),
    ],
)
def test_what_fusions_cannot_say_with_its_product_costs_nothing(
    dropped: Callable[..., torch.Tensor], whys: list[str]
) -> None:
    """Random numbers are drawn by the region alone."""
    torch._dynamo.reset()
    ours = CompileBackend(FakeKernels(), FixedClock())
    run = torch.compile(dropped, backend=ours, options={"engine": "eager", "least_bytes": 0, "strict": True})
    x, w, _ = inputs()
    for _ in range(3):
        found = run(x, w)
    assert 0.4 < float((found == 0).float().mean()) < 0.9
    assert [row.why for row in report_of(ours.proposed).rows] == whys
