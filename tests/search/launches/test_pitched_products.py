"""Operands whose rows begin at any address are copied into rows of whole words before they are multiplied."""

from __future__ import annotations

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.schedule.scratch import scratch_buffers
from compiler.schedule.trace import ProgramTrace
from search.launches import pitched_products
from search.space.schedulers import refusals, schedulers_for
from tests.compiler.products import TF32, product

CARD = card_or_default("H100")


@pytest.mark.parametrize(
    ("fusion", "copied"),
    [
        pytest.param(product(64, 64, 64), [], id="whole words"),
        pytest.param(product(64, 63, 64, right="mn"), [(64, 1)], id="rows of w"),
        pytest.param(product(64, 64, 63), [(64, 1), (64, 1)], id="what is summed along"),
        pytest.param(product(64, 64, 63, "i8", "i32"), [(64, 1), (64, 1)], id="bytes"),
        pytest.param(product(3, 5, 7, batch=2), [(24, 8, 1), (40, 8, 1)], id="batches"),
        pytest.param(product(64, 64, 64, TF32, "f32"), [], id="tf32"),
        pytest.param(product(64, 64, 64, "f32", "f32", right="mn"), [], id="f32, which nobody turns"),
    ],
)
def test_rows_of_no_multiple_of_16_bytes_are_copied(fusion: Fusion, copied: list[tuple[int, ...]]) -> None:
    made = pitched_products(pinned(fusion))
    found = [] if made is None else [made.value(op.output).strides for op in made.ops if op.kind is OpKind.COPY]
    assert found == copied


@pytest.mark.parametrize(
    ("fusion", "turned"),
    [
        pytest.param(product(64, 32, 96, TF32, "f32", right="mn"), [((32, 96), (96, 1))], id="columns"),
        pytest.param(
            product(64, 32, 97, TF32, "f32", "mn", "mn"), [((64, 97), (100, 1)), ((32, 97), (100, 1))], id="both, odd"
        ),
        pytest.param(product(8, 6, 4, TF32, "f32", "mn", batch=3), [((3, 8, 4), (32, 4, 1))], id="rows of batches"),
    ],
)
def test_operands_for_tf32_are_turned(fusion: Fusion, turned: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    """k lies side by side in what instructions read; no instruction turns words of 32 bits."""
    made = pitched_products(pinned(fusion))
    assert made is not None
    views = {op.output for op in made.ops if op.kind is OpKind.PERMUTE and op.tensor_inputs[0] in made.inputs}
    stored = [made.value(name) for name in sorted(views)]
    assert [(value.shape, value.strides) for value in stored if value.shape in dict(turned)] == turned


def test_turned_operands_are_multiplied_by_warp_groups() -> None:
    found = {s.name for s in schedulers_for(product(1024, 1024, 1024, TF32, "f32", right="mn"), CARD)}
    assert {"warp_product", "launches-pitched-tile2d+product"} <= found


def test_scratch_has_room_for_the_holes_of_its_strides() -> None:
    fusion = product(64, 63, 64, right="mn")
    (one,) = (s for s in schedulers_for(fusion, CARD) if s.name.startswith("launches-pitched"))
    trace = one.trace(fusion, one.space(fusion, CARD.arch).sample(1, 0)[0])
    assert isinstance(trace, ProgramTrace)
    assert [buffer.nbytes for buffer in scratch_buffers(trace)] == [2 * (63 * 64 + 63)]


def test_sums_of_8_bit_floats_are_left_to_warps() -> None:
    """Instructions of warp groups keep 14 bits of them."""
    fusion = product(64, 64, 64, "f8e4m3", "f32")
    assert "warp_product" in {s.name for s in schedulers_for(fusion, CARD)}
    assert "14 bits" in refusals(fusion, CARD)["product"]
