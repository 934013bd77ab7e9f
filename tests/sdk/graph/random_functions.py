"""Random torch functions: views, mutation, broadcasting, mixed types, closures, numbers of Python."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Step = Callable[[list[torch.Tensor]], torch.Tensor | None]
"""Takes the values so far and gives a new one, or changes one."""

FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
SHAPES = ((4, 6), (6,), (1, 6), (4, 1), (2, 4, 6), (3, 4, 6), ())


@dataclass
class RandomFunction:
    """A function made of `steps` that returns the values at `returned`; `text` says what it does, a step a line."""

    inputs: list[torch.Tensor]
    steps: list[Step] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        values = self.values(*inputs)
        return tuple(values[i] for i in self.returned)

    def values(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The inputs, and what each step makes."""
        values = list(inputs)
        for step in self.steps:
            made = step(values)
            if made is not None:
                values.append(made)
        return values


def random_function(seed: int, device: str = "cpu") -> RandomFunction:
    """The function of a seed; every step was tried in eager torch."""
    return _Grower(random.Random(seed), device).grown()


class _Grower:
    def __init__(self, rng: random.Random, device: str) -> None:
        self.rng, self.device = rng, device
        self.made = torch.Generator().manual_seed(rng.randrange(2**31))
        self.closed = [self._tensor((6,), torch.float32), self._tensor((4, 6), torch.bfloat16)]
        self.closed.append(torch.tensor(0.5, device=device))

    def grown(self) -> RandomFunction:
        count = self.rng.randint(1, 3)
        shapes = [(4, 6), *(self.rng.choice(SHAPES) for _ in range(count))]
        inputs = [self._input(shape) for shape in shapes]
        found = RandomFunction(inputs)
        for _ in range(self.rng.randint(2, 9)):
            self._step(found)
        values = found.values(*copy.deepcopy(inputs))
        new = list(range(len(inputs), len(values)))
        if not new:
            found.steps.append(lambda v: v[0].float().tanh())
            found.text.append("v0.float().tanh()")
            new = [len(values)]
        found.returned = sorted({new[-1], *self.rng.sample(new, min(len(new), self.rng.randint(0, 3)))})
        if self.rng.random() < 0.1:
            found.returned.append(0)
        return found

    def _tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if dtype is torch.bool:
            return (torch.rand(shape, generator=self.made) > 0.5).to(self.device)
        if not dtype.is_floating_point:
            return torch.randint(-3, 4, shape, generator=self.made).to(self.device, dtype)
        return (torch.rand(shape, generator=self.made) * 2 - 1).to(self.device, dtype)

    def _input(self, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = self.rng.choice((*FLOATS, torch.int64, torch.int32, torch.bool))
        form = self.rng.random()
        if form < 0.15 and len(shape) >= 2:
            return self._tensor((*shape[:-2], shape[-1], shape[-2]), dtype).transpose(-1, -2)
        if form < 0.25 and len(shape) >= 1:
            return self._tensor((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
        return self._tensor(shape, dtype)

    def _step(self, found: RandomFunction) -> None:
        """Add a step that eager takes; what it refuses is tried otherwise."""
        for _ in range(20):
            values = found.values(*copy.deepcopy(found.inputs))
            text, step = self.rng.choice(_KINDS)(self, values)
            try:
                made = step(values)
            except (RuntimeError, TypeError, IndexError, ValueError):
                continue
            if made is not None and (made.dim() > 5 or made.numel() > 4000):
                continue
            found.steps.append(step)
            found.text.append(text)
            return

    def pick(self, values: list[torch.Tensor], *, floats: bool = False) -> int:
        fitting = [i for i, x in enumerate(values) if not floats or x.is_floating_point()]
        # The latest mostly, so that most of what is made is read.
        return self.rng.choice(fitting[-2:] if fitting and self.rng.random() < 0.7 else fitting or [0])


Made = tuple[str, Step]


def _unary(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values)
    name = g.rng.choice(("tanh", "sigmoid", "neg", "abs", "sin", "cos", "erf", "square", "relu", "exp2"))
    return f"torch.{name}(v{i})", lambda v: getattr(torch, name)(v[i])


def _activation(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values, floats=True)
    name = g.rng.choice(("silu", "gelu", "softplus", "elu", "leaky_relu", "hardtanh", "mish"))
    return f"F.{name}(v{i})", lambda v: getattr(torch.nn.functional, name)(v[i])


def _binary(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, j = g.pick(values), g.pick(values)
    name = g.rng.choice(("add", "sub", "mul", "maximum", "minimum"))
    return f"torch.{name}(v{i}, v{j})", lambda v: getattr(torch, name)(v[i], v[j])


def _number(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, n = g.pick(values), g.rng.choice((2, 0.3, -1, 0.5, 3, True))
    name = g.rng.choice(("__add__", "__mul__", "__rsub__", "__sub__", "__truediv__"))
    return f"v{i}.{name}({n})", lambda v: getattr(v[i], name)(n)


def _alpha(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, j, n = g.pick(values), g.pick(values), g.rng.choice((2, 3))
    return f"torch.add(v{i}, v{j}, alpha={n})", lambda v: torch.add(v[i], v[j], alpha=n)


def _closed(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, c = g.pick(values), g.rng.choice(g.closed)
    return f"v{i} * closed{tuple(c.shape)}", lambda v: v[i] * c


def _chosen(g: _Grower, values: list[torch.Tensor]) -> Made:
    """By inputs alone: a choice by what is rounded differently is another choice."""
    i, j, n = g.rng.randrange(min(len(values), 2)), g.pick(values), g.rng.choice((0, 0.25, -1))
    name = g.rng.choice(("gt", "le", "ne", "lt"))
    return f"where(v{i}.clone() {name} {n}, v{j}, {n})", lambda v: torch.where(getattr(torch, name)(v[i], n), v[j], n)


def _cast(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, dtype = g.pick(values, floats=True), g.rng.choice(FLOATS)
    return f"v{i}.to({dtype})", lambda v: v[i].to(dtype)


def _view(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values)
    rank = values[i].dim()
    a, b, n = g.rng.randrange(max(rank, 1)), g.rng.randrange(max(rank, 1)), g.rng.choice((1, 2, 3))
    views: list[Made] = [
        (f"v{i}.transpose({a}, {b})", lambda v: v[i].transpose(a, b)),
        (f"v{i}.unsqueeze({a})", lambda v: v[i].unsqueeze(a)),
        (f"v{i}.reshape(-1)", lambda v: v[i].reshape(-1)),
        (f"v{i}.flip({a})", lambda v: v[i].flip(a)),
        (f"v{i}.select({a}, -1)", lambda v: v[i].select(a, -1)),
        (f"v{i}[..., ::{n}]", lambda v: v[i][..., ::n]),
        (f"v{i}.narrow({a}, 1, 1)", lambda v: v[i].narrow(a, 1, 1)),
        (f"v{i}.expand(2, *shape)", lambda v: v[i].expand(2, *v[i].shape)),
        (f"v{i}.chunk(2, {a})[-1]", lambda v: v[i].chunk(2, a)[-1]),
        (f"v{i}.view(-1, 2)", lambda v: v[i].view(-1, 2)),
        (f"v{i}.unfold of size 1 by squeeze", lambda v: v[i].squeeze()),
    ]
    return g.rng.choice(views)


def _moved(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values)
    a = g.rng.randrange(max(values[i].dim(), 1))
    moves: list[Made] = [
        (f"cat(v{i}, v{i} * 2)", lambda v: torch.cat([v[i], v[i] * 2], a)),
        (f"stack(v{i}, v{i})", lambda v: torch.stack([v[i], v[i]], a)),
        (f"pad(v{i})", lambda v: torch.nn.functional.pad(v[i], (1, 2), value=1)),
        (f"v{i}.roll(1, {a})", lambda v: v[i].roll(1, a)),
        (f"v{i}.repeat(2, ...)", lambda v: v[i].repeat(2, *[1] * v[i].dim())),
        (f"v{i}.tril()", lambda v: v[i].tril()),
        (f"v{i}.clone()", lambda v: v[i].clone()),
    ]
    return g.rng.choice(moves)


def _fold(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values)
    dim, keep = g.rng.randrange(max(values[i].dim(), 1)), g.rng.random() < 0.5
    name = g.rng.choice(("sum", "mean", "amax", "amin"))
    return f"v{i}.{name}({dim}, {keep})", lambda v: getattr(v[i], name)(dim, keep)


def _normal(g: _Grower, values: list[torch.Tensor]) -> Made:
    i = g.pick(values, floats=True)
    normals: list[Made] = [
        (f"v{i}.softmax(-1)", lambda v: v[i].softmax(-1)),
        (f"layer_norm(v{i} + arange)", lambda v: _spread(v[i])),
        (f"v{i}.log_softmax(0)", lambda v: v[i].log_softmax(0)),
        (f"v{i}.cumsum(-1)", lambda v: v[i].cumsum(-1)),
    ]
    return g.rng.choice(normals)


def _spread(x: torch.Tensor) -> torch.Tensor:
    """A layer norm of what is not nearly constant along a row, where a norm would magnify rounding."""
    places = torch.arange(x.shape[-1], dtype=torch.float32, device=x.device)
    return torch.nn.functional.layer_norm(x.float() * 0.1 + places, x.shape[-1:])


def _changed(g: _Grower, values: list[torch.Tensor]) -> Made:
    i, j, n = g.pick(values, floats=True), g.pick(values), g.rng.choice((0.5, 2))

    def added(v: list[torch.Tensor]) -> None:
        v[i].add_(v[j])

    def scaled(v: list[torch.Tensor]) -> None:
        v[i].mul_(n)

    def part(v: list[torch.Tensor]) -> None:
        v[i][..., 1:] += 1

    def stepped(v: list[torch.Tensor]) -> None:
        v[i][..., ::2] = n

    def filled(v: list[torch.Tensor]) -> None:
        v[i].clamp_(min=-n)

    forms: list[Made] = [
        (f"v{i}.add_(v{j})", added), (f"v{i}.mul_({n})", scaled), (f"v{i}[..., 1:] += 1", part),
        (f"v{i}[..., ::2] = {n}", stepped), (f"v{i}.clamp_(min=-{n})", filled),
    ]  # fmt: skip
    return g.rng.choice(forms)


_KINDS = (
    _unary, _activation, _binary, _binary, _number, _alpha, _closed, _chosen, _cast, _view, _view, _view, _moved, _fold,
    _normal, _changed,
)  # fmt: skip
