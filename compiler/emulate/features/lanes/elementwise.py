"""Instructions that compute one result a lane from the operands of the same lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Array, Binder, UnknownForm
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run

Function = Callable[..., Any]
"""Values of the operands to the value of the result: arrays with an element a lane, or scalars."""


def integer_type(token: str) -> np.dtype[Any]:
    """The element type of `u32`, `s64`, `b16`… Raises UnknownForm for what is no integer."""
    if token[:1] in ("u", "s", "b") and token[1:] in ("8", "16", "32", "64"):
        return np.dtype(f"{'i' if token[0] == 's' else 'u'}{int(token[1:]) // 8}")
    raise UnknownForm(f"the type .{token} here")


def elementwise(
    insn: PtxInstruction,
    binder: Binder,
    function: Function,
    result: npt.DTypeLike,
    *operands: npt.DTypeLike,
) -> Run:
    """Binds `function` to the operands after the first, read as types `operands`; what it gives is the first operand.

    Raises UnknownForm where the instruction has another number of operands.
    """
    if len(insn.operands) != len(operands) + 1:
        raise UnknownForm(f"{insn.text}, which should have {len(operands) + 1} operands")
    write = binder.writer(insn.operands[0], result, insn)
    readers = [binder.reader(o, t, insn) for o, t in zip(insn.operands[1:], operands, strict=True)]
    # The usual numbers of operands are spelled out: this runs for every instruction of every warp.
    match readers:
        case [first]:
            return lambda a: write(a, function(first(a)))
        case [first, second]:
            return lambda a: write(a, function(first(a), second(a)))
        case [first, second, third]:
            return lambda a: write(a, function(first(a), second(a), third(a)))
        case _:
            return lambda a: write(a, function(*[read(a) for read in readers]))


def spread(values: Array, active: Active) -> Array:
    """Values read for the active lanes as an array with an element for each, also where all are equal."""
    return values if values.ndim else np.broadcast_to(values, len(active))


def common(values: Array) -> int | None:
    """The value that all lanes have, None if they differ."""
    if not values.ndim:
        return int(values)
    return int(values[0]) if (values == values[0]).all() else None
