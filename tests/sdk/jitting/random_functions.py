"""Random torch functions with arguments for them, each of a seed: views, mixed types, folds, numbers, closures."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

STEPS: tuple[Step, ...] = (
    lambda t, x, b: t + x,
    lambda t, x, b: t * b,
    lambda t, x, b: t - b.float(),
    lambda t, x, b: torch.sigmoid(t),
    lambda t, x, b: torch.relu(t) + 0.5,
    lambda t, x, b: torch.tanh(t) * 3,
    lambda t, x, b: torch.where(t > 0, t, 0.1 * t),
    lambda t, x, b: t / (1 + t.abs()),
    lambda t, x, b: t.float().softmax(-1).to(t.dtype),
    lambda t, x, b: t - t.mean(-1, keepdim=True),
    lambda t, x, b: t * torch.rsqrt(t.float().pow(2).mean(-1, keepdim=True) + 1e-5),
    lambda t, x, b: t.clamp(-2, 2.0),
    lambda t, x, b: t + t.amax(0, keepdim=True),
    lambda t, x, b: t.flip(-1),
    lambda t, x, b: torch.cat([t[:, ::2], t[:, 1::2]], 1),
    lambda t, x, b: torch.nn.functional.gelu(t),
    lambda t, x, b: t.to(torch.float32),
    lambda t, x, b: t.view(-1).view(t.shape) if t.is_contiguous() else t.exp().clamp(max=5),
)
ENDS: tuple[Callable[[torch.Tensor], Any], ...] = (
    lambda t: t,
    lambda t: t.t(),
    lambda t: t.sum(-1),
    lambda t: (t, t.amax(-1)),
    lambda t: {"y": t, "rows": [t.float().sum(0), 3]},
)


def random_function(seed: int, device: str = "cpu") -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and a call of it."""
    dice = random.Random(seed)
    rows, columns = dice.choice([(8, 64), (5, 48), (16, 40), (1, 32)])
    dtype = dice.choice([torch.float32, torch.bfloat16, torch.float16])
    torch.manual_seed(seed)
    x = torch.randn(rows, columns, device=device).to(dtype)
    if dice.random() < 0.3:
        x = torch.randn(columns, rows, device=device).to(dtype).t()
    b = torch.randn(columns, device=device).to(dice.choice([dtype, torch.float32]))
    steps, end = [dice.choice(STEPS) for _ in range(dice.randint(2, 5))], dice.choice(ENDS)
    factor, held = dice.choice([2, 0.25]), torch.randn(columns, device=device)

    def function(x: torch.Tensor, b: torch.Tensor, factor: float, bias: torch.Tensor | None = None) -> Any:
        t = x * factor + (held if bias is None else bias)
        for step in steps:
            t = step(t, x, b)
        return end(t)

    return function, (x, b, factor)
