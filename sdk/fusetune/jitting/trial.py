"""A kernel beside the function itself: both run a few times in one call, and the faster of the two from then on.

Nobody waits for the device: what was measured is asked for in later calls. Tensors that the function changes have what
they had before when that call goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fusetune.errors import LaunchFailed
from fusetune.graph import Captured
from fusetune.jitting.calling import Run
from fusetune.jitting.clocks import Clock, TimedPair


class KernelTrial:
    """Of one kind of call: `function` as it is against `run`, which runs kernels. Begins when it is made.

    `captured` is of a call without gradients; with them both go forward and backward. Raises LaunchFailed, after which
    nothing runs on the device; any other error stands in `why`, and the kernel is not taken.
    """

    def __init__(
        self, clock: Clock, function: Callable[..., Any], run: Run, captured: Captured | None, args: Any, kwargs: Any
    ) -> None:
        self.why = "its kernel is being timed"
        self._pending: TimedPair | None = None
        self._is_faster: bool | None = None
        try:
            if captured is None:
                pair = partial(_pulled, function, args, kwargs), partial(_pulled, _as_called(run), args, kwargs)
                self._pending = clock.compare(*pair)
            else:
                with _put_back(_changed(captured, args, kwargs)), torch.no_grad():
                    self._pending = clock.compare(partial(function, *args, **kwargs), partial(run, args, kwargs))
        except LaunchFailed:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the call goes on in eager)
            self._is_faster, self.why = False, f"its kernel could not be timed: {error}".splitlines()[0]

    @property
    def is_faster(self) -> bool | None:
        """Whether the kernel is; None as long as that is not known."""
        if self._pending is not None and (found := self._pending.us()) is not None:
            self._pending = None
            otherwise_us, kernel_us = found
            self._is_faster = kernel_us < otherwise_us
            told = f"{kernel_us:.1f} us by the kernel, {otherwise_us:.1f} us in eager"
            self.why = told if self._is_faster else f"not faster: {told}"
        return self._is_faster

    def wait(self, device: torch.device | None) -> None:
        """Until it is known; `device` is where it runs, None where it is over when it is made."""
        if self._pending is not None and device is not None:
            torch.cuda.synchronize(device)


def _as_called(run: Run) -> Callable[..., Any]:
    return lambda *args, **kwargs: run(args, kwargs)


def _pulled(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Forward and backward, of tensors that end here: nobody's `grad` is changed."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    ends = [x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves]
    given, named = pytree.tree_unflatten(ends, spec)
    with torch.enable_grad():
        made = [x for x in pytree.tree_leaves(function(*given, **named)) if isinstance(x, torch.Tensor)]
    results = [x for x in made if x.requires_grad]
    needed = [x for x in ends if isinstance(x, torch.Tensor) and x.requires_grad]
    if results:
        torch.autograd.grad(results, needed, [torch.zeros_like(x) for x in results], allow_unused=True)


def _changed(captured: Captured, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that a call writes, those that the function holds included."""
    written = {node.args[0] for node in captured.writes}
    given = zip(captured.placeholders, captured.tensors(args, kwargs), strict=False)
    return [tensor for node, tensor in given if node in written]


@contextmanager
def _put_back(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    before = [x.clone() for x in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for x, had in zip(tensors, before, strict=True):
                x.copy_(had)
