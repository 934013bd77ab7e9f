"""A compiled kernel and its tensors as a launch of the emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from compiler.emulate import launch as emulator
from compiler.emulate.launch import Bytes, Launch, Tensor
from compiler.errors import Unsupported
from compiler.ir.fusion import Value
from fusetune.wire.artifact import Arg, KernelArtifact, ScalarArg, TensorArg, TensorMapArg
from search.verify.arrays import storage_elems

Fill = Callable[[int, int], Bytes]
"""The bytes of a tensor from one offset up to another."""

POISON = 0xA5
"""What every byte of an output holds before it is written."""

_SCALARS = {"i32": "<i", "i64": "<q", "f32": "<f"}


def storage_bytes(value: Value) -> int:
    """Bytes from a tensor's first element to its last, holes included."""
    return storage_elems(value.shape, value.strides) * value.dtype.nbytes


def input_tensor(value: Value, storage: Bytes, fill: Fill | None = None) -> Tensor:
    """An input over its storage; with `fill`, one whose bytes are made when they are touched."""
    return Tensor(value.name, value.dtype.value, value.shape, storage, align=_align(value), fill=fill)


def output_tensor(value: Value, fill: Fill | None = None) -> Tensor:
    """An output that nobody has written yet. With `fill`, one too large to keep a flag for each of its bytes."""
    nbytes = storage_bytes(value)
    storage = np.zeros(nbytes, np.uint8)
    if fill is not None:
        return Tensor(value.name, value.dtype.value, value.shape, storage, align=_align(value), fill=fill)
    storage[:] = POISON
    unwritten, places = np.zeros(nbytes, np.bool_), element_bytes(value)
    valid = None if places.all() else places
    return Tensor(value.name, value.dtype.value, value.shape, storage, unwritten, valid, _align(value))


def element_bytes(value: Value) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A flag for each byte of a tensor's storage: whether it belongs to an element, not to a hole."""
    flags = np.zeros(storage_elems(value.shape, value.strides), np.bool_)
    np.lib.stride_tricks.as_strided(flags, value.shape, value.strides)[...] = True
    return np.repeat(flags, value.dtype.nbytes)


def launch_of(artifact: KernelArtifact, tensors: Sequence[Tensor]) -> Launch:
    """The launch of an artifact over tensors in the order of its positions: inputs, then outputs.

    Raises Unsupported for an artifact of several launches or with scratch memory, which no scheduler makes.
    """
    if len(artifact.launches) != 1 or artifact.scratch:
        raise Unsupported("emulating an artifact of several launches or with scratch memory", "Verify it on a GPU.")
    (spec,) = artifact.launches
    names = [tensor.name for tensor in tensors]
    return Launch(
        entry=spec.entry,
        arch=artifact.arch,
        grid=spec.grid,
        block=spec.block,
        args=tuple(_argument(arg, names) for arg in spec.args),
        tensors={tensor.name: tensor for tensor in tensors},
        cluster=spec.cluster,
        dynamic_smem=spec.dynamic_smem_bytes,
    )


def _argument(arg: Arg, names: Sequence[str]) -> emulator.Argument:
    match arg:
        case TensorArg():
            return emulator.TensorArgument(names[arg.position])
        case TensorMapArg():
            return emulator.TensorMap(
                tensor=names[arg.position],
                dtype=arg.dtype,
                dims=arg.dims,
                strides_bytes=arg.strides_bytes,
                box=arg.box,
                element_strides=arg.element_strides,
                swizzle=f"{arg.swizzle}B" if arg.swizzle else "NONE",
                l2_promotion=arg.l2_promotion,
            )
        case ScalarArg():
            return emulator.ValueArgument(struct.pack(_SCALARS[arg.dtype], arg.value))
        case _:
            raise Unsupported("emulating a kernel with scratch memory", "Verify it on a GPU.")


def _align(value: Value) -> int:
    """What is known of the address, and no more: a kernel that assumes more is found out."""
    return max(value.align, value.dtype.nbytes)
