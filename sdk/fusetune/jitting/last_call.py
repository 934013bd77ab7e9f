"""Whether a call is one like the last, asked in less time than its key takes to make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from fusetune.graph.precision import precision_of_f32
from fusetune.jitting.call_key import MAX_ALIGN


class LastCall:
    """A call by tensors alone that has a key, and the question whether another call has the same key.

    What torch.compile guards tensors with answers it for type, dtype, device, layout, sizes, strides and need of
    gradients (torch._C._dynamo.guards.TensorGuards); a torch without it gets no such object from `of`, and keys decide.
    """

    __slots__ = ("_check", "_count", "_dtype", "_grad", "_precision", "_still")

    def __init__(self, check: Callable[..., bool], count: int, still: Callable[[], bool]) -> None:
        self._check, self._count, self._still = check, count, still
        self._grad, self._dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        self._precision = precision_of_f32()

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: Any = None, still: Callable[[], bool] = lambda: True) -> LastCall | None:
        """None for a call that keys alone tell from others: with other arguments than aligned tensors, or autocast.
        `still`: whether what the function reads beside them is what it was."""
        if not args or kwargs or _guards is None or _is_autocast():
            return None
        if not all(isinstance(x, torch.Tensor) and not x.is_meta and _is_aligned(x) for x in args):
            return None
        sizes, strides = [list(x.shape) for x in args], [list(x.stride()) for x in args]
        try:
            guards = _guards(*args, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
            return cls(guards.check, len(args), still) if guards.check(*args) else None
        except (TypeError, RuntimeError):
            return None

    def is_like(self, args: tuple[Any, ...], kwargs: Any) -> bool:
        """Whether the key of a call with these arguments is this one's."""
        return (
            not kwargs
            and self.is_of_like(args)
            and torch.is_grad_enabled() is self._grad
            and torch.get_default_dtype() is self._dtype
            and precision_of_f32() is self._precision
            and not _is_autocast()
            and forward_ad._current_level < 0
            and self._still()
        )

    def is_of_like(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether these tensors are like its own, whatever holds beside them, as a kernel asks."""
        if len(tensors) != self._count or not self._check(*tensors):
            return False
        bits = 0
        for x in tensors:
            bits |= x.data_ptr()
        return not bits % MAX_ALIGN


def _is_aligned(x: torch.Tensor) -> bool:
    return x.data_ptr() % MAX_ALIGN == 0


def _either_autocast() -> bool:
    return torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")


def _found_guards() -> Any:
    try:
        from torch._C._dynamo.guards import TensorGuards
    except ImportError:
        return None
    return TensorGuards


_guards: Any = _found_guards()
_is_autocast: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", _either_autocast)
