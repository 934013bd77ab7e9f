"""What decides whether a call is one that was traced before: everything that a trace burns in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

_PLAIN = (int, bool, str, type(None), bytes, complex)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
MAX_ALIGN = 16
"""Bytes; an address is told apart up to this (fusetune.bindings says why)."""


class NoKey(Exception):
    """An argument that no key can hold: the call runs in eager."""


def call_key(args: tuple[Any, ...], kwargs: Mapping[str, Any], grad: bool) -> tuple[Any, ...]:
    """Dtypes, sizes, strides, devices, alignment and needs of gradients of tensors, other arguments by type and value,
    the structure that they stand in, and the modes of torch. Raises NoKey."""
    parts: list[Any] = [grad, torch.get_default_dtype(), _autocast()]
    plain = True
    for x in args:
        if isinstance(x, torch.Tensor):
            parts.append(_of_tensor(x))
        elif isinstance(x, (*_PLAIN, float)):
            parts.append(_of_value(x))
        else:
            plain = False
            break
    if plain and not kwargs:
        return tuple(parts)
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    parts[3:] = [_of_tensor(x) if isinstance(x, torch.Tensor) else _of_value(x) for x in leaves]
    return (*parts, str(spec))


class Outside:
    """What a function reads beside its arguments: variables that it closes over, and global numbers and tensors.

    Attributes of objects are not looked at: a module's parameters belong into the arguments.
    """

    def __init__(self, function: Any) -> None:
        self._cells = tuple(getattr(function, "__closure__", None) or ())
        self._globals = getattr(function, "__globals__", {})
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        kinds = (torch.Tensor, float, *_PLAIN, torch.dtype)
        self._names = tuple(n for n in names if isinstance(self._globals.get(n, self), kinds))
        if not self._cells and not self._names:
            self.key: Callable[[], tuple[Any, ...]] = tuple  # nothing is asked in each call then
        else:
            self.key = self._key

    def _key(self) -> tuple[Any, ...]:
        """What it is now: a tensor put in another's place is another key, and so is another number."""
        return tuple(
            [_of_held(cell) for cell in self._cells] + [_of_outer(self._globals.get(name)) for name in self._names]
        )


def _of_held(cell: Any) -> Any:
    try:
        return _of_outer(cell.cell_contents)
    except ValueError:  # it is not filled yet
        return None


def _of_outer(x: object) -> tuple[Any, ...]:
    if isinstance(x, torch.Tensor):
        return (id(x), *_of_tensor(x))
    return _of_value(x) if isinstance(x, (float, *_PLAIN, torch.dtype, torch.device)) else (id(x),)


def _of_tensor(x: torch.Tensor) -> tuple[Any, ...]:
    if x.layout is not torch.strided:
        raise NoKey(f"a tensor of layout {x.layout}")
    if type(x) not in _TENSORS:  # its own results are more than memory, and are of its type
        raise NoKey(f"a tensor of type {type(x).__name__}")
    if forward_ad._current_level >= 0:
        raise NoKey("a tensor that may have a tangent, under forward-mode differentiation,")
    try:
        low = x.data_ptr() | MAX_ALIGN if not x.is_meta else MAX_ALIGN
    except RuntimeError:  # fake, or wrapped by a transform such as vmap
        raise NoKey("a tensor that has no memory of its own") from None
    return x.dtype, x.shape, x.stride(), x.device, x.requires_grad, low & -low, type(x)


def _of_value(x: object) -> tuple[Any, ...]:
    if isinstance(x, float):  # by its bits: -0.0 is not 0.0, and NaN is found again
        return float, x.hex()
    if not isinstance(x, (*_PLAIN, torch.dtype, torch.device)):
        raise NoKey(f"an argument of type {type(x).__name__}")
    return type(x), x


def _autocast() -> tuple[Any, ...] | None:
    if not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
        return None
    return tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cuda", "cpu"))
