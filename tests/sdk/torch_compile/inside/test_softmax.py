"""Inductor's softmax in one sweep: taken apart it is the same numbers, and put together again the same graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch._inductor.inductor_prims import prepare_softmax_online
from torch.fx.experimental.proxy_tensor import make_fx

from fusetune.torch_compile.inside.softmax import ONLINE, put_together, take_apart
from fusetune.torch_compile.regions.operators import name_of


def log_softmax(x: torch.Tensor) -> Any:
    largest, total = prepare_softmax_online(x, 1)
    return (x - largest) - total.log()


def softmax(x: torch.Tensor) -> Any:
    largest, total = prepare_softmax_online(x, -1)
    apart = torch.exp(x - largest)
    return apart / total, apart


def saved(x: torch.Tensor) -> Any:
    return prepare_softmax_online(x, 0)


def twice(x: torch.Tensor) -> Any:
    return log_softmax(x), softmax(x)


FUNCTIONS = (log_softmax, softmax, saved, twice)


def traced(function: Callable[..., Any]) -> tuple[fx.GraphModule, torch.Tensor]:
    x = torch.tensor([[1.0, 3.0, 2.0], [-4.0, 0.5, 0.25]])
    return make_fx(function)(x), x


def names(gm: fx.GraphModule) -> list[str]:
    return [name_of(node) or str(node.target) for node in gm.graph.nodes]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_apart_it_is_the_same_numbers(function: Callable[..., Any]) -> None:
    gm, x = traced(function)
    assert ONLINE in names(gm)
    take_apart(gm.graph)
    gm.graph.lint()
    gm.recompile()
    assert ONLINE not in names(gm)
    torch.testing.assert_close(gm(x), function(x), rtol=0, atol=0)
    assert all(node.meta["val"].shape is not None for node in gm.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_no_kernel_took_is_put_together_again(function: Callable[..., Any]) -> None:
    gm, x = traced(function)
    before = names(gm)
    put_together(gm.graph, take_apart(gm.graph))
    gm.graph.lint()
    gm.recompile()
    assert sorted(names(gm)) == sorted(before)
    torch.testing.assert_close(gm(x), function(x), rtol=0, atol=0)


def test_what_a_kernel_took_stays_apart() -> None:
    gm, _ = traced(saved)
    apart = take_apart(gm.graph)
    total = apart[0].total
    total.replace_all_uses_with(apart[0].largest)
    gm.graph.erase_node(total)
    put_together(gm.graph, apart)
    assert ONLINE not in names(gm)


def test_exponentials_of_the_graph_are_not_made_twice() -> None:
    gm, _ = traced(softmax)
    take_apart(gm.graph)
    assert [names(gm).count(name) for name in ("exp", "sub")] == [1, 1]
