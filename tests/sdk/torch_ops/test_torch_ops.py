"""Operators of kernels and of jit functions: torch's own opcheck, compile, export and autograd, on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import opcheck

import fusetune
from fusetune import Binding, Kernel, torch_ops
from fusetune.errors import InvalidKernel, InvalidRequest, NotCached, WrongArguments
from fusetune.wire.artifact import TensorSpec
from tests.sdk.fake_service import artifact, bias_gelu
from tests.sdk.jitting.sources import ReferenceSource, same

NAMES = (f"fusetune_test::op{n}" for n in itertools.count())
X, B = torch.randn(8, 64), torch.randn(64)
DENSE = TensorSpec(shape=(8, 64), strides=(64, 1), dtype="f32", align=4)
ROW = TensorSpec(shape=(64,), strides=(1,), dtype="f32", align=4)
TURNED = TensorSpec(shape=(8, 64), strides=(1, 8), dtype="f32", align=4)


class OnHost(Kernel):
    """A kernel that torch works out, on the CPU."""

    def __init__(self, meaning: Callable[..., Any], **changes: Any) -> None:
        fields = {"inputs": (DENSE, ROW), "outputs": (DENSE,)} | changes
        super().__init__(artifact(bias_gelu(), Binding(sizes={"M": 8}), **fields))
        self.meaning = meaning

    def __call__(self, *given: Any, out: Any = None) -> Any:
        return self.meaning(*given)


def turned(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided((8, 64), (1, 8)).copy_(x)


def add_into(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x.add_(b)


INTO_X = TensorSpec(shape=(8, 64), strides=(64, 1), dtype="f32", align=4, alias=0)
KERNELS = [
    pytest.param(lambda: OnHost(lambda x, b: x + b, code_hash="1"), id="one-output"),
    pytest.param(lambda: OnHost(lambda x, b: turned(x + b), outputs=(TURNED,), code_hash="2"), id="permuted-output"),
    pytest.param(
        lambda: OnHost(lambda x, b: (x + b, b * 2), outputs=(DENSE, ROW), code_hash="3"), id="several-outputs"
    ),
]


@pytest.mark.parametrize("made", KERNELS)
def test_run_is_an_operator(made: Callable[[], OnHost]) -> None:
    kernel = made()
    key = torch_ops.hold(kernel)
    opcheck(torch.ops.fusetune.run, ([X, B], key))
    found, expected = torch_ops.run([X, B], key), kernel(X, B)
    same(found, list(expected) if isinstance(expected, tuple) else [expected])


@pytest.mark.parametrize("made", KERNELS)
def test_a_named_operator_of_a_kernel(made: Callable[[], OnHost]) -> None:
    kernel, name = made(), next(NAMES)
    call: Any = torch_ops.register(name, kernel)
    opcheck(call, (X, B))
    same(call(X, B), kernel(X, B))
    same(torch.compile(lambda x, b: call(x * 2, b), backend="aot_eager", fullgraph=True)(X, B), kernel(X * 2, B))


def test_a_key_that_nobody_has_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path))
    with pytest.raises(NotCached, match="store"):
        torch_ops.run([X, B], f"{'0' * 64}/{'1' * 64}/c")


def test_a_kernel_that_writes_into_an_input_changes_it() -> None:
    kernel = OnHost(add_into, outputs=(INTO_X,), code_hash="4")
    with pytest.raises(InvalidKernel, match="writes into its inputs"):
        torch_ops.hold(kernel)
    name = next(NAMES)
    call: Any = torch_ops.register(name, kernel)
    x = X.clone()
    version = x._version
    assert call(x, B) is x
    assert x._version > version
    same(x, X + B)
    op = getattr(torch.ops.fusetune_test, name.partition("::")[2])
    opcheck(op, (X.clone(), B))
    compiled = torch.compile(lambda x, b: call(x, b) * 2, backend="aot_eager", fullgraph=True)
    x = X.clone()
    same(compiled(x, B), (X + B) * 2)
    same(x, X + B)


def test_gradients_of_a_kernel_come_of_its_backward_kernel() -> None:
    def back(x: torch.Tensor, b: torch.Tensor, g: torch.Tensor) -> Any:
        return g * b, (g * x).sum(0)

    forward = OnHost(lambda x, b: x * b, code_hash="5")
    backward = OnHost(back, inputs=(DENSE, ROW, DENSE), outputs=(DENSE, ROW), code_hash="6")
    call: Any = torch_ops.register(next(NAMES), forward, backward=backward)
    x, b = X.clone().requires_grad_(), B.clone().requires_grad_()
    opcheck(call, (x, b))
    torch.autograd.backward(call(x, b).sum())
    same((x.grad, b.grad), (B.expand(8, 64).contiguous(), X.sum(0)))


def test_other_sizes_than_the_kernels_are_refused_while_tracing() -> None:
    call: Any = torch_ops.register(next(NAMES), OnHost(lambda x, b: x + b, code_hash="7"))
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(WrongArguments, match="input 0"):
        call(mode.from_tensor(torch.randn(4, 64)), mode.from_tensor(B))


def bias_silu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x + b)


@pytest.mark.parametrize("grad", [False, True])
def test_a_named_operator_of_a_jit_function(grad: bool) -> None:
    source = ReferenceSource(is_prompt=True)
    call: Any = torch_ops.register(next(NAMES), fusetune.jit(bias_silu, source=source, grad=grad, mode="block"))
    x, b = X.clone().requires_grad_(grad), B.clone().requires_grad_(grad)
    opcheck(call, (x, b))
    same(call(x, b).detach(), bias_silu(X, B))
    assert source.kernels
    if grad:
        torch.autograd.backward(call(x, b).square().sum())
        again = X.clone().requires_grad_(), B.clone().requires_grad_()
        bias_silu(*again).square().sum().backward()
        same((x.grad, b.grad), tuple(t.grad for t in again), 4.0)


def scaled_into(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x.mul_(0.5).add_(b)
    return x.relu() * 2


def added_into(x: torch.Tensor, b: torch.Tensor) -> None:
    x.add_(b)


@pytest.mark.parametrize("function", [scaled_into, added_into])
def test_an_operator_of_a_function_that_changes_its_input(function: Callable[..., Any]) -> None:
    source, name = ReferenceSource(is_prompt=True), next(NAMES)
    call: Any = torch_ops.register(name, fusetune.jit(function, source=source, mode="block"), changes=("x",))
    opcheck(call, (X.clone(), B))
    runs: list[Any] = [lambda x, b: (call(x, b), x * 2)]
    runs.append(torch.compile(runs[0], backend="aot_eager", fullgraph=True))
    for run in runs:
        mine, theirs = X.clone(), X.clone()
        found, expected = run(mine, B), (function(theirs, B), theirs * 2)
        same(found, expected)
        same(mine, theirs)
    assert all(kernel.calls for kernel in source.kernels.values())


def test_gradients_through_what_is_changed_are_refused() -> None:
    jitted = fusetune.jit(scaled_into, grad=True)
    with pytest.raises(InvalidRequest, match="gradients"):
        torch_ops.register(next(NAMES), jitted, changes=("x",))


def test_export_keeps_the_operator() -> None:
    name = next(NAMES)
    call: Any = torch_ops.register(name, OnHost(lambda x, b: x + b, code_hash="8"))

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, b: torch.Tensor) -> Any:
            return call(x, b) * 2

    program = torch.export.export(Model(), (X, B))
    assert name.partition("::")[2] in str(program.graph)
    same(program.module()(X, B), (X + B) * 2)


@pytest.mark.parametrize("name", ["bias", "::bias", "a b::c", ""])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="namespace"):
        torch_ops.register(name, OnHost(lambda x, b: x + b))


def unannotated(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize(
    ("made_of", "given", "said"),
    [
        pytest.param(lambda: bias_silu, {}, "a function under fusetune.jit", id="a-plain-function"),
        pytest.param(lambda: 3, {}, "a Kernel", id="a-number"),
        pytest.param(lambda: fusetune.jit(lambda x: x * 2), {}, "annotation", id="no-annotations"),
        pytest.param(lambda: fusetune.jit(unannotated), {}, "Annotate it", id="of-no-type-of-torch"),
        pytest.param(lambda: fusetune.jit(bias_silu), {"changes": ("y",)}, "y", id="changes-no-parameter"),
        pytest.param(lambda: fusetune.jit(bias_silu), {"backward": bias_silu}, "grad=True", id="a-second-backward"),
    ],
)
def test_what_makes_no_operator_is_refused(made_of: Callable[[], Any], given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        torch_ops.register(next(NAMES), made_of(), **given)


def test_a_name_is_given_once() -> None:
    name = next(NAMES)
    torch_ops.register(name, fusetune.jit(bias_silu))
    with pytest.raises(InvalidRequest, match="one that no operator has"):
        torch_ops.register(name, fusetune.jit(bias_silu))
