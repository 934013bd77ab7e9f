"""Which models there are, at which sizes: as they are used, and small, for tests without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.models.definitions.decoders import DecoderLayer, angles
from benchmarks.models.definitions.images import ConvNextBlock, ResidualBlock, UpsamplingBlock
from benchmarks.models.definitions.transformers import DiffusionLayer, MaskedLanguageModel, VisionLayer

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Setting:
    """Where and how a model is made: its device and element type, whether it is small, and how many of its layers there
    are, if not as many as it is used with."""

    device: torch.device
    dtype: torch.dtype = torch.bfloat16
    is_small: bool = False
    layers: int | None = None

    def size(self, whole: int, small: int) -> int:
        """One of two sizes."""
        return small if self.is_small else whole

    def random(self, *shape: int) -> torch.Tensor:
        """Normal numbers."""
        return torch.randn(shape, device=self.device, dtype=self.dtype)

    def module(self, make: Callable[[], nn.Module]) -> nn.Module:
        """A module that is made on the device, in the element type."""
        usual = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            with self.device:
                return make()
        finally:
            torch.set_default_dtype(usual)


@dataclass(frozen=True)
class Model:
    """`make` gives a module with random weights and inputs for it; `seed` them before."""

    name: str
    title: str
    make: Callable[[Setting], tuple[nn.Module, Inputs]]


def _decoder(setting: Setting, normed_heads: bool) -> tuple[nn.Module, Inputs]:
    width, inner = setting.size(2048 if normed_heads else 4096, 64), setting.size(6144 if normed_heads else 14336, 96)
    heads, groups = setting.size(16 if normed_heads else 32, 4), setting.size(8, 2)
    batch, tokens = setting.size(4, 2), setting.size(2048, 16)
    layer = setting.module(lambda: DecoderLayer(width, inner, heads, groups, normed_heads))
    cos, sin = angles(tokens, width // heads, setting.dtype, setting.device)
    return layer, (setting.random(batch, tokens, width), cos, sin)


def _llama(setting: Setting) -> tuple[nn.Module, Inputs]:
    return _decoder(setting, normed_heads=False)


def _qwen(setting: Setting) -> tuple[nn.Module, Inputs]:
    return _decoder(setting, normed_heads=True)


def _diffusion(setting: Setting) -> tuple[nn.Module, Inputs]:
    width, heads = setting.size(1152, 64), setting.size(16, 4)
    batch, tokens = setting.size(32, 2), setting.size(1024, 16)
    return setting.module(lambda: DiffusionLayer(width, heads)), (
        setting.random(batch, tokens, width),
        setting.random(batch, width),
    )


def _vision(setting: Setting) -> tuple[nn.Module, Inputs]:
    width, heads = setting.size(1024, 64), setting.size(16, 4)
    return setting.module(lambda: VisionLayer(width, heads)), (
        setting.random(setting.size(128, 2), setting.size(197, 17), width),
    )


def _bert(setting: Setting) -> tuple[nn.Module, Inputs]:
    vocabulary, width, heads = setting.size(30522, 101), setting.size(768, 64), setting.size(12, 4)
    batch, tokens = setting.size(64, 2), setting.size(512, 16)
    layers = setting.layers or setting.size(12, 2)
    words = torch.randint(0, vocabulary, (batch, tokens), device=setting.device)
    targets = torch.where(torch.rand(batch, tokens, device=setting.device) < 0.15, words, -100)
    return setting.module(lambda: MaskedLanguageModel(vocabulary, width, heads, tokens, layers)), (words, targets)


def _convnext(setting: Setting) -> tuple[nn.Module, Inputs]:
    width, side = setting.size(384, 32), setting.size(28, 6)
    return setting.module(lambda: ConvNextBlock(width)), (setting.random(setting.size(64, 2), width, side, side),)


def _resnet(setting: Setting) -> tuple[nn.Module, Inputs]:
    width, side = setting.size(1024, 32), setting.size(14, 6)
    return setting.module(lambda: ResidualBlock(width)), (setting.random(setting.size(256, 4), width, side, side),)


def _unet(setting: Setting) -> tuple[nn.Module, Inputs]:
    width, side, embedding = setting.size(320, 32), setting.size(64, 6), setting.size(1280, 32)
    groups, batch = setting.size(32, 8), setting.size(32, 2)
    block = setting.module(lambda: UpsamplingBlock(width, embedding, groups))
    return block, (setting.random(batch, width, side, side), setting.random(batch, embedding))


MODELS = {
    model.name: model
    for model in (
        Model("llama", "Llama layer, 4096 wide", _llama),
        Model("qwen", "decoder layer with normed queries and keys, 2048 wide", _qwen),
        Model("bert", "BERT-base with dropout and loss", _bert),
        Model("dit", "DiT-XL block", _diffusion),
        Model("vit", "ViT-L layer", _vision),
        Model("convnext", "ConvNeXt block, 384 channels", _convnext),
        Model("resnet", "ResNet bottleneck with batch norms, training", _resnet),
        Model("unet", "UNet block with group norms, upsampled", _unet),
    )
}
"""By name, in the order of tables."""


def seed(number: int = 0) -> None:
    """The random numbers that weights and inputs are made of start anew."""
    torch.manual_seed(number)
