"""A call with its gradients, held against the same call in eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from tests.sdk.graph.against_eager import TOLERANCES, same
from tests.sdk.graph.random_functions import RandomFunction


class Step(NamedTuple):
    """Results, the inputs after the call or the gradients by them, and which results had gradients."""

    results: list[torch.Tensor]
    inputs: list[torch.Tensor | None]
    differentiable: list[bool]


def step(run: Callable[..., Any], inputs: Sequence[torch.Tensor], *, gradients: bool) -> Step:
    """One call on copies of the inputs, and with `gradients` a backward from all results that have some."""
    given = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x) for x in inputs]
    if not gradients:
        with torch.no_grad():
            return Step(list(run(*given)), list(given), [])
    given = [x.requires_grad_(x.is_floating_point()) for x in given]
    results = list(run(*given))
    ends = [y for y in results if y.requires_grad]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(y) for y in ends])
    return Step([y.detach() for y in results], [x.grad for x in given], [y.requires_grad for y in results])


def expected(run: Callable[..., Any], inputs: Sequence[torch.Tensor], *, gradients: bool) -> Step | None:
    """Eager's; None where it refuses, because what a backward reads was changed."""
    try:
        return step(run, inputs, gradients=gradients)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None


def of_copies(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on copies: what autograd owns may not be changed in place."""
    return lambda *inputs: function(*(x.clone() for x in inputs))


def coarsest(function: RandomFunction) -> float:
    """The error of the shortest float on the way."""
    values = function.values(*copy.deepcopy(function.inputs))
    return max(TOLERANCES.get(x.dtype, 0.0) for x in values)


def alike(found: Step, wanted: Step, allowed: float) -> None:
    """Results as `same` has them; gradients are sums, so their errors are of the size of the largest."""
    assert found.differentiable == wanted.differentiable
    same(found.results, wanted.results, allowed)
    assert [x is None for x in found.inputs] == [x is None for x in wanted.inputs]
    for mine, theirs in zip(found.inputs, wanted.inputs, strict=True):
        if mine is not None and theirs is not None and theirs.numel():
            assert mine.dtype == theirs.dtype
            wide, largest = theirs.double(), max(1.0, float(theirs.double().abs().nan_to_num().max()))
            torch.testing.assert_close(mine.double(), wide, rtol=allowed, atol=allowed * largest, equal_nan=True)
