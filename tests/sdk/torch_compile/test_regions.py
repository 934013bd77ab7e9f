"""What the partitioner proposes, on graphs of a few operators and on whole layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from fusetune.torch_compile.regions.limits import MOST_OPERATORS
from fusetune.torch_compile.regions.memory import peak_of
from fusetune.torch_compile.regions.operators import name_of
from fusetune.torch_compile.regions.order import steps_of
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.regions.region import Region

FOREIGN = {"mm", "sort"}


def say(node: fx.Node) -> bool:
    return name_of(node) not in FOREIGN


def traced(fn: Callable[..., object], *shapes: tuple[int, ...]) -> fx.Graph:
    gm = make_fx(fn, tracing_mode="fake")(*(torch.randn(shape) for shape in shapes))
    gm.graph.eliminate_dead_code()
    return gm.graph


def names(regions: tuple[Region, ...]) -> list[str]:
    return [" ".join(name_of(node) for node in region.nodes) for region in regions]


BIG = (64, 64)

CASES = [
    pytest.param(lambda x, y: torch.relu(x + y), [BIG, BIG], ["add relu"], id="a-chain"),
    pytest.param(lambda x: torch.relu(x), [BIG], [], id="one-operator-is-none"),
    pytest.param(lambda x: x.sum(1), [BIG], ["sum"], id="one-fold-is-one"),
    pytest.param(lambda x: x.t().contiguous(), [BIG], ["clone"], id="one-copy-is-one-its-view-outside"),
    pytest.param(lambda x, y: torch.relu(x @ y) + 1, [BIG, BIG], ["relu add"], id="behind-a-product"),
    pytest.param(
        lambda x, y: torch.exp(torch.relu(torch.relu(x) + 1) @ y) * 2, [BIG, BIG], ["relu add relu", "exp mul"],
        id="around-a-product",
    ),
    pytest.param(
        lambda x, y: (z := torch.relu(x) + 1) + torch.exp(z @ y), [BIG, BIG], ["relu add", "exp add"],
        id="no-cycle-through-a-product",
    ),
    pytest.param(lambda x: (torch.relu(x) + 1).t(), [BIG], ["relu add"], id="a-view-behind-stays-outside"),
    pytest.param(lambda x: torch.relu(x.t()) + 1, [BIG], ["relu add"], id="a-view-before-stays-outside"),
    pytest.param(
        lambda x: torch.exp(torch.relu(x).t()) + x, [BIG], ["relu t exp add"], id="a-view-between-stays-inside"
    ),
    pytest.param(
        lambda x, b: torch.relu(x + b.expand(64, 64)), [BIG, (64,)], ["expand add relu"], id="a-broadcast-stays-inside"
    ),
    pytest.param(
        lambda x: torch.relu(x[:32]) + torch.exp(x[32:]), [BIG], ["slice relu slice exp add"],
        id="two-views-of-one-tensor-are-one-input",
    ),
    pytest.param(
        lambda x: (torch.relu(x).sum(0), torch.exp(x).sum(1)), [BIG], ["relu sum exp sum"],
        id="siblings-share-a-large-input",
    ),
    pytest.param(
        lambda x, b: (torch.relu(x * b) + 1, torch.exp(b) + 2), [BIG, (64,)], ["mul relu add", "exp add"],
        id="siblings-of-a-small-input-are-none",
    ),
    pytest.param(
        lambda x, y: (torch.relu(x.double()) + 1, torch.exp((x.double() * 2).float() @ y) * 2), [BIG, BIG],
        ["_to_copy relu add _to_copy mul _to_copy", "exp mul"], id="a-cast-is-had-again",
    ),
    pytest.param(lambda x: torch.exp(x[:0] * 2) + 1, [BIG], [], id="what-has-no-elements-is-in-none"),
    pytest.param(
        lambda x: torch.exp(x.as_strided((62, 3), (1, 1)) * 2) + 1, [BIG], ["exp add"],
        id="windows-are-read-outside",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "shapes", "expected"), CASES)
def test_regions(fn: Callable[..., object], shapes: list[tuple[int, ...]], expected: list[str]) -> None:
    _, regions = propose(traced(fn, *shapes), say)
    found = names(regions)
    assert found == expected


def test_a_region_is_no_larger_than_a_fusion_may_be() -> None:
    def many(x: torch.Tensor) -> torch.Tensor:
        for _ in range(MOST_OPERATORS // 2):
            x = torch.relu(x) + 1
        return x

    _, regions = propose(traced(many, BIG), say)
    assert sum(region.operators for region in regions) == MOST_OPERATORS // 2 * 2
    assert len(regions) >= 3
    assert all(3 * region.operators <= MOST_OPERATORS for region in regions)


def test_a_write_follows_all_that_read() -> None:
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        before = torch.relu(x) + 1
        x.copy_(y)
        return before * y

    graph = traced(written, BIG, BIG)
    flow, regions = propose(graph, lambda node: say(node) and name_of(node) != "copy_")
    order = [name_of(node) for step in steps_of(flow, regions) for node in step.nodes]
    assert order.index("relu") < order.index("copy_")


def test_the_same_graph_gives_the_same_regions() -> None:
    def some(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ y) * torch.exp(x), -1) @ y

    first, second = (names(propose(traced(some, BIG, BIG), say)[1]) for _ in range(2))
    assert first == second


def test_no_more_memory_than_without_regions() -> None:
    def long_lives(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = y
        for _ in range(4):
            total = torch.relu(x) + (total @ y)
        return total * torch.relu(x)

    flow, regions = propose(traced(long_lives, BIG, BIG), say)
    assert peak_of(flow, steps_of(flow, regions)).bytes <= 1.02 * peak_of(flow, steps_of(flow, ())).bytes


def test_what_would_hold_too_much_is_cut_where_something_else_stands() -> None:
    """Each product is added as soon as it is there."""

    def experts(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        for weight in weights:
            out = out + torch.relu(x @ weight) * 2
        return out

    flow, regions = propose(traced(experts, *[BIG] * 9), say)
    assert len(regions) > 1
    assert sum(region.operators for region in regions) == 3 * 8
    assert peak_of(flow, steps_of(flow, regions)).bytes <= 1.02 * peak_of(flow, steps_of(flow, ())).bytes
