"""What a forward saves for its backward, and what is made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import fusetune
from fusetune.errors import CannotConvert, FusetuneWarning, WrongArguments
from fusetune.jitting import joint as joints
from fusetune.jitting.joint import Joint, joint_of
from tests.sdk.jitting.sources import ReferenceKernel, ReferenceSource, same

X, W, C = torch.randn(64, 256, requires_grad=True), torch.randn(256, requires_grad=True), torch.randn(256)
ROW, WHOLE_BOOLS, WHOLE = 64 * 4, 64 * 256, 64 * 256 * 4


def made(function: Callable[..., Any], *args: Any) -> Joint:
    leaves, spec = pytree.tree_flatten((args or (X, W, C), {}))
    found = joint_of(function, leaves, spec, symbolic=False)
    assert found is not None
    return found


def saved_beside(joint: Joint) -> int:
    """Bytes that are saved and are neither inputs nor results."""
    results = joint.forward.outputs[: len(joint.results.differentiable)]
    saved = joint.forward.outputs[len(results) :]
    values = [x.meta["val"] for x in saved if x.op == "call_function" and x not in results]
    return sum(x.numel() * x.element_size() for x in values)


CASES = [
    pytest.param(lambda x, w, c: F.gelu(x + w), 0, id="pointwise-is-made-again"),
    pytest.param(lambda x, w, c: F.silu(x) * w, 0, id="silu"),
    pytest.param(lambda x, w, c: F.layer_norm(x, (256,), w, c), 2 * ROW, id="two-numbers-a-row"),
    pytest.param(lambda x, w, c: F.rms_norm(x, (256,), w), ROW, id="one-number-a-row"),
    pytest.param(lambda x, w, c: (x * w).softmax(-1), 2 * ROW, id="maximum-and-sum-of-a-row"),
    pytest.param(lambda x, w, c: torch.where(x * w + c > 0, x.square(), 0.0), WHOLE_BOOLS, id="a-mask"),
    pytest.param(lambda x, w, c: torch.where(x + c > 0, x.square() * w, 0.0), 0, id="a-mask-of-an-exact-sum"),
    pytest.param(lambda x, w, c: torch.relu(x * w + c) * 2, WHOLE_BOOLS, id="a-branch"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_what_is_saved(function: Callable[..., Any], expected: int) -> None:
    assert saved_beside(made(function)) <= expected


def test_nothing_is_saved_where_that_moves_clearly_less(monkeypatch: pytest.MonkeyPatch) -> None:
    function: Any = CASES[2].values[0]
    assert saved_beside(made(function)) == 2 * ROW
    monkeypatch.setattr(joints, "CLEARLY_LESS", 1.0)
    assert saved_beside(made(function)) == 0
    monkeypatch.setattr(joints, "CLEARLY_LESS", 100.0)
    decided: Any = CASES[5].values[0]
    assert saved_beside(made(decided)) == WHOLE_BOOLS


def test_what_has_no_gradient_needs_none() -> None:
    joint = made(lambda x, w, c: x.detach() * w + (w > 0) * 1.0)
    assert joint.needs == (1,)
    leaves, spec = pytree.tree_flatten(((X, W), {}))
    assert joint_of(lambda x, w: (x > w, x.detach()), leaves, spec, symbolic=False) is None


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, y: x + y, id="residual"),
        pytest.param(lambda x, y: (x + 1).t(), id="turned"),
        pytest.param(lambda x, y: x + ((x / 0.1).round() * 0.1 - x).detach(), id="rounded straight through"),
        pytest.param(lambda x, y: (x + y, y * 2, (x + 1).view(-1)), id="passed on and not"),
    ],
)
def test_gradients_that_are_passed_on_take_no_kernel(function: Callable[..., Any]) -> None:
    jitted = fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    results = []
    for called in (jitted, function):
        x, y = (n.detach().clone().requires_grad_() for n in (X, X.flip(0)))
        found = pytree.tree_leaves(called(x, y))
        torch.autograd.backward(found, [torch.full_like(n, 0.5) for n in found])
        results.append([*found, x.grad, *([] if y.grad is None else [y.grad])])
    same([n.detach() for n in results[0]], [n.detach() for n in results[1]])
    assert [row["runs"] for row in jitted.keys()] == ["reference"]  # noqa: SIM118 (no dictionary)


def test_a_changed_input_is_refused() -> None:
    def changing(x: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        c.add_(1)
        return x * w + c

    with pytest.raises(CannotConvert):
        made(changing)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "gradient", [torch.ones_like, lambda y: torch.ones(()).expand_as(y)], ids=["dense", "expanded"]
)
def test_a_norm_is_eagers_in_both_directions(dynamic: bool, gradient: Callable[..., Any]) -> None:
    source = ReferenceSource(is_prompt=True)
    jitted = fusetune.jit(
        lambda x, w: F.layer_norm(x * 2, (256,), w), source=source, mode="block", grad=True, dynamic=dynamic
    )
    results = []
    for function in (jitted, jitted.__wrapped__):
        for rows in (8, 12):
            torch.manual_seed(rows)
            x, w = torch.randn(rows, 256, requires_grad=True), torch.randn(256, requires_grad=True)
            y = function(x, w)
            torch.autograd.backward(y, gradient(y))
            results.append((y.detach(), x.grad, w.grad))
    same(results[:2], results[2:], 4.0)
    fingerprints = {fusion.fingerprint for fusion, _, _ in source.asked}
    assert len(fingerprints) == (2 if dynamic else 4)


def test_both_kernels_are_taken_at_once() -> None:
    source = ReferenceSource()
    jitted = fusetune.jit(lambda x, w: F.silu(x * w), source=source, grad=True)

    def step() -> None:
        x = X.detach().clone().requires_grad_()
        torch.autograd.backward(jitted(x, W).sum())

    step()
    assert len(source.asked) == 2
    forward = source.asked[0]
    source.asked, rest = [forward], source.asked[1:]
    source.deliver()
    step()
    assert [kernel.calls for kernel in source.kernels.values()] == [0]
    source.asked = rest
    source.deliver()
    step()
    assert [kernel.calls for kernel in source.kernels.values()] == [1, 1]


def test_a_tensor_that_is_closed_over_and_needs_gradients_is_named() -> None:
    held = torch.ones(256, requires_grad=True)
    for grad in (True, False):
        jitted = fusetune.jit(lambda x: x * held, source=ReferenceSource(is_prompt=True), mode="block", grad=grad)
        x = X.detach().clone().requires_grad_(grad)
        with pytest.warns(FusetuneWarning, match="pass it as an argument"):
            torch.autograd.backward(jitted(x).sum())
        assert held.grad is not None
        held.grad = None


def test_a_backward_that_no_kernel_takes_is_the_graphs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = fusetune.jit(lambda x, w: F.silu(x * w), source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    x, again = (X.detach().clone().requires_grad_() for _ in range(2))
    y = jitted(x, W)

    def refuse(*_: Any) -> Any:
        raise WrongArguments("input 0", "this", "that", "Do otherwise.")

    monkeypatch.setattr(ReferenceKernel, "__call__", refuse)
    torch.autograd.backward(y, torch.ones_like(y))
    torch.autograd.backward(F.silu(again * W), torch.ones_like(y))
    assert x.grad is not None
    assert again.grad is not None
    torch.testing.assert_close(x.grad, again.grad)


def test_second_derivatives_are_the_functions_own() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (x * w).tanh() * w, x.detach()

    jitted = fusetune.jit(function, source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    found = []
    for run in (jitted, function):
        x, w = (t.detach().clone().requires_grad_() for t in (X, W))
        (gradient,) = torch.autograd.grad(run(x * 2, w)[0].sum(), x, create_graph=True)
        torch.autograd.backward((gradient.norm() - 1).square())
        found.append((gradient.detach(), x.grad, w.grad))
    same(found[0], found[1], 4.0)


def test_a_second_derivative_by_what_was_changed_is_refused_and_not_zero() -> None:
    jitted = fusetune.jit(lambda x: x.exp() * 2, source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    x = X.detach().clone().requires_grad_()
    y = jitted(x).sum()
    with torch.no_grad():
        x.add_(1)
    with pytest.raises((CannotConvert, RuntimeError), match=r"create_graph=True|modified by an inplace"):
        torch.autograd.grad(y, x, create_graph=True)


def test_transforms_of_torch_see_the_function_itself() -> None:
    jitted = fusetune.jit(lambda x: x.exp() * 2, source=ReferenceSource(is_prompt=True), mode="block", grad=True)
    x = X.detach()
    with pytest.warns(FusetuneWarning, match="no memory of its own"):
        same(torch.vmap(jitted)(x), x.exp() * 2)
    same(torch.func.grad(lambda x: jitted(x).sum())(x), x.exp() * 2)
