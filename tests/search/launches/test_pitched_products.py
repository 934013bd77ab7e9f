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
from tests.compiler.products import product

CARD = card_or_default("H100")


@pytest.mark.parametrize(
    ("fusion", "copied"),
    [
        pytest.param(product(64, 64, 64), [], id="whole words"),
        pytest.param(product(64, 63, 64, right="mn"), [(64, 1)], id="rows of w"),
        pytest.param(product(64, 64, 63), [(64, 1), (64, 1)], id="what is summed along"),
        pytest.param(product(64, 64, 63, "i8", "i32"), [(64, 1), (64, 1)], id="bytes"),
        pytest.param(product(3, 5, 7, batch=2), [(24, 8, 1), (40, 8, 1)], id="batches"),
    ],
)
def test_rows_of_no_multiple_of_16_bytes_are_copied(fusion: Fusion, copied: list[tuple[int, ...]]) -> None:
    made = pitched_products(pinned(fusion))
    found = [] if made is None else [made.value(op.output).strides for op in made.ops if op.kind is OpKind.COPY]
    assert found == copied


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
