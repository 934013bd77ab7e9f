"""What decides whether a call is one that was traced before: everything that a trace burns in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from fusetune.graph.precision import precision_of_f32

PLAIN = (int, bool, str, type(None), bytes, complex)
"""Types of what is known by its value; of floats by its bits."""
_TENSORS = (torch.Tensor, torch.nn.Parameter)
MAX_ALIGN = 16
"""Bytes; an address is told apart up to this (fusetune.bindings says why)."""


class NoKey(Exception):
    """An argument that no key can hold: the call runs in eager."""


def call_key(args: tuple[Any, ...], kwargs: Mapping[str, Any], grad: bool) -> tuple[Any, ...]:
    """Dtypes, sizes, strides, devices, alignment and needs of gradients of tensors, other arguments by type and value,
    the structure that they stand in, and the modes of torch. Raises NoKey."""
    parts: list[Any] = [grad, torch.get_default_dtype(), _autocast(), precision_of_f32()]
    plain = True
    for x in args:
        if isinstance(x, torch.Tensor):
            parts.append(of_tensor(x))
        elif isinstance(x, (*PLAIN, float)):
            parts.append(of_value(x))
        else:
            plain = False
            break
    if plain and not kwargs:
        return tuple(parts)
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    parts[4:] = [of_tensor(x) if isinstance(x, torch.Tensor) else of_value(x) for x in leaves]
    return (*parts, str(spec))


def of_tensor(x: torch.Tensor) -> tuple[Any, ...]:
    """A tensor as part of a key. Raises NoKey."""
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


def of_value(x: object) -> tuple[Any, ...]:
    """A number, or what else is no tensor, as part of a key. Raises NoKey."""
    if isinstance(x, float):  # by its bits: -0.0 is not 0.0, and NaN is found again
        return float, x.hex()
    if not isinstance(x, (*PLAIN, torch.dtype, torch.device)):
        raise NoKey(f"an argument of type {type(x).__name__}")
    return type(x), x


def _autocast() -> tuple[Any, ...] | None:
    if not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
        return None
    return tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cuda", "cpu"))
