"""Several products of a fusion: those that share an operand are one kernel's, for one loop sums them; others not."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from search.launches.split_products import product_factors, split_products
from search.space.schedulers import refusals, schedulers_for
from tests.compiler.schedules import from_wire

CARD = card_or_default("H200")
ROWS, COLUMNS, SUMMED = 64, 128, 1024


def summed(*pairs: str, scaled: str = "") -> Fusion:
    """The sum of products, each named by its operands: of x, z, u with rows, of w, v with columns. `scaled`: of these a
    scale along what is summed is the factor, one for all."""
    shapes = {name: [ROWS, SUMMED] if name in "xzu" else [SUMMED, COLUMNS] for pair in pairs for name in pair}
    ops: list[dict[str, Any]] = []
    if scaled:
        ops += [
            {
                "op": "broadcast_to",
                "in": ["s"],
                "out": f"{name}s",
                "shape": shapes[name],
                "dims": [int(name in "xzu")],
            }
            for name in scaled
        ]
        ops += [{"op": "mul", "in": [name, f"{name}s"], "out": f"{name}_"} for name in scaled]
    names = {name: f"{name}_" if name in scaled else name for name in shapes}
    for pair in pairs:
        ops.append({"op": "matmul", "in": [names[x] for x in pair], "out": pair, "dtype": "f32"})
    made = pairs[0]
    for pair in pairs[1:]:
        ops.append({"op": "add", "in": [made, pair], "out": f"{made}_{pair}"})
        made = f"{made}_{pair}"
    inputs = [{"name": name, "shape": shape, "dtype": "bf16"} for name, shape in shapes.items()]
    if scaled:
        inputs.append({"name": "s", "shape": [SUMMED], "dtype": "bf16"})
    return from_wire(inputs, ops, made)


@pytest.mark.parametrize(
    ("fusion", "is_one"),
    [
        pytest.param(summed("xw", "xv"), True, id="one left operand"),
        pytest.param(summed("xw", "zw"), True, id="one right operand"),
        pytest.param(summed("xw", "xv", "zv"), True, id="each shares one with another"),
        pytest.param(summed("xw", "zv", "xv"), True, id="in any order"),
        pytest.param(summed("xw", "zv"), False, id="two states"),
        pytest.param(summed("xw", "zw", "uv"), False, id="one beside two"),
        pytest.param(summed("xw", "zv", scaled="xz"), True, id="a scale of both"),
    ],
)
def test_one_kernel_makes_products_that_share_an_operand(fusion: Fusion, is_one: bool) -> None:
    found = {s.name: s for s in schedulers_for(fusion, CARD)}
    assert ("warp_product" in found) == is_one
    if not is_one:
        assert "share no operand" in refusals(fusion, CARD)["product"]
    for one in found.values():
        for point in one.space(fusion, CARD.arch).sample(2, 0):
            assert isinstance(one.trace(fusion, point), ScheduleTrace | ProgramTrace)


def test_parts_of_products_share_what_these_share() -> None:
    fusion = pinned(summed("xw", "xv"))
    factor = product_factors(fusion, CARD)[0]
    made = split_products(fusion, factor, CARD)
    assert made is not None
    assert sum(op.kind is OpKind.PERMUTE for op in made.ops) == 1
    left = {op.tensor_inputs[0] for op in made.ops if op.kind is OpKind.MATMUL}
    assert len(left) == 1
