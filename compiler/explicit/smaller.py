"""A smaller binding of an explicit schedule whose extents are unknown when its kernel is compiled.

The same schedule at other sizes, small enough to run every block of it in the emulator: tiles, their edges and the
loops over them stay, only fewer of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

MOST_ELEMENTS = 1 << 17
"""Elements of the largest tensor: seconds in the emulator."""

LEAST = 8
"""Extents up to it stay."""

_MOST_SHARED_FACTOR = 64
"""Powers of two up to it that divide an extent divide the smaller one, so that vectors and boxes fit as before."""


def smaller(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The document at smaller symbolic extents, largest first; None where it is small already or no extent may change.

    Only documents that every reader accepted; equal extents stay equal.
    """
    if "runtime_inputs" in document:
        return None
    tensors = document["tensors"]
    shapes = [tuple(t["shape"]) for t in tensors.values()]
    free = {n for name in document["inputs"] for n in _symbolic(tensors[name])} if document["inputs"] else set()
    chosen = {n: n for shape in shapes for n in shape}
    while max((prod(chosen[n] for n in shape) for shape in shapes), default=0) > MOST_ELEMENTS:
        extent = max((n for n in free if _next(chosen[n]) < chosen[n]), key=lambda n: chosen[n], default=None)
        if extent is None:
            return None
        chosen[extent] = _next(chosen[extent])
    if all(a == b for a, b in chosen.items()):
        return None
    bound = {name: {**t, "shape": [chosen[n] for n in t["shape"]]} for name, t in tensors.items()}
    return {**document, "tensors": bound}


def _symbolic(tensor: Mapping[str, Any]) -> list[int]:
    flags = tensor.get("symbolic", False)
    each = [flags] * len(tensor["shape"]) if isinstance(flags, bool) else flags
    return [n for n, is_free in zip(tensor["shape"], each, strict=True) if is_free]


def _next(extent: int) -> int:
    """About half, divided by the same small power of two; an odd number of those, so that tiles have edges."""
    if extent <= LEAST:
        return extent
    unit = min(extent & -extent, _MOST_SHARED_FACTOR)
    while unit > 1 and extent // unit < 2:
        unit //= 2
    count = extent // unit // 2 | 1
    return unit * count if unit * count < extent else max(unit // 2, 1)
