"""Decoder layers of language models: Llama's, and one whose queries and keys are normalized, as Qwen's are."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class RootMeanSquareNorm(nn.Module):
    """x / rms(x) * weight, worked out in f32 and rounded before the weight, as Llama's is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape and element type as `x`."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * scaled.to(x.dtype)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of x (batch, heads, tokens, width): halves are pairs."""
    half = x.shape[-1] // 2
    swapped = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + swapped * sin


def angles(tokens: int, width: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of the rotary embedding, each (tokens, width)."""
    step = 1.0 / 10000 ** (torch.arange(0, width, 2, device=device).float() / width)
    angle = torch.outer(torch.arange(tokens, device=device).float(), step)
    whole = torch.cat((angle, angle), dim=-1)
    return whole.cos().to(dtype), whole.sin().to(dtype)


class DecoderLayer(nn.Module):
    """Attention with grouped keys and a gated feed-forward part, each behind a norm and added to the stream."""

    def __init__(self, width: int, inner: int, heads: int, groups: int, normed_heads: bool = False) -> None:
        super().__init__()
        self.heads, self.groups, self.head_width = heads, groups, width // heads
        self.before_attention, self.before_inner = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.query = nn.Linear(width, heads * self.head_width, bias=False)
        self.key = nn.Linear(width, groups * self.head_width, bias=False)
        self.value = nn.Linear(width, groups * self.head_width, bias=False)
        self.mixed = nn.Linear(heads * self.head_width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.query_norm = RootMeanSquareNorm(self.head_width) if normed_heads else nn.Identity()
        self.key_norm = RootMeanSquareNorm(self.head_width) if normed_heads else nn.Identity()

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, width); `cos` and `sin`: `angles`."""
        x = x + self._attention(self.before_attention(x), cos, sin)
        normed = self.before_inner(x)
        down: torch.Tensor = self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return x + down

    def _attention(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query = self.query_norm(self.query(x).view(batch, tokens, self.heads, self.head_width)).transpose(1, 2)
        key = self.key_norm(self.key(x).view(batch, tokens, self.groups, self.head_width)).transpose(1, 2)
        value = self.value(x).view(batch, tokens, self.groups, self.head_width).transpose(1, 2)
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        mixed: torch.Tensor = self.mixed(found.transpose(1, 2).reshape(batch, tokens, -1))
        return mixed
