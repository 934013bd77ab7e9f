"""Functions and models as users write them: what they change, view, close over, mix, hook and make again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Stranger:
    """A function with what it is called with; `model` has its parameters."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    model: nn.Module | None = None


def rand(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_(grad)


def moving_average() -> Stranger:
    def f(average: Any, x: Any, decay: float) -> Any:
        average.mul_(decay).add_(x, alpha=1 - decay)
        return average.sqrt().nan_to_num()

    return Stranger(f, (rand(17, 33).abs(), rand(17, 33).abs(), 0.9))


def views_written() -> Stranger:
    def f(x: Any) -> Any:
        y = x.clone()
        y[:, ::2].mul_(3)
        y.view(-1)[5:9] = 0
        return y, y.t()[1:]

    return Stranger(f, (rand(6, 8),))


def closure() -> Stranger:
    held, scale = torch.randn(9), [2.5]
    return Stranger(lambda x: torch.tanh(x * held) * scale[0] + held.sum(), (rand(4, 9),))


def mixed_types() -> Stranger:
    def f(a: Any, b: Any, i: Any, mask: Any) -> Any:
        chosen = torch.where(mask, a.to(torch.float32) * b, i.float()) + i // 3
        return chosen, (a > b).sum(-1), (i % 4).to(torch.int8)

    return Stranger(f, (rand(8, 16).bfloat16(), rand(8, 16), torch.randint(0, 50, (8, 16)), torch.rand(8, 16) > 0.5))


class Clipped(torch.autograd.Function):
    """With a gradient that is not its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bound: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound) * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() < ctx.bound, gradient * 2, gradient * 0.1), None


def own_gradient() -> Stranger:
    def f(x: Any, w: Any) -> Any:
        return (Clipped.apply(x * w, 0.5) + w).pow(2).sum(0)  # type: ignore[no-untyped-call]  # torch types no autograd.Function

    return Stranger(f, (rand(8, 16, grad=True), rand(16, grad=True)))


def nothing_in_it() -> Stranger:
    return Stranger(lambda x, y: (x * 2 + y, torch.cat([x, x]).sum(0), x.sum(), x.exp()), (rand(0, 5), rand(0, 5)))


def without_dimensions() -> Stranger:
    args = (rand(5, 6), torch.tensor(0.7), torch.tensor(3))
    return Stranger(lambda x, s, n: (x * s + n, s.exp() * n, (s - n).abs()), args)


def channels_last() -> Stranger:
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 8, 1), nn.GroupNorm(2, 8)
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's overloads leave it out
    return Stranger(model, (rand(2, 4, 9, 9).to(memory_format=torch.channels_last),), model)


def steps_in_memory() -> Stranger:
    def f(x: Any, y: Any) -> Any:
        return x.t().softmax(-1) * y[::2, None], x[:, 1:] + x[:, :-1]

    return Stranger(f, (rand(24, 12)[::3], rand(24)))


class Hooked(nn.Module):
    """What its parts take and give is changed by hooks."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(size), nn.Linear(size, size)
        self.mix.register_forward_hook(lambda module, given, made: made * 1.5)
        self.norm.register_forward_pre_hook(lambda module, given: (given[0] + 1,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sigmoid(self.mix(self.norm(x)))


def hooks() -> Stranger:
    model = nn.Sequential(Hooked(16), nn.ModuleDict({"a": Hooked(16)})["a"], nn.Dropout(0.0))
    return Stranger(model, (rand(3, 5, 16, grad=True),), model)


def checkpointed() -> Stranger:
    first, second = Hooked(16), Hooked(16)

    def f(x: Any) -> Any:
        y: Any = checkpoint(first, x, use_reentrant=False)
        found: Any = checkpoint(lambda z: F.gelu(second(z)).relu(), y, use_reentrant=False)
        return found.square()

    return Stranger(f, (rand(4, 16, grad=True),), nn.ModuleList([first, second]))


def in_a_dictionary() -> Stranger:
    def f(batch: Any, scale: float = 2.0) -> Any:
        return {"y": [batch["x"] * scale, None, "name"], "n": (batch["x"].amax(-1, keepdim=True), 3)}

    return Stranger(f, ({"x": rand(4, 8)},))


def rotary() -> Stranger:
    def f(q: Any, cos: Any, sin: Any) -> Any:
        a, b = q.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).transpose(1, 2).reshape(q.shape[0], 6, -1)

    return Stranger(f, (rand(2, 3, 6, 8, grad=True), rand(6, 4), rand(6, 4)))


def complex_numbers() -> Stranger:
    return Stranger(lambda x: torch.view_as_real(torch.fft.fft(x) * torch.tensor(1j)).abs() * 2, (rand(4, 8),))


class Tied(nn.Module):
    """One weight at both ends, and a counter."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 16), nn.Linear(16, 20, bias=False)
        self.out.weight, self.scale = self.embed.weight, nn.Parameter(torch.ones(16))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        h = F.rms_norm(self.embed(tokens), (16,), self.scale)
        logits = self.out(h + F.silu(h) * h).flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten(), label_smoothing=0.1, ignore_index=3)


def tied_weights() -> Stranger:
    model = Tied()
    return Stranger(model, (torch.randint(0, 20, (3, 7)), torch.randint(0, 20, (3, 7))), model)


def quantised() -> Stranger:
    def f(w: Any) -> Any:
        scale = w.abs().amax(1, keepdim=True) / 127
        q = torch.round(w / scale).clamp(-128, 127).to(torch.int8)
        return q, (q.float() * scale - w).square().mean(), q.view(torch.uint8)

    return Stranger(f, (rand(9, 31),))


def no_numbers() -> Stranger:
    x = rand(5, 8)
    x[1, 2], x[2, 3], x[3] = float("nan"), float("inf"), 0
    return Stranger(
        lambda x: (torch.nan_to_num(x.log()).cumsum(-1), x.argmax(-1), torch.isfinite(1 / x), x.amin(0)), (x,)
    )


def aliases_returned() -> Stranger:
    def f(x: Any) -> Any:
        y = x + 1
        z = y.view(-1)
        z.mul_(2)
        x.add_(z.view_as(x))
        return y, z, x

    return Stranger(f, (rand(4, 6),))


def of_its_sizes() -> Stranger:
    def f(x: Any) -> Any:
        centred = (x - x.sum(0) / x.shape[0]) * (2.0 / (x.shape[0] - 1))
        return centred * x.shape[1] ** 0.5 + torch.arange(x.shape[1]) * (1 / x.shape[1])

    return Stranger(f, (rand(5, 9, grad=True),))


def neighbours() -> Stranger:
    """Messages along the edges of a graph: rows chosen by one list of indices, added up by another."""
    edges = torch.randint(0, 7, (20, 2))

    def f(x: Any, w: Any) -> Any:
        source, target = edges[:, 0], edges[:, 1]
        added = torch.zeros_like(x).index_add(0, target, torch.tanh(x[source] * w) * x[target])
        counts = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(20)).clamp_min(1)
        return added / counts[:, None] + x

    return Stranger(f, (rand(7, 5, grad=True), rand(5, grad=True)))


def empty_rows() -> Stranger:
    """A softmax of rows in which nothing is left."""
    mask = torch.rand(4, 6, 9) < 0.4
    mask[1, 2] = True
    return Stranger(lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1).nan_to_num(0.0) * 2, (rand(4, 6, 9), mask))


def bags() -> Stranger:
    model = nn.ModuleList([nn.EmbeddingBag(20, 8, mode="mean"), nn.LayerNorm(8)])
    given = (torch.randint(0, 20, (15,)), torch.tensor([0, 4, 4, 9]))
    return Stranger(lambda words, starts: model[1](model[0](words, starts)).tanh() * 2, given, model)


def normed_weights() -> Stranger:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(8, 6))
    return Stranger(lambda x: F.elu(model(x)) * 3, (rand(5, 8, grad=True),), model)


def slopes_inside() -> Stranger:
    return Stranger(lambda x: torch.func.grad(lambda y: (y.sin() * y).sum())(x) * 2, (rand(5, 4),))


def counted() -> Stranger:
    """Batch norm in training, which counts its calls in place."""
    model = nn.Sequential(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.LeakyReLU(0.2))
    return Stranger(lambda x: model(x) * 1.5, (rand(3, 2, 7, 6, grad=True),), model)


class BucketBias(nn.Module):
    """Attention with a bias by how far positions lie apart, in buckets that a logarithm makes, and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(8, 2)

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        place = torch.arange(scores.shape[-1])
        apart = (place[None] - place[:, None]).abs()
        far = (2 + torch.log(apart.float().clamp(min=1) / 2) / 1.4 * 2).long()
        bucket = torch.where(apart < 2, apart, far.clamp(max=3)) + (place[None] > place[:, None]).long() * 4
        scores = scores + self.bias(bucket).permute(2, 0, 1)
        return F.softmax(scores.masked_fill(~mask[:, None, None], torch.finfo(scores.dtype).min), -1)


def position_buckets() -> Stranger:
    model, mask = BucketBias(), torch.ones(3, 10, dtype=torch.bool)
    mask[0, 5:] = False
    return Stranger(model, (rand(3, 2, 10, 10, grad=True), mask), model)


def norm_under_autocast() -> Stranger:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))

    def f(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    return Stranger(f, (rand(4, 8, grad=True),), model)


def patches() -> Stranger:
    def f(x: Any, w: Any) -> Any:
        return x.unfold(2, 2, 2).unfold(3, 2, 2).contiguous().view(2, 3, -1, 4).mean(-1) * w

    return Stranger(f, (rand(2, 3, 4, 4, grad=True), rand(3, 1, grad=True)))


def chosen_experts() -> Stranger:
    """The two best of four, as weights of all."""

    def f(x: Any, gate: Any, wide: Any, narrow: Any) -> Any:
        share = F.softmax((x @ gate).float(), -1)
        share = torch.where(share >= share.topk(2, -1).values[..., -1:], share, 0)
        made = torch.einsum("beh,ehd->bed", F.silu(torch.einsum("bd,edh->beh", x, wide)), narrow)
        return (made * (share / share.sum(-1, keepdim=True))[..., None]).sum(1)

    shapes = ((6, 16), (16, 4), (4, 16, 24), (4, 24, 16))
    return Stranger(f, tuple(rand(*shape, grad=True) for shape in shapes))


def smoothed_loss() -> Stranger:
    targets = torch.tensor([3, 10, -1, 0, 7, -1])
    return Stranger(
        lambda x: F.cross_entropy(x, targets, ignore_index=-1, label_smoothing=0.1), (rand(6, 11, grad=True),)
    )


STRANGERS = (
    moving_average, views_written, closure, mixed_types, own_gradient, nothing_in_it, without_dimensions, channels_last,
    steps_in_memory, hooks, checkpointed, in_a_dictionary, rotary, complex_numbers, tied_weights, quantised, no_numbers,
    aliases_returned, of_its_sizes, neighbours, empty_rows, bags, normed_weights, slopes_inside, counted,
    position_buckets, norm_under_autocast, patches, chosen_experts, smoothed_loss,
)  # fmt: skip
