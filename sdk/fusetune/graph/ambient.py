"""What holds in a thread while something is traced, beside its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

Made = TypeVar("Made")


@dataclass(frozen=True)
class Ambient:
    """Grad and inference mode, and autocast."""

    has_grad: bool
    is_inference: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    caches_casts: bool

    @classmethod
    def now(cls) -> Ambient:
        """Of this thread."""
        kinds = [kind for kind in ("cuda", "cpu") if torch.amp.is_autocast_available(kind)]
        return cls(
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
            tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds),
            torch.is_autocast_cache_enabled(),
        )  # fmt: skip

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The same in this thread."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.is_inference))
            stack.enter_context(torch.set_grad_enabled(self.has_grad))
            for kind, is_on, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype, is_on, self.caches_casts))
            yield


def on_a_thread(made: Callable[[], Made]) -> Made:
    """What `made` gives on a thread of its own, with gradients and this one's autocast: what dispatches here, below
    autograd or through the modes of a trace, does not there."""
    ambient = replace(Ambient.now(), has_grad=True, is_inference=False)

    def entered() -> Made:
        with ambient.entered():
            return made()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(entered).result()
