"""What a call would ask for, and kernels for it ahead of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fusetune
from fusetune import Binding
from fusetune.running import ServiceSource, read_lock
from fusetune.store import Store
from fusetune.torch_compile import RegionRequest, regions_of
from fusetune.wire.canonical import fingerprint
from tests.sdk.fake_service import FakeService
from tests.sdk.test_running import FUSION, ROWS, source_of

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
X = torch.randn(8, 32)


class Layers(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.products = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(count))

    def forward(self, x: torch.Tensor) -> Any:
        for product in self.products:
            x = torch.relu(product(x)) * 2
        return {"x": x, "loss": (x - 1).square().mean()}


WHOLE = {"least_bytes": 0}


def test_equal_regions_are_one_that_weighs_more() -> None:
    layers, loss = regions_of(Layers(3), X, options=WHOLE)
    assert layers.weight == 2 * 2 * X.numel() * 4  # the last layer is one with the loss
    assert all("test_asking.py" in line for region in (layers, loss) for line in region.lines)
    assert "operators" in repr(layers)


def test_gradients_have_regions_of_their_own_and_change_nothing() -> None:
    model = Layers(2)
    forward = {fingerprint(region.fusion) for region in regions_of(model, X, options=WHOLE)}
    both = {fingerprint(region.fusion) for region in regions_of(model, X, gradients=True, options=WHOLE)}
    assert len(both) > len(forward)
    assert all(p.grad is None for p in model.parameters())


def test_kernels_of_all_are_prepared_and_written_down(tmp_path: Path) -> None:
    wanted = [RegionRequest(FUSION, ROWS, 2.0), RegionRequest(FUSION, Binding(sizes={"M": 9}), 1.0)]
    source = source_of(FakeService(), tmp_path / "kernels")
    assert fusetune.prepare(wanted, source=source, timeout_s=60) == []
    assert fusetune.write_lock(tmp_path / "lock.json", source) == 2
    lock = read_lock(tmp_path / "lock.json")
    assert all(lock.names(one.fusion, one.binding) for one in wanted)
    assert not lock.names(FUSION, ROWS, "another card")
    assert not lock.names(FUSION, Binding(sizes={"M": 10}))


def test_what_has_no_kernel_is_told_with_the_reason(tmp_path: Path) -> None:
    def refused() -> Any:
        raise fusetune.ServiceUnavailable("nobody is there")

    source = ServiceSource(refused, Store(tmp_path))
    regions = regions_of(Layers(1), X, options=WHOLE)
    missing = fusetune.prepare(regions, source=source, timeout_s=60)
    assert [region for region, _ in missing] == list(regions)
    assert all("nobody is there" in why for _, why in missing)


def test_layer_norms_inside_inductor_are_asked_for_as_a_card_has_them() -> None:
    model = torch.nn.LayerNorm(32).bfloat16()
    x = torch.randn(4, 32, dtype=torch.bfloat16, requires_grad=True)
    found = fusetune.regions_of(model, x, gradients=True, options={"engine": "inductor", "least_bytes": 0})
    saved = [y.shape for region in found for y in region.fusion.inputs if y.shape == (4, 1)]
    typed = {y.dtype for region in found for y in region.fusion.inputs if y.shape == (4, 1)}
    assert len(saved) == 2
    assert typed == {"f32"}
