"""`torch._foreach_*`, which optimizers call, as one operator for each tensor of the lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

PREFIX = "_foreach_"

_OVERLOADS = ("default", "Scalar", "ScalarList", "List", "Tensor", "ScalarAndTensor")
NAMES = (
    "abs", "add", "addcdiv", "addcmul", "ceil", "clamp_max", "clamp_min", "clone", "copy", "cos", "div", "erf", "exp",
    "expm1", "floor", "lerp", "log", "log1p", "log2", "maximum", "minimum", "mul", "neg", "norm", "pow", "reciprocal",
    "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "sub", "tanh", "trunc", "zero",
)  # fmt: skip
"""Of the functional ones those whose meaning for a tensor fusions can say; writing forms are made of these."""


def foreach_decompositions() -> dict[Any, Callable[..., Any]]:
    """Rules for the overloads that this torch has."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in NAMES:
        packet = getattr(torch.ops.aten, f"{PREFIX}{name}", None)
        for overload in _OVERLOADS if packet is not None else ():
            if overload == "Tensor" and name in ("addcdiv", "addcmul"):
                continue  # whose numbers lie in a tensor
            if (op := getattr(packet, overload, None)) is not None:
                found[op] = _each(_OF_ONE.get(name, getattr(torch, name, None)))
    return found


def _each(of_one: Any) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        count = len(next(x for x in args if isinstance(x, list | tuple)))

        def place(x: Any, n: int) -> Any:
            return x[n] if isinstance(x, list | tuple) else x

        return [
            of_one(*(place(x, n) for x in args), **{key: place(x, n) for key, x in kwargs.items()})
            for n in range(count)
        ]

    return made


def _scaled(op: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, y, z, value=1: op(x, y, z, value=value)


_OF_ONE: dict[str, Callable[..., torch.Tensor]] = {
    "addcdiv": _scaled(torch.addcdiv),
    "addcmul": _scaled(torch.addcmul),
    "copy": lambda x, y, non_blocking=False: torch.ops.aten.copy.default(x, y),
    "lerp": lambda x, y, weight: torch.lerp(x, y, weight),
    "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y),
    "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y),
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "zero": torch.zeros_like,
}
