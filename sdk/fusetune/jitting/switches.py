"""What holds for every function of a process: misses that are errors, and the moment at which kernels are taken."""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections.abc import Iterator
from typing import Any

from fusetune.environment import Environment

_ASSERTED: contextvars.ContextVar[bool | None] = contextvars.ContextVar("fusetune_assert_cached", default=None)
SWAPPING: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions that take kernels at sync_point alone."""


@contextlib.contextmanager
def assert_cached() -> Iterator[None]:
    """Inside, a call without a kernel raises NotCached, with what would fill the cache. FUSETUNE_ASSERT_CACHED=1 does
    so for a whole process."""
    token = _ASSERTED.set(True)
    try:
        yield
    finally:
        _ASSERTED.reset(token)


def is_asserted() -> bool:
    """Whether a miss is an error here."""
    found = _ASSERTED.get()
    return Environment.read().assert_cached if found is None else found


def sync_point() -> int:
    """Take the kernels that have come for functions with `swap="sync_point"`; returns how many were taken.

    Under torch.distributed every rank calls it at the same step, and what all ranks have is taken by all.
    """
    functions = sorted(SWAPPING, key=lambda f: f.name)
    ready = {name for function in functions for name in function.arrived()}
    agreed = _on_all_ranks(ready)
    return sum(function.take(agreed) for function in functions)


def _on_all_ranks(ready: set[str]) -> set[str]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return ready
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, sorted(ready))
    return set.intersection(*map(set, gathered))
