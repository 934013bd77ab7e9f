"""Every region that is proposed has a scheduler, and nearly all that models compute is in one: the SDK has rules of its
own, the search judges what comes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.models.catalogue import MODELS, Setting, seed
from benchmarks.models.coverage import covered
from compiler.arch import card_or_default
from compiler.wire import bind
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.regions.operators import name_of
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from search.space.schedulers import refusals, schedulers_for
from tests.shares import shared

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")

LEAST_SHARE = 0.97
DRAWS_WITH_PRODUCT = "the region: it draws random numbers, with its product."
"""Why the second way of a region, the one with the product that it reads, is refused. By itself it has a kernel."""


class Noted:
    """What regions ask for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Fusion, Binding]] = []

    def peek(self, fusion: Fusion, binding: Binding) -> Any:
        return None

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        self.asked.append((fusion, binding))


@pytest.mark.parametrize("name", shared(MODELS, 4))
def test_every_region_has_a_scheduler(name: str) -> None:
    torch._dynamo.reset()
    seed()
    source = Noted()
    module, inputs = MODELS[name].make(Setting(torch.device("cpu"), is_small=True))
    backend = CompileBackend(source)
    given = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    torch.compile(module, backend=backend, options={"least_bytes": 0})(*given).float().square().mean().backward()
    card = card_or_default(None)
    bound = [bind(fusion, binding) for fusion, binding in source.asked]
    assert [refusals(fusion, card) for fusion in bound if not schedulers_for(fusion, card)] == []
    nodes = [{*x.region.nodes} for x in backend.proposed]
    alone = [x for x, own in zip(backend.proposed, nodes, strict=True) if not any(other < own for other in nodes)]
    assert [x.why for x in alone if x.call is None] == []
    assert {x.why for x in backend.proposed if x.call is None} <= {DRAWS_WITH_PRODUCT}


@pytest.mark.parametrize("engine", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", shared(MODELS, 4, 3))
def test_nearly_all_operators_are_in_regions(name: str, engine: str) -> None:
    """At the sizes that models are used at, without memory: sizes decide what regions may hold at once."""
    found = covered(MODELS[name], engine, layers=2)
    assert len(found) == 2
    for graph in found:
        assert graph.share >= LEAST_SHARE, f"{graph.inside} of {graph.of}; outside: {graph.outside}"


def test_a_name_is_an_operators() -> None:
    graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
    assert [name_of(node) for node in graph.nodes] == ["", "", ""]
