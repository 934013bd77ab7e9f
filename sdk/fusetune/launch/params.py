"""Kernel parameters as the driver reads them: an array of addresses, one for each argument's value.

Packed once for a set of addresses and then reused, but for scalars, which every call tells: the driver copies the
values during the launch call (and during graph capture), so the block may be reused as soon as the call returns.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusetune.errors import InvalidKernel
from fusetune.launch.tensor_map import TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, Encoder
from fusetune.wire.artifact import Arg, ListArg, ScalarArg, ScalarInputArg, ScratchArg, TensorArg, TensorMapArg
from fusetune.wire.lists import ListRow, table, table_bytes
from fusetune.wire.scalars import held

_POINTER = "<Q"
_SCALARS = {"i32": "<i", "i64": "<q", "f32": "<f", "f64": "<d"}

Numbers = tuple[int | float, ...]
"""The values of an artifact's scalars, in order."""


@dataclass(frozen=True, slots=True)
class PackedParams:
    """`address` is what cuLaunchKernel takes as kernelParams; the buffers live as long as this object.

    `scalars`: the addresses of the values that each call tells, and what is told there.
    """

    address: int
    value_addresses: tuple[int, ...]
    _buffers: tuple[Any, ...]
    scalars: tuple[tuple[int, ScalarInputArg], ...] = ()

    def tell(self, numbers: Numbers) -> None:
        """Puts the numbers of a call in their places. Raises InvalidKernel where there is none for an argument."""
        for index, (target, arg) in enumerate(self.scalars):
            if not 0 <= arg.position < len(numbers):
                raise _invalid(index, f"it names scalar {arg.position}, the call has {len(numbers)}")
            _write(target, _SCALARS[arg.dtype], held(numbers[arg.position], arg.dtype))


def pack_params(
    args: tuple[Arg, ...],
    pointers: tuple[int, ...],
    scratch: tuple[int, ...],
    encode: Encoder,
    rows: Sequence[ListRow] = (),
) -> PackedParams:
    """Lays out the values of `args` for tensors at `pointers` (inputs, then outputs), scratch at `scratch`, and the
    `rows` of lists.

    Each value is aligned to its size, tensor maps to 64 bytes. Raises InvalidKernel where an argument names a tensor or
    scratch buffer that is not there, or a scalar does not fit its type.
    """
    offsets, end = [], 0
    for arg in args:
        size, align = (TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN) if isinstance(arg, TensorMapArg) else (8, 8)
        if isinstance(arg, ListArg):
            size = table_bytes(len(arg.positions), arg.rows)
        offset = -(-end // align) * align
        offsets.append(offset)
        end = offset + size
    buffer = ctypes.create_string_buffer(end + TENSOR_MAP_ALIGN)
    base = -(-ctypes.addressof(buffer) // TENSOR_MAP_ALIGN) * TENSOR_MAP_ALIGN
    values = tuple(base + offset for offset in offsets)
    for index, (arg, target) in enumerate(zip(args, values, strict=True)):
        match arg:
            case TensorArg(position=position):
                _write(target, _POINTER, _at(pointers, position, index, "tensor"))
            case ScratchArg(index=which):
                _write(target, _POINTER, _at(scratch, which, index, "scratch buffer"))
            case TensorMapArg(position=position):
                encode(arg, _at((*pointers, *scratch), position, index, "tensor or scratch buffer"), target)
            case ScalarArg(dtype=dtype, value=value):
                try:
                    _write(target, _SCALARS[dtype], value)
                except (struct.error, OverflowError) as error:
                    raise _invalid(index, f"{value} is not a {dtype} ({error})") from error
            case ListArg():
                data = table(rows, len(arg.positions), arg.rows, arg.tile)
                ctypes.memmove(target, data, len(data))
            case ScalarInputArg():
                pass  # told at each call
    array = (ctypes.c_void_p * max(len(values), 1))(*values)
    told = tuple((target, arg) for arg, target in zip(args, values, strict=True) if isinstance(arg, ScalarInputArg))
    return PackedParams(ctypes.addressof(array), values, (buffer, array), told)


def _write(target: int, form: str, value: int | float) -> None:
    data = struct.pack(form, value)
    ctypes.memmove(target, data, len(data))


def _at(addresses: tuple[int, ...], position: int, index: int, what: str) -> int:
    if not 0 <= position < len(addresses):
        raise _invalid(index, f"it names {what} {position}, the call has {len(addresses)}")
    return addresses[position]


def _invalid(index: int, reason: str) -> InvalidKernel:
    return InvalidKernel(f"kernel argument {index}", reason, "The stored kernel is damaged: tune the fusion again.")
