"""Layer norms traced on the CPU as they are on a card, for what is to be asked for ahead of time.

A layer norm on a CPU saves its mean and reciprocal deviation in the type of its elements, on a card in f32. So a
region of one, and every region of its gradient, would ask for another kernel than the same region on a card.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

_NORM = torch.ops.aten.native_layer_norm.default


@contextlib.contextmanager
def norms_of_a_card() -> Iterator[None]:
    """What is traced inside has the statistics of its layer norms in f32. Changes Inductor's table meanwhile."""
    from torch._inductor.decomposition import select_decomp_table

    table: dict[Any, Any] = select_decomp_table()
    usual = table.get(_NORM)
    table[_NORM] = _norm_of_a_card
    try:
        yield
    finally:
        if usual is None:
            del table[_NORM]
        else:
            table[_NORM] = usual


def _norm_of_a_card(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = x.contiguous().to(torch.float64 if x.dtype is torch.float64 else torch.float32)
    variance, mean = torch.var_mean(wide, dim=list(range(x.dim() - len(shape), x.dim())), correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    found = (wide - mean) * scale
    found = found if weight is None else found * weight.contiguous()
    found = found if bias is None else found + bias.contiguous()
    return found.to(x.dtype), mean, scale
