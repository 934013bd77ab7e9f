"""Which operators a trace takes apart: Inductor's table, less what a fusion has as one operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from fusetune.graph.foreach import foreach_decompositions

aten = torch.ops.aten

Decompositions = dict[Any, Callable[..., Any]]

KEPT = (
    aten.silu.default,
    aten.sigmoid.default,
    aten.gelu.default,
    aten.native_dropout.default,
    aten.index_select.default,
    aten.embedding.default,
    aten.flip.default,
    aten.stack.default,
    aten.roll.default,
    aten.repeat.default,
    aten.round.decimals,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unbind.int,
    aten.select_scatter.default,
    aten.slice_scatter.default,
    aten.constant_pad_nd.default,
    aten.rand.default,
    aten.rand_like.default,
)
"""Operators that a fusion says in one, or in a form that its kernels know: approximate instructions and random numbers
hang on the operator."""


@functools.cache
def decompositions() -> Decompositions:
    """The table for `make_fx` and AOTAutograd. Loads Inductor's, which takes seconds the first time."""
    from torch._inductor.decomposition import select_decomp_table

    table = {op: rule for op, rule in select_decomp_table().items() if op not in KEPT}
    table |= foreach_decompositions()
    table |= {op: functools.partial(_by_whole_steps, rule=table.get(op)) for op in _NEAREST}
    table |= {op: functools.partial(_back_by_whole_steps, rule=table.get(op)) for op in _NEAREST_BACK}
    return table


_NEAREST = (aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default)
_NEAREST_BACK = (aten.upsample_nearest2d_backward.default,)


def _by_whole_steps(x: torch.Tensor, output_size: Any, *rest: Any, rule: Any) -> Any:
    """Nearest neighbours by a whole factor: every pixel repeated, which is a broadcast; else torch's own rule."""
    n, c, h, w = x.shape
    factors = rest[0] if rest and isinstance(rest[0], list | tuple) else None
    size = output_size if output_size is not None else [int(h * factors[0]), int(w * factors[1])] if factors else None
    if size is None or not _are_whole(size, (h, w)):
        return NotImplemented if rule is None else rule(x, output_size, *rest)
    a, b = size[0] // h, size[1] // w
    return x.reshape(n, c, h, 1, w, 1).expand(n, c, h, a, w, b).reshape(n, c, h * a, w * b)


def _back_by_whole_steps(x: torch.Tensor, output_size: Any, input_size: Any, *rest: Any, rule: Any) -> Any:
    """The gradient of it: the sum of what each pixel was repeated to."""
    n, c, h, w = input_size
    if not _are_whole(output_size, (h, w)):
        return NotImplemented if rule is None else rule(x, output_size, input_size, *rest)
    return x.reshape(n, c, h, output_size[0] // h, w, output_size[1] // w).sum((3, 5))


def _are_whole(large: Any, small: Any) -> bool:
    return all(isinstance(n, int) and isinstance(m, int) and n % m == 0 for n, m in zip(large, small, strict=True))
