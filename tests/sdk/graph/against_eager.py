"""A torch function held against its fusion: eager torch on the CPU, and the compiler's reference."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compiler.reference import evaluate, settled
from compiler.wire.fusions import bind
from compiler.wire.orders import outside
from fusetune.graph import Captured, Converted, capture
from fusetune.torch import DTYPES

TOLERANCES = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 2e-5, torch.float64: 1e-12}
"""Relative errors that different orders of sums and functions of other libraries come to."""


def kernels_outputs(
    converted: Converted, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float]
) -> tuple[torch.Tensor, ...]:
    """What a kernel of the fusion would return: new tensors in the strides that are asked for, or written inputs."""
    fusion = bind(converted.fusion, converted.binding(tensors))
    orders = dict(fusion.orders)
    turned = [x.permute(orders[name]) if name in orders else x for name, x in zip(fusion.inputs, tensors, strict=False)]
    values = evaluate(settled(fusion, numbers), turned, torch)
    made = []
    aliases = dict(fusion.aliases)
    for name, value in zip(fusion.outputs, values, strict=True):
        found = fusion.value(name)
        order = orders.get(name, tuple(range(len(found.shape))))
        shape, strides = outside(found, order)
        into = tensors[fusion.inputs.index(aliases[name])] if name in aliases else None
        if into is None:
            into = torch.empty_strided(shape, strides, dtype=DTYPES[found.dtype.value])
        into.copy_(value.permute([order.index(d) for d in range(len(order))]))
        made.append(into)
    return tuple(made)


def run_captured(captured: Captured, args: Sequence[Any]) -> Any:
    """The function's result by way of its fusion; inputs that it changes are changed."""
    converted = captured.converted()
    given = dict(zip(captured.placeholders, captured.tensors(args), strict=True))
    tensors = [given[x] for x in converted.inputs if not isinstance(x, str)]
    sizes = converted.binding(tensors).sizes
    numbers = [given[x].item() if x in given else converted.number(x, sizes) for x in converted.scalars]
    outputs = kernels_outputs(converted, tensors, numbers)
    values = converted.values(tensors, outputs, sizes)
    return captured.result(dict(zip((form.node for form in converted.outputs), values, strict=True)))


def check(fn: Callable[..., Any], *args: Any, symbolic: bool = False, tolerance: float = 1.0) -> Captured:
    """The fusion of `fn` gives what eager gives, in value, dtype and strides, and changes what eager changes."""
    captured = capture(fn, args, symbolic=symbolic)
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    found, expected = run_captured(captured, ours), fn(*theirs)
    allowed = tolerance * coarsest(captured)
    same(found, expected, allowed)
    same(ours, theirs, allowed)
    return captured


def coarsest(captured: Captured) -> float:
    """The error of the shortest float on the way: what is rounded to it by one order of sums is so by another."""
    values = (node.meta.get("val") for node in captured.graph_module.graph.nodes)
    return max((TOLERANCES.get(x.dtype, 0.0) for x in values if isinstance(x, torch.Tensor)), default=0.0)


def same(found: Any, expected: Any, allowed: float) -> None:
    """Two results of the same form: floats equal up to `allowed`, relative and absolute, all else equal."""
    left, right = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(left) == len(right)
    for x, y in zip(left, right, strict=True):
        if not isinstance(y, torch.Tensor):
            assert x == y
            continue
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if y.numel():
            strides = [(n, m) for size, n, m in zip(y.shape, x.stride(), y.stride(), strict=True) if size != 1]
            assert all(n == m for n, m in strides), f"strides {x.stride()}, eager has {y.stride()}"
        rtol = allowed if y.dtype.is_floating_point else 0.0
        torch.testing.assert_close(x, y, rtol=rtol, atol=rtol, equal_nan=True)
