"""Blocks of networks of convolutions: ConvNeXt's, ResNet's with batch norms, a UNet's with group norms."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class ConvNextBlock(nn.Module):
    """A convolution by channel, a norm over channels, two products around an exact GELU, a scaled residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.by_channel = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, width, height, width of the image)."""
        inner: torch.Tensor = self.norm(self.by_channel(x).permute(0, 2, 3, 1))
        inner = self.scale * self.narrow(functional.gelu(self.widen(inner)))
        return x + inner.permute(0, 3, 1, 2)


class ResidualBlock(nn.Module):
    """ResNet's bottleneck: three convolutions with batch norms and ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = width // 4
        self.narrow, self.middle = nn.Conv2d(width, inner, 1, bias=False), nn.Conv2d(inner, inner, 3, 1, 1, bias=False)
        self.widen = nn.Conv2d(inner, width, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(inner), nn.BatchNorm2d(inner), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, width, height, width of the image)."""
        inner = functional.relu(self.norms[0](self.narrow(x)))
        inner = functional.relu(self.norms[1](self.middle(inner)))
        return functional.relu(x + self.norms[2](self.widen(inner)))


class UpsamplingBlock(nn.Module):
    """A UNet's residual block with group norms, SiLU and the embedding of a time step, then twice the image."""

    def __init__(self, width: int, embedding: int, groups: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, width), nn.GroupNorm(groups, width)
        self.before, self.behind = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(embedding, width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """x: (batch, width, height, width of the image), time: (batch, embedding)."""
        inner = self.before(functional.silu(self.first(x)))
        inner = inner + self.time(functional.silu(time))[:, :, None, None]
        inner = self.behind(functional.silu(self.second(inner)))
        return functional.interpolate(x + inner, scale_factor=2.0, mode="nearest")
