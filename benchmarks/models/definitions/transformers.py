"""Encoders: BERT's with dropout and a loss over a vocabulary, ViT's, and DiT's, which is modulated."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """All tokens see each other."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.joined, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, width)."""
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.joined(x).chunk(3, dim=-1)
        )
        found = functional.scaled_dot_product_attention(query, key, value)
        mixed: torch.Tensor = self.mixed(found.transpose(1, 2).reshape(batch, tokens, width))
        return mixed


class VisionLayer(nn.Module):
    """ViT: norms before, an exact GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.first, self.second = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, width)."""
        x = x + self.attention(self.first(x))
        inner: torch.Tensor = self.narrow(functional.gelu(self.widen(self.second(x))))
        return x + inner


class DiffusionLayer(nn.Module):
    """DiT: norms without weights, shifted and scaled by a condition, gates on both branches, a tanh GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.first = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.second = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.condition = nn.Linear(width, 6 * width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, width), condition: (batch, width)."""
        told = self.condition(functional.silu(condition)).unsqueeze(1)
        shift, scale, gate, shift_inner, scale_inner, gate_inner = told.chunk(6, dim=-1)
        x = x + gate * self.attention(self.first(x) * (1 + scale) + shift)
        inner: torch.Tensor = self.widen(self.second(x) * (1 + scale_inner) + shift_inner)
        narrow: torch.Tensor = self.narrow(functional.gelu(inner, approximate="tanh"))
        found: torch.Tensor = x + gate_inner * narrow
        return found


class MaskedLanguageModel(nn.Module):
    """BERT: embeddings, layers with norms behind and dropout, and the loss over the vocabulary."""

    def __init__(
        self, vocabulary: int, width: int, heads: int, tokens: int, layers: int = 1, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, dropout) for _ in range(layers))
        self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """words and targets: (batch, tokens) of i64; -100 among the targets is left out of the mean."""
        place = torch.arange(words.shape[1], device=words.device)
        x = self.drop(self.norm(self.words(words) + self.places(place)))
        for layer in self.layers:
            x = layer(x)
        logits = self.decoder(self.head_norm(functional.gelu(self.transform(x))))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)


class EncoderLayer(nn.Module):
    """BERT: norms behind what is added, an exact GELU, dropout on both branches."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.drop = SelfAttention(width, heads), nn.Dropout(dropout)
        self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, width)."""
        x = self.first(x + self.drop(self.attention(x)))
        found: torch.Tensor = self.second(x + self.drop(self.narrow(functional.gelu(self.widen(x)))))
        return found
