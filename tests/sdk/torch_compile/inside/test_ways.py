"""Where one kernel does the work of others and more, the ones run that save more time."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from fusetune.torch_compile.choosing import KernelChoice
from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.torch_compile.inside.ways import best_ways
from fusetune.torch_compile.reporting import report_of
from tests.sdk.torch_compile.inside.test_sessions import backend, compiled, graph_of, settled
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


def region(name: str, number: int, covers: tuple[int, ...] = ()) -> PortableRegion:
    return PortableRegion(
        graph="forward", number=number, line="", operators=1, moved_bytes=0, fusion_json="", binding_json="",
        program="", inputs=(), reads=(), places=(), library=name, library_key=name, covers=covers,
    )  # fmt: skip


class _Timed:
    def __init__(self, saved_us: float) -> None:
        self.otherwise_us, self.kernel_us = 100.0, 100.0 - saved_us


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        pytest.param({"silu": 5, "up": 8}, ["up"], id="more-with-its-product"),
        pytest.param({"silu": 5, "up": 5}, ["up"], id="as-much"),
        pytest.param({"silu": 5, "up": 4}, ["silu"], id="less"),
        pytest.param({"up": 1}, ["up"], id="the-region-has-no-kernel"),
        pytest.param({"silu": 5, "cast": 5, "up": 4, "both": 9}, ["cast", "silu"], id="less-than-two-together"),
        pytest.param({"silu": 5, "cast": 5, "up": 8, "both": 11}, ["both"], id="more-than-two-together"),
        pytest.param({"silu": 5, "cast": 1, "up": 8, "both": 7}, ["cast", "up"], id="of-two-that-overlap-the-better"),
        pytest.param({"alone": 1, "silu": 1}, ["alone", "silu"], id="others-are-none-of-its-business"),
    ],
)
def test_what_saves_more_runs(saved: dict[str, float], expected: list[str]) -> None:
    every = [region("silu", 0), region("cast", 1), region("up", 2, (0,)), region("both", 3, (0, 1)), region("alone", 4)]
    choices = {(x, x): cast(KernelChoice, _Timed(us)) for x, us in saved.items()}
    found = best_ways(every, choices, lambda key: key in choices, by_time=True)
    assert sorted(x.library for x in found) == expected


def test_ranks_that_measured_other_times_choose_alike() -> None:
    every = [region("silu", 0), region("up", 1, (0,))]
    for us in (1.0, 9.0):
        choices = {("silu", "silu"): _Timed(5.0), ("up", "up"): _Timed(us)}
        found = best_ways(every, cast(Any, choices), lambda key: True, by_time=False)
        assert [x.library for x in found] == ["up"]


class _ByProduct(FixedClock):
    """Kernels of products save `more` than those of regions, which save 1."""

    more = 0.0

    def compare(self, otherwise: Any, kernel: Any) -> Any:
        inner = next(x.cell_contents for x in kernel.__closure__ if hasattr(x.cell_contents, "fusion"))
        has = any(op.op == "matmul" for op in inner.fusion.ops)
        self.otherwise_us, self.kernel_us = 10.0, 9.0 - (self.more if has else 0.0)
        return super().compare(otherwise, kernel)


@pytest.mark.parametrize(("more", "products"), [(1.0, 1), (-0.5, 0)])
def test_a_product_joins_its_region_where_that_saves_more(more: float, products: int) -> None:
    torch.manual_seed(2)
    x, w = torch.randn(8, 32).bfloat16(), torch.randn(32, 32).bfloat16()

    def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x @ w) * x

    source, clock = FakeKernels(), _ByProduct()
    clock.more = more
    ours = backend(source, clock)
    run = compiled(gated, ours)
    found = settled(ours, lambda: run(x, w))
    torch.testing.assert_close(found, gated(x, w), rtol=2e-2, atol=2e-2)
    graph = graph_of(ours)
    assert graph.version is not None
    (key,) = graph.version.keys
    assert sum(op.op == "matmul" for op in graph.choices[key].fusion.ops) == products
    rows = report_of(ours.reported).rows
    assert sorted(row.why for row in rows) == [
        "", "faster than what would run otherwise, but a kernel for more or less of it saves more"
    ]  # fmt: skip
