"""Functions under jit on the card: random ones against eager, gradients, and a capture into a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pytest
import torch

import fusetune
from benchmarks.models.calls import FUNCTIONS, bare_launch
from fusetune.client import Client
from fusetune.running.source import ServiceSource
from fusetune.store import Store
from tests.sdk.jitting.random_functions import random_function
from tests.sdk.jitting.sources import same
from tests.service.running import running_service

pytestmark = pytest.mark.gpu
RANDOM = 100
ROUNDS = 7


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceSource]:
    store = Store(tmp_path_factory.mktemp("store"))
    with running_service(tmp_path_factory.mktemp("service"), with_gpu=True) as url:
        yield ServiceSource(lambda: Client(url, store=store), store)


def bias_gelu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x.float() + b, approximate="tanh").to(x.dtype)


def test_random_functions_are_eagers(source: ServiceSource) -> None:
    """All are asked for before any is waited for; those without a kernel are named."""
    begun, made = time.monotonic(), []
    for seed in range(RANDOM):
        function, args = random_function(seed, "cuda")
        jitted = fusetune.jit(function, source=source, effort="none", budget_s=20, take="always")
        same(jitted(*args), function(*args), 4.0)
        made.append((seed, jitted, function, args))
    assert source.wait(540)
    wrong, without = [], []
    for seed, jitted, function, args in made:
        try:
            same(jitted(*args), function(*args), 4.0)
        except AssertionError as error:
            wrong.append(f"{seed}: {error}")
        (key,) = jitted.keys()
        if key["runs"] == "eager":
            without.append(f"{seed}: {key['why']}")
    print(f"\n{RANDOM - len(without)} of {RANDOM} run kernels, {time.monotonic() - begun:.0f} s", *without, sep="\n")
    assert not wrong, "\n".join(wrong)
    assert len(without) <= RANDOM // 10


def test_gradients_are_eagers(source: ServiceSource) -> None:
    jitted = fusetune.jit(bias_gelu, source=source, mode="block", effort="none", budget_s=20, take="always", grad=True)
    results = []
    for function in (jitted, bias_gelu):
        torch.manual_seed(1)
        x = torch.randn(512, 1024, device="cuda").bfloat16().requires_grad_()
        b = torch.randn(1024, device="cuda", requires_grad=True)
        y = function(x, b)
        torch.autograd.backward(y, torch.ones_like(y))
        results.append((y.detach(), x.grad, b.grad))
    same(results[0], results[1], 8.0)


def test_a_graph_captures_the_kernel_and_replays_it(source: ServiceSource) -> None:
    jitted = fusetune.jit(bias_gelu, source=source, mode="block", effort="none", budget_s=20, take="always")
    x, b = torch.randn(512, 1024, device="cuda").bfloat16(), torch.randn(1024, device="cuda")
    jitted(x, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = jitted(x, b)
    x.copy_(torch.randn_like(x))
    graph.replay()
    same(y, bias_gelu(x, b), 4.0)


@pytest.mark.parametrize("reads", FUNCTIONS)
def test_what_a_call_costs_over_a_bare_launch(reads: str, source: ServiceSource) -> None:
    jitted = fusetune.jit(FUNCTIONS[reads], source=source, mode="block", effort="none", budget_s=20, take="always")
    x, b = torch.randn(8, 1024, device="cuda").bfloat16(), torch.randn(1024, device="cuda")
    kernel = jitted.tune((x, b))
    bare = bare_launch(kernel, x, b)
    rounds: list[dict[str, float]] = []
    for _ in range(1 + ROUNDS):
        taken = {}
        for name, call in (("jit", jitted), ("kernel", kernel), ("bare", bare)):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(1000):
                call(x, b)
            taken[name] = 1e3 * (time.perf_counter() - begun)
            torch.cuda.synchronize()
        rounds.append(taken)
    rounds = rounds[1:]  # the first has what is done once
    over = sorted(taken["jit"] - taken["bare"] for taken in rounds)
    print("\nus a call:", {name: round(statistics.median(x[name] for x in rounds), 1) for name in rounds[0]})
    print("jit over bare, us:", [round(us, 1) for us in over])
    assert statistics.median(over) <= 10
