"""Whole functions: what they close over, change, return, and leave open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

import fusetune
from fusetune import CannotConvert
from fusetune.graph import capture, from_torch
from tests.sdk.graph.against_eager import check, run_captured, same
from tests.sdk.graph.test_operators import BOX, ROW, X, floats

SCALE, TABLE, RATE = 0.3, floats(4, 6, low=1.0), torch.tensor(0.25)


def changed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2).add_(y)
    return x.sum(1)


def part_changed(x: torch.Tensor) -> torch.Tensor:
    x[1:3, ::2] += 1
    x[:, -1] = 0
    return x * 2


def changed_and_returned(x: torch.Tensor) -> torch.Tensor:
    return x.clamp_(min=0)


def views_of_one(x: torch.Tensor) -> Any:
    y = x.exp()
    return {"y": y, "flat": y.view(-1), "turned": (y.t(), y[1:, 2]), "n": 3}


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
    m.lerp_(g, 0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    p.addcdiv_(m, v.sqrt().add_(1e-8), value=-0.1)


def last_channels(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "an input is changed": (changed, (X, ROW)),
    "a part of an input is changed": (part_changed, (X,)),
    "an input is changed and returned": (changed_and_returned, (X,)),
    "outputs are views of one another": (views_of_one, (X,)),
    "an output is an input": (lambda x: (x, x + 1), (X,)),
    "an output is a view of an input": (lambda x: (x[1:], x.t(), x + 1), (X,)),
    "an output is returned twice": (lambda x: [y := x + 1, y], (X,)),
    "an output is expanded": (lambda x: x.sum(1, keepdim=True).expand(4, 6), (X,)),
    "an output is a copy": (lambda x: (x.clone(), x.clone()), (X,)),
    "a copy of an output": (lambda x: (y := x.exp(), y.clone()), (X,)),
    "a constant": (lambda x: (torch.zeros_like(x), x.new_ones(3)), (X,)),
    "a tensor is closed over": (lambda x: x * TABLE + TABLE.sum(), (X,)),
    "one without dimensions is closed over": (lambda x: x.bfloat16() * RATE, (X,)),
    "a number is closed over": (lambda x: x * SCALE, (X,)),
    "arguments of Python": (lambda x, n, flag: x * n if flag else x, (X, 3, True)),
    "arguments in a tree": (lambda pair, more: pair[0] * more["row"], ((X, 1), {"row": ROW})),
    "an optimizer": (adam, (floats(5), floats(5, low=0.1), floats(5, low=0.1), floats(5, low=0.1))),
    "channels last": (last_channels, (BOX.contiguous(memory_format=torch.channels_last),)),
    "a transposed input": (lambda x: x * 2, (floats(6, 4).t(),)),
    "an expanded input": (lambda x: x * 2, (ROW.expand(4, 6),)),
    "part of an input": (lambda x: x * 2, (floats(8, 12)[::2, 3:9],)),
    "a memory format": (lambda x: x.relu().to(memory_format=torch.channels_last), (BOX,)),
    "no elements": (lambda x, y: (x * 2, y + 1), (torch.empty(0, 3), ROW)),
    "attention's softmax": (lambda x: (x @ x.t() if x.dim() > 9 else x).softmax(-1, dtype=torch.float32), (X,)),
    "what is not needed": (lambda x: (x.sort(), x + 1)[1], (X,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_eager_gives(name: str) -> None:
    fn, args = FUNCTIONS[name]
    check(fn, *args)


def test_autocast_is_in_the_graph() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.layer_norm(x.bfloat16(), (6,), y, y) + x

    check(fn, X, ROW)


def test_views_of_one_another_are_one_output() -> None:
    converted = capture(views_of_one, (X,)).converted()
    assert len(converted.fusion.outputs) == 1
    assert {form.position for form in converted.outputs} == {0}


def test_from_torch_has_an_output_for_each_tensor() -> None:
    fusion = from_torch(lambda x, bias: (x, x + bias, (x + bias).t()))(X, ROW)
    assert [tensor.name for tensor in fusion.inputs] == ["x", "bias"]
    assert [output.strides for output in fusion.outputs] == [None, None, (1, 6)]


def test_from_torch_needs_no_memory() -> None:
    expected = from_torch(F.silu)(X).fingerprint
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(X)
    assert from_torch(F.silu)(X.to("meta")).fingerprint == from_torch(F.silu)(fake).fingerprint == expected
    assert fusetune.from_torch(F.silu)(X).fingerprint == expected


def test_equal_casts_and_constants_are_written_once() -> None:
    fusion = from_torch(lambda x, y: (x.float() * y, x.float() + y))(X.bfloat16(), X)
    assert [op.op for op in fusion.ops] == ["cast", "mul", "add"]


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        pytest.param(lambda x: x.t(), "outputs are inputs", id="nothing-is-computed"),
        pytest.param(lambda x: 3, "outputs are inputs", id="no-tensor"),
    ],
)
def test_a_function_that_computes_nothing_is_no_fusion(fn: Callable[..., Any], said: str) -> None:
    with pytest.raises(CannotConvert, match=said):
        capture(fn, (X,)).converted()


KEPT = torch.zeros(4, 6)


def changed_outside(x: torch.Tensor) -> torch.Tensor:
    KEPT.add_(1)
    return x + KEPT


def assigned_outside(x: torch.Tensor) -> torch.Tensor:
    KEPT[0] = x[0]
    return x + KEPT


def counted_outside(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, KEPT[0], KEPT[1], training=True)


@pytest.mark.parametrize("fn", [changed_outside, assigned_outside, counted_outside])
def test_what_is_closed_over_is_not_changed_by_a_trace(fn: Callable[..., Any]) -> None:
    with pytest.raises(CannotConvert, match="closes over"):
        capture(fn, (X,))
    assert KEPT.count_nonzero() == 0


def test_a_module_changes_its_buffers() -> None:
    ours, theirs = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    captured = capture(ours, (BOX,))
    found, expected = run_captured(captured, (BOX,)), theirs(BOX)
    same((found, *ours.buffers()), (expected.detach(), *theirs.buffers()), 2e-5)
    assert len(captured.writes) == 3


DROPPED = floats(64, 64, low=1.0)


def test_dropout_draws_of_a_seed_and_an_offset() -> None:
    converted = capture(lambda x: F.dropout(x, 0.25) + F.dropout(x * 2, 0.5), (DROPPED,)).converted()
    assert [x if isinstance(x, str) else "x" for x in converted.inputs] == ["x", "seed", "offset"]
    assert converted.draws == 2


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x, y: (x * y).softmax(-1), id="softmax"),
        pytest.param(lambda x, y: F.layer_norm(x, (6,), y, y).reshape(-1), id="norm"),
        pytest.param(lambda x, y: (x * x.shape[0], x[1:] * 2), id="a-size-as-a-number"),
        pytest.param(lambda x, y: torch.cat([x, x]).relu(), id="cat"),
        pytest.param(lambda x, y: x.t() + 1, id="turned"),
        pytest.param(lambda x, y: x.view(2, -1) * 2, id="halves"),
        pytest.param(lambda x, y: x.sum(0) + y, id="columns"),
    ],
)
def test_sizes_may_be_left_open(fn: Callable[..., Any]) -> None:
    assert check(fn, X, ROW, symbolic=True).converted().symbols


def test_a_size_that_no_input_has_is_refused_where_it_must_be_written() -> None:
    with pytest.raises(CannotConvert, match="which no input has"):
        capture(lambda x, y: x[1:] + y, (X, ROW), symbolic=True).converted()


def test_a_line_of_a_decomposition_is_the_users() -> None:
    with pytest.raises(CannotConvert) as caught:
        from_torch(lambda x: F.max_pool2d(x, 2))(BOX)
    assert "max_pool2d" in caught.value.line
