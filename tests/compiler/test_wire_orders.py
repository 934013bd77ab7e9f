"""Outputs whose dimensions stand otherwise in memory: a kernel has them turned, a caller as the fusion says."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from compiler.errors import InvalidFusion
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.schedule.start import start
from compiler.wire import bind
from compiler.wire.fusions import fusion_from_json, fusion_to_json
from compiler.wire.orders import outside
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding, InputBinding, OutputBinding

SHAPE = (2, 6, 4, 5)
LAST = (120, 1, 30, 6)
"""Channels last."""


def made(inside: tuple[int, ...] | None, out: tuple[int, ...] | None) -> Fusion:
    """relu(x)."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    f.output(f.relu(x))
    return bind(f.build(), Binding(inputs=(InputBinding(strides=inside),), outputs=(OutputBinding(strides=out),)))


@pytest.mark.parametrize(
    ("inside", "out", "kinds", "read", "orders"),
    [
        (None, None, ["relu"], ["i0"], {}),
        (LAST, None, ["relu"], ["i0"], {}),
        (LAST, LAST, ["permute", "relu", "permute"], ["i0"], {"i0": (0, 2, 3, 1), "v2": (0, 2, 3, 1)}),
        (None, LAST, ["relu", "permute"], ["w0"], {"v1": (0, 2, 3, 1)}),
        (None, (160, 20, 5, 1), ["relu"], ["i0"], {}),
    ],
)
def test_an_output_is_turned_and_inputs_along(
    inside: tuple[int, ...] | None,
    out: tuple[int, ...] | None,
    kinds: list[str],
    read: list[str],
    orders: dict[str, tuple[int, ...]],
) -> None:
    """What lies alike is read as it is: the permutes are gone once views are at the inputs."""
    fusion = made(inside, out)
    assert [op.kind.value for op in fusion.ops] == kinds
    assert dict(fusion.orders) == orders
    assert fusion_from_json(fusion_to_json(fusion)) == fusion
    (relu,) = [op for op in start(fusion).ops if op.kind is OpKind.RELU]
    assert list(relu.tensor_inputs) == read
    (name,) = fusion.outputs
    order = dict(fusion.orders).get(name, (0, 1, 2, 3))
    assert outside(fusion.value(name), order) == (SHAPE, out or (120, 20, 5, 1))
    stored = start(fusion).tensor(name).allocation
    assert stored is not None
    assert stored.strides == fusion.value(name).strides
    assert dict(pinned(fusion).orders) == orders


def test_what_lies_in_an_input_is_turned_with_it() -> None:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    f.output(f.relu(x), alias=x)
    fusion = bind(f.build(), Binding(inputs=(InputBinding(strides=LAST),)))
    ((output, source),) = fusion.aliases
    assert fusion.value(output).strides == fusion.value(source).strides == (120, 30, 6, 1)
    start(fusion)


@pytest.mark.parametrize(
    ("orders", "where"),
    [
        ([], "orders"),
        ({"i0": [0, 2, 3]}, "orders.i0"),
        ({"i0": [0, 2, 2, 1]}, "orders.i0"),
        ({"v0": [0, 2, 3, 1]}, "orders.v0"),
        ({"i0": [0, True, 2, 3]}, "orders.i0"),
    ],
)
def test_orders_that_are_none_are_refused(orders: Any, where: str) -> None:
    document = copy.deepcopy(fusion_to_json(made(LAST, LAST)))
    with pytest.raises(InvalidFusion) as error:
        fusion_from_json({**document, "orders": orders})
    assert [p.where for p in error.value.problems] == [where]
