"""Every region that is proposed has a scheduler, and nearly all that models compute is in one: the SDK has rules of its
own, the search judges what comes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from benchmarks.models.catalogue import MODELS, Setting, seed
from compiler.arch import card_or_default
from compiler.wire import bind
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.regions.operators import name_of
from fusetune.torch_compile.regions.propose import propose
from fusetune.torch_compile.regions.reach import Reach
from fusetune.torch_compile.regions.units import Role, UnitGraph
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion
from search.space.schedulers import refusals, schedulers_for

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")

LEAST_SHARE = 0.97


class Noted:
    """What regions ask for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Fusion, Binding]] = []

    def peek(self, fusion: Fusion, binding: Binding) -> Any:
        return None

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        self.asked.append((fusion, binding))


@pytest.mark.parametrize("name", MODELS)
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
    assert [x.why for x in backend.proposed if x.call is None] == []


@pytest.mark.parametrize("name", MODELS)
def test_nearly_all_operators_are_in_regions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the sizes that models are used at, without memory: sizes decide what regions may hold at once."""
    torch._dynamo.reset()
    shares: list[tuple[str, int, int]] = []

    def counted(graph: torch.fx.Graph, say: Any, **options: int) -> Any:
        flow, regions = propose(graph, say, **options)
        inside = {unit.index for region in regions for unit in region.units}
        reach, ours = Reach(flow), [u.index for u in flow.units if u.role is Role.COMPUTE]
        fusible = [u for u in ours if u in inside or any(reach.may_merge(u, n) for n in _neighbours(flow, u))]
        shares.append(
            (" ".join(name_of(flow.units[u].head) for u in fusible if u not in inside), len(inside), len(fusible))
        )
        return flow, regions

    monkeypatch.setattr("fusetune.torch_compile.compiling.propose", counted)
    with FakeTensorMode(allow_non_fake_inputs=True):
        module, inputs = MODELS[name].make(Setting(torch.device("cpu")))
        compiled = torch.compile(module, backend=CompileBackend(Noted()), options={"least_bytes": 0})
        compiled(*inputs).float().square().mean().backward()
    assert len(shares) == 2
    for outside, inside, ours in shares:
        assert inside >= LEAST_SHARE * ours, f"{inside} of {ours}; outside: {outside}"


def _neighbours(flow: UnitGraph, unit: int) -> list[int]:
    """The units that may be in a region and that hand something to this one, or have something of it."""
    around = [*flow.sources[unit], *(u.index for u in flow.solid() if unit in flow.sources[u.index])]
    return [n for n in around if flow.units[n].role is Role.COMPUTE]


def test_a_name_is_an_operators() -> None:
    graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
    assert [name_of(node) for node in graph.nodes] == ["", "", ""]
