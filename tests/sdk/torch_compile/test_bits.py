"""What decides is decided once: whoever runs the regions of a forward and of its backward, eager or kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import CheckpointPolicy, checkpoint

from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.regions.bits import SAME_BITS, keep_decisions
from fusetune.torch_compile.regions.operators import name_of
from tests.sdk.torch_compile.reference_kernels import FakeKernels, FixedClock
from tests.shares import crossed

WHOLE: dict[str, Any] = {"least_bytes": 0, "strict": True}
X, W = torch.randn(64).repeat(16, 1), torch.randn(64)
ON_THE_EDGE = -(X[0] * W)
"""`X * W` plus this is zero where the product is rounded, and on either side of it where it is not."""

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class KernelsOfSome(FakeKernels):
    """Kernels for every other fusion that is looked for: the forward's and not the backward's, or the reverse."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__()
        self.numbers, self.met = numbers, list[str]()

    def peek(self, fusion: Any, binding: Any) -> Any:
        if fusion.fingerprint not in self.met:
            self.met.append(fusion.fingerprint)
        return super().peek(fusion, binding) if self.met.index(fusion.fingerprint) % 2 in self.numbers else None


def edge(x: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return x * w + c


def relu(x: Any, w: Any, c: Any) -> Any:
    return torch.relu(edge(x, w, c)) * x.square()


def chosen(x: Any, w: Any, c: Any) -> Any:
    return torch.where(edge(x, w, c) > 0, x.square(), 0.0)


def clamped(x: Any, w: Any, c: Any) -> Any:
    return torch.where(edge(x, w, c).clamp(min=0) != 0, x.square(), 0.0)


def leaky(x: Any, w: Any, c: Any) -> Any:
    return F.leaky_relu(edge(x, w, c), 0.0) * x.square()


def dropped(x: Any, w: Any, c: Any) -> Any:
    return F.dropout(x * w, 0.5) * x.square()


def hard(x: Any, w: Any, c: Any) -> Any:
    return F.hardtanh(edge(x, w, c), 0.0, 1.0) * x.square()


MASKED = {f.__name__: f for f in (relu, chosen, clamped, leaky, dropped, hard)}
RUNS = {"the-first-by-kernels": (0,), "the-second": (1,), "both": (0, 1)}


def stepped(function: Callable[..., Any], numbers: tuple[int, ...], steps: int = 4) -> list[tuple[Any, torch.Tensor]]:
    """Results and gradients by `x` of some steps, in which kernels are looked for, timed and taken."""
    backend = CompileBackend(KernelsOfSome(numbers), FixedClock())
    run = torch.compile(function, backend=backend, options=WHOLE)
    found = []
    for _ in range(steps):
        x = X.clone().requires_grad_()
        out = run(x, W, ON_THE_EDGE)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
        assert x.grad is not None
        found.append((out, x.grad))
    return found


@pytest.mark.parametrize(("name", "runs"), crossed(MASKED, RUNS, 2))
def test_gradients_pass_where_the_forward_has_let_values_pass(name: str, runs: str) -> None:
    for y, gradient in stepped(MASKED[name], RUNS[runs]):
        assert torch.equal(gradient != 0, y != 0)


@pytest.mark.parametrize("numbers", RUNS.values(), ids=RUNS)
def test_a_maximum_is_among_what_it_is_the_maximum_of(numbers: tuple[int, ...]) -> None:
    for _, gradient in stepped(lambda x, w, c: (edge(x, w, c) * x).amax(-1) * 2, numbers):
        assert bool(gradient.isfinite().all())
        assert bool((gradient != 0).any(-1).all())


@pytest.mark.parametrize("numbers", RUNS.values(), ids=RUNS)
def test_a_pool_hands_gradients_to_what_it_chose(numbers: tuple[int, ...]) -> None:
    def pooled(x: Any, w: Any, c: Any) -> Any:
        z = edge(x, w, c) + x
        return F.max_pool2d(z.view(1, 16, 8, 8), 2) * 2, z.detach()

    for (_, z), gradient in stepped(pooled, numbers):
        best = F.max_pool2d(z.view(1, 16, 8, 8), 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
        assert bool((z.view(1, 16, 8, 8) == best).view(16, 64)[gradient != 0].all())
        assert int((gradient != 0).sum()) == best.numel() // 4


def test_without_the_pass_they_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusetune.torch_compile.compiling.keeping_decisions", lambda partition: partition)
    *_, (y, gradient) = stepped(chosen, (0,))
    assert not torch.equal(gradient != 0, y != 0)


def test_kernels_that_come_between_a_forward_and_its_backward_wait() -> None:
    source = FakeKernels(ready_after=10**6)
    backend = CompileBackend(source, FixedClock())
    run = torch.compile(chosen, backend=backend, options=WHOLE)

    def taken() -> int:
        return sum(c.is_taken for x in backend.proposed if x.call is not None for c in x.call.choices.values())

    for _ in range(2):
        run(X.clone().requires_grad_(), W, ON_THE_EDGE).sum().backward()
    waiting = run(X.clone().requires_grad_(), W, ON_THE_EDGE)
    source.ready_after = 0
    for _ in range(4):
        again = run(X.clone().requires_grad_(), W, ON_THE_EDGE)
    assert taken() == 0
    again.sum().backward()
    waiting.sum().backward()
    del waiting, again
    for _ in range(4):
        run(X.clone().requires_grad_(), W, ON_THE_EDGE).sum().backward()
    assert taken() == len(backend.proposed) > 0


def test_what_a_checkpoint_makes_again_is_eagers_where_it_decides() -> None:
    def inner(x: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> Any:
        return checkpoint(chosen, x, w, c, use_reentrant=False)

    for numbers in ((0,), (1,), (0, 1)):
        torch._dynamo.reset()
        for y, gradient in stepped(inner, numbers):
            assert torch.equal(gradient != 0, y != 0)


def test_dropout_inside_a_checkpoint_drops_again_what_it_dropped() -> None:
    def inner(x: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> Any:
        return checkpoint(dropped, x, w, c, use_reentrant=False)

    for y, gradient in stepped(inner, (0, 1)):
        assert torch.equal(gradient != 0, y != 0)


def test_a_checkpoint_around_a_compiled_function_drops_again_what_it_dropped() -> None:
    run = torch.compile(dropped, backend=CompileBackend(FakeKernels(), FixedClock()), options=WHOLE)
    for _ in range(4):
        x = X.clone().requires_grad_()
        y = checkpoint(run, x, W, ON_THE_EDGE, use_reentrant=False)
        y.sum().backward()
        assert x.grad is not None
        assert torch.equal(x.grad != 0, y != 0)


def marked(function: Callable[..., Any], *, dtype: torch.dtype = torch.float32) -> list[str]:
    """Operators that are not made again in the gradient of a function of three tensors."""

    def joint(x: torch.Tensor, w: torch.Tensor, c: torch.Tensor, g: torch.Tensor) -> Any:
        y, pull, *_ = torch.func.vjp(lambda x: function(x, w, c), x)
        return y, pull(g)[0]

    given = [t.to(dtype) for t in (X, W, ON_THE_EDGE)]
    graph = make_fx(joint)(*given, torch.ones_like(function(*given))).graph
    keep_decisions(_results(graph)[1:])
    policy = CheckpointPolicy.MUST_SAVE
    return [name_of(node) for node in graph.nodes if node.meta.get("recompute") == policy]


def _results(graph: fx.Graph) -> list[Any]:
    return list(next(n for n in graph.nodes if n.op == "output").args[0])


KEPT = [
    pytest.param(lambda x, w, c: (x + c).clamp(min=0), {}, [], id="a-sum-is-exact"),
    pytest.param(lambda x, w, c: (x * w).clamp(min=0), {}, [], id="a-product-is-exact"),
    pytest.param(lambda x, w, c: (x * w + c).clamp(min=0), {}, ["add"], id="a-product-and-a-sum-are-not"),
    pytest.param(lambda x, w, c: ((x * w).view(64, 16) + 1).clamp(min=0), {}, ["add"], id="seen-through-a-view"),
    pytest.param(lambda x, w, c: (x * w + c).clamp(min=0), {"dtype": torch.bfloat16}, [], id="of-halves-they-are"),
    pytest.param(lambda x, w, c: (x / w).clamp(min=0), {}, ["div"], id="a-quotient"),
    pytest.param(lambda x, w, c: -(x.tanh().abs()).relu().clamp(min=0.5), {}, ["tanh"], id="behind-exact-ones"),
    pytest.param(lambda x, w, c: x.exp().sin(), {}, [], id="nothing-is-decided"),
    pytest.param(lambda x, w, c: x.exp().amax(-1), {}, ["exp"], id="a-maximum"),
    pytest.param(lambda x, w, c: x.exp().topk(3)[0], {}, ["exp"], id="the-largest"),
    pytest.param(lambda x, w, c: x * (x.exp() * 3).floor(), {}, ["exp"], id="a-step"),
    pytest.param(lambda x, w, c: x * (x.exp() > 1), {}, ["exp"], id="a-comparison"),
    pytest.param(lambda x, w, c: x * x.sum(-1, keepdim=True).to(torch.int32), {}, ["sum"], id="a-cast-to-integers"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "options", "expected"), KEPT)
def test_what_is_not_made_again(function: Callable[..., Any], options: dict[str, Any], expected: list[str]) -> None:
    assert marked(function, **options) == expected


def test_what_a_checkpoint_makes_again_is_told_to_both_graphs() -> None:
    graph = make_fx(lambda x, w, c: [torch.where((x * w + c).exp() > 1, x, 0.0)])(X, W, ON_THE_EDGE).graph
    for node in graph.nodes:
        node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    keep_decisions(_results(graph))
    assert [name_of(node) for node in graph.nodes if SAME_BITS in node.meta] == ["add", "exp"]
