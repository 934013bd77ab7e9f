"""Plain Triton copy, read and add: one more way to find out what the memory of a card can do.

They are passed to `triton.jit` rather than decorated: Triton ships no types, and reads their source either way.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def _copy(src: tl.tensor, dst: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(dst + at, tl.load(src + at, mask=inside), mask=inside)


def _add(a: tl.tensor, b: tl.tensor, dst: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(dst + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def _read(src: tl.tensor, sums: tl.tensor, n: tl.tensor, block: tl.constexpr, steps: tl.constexpr) -> None:
    first = tl.program_id(0).to(tl.int64) * block * steps
    total = tl.zeros((block,), tl.float32)
    for step in tl.static_range(steps):
        at = first + step * block + tl.arange(0, block)
        total += tl.load(src + at, mask=at < n, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


_copy_kernel = triton.jit(_copy)
_add_kernel = triton.jit(_add)
_read_kernel = triton.jit(_read)


def copy(src: torch.Tensor, dst: torch.Tensor, block: int) -> tuple[torch.Tensor]:
    """dst = src, f32, `block` elements a thread block of 256 threads."""
    _copy_kernel[(triton.cdiv(src.numel(), block),)](src, dst, src.numel(), block=block, num_warps=8)
    return (dst,)


def add(a: torch.Tensor, b: torch.Tensor, dst: torch.Tensor, block: int) -> tuple[torch.Tensor]:
    """dst = a + b, f32."""
    _add_kernel[(triton.cdiv(a.numel(), block),)](a, b, dst, a.numel(), block=block, num_warps=8)
    return (dst,)


def read(src: torch.Tensor, sums: torch.Tensor, block: int, steps: int) -> tuple[torch.Tensor]:
    """Reads every element, writes one partial sum a thread block: `sums` needs one f32 for each `block * steps`."""
    _read_kernel[(triton.cdiv(src.numel(), block * steps),)](
        src, sums, src.numel(), block=block, steps=steps, num_warps=8
    )
    return (sums,)
