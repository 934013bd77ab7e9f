"""Operators of jit functions in autograd: what the forward saves is not made again, however the operator is called."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.library import opcheck

import fusetune
from fusetune import torch_ops
from fusetune.errors import NotCached
from tests.sdk.jitting.sources import ReferenceKernel, ReferenceSource, same

NAMES = (f"fusetune_gradients::op{n}" for n in itertools.count())
X, W = torch.randn(8, 64), torch.randn(64)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*"),
    pytest.mark.filterwarnings("ignore::fusetune.FusetuneWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def normed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (64,), w, w)


def chosen(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x * w + 1) * 2, x > w


def of_one(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.detach() * w


def turned(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x + 1).t()


class Cubed(torch.autograd.Function):
    """With a backward of its own, which the joint graph cannot hold."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.pow(3)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * gradient * x * x


def custom(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return Cubed.apply(x) * w  # type: ignore[no-untyped-call, no-any-return]  # torch types no autograd.Function


def registered(function: Callable[..., Any]) -> tuple[Any, ReferenceSource]:
    source = ReferenceSource(is_prompt=True)
    return torch_ops.register(next(NAMES), fusetune.jit(function, source=source, grad=True, mode="block")), source


def leaves() -> tuple[torch.Tensor, torch.Tensor]:
    return X.clone().requires_grad_(), W.clone().requires_grad_()


def loss_of(call: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        found = call(x * 1.5, w)
        first: torch.Tensor = found[0] if isinstance(found, tuple) else found
        return first.square().sum()

    return loss


def operators(kernel: ReferenceKernel) -> list[str]:
    return [op.op for op in kernel._as_converted.fusion.ops]


@pytest.mark.parametrize("is_dynamic", [None, False, True], ids=["called", "compiled", "with-open-sizes"])
def test_a_step_is_a_forward_and_a_backward_that_reads_what_was_saved(is_dynamic: bool | None) -> None:
    call, source = registered(normed)
    run: Any = loss_of(call)
    if is_dynamic is not None:
        run = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=is_dynamic)
    run(*leaves()).backward()
    before = {kernel: kernel.calls for kernel in source.kernels.values()}
    run(*leaves()).backward()
    calls = {kernel: kernel.calls - before[kernel] for kernel in before if kernel.calls > before[kernel]}
    assert sorted(calls.values()) == [1, 1]
    ahead, back = sorted(calls, key=lambda kernel: len(kernel._as_converted.fusion.inputs))
    assert "rsqrt" in operators(ahead)
    assert "rsqrt" not in operators(back)  # one number a row is saved, and its two sums are not made again


@pytest.mark.parametrize("function", [normed, chosen, of_one, turned, custom])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_are_eagers(function: Callable[..., Any], dynamic: bool) -> None:
    call, _ = registered(function)
    opcheck(call, leaves(), test_utils="test_aot_dispatch_dynamic" if dynamic else "test_autograd_registration")
    compiled: Any = torch.compile(loss_of(call), backend="aot_eager", fullgraph=True, dynamic=dynamic)
    expected = leaves()
    loss_of(function)(*expected).backward()
    for run in (loss_of(call), compiled):
        found = leaves()
        run(*found).backward()
        for mine, theirs in zip(found, expected, strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                same(mine.grad, theirs.grad, 8.0)


def branching(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * w) if x.shape[0] > 10 else (x * w).square().softmax(-1)


def summed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.sum(0) / x.shape[0] + w.square()


def widened(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(torch.cat([x, x * w], 1), (2 * x.shape[1],)).view(-1)


def crossed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x[:, :, None].tanh() * w.sigmoid()[None, None, :]).softmax(1).sum(2)


@pytest.mark.parametrize("function", [normed, branching, summed, widened, crossed])
def test_one_compiled_graph_is_eagers_at_all_sizes(function: Callable[..., Any]) -> None:
    source = ReferenceSource(is_prompt=True)
    jitted = fusetune.jit(function, source=source, grad=True, mode="block", dynamic=True)
    call = torch_ops.register(next(NAMES), jitted)
    compiled: Any = torch.compile(loss_of(call), backend="aot_eager", fullgraph=True)
    torch.manual_seed(1)
    for rows in (8, 4, 12, 9, 30, 2):
        x, w = torch.randn(rows, 64), torch.randn(64)
        found, expected = ([t.clone().requires_grad_() for t in (x, w)] for _ in range(2))
        compiled(*found).backward()
        loss_of(function)(*expected).backward()
        same([t.grad for t in found], [t.grad for t in expected], 16.0)
    if function is normed:  # of the first size alone, then of all
        assert len({fusion.fingerprint for fusion, _, _ in source.asked}) == 2


def test_what_is_compiled_for_open_sizes_finds_its_plan_in_another_process() -> None:
    call, _ = registered(widened)
    captured: list[Any] = []

    def keep(gm: Any, inputs: Any) -> Any:
        captured.append(gm)
        return make_boxed_func(gm)

    compiled: Any = torch.compile(loss_of(call), backend=aot_autograd(fw_compiler=keep), dynamic=True)
    compiled(*leaves()).backward()
    (text,) = {n.args[-1] for gm in captured for n in gm.graph.nodes if str(n.target).endswith("_forward.default")}
    other = getattr(torch.ops.fusetune_gradients, f"{str(registered(widened)[0]).rpartition('.')[2]}_forward")
    for rows in (8, 5):
        x = torch.randn(rows, 64)
        same(other([x, W], text)[0], widened(x, W), 4.0)


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_a_number_that_a_function_closes_over_is_read_again_by_each_trace(factor: float) -> None:
    scale = 2.0

    def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * w) * scale

    call, _ = registered(scaled)
    torch.compile(loss_of(call), backend="aot_eager", fullgraph=True)(*leaves()).backward()
    torch._dynamo.reset()
    scale = factor
    found, expected = leaves(), leaves()
    torch.compile(loss_of(call), backend="aot_eager", fullgraph=True)(*found).backward()
    loss_of(scaled)(*expected).backward()
    same([x.grad for x in found], [x.grad for x in expected], 4.0)


def test_numbers_beside_tensors() -> None:
    def damped(x: torch.Tensor, w: torch.Tensor, eps: float, power: int = 2) -> torch.Tensor:
        return x / (w.abs() + eps) ** power

    call, _ = registered(damped)
    for dynamic in (False, True):
        compiled: Any = torch.compile(lambda x, w: call(x, w, 0.5, 3), backend="aot_eager", dynamic=dynamic)
        for run in (lambda x, w: call(x, w, 0.5, 3), compiled):
            found, expected = leaves(), leaves()
            run(*found).sum().backward()
            damped(*expected, 0.5, 3).sum().backward()
            same([x.grad for x in found], [x.grad for x in expected], 4.0)


def test_transforms_of_functions_see_the_function() -> None:
    call, _ = registered(normed)
    expected = torch.func.grad(lambda x: normed(x, W).square().sum())(X)
    same(torch.func.grad(lambda x: call(x, W).square().sum())(X), expected, 4.0)


def test_compiled_code_of_another_process_finds_its_plan() -> None:
    call, _ = registered(normed)
    captured: list[Any] = []

    def keep(gm: Any, inputs: Any) -> Any:
        captured.append(gm)
        return make_boxed_func(gm)

    compiled: Any = torch.compile(loss_of(call), backend=aot_autograd(fw_compiler=keep))
    compiled(*leaves()).backward()
    (text,) = {n.args[-1] for gm in captured for n in gm.graph.nodes if str(n.target).endswith("_forward.default")}
    ops = [f"{str(registered(normed)[0]).rpartition('.')[2]}_forward" for _ in range(2)]
    first, second = (getattr(torch.ops.fusetune_gradients, op) for op in ops)
    assert len(first([X, W], text)) > 1
    with pytest.raises(NotCached, match="did not run in this process"):
        second([X[:4], W], text)  # which is cut otherwise
