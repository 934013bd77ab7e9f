"""The ways to run a model that are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.models.tuning import FolderSource
from fusetune.torch_compile import CompileBackend

MAX_AUTOTUNE = "max-autotune-no-cudagraphs"
"""Torch's name: we capture all modes alike ourselves."""

LIBRARY_PRODUCTS: dict[str, Any] = {
    "max_autotune": True, "coordinate_descent_tuning": True, "max_autotune_gemm_backends": "ATEN",
    "max_autotune_conv_backends": "ATEN",
}  # fmt: skip
"""max-autotune without Triton's products: on an H100 it chose the library's for every product of these models that was
not tiny, after up to 40 s a shape."""


@dataclass(frozen=True)
class Made:
    """A compiled model. `backend`: ours, for what it reports."""

    run: Callable[..., Any]
    backend: CompileBackend | None = None


Make = Callable[[nn.Module, Path, dict[str, Any]], Made]


def _inductor(mode: str) -> Make:
    return lambda module, kernels, options: Made(torch.compile(module, mode=mode))


def _ours(source: Callable[[Path], FolderSource], **fixed: Any) -> Make:
    def make(module: nn.Module, kernels: Path, options: dict[str, Any]) -> Made:
        backend = CompileBackend(source(kernels))
        return Made(torch.compile(module, backend=backend, options={**fixed, **options}), backend)

    return make


MODES: dict[str, Make] = {
    "eager": lambda module, kernels, options: Made(module),
    "inductor": _inductor("default"),
    "max-autotune": _inductor(MAX_AUTOTUNE),
    "max-autotune-aten": lambda module, kernels, options: Made(torch.compile(module, options=dict(LIBRARY_PRODUCTS))),
    "fusetune-eager": _ours(FolderSource),
    "fusetune-inductor": _ours(FolderSource, engine="inductor", mode="block"),
    "fusetune-max-autotune": _ours(FolderSource, engine="inductor", mode="block", inductor=MAX_AUTOTUNE),
    "partition-only": _ours(lambda kernels: FolderSource(None)),
}
"""By name: eager; Inductor's default, its max-autotune with and without Triton's products; our regions beside eager,
inside Inductor, and inside its max-autotune; our regions with no kernel at all, which is what cutting a graph costs."""

BESIDE = {"fusetune-eager": "eager"}
"""The engine of a mode of ours, where it is not Inductor."""
