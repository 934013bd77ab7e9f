"""What keeps a program from asking for kernels."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import torch

from fusetune.environment import Environment
from fusetune.torch_compile.options import CompileOptions

NO_DEVICE = "torch sees no CUDA device"

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", ""})


def nobody_to_ask(options: CompileOptions) -> str | None:
    """Why the environment's service is not to be asked for kernels, in words; None if it may be."""
    if not torch.cuda.is_available():
        return NO_DEVICE
    if options.mode == "cached" or _may_share(options) or not _would_share():
        return None
    return (
        "the service on this machine would tune on the only GPU that this process sees, and it runs on it "
        "(options={'share_gpu': True} or FUSETUNE_SHARE_GPU=1 allows that)"
    )


def _may_share(options: CompileOptions) -> bool:
    return options.share_gpu or Environment.read().share_gpu


def _would_share() -> bool:
    """Whether a search of the environment's service can only run on the GPU that this process uses."""
    host = urlsplit(Environment.read().url).hostname or ""
    return torch.cuda.device_count() == 1 and (host in _LOCAL or host == socket.gethostname())
