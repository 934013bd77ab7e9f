"""A compiled kernel and its tensors as launches of the emulator: of traces, of explicit schedules, of artifacts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler.emulate import launch as emulator
from compiler.emulate.launch import Bytes, EmulatedOutcome, EmulatedTensor, Launch
from compiler.emulate.memory.region import POISON
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Value
from fusetune.wire.artifact import (
    Arg,
    KernelArtifact,
    LaunchSpec,
    ListArg,
    ScalarArg,
    ScalarInputArg,
    Scratch,
    ScratchArg,
    TensorArg,
    TensorMapArg,
)
from fusetune.wire.lists import ListRow, address_offset, chunks_of, table
from fusetune.wire.op_check import ITEM_BYTES

Fill = Callable[[int, int], Bytes]
"""The bytes of a tensor from one offset up to another."""

Parts = Sequence[tuple[int, int]]
"""(first element, elements) of parts of flat tensors."""

_SCALARS = {"i32": "<i", "i64": "<q", "f32": "<f", "f64": "<d"}


def input_tensor(value: Value, storage: Bytes, fill: Fill | None = None) -> EmulatedTensor:
    """An input over its storage; with `fill`, one whose bytes are made when they are touched."""
    return EmulatedTensor(value.name, value.dtype.value, value.shape, storage, align=_align(value), fill=fill)


def output_tensor(value: Value, fill: Fill | None = None) -> EmulatedTensor:
    """An output that nobody has written yet. With `fill`, one too large to keep a flag for each of its bytes."""
    nbytes = value.storage_bytes
    storage = np.zeros(nbytes, np.uint8)
    if fill is not None:
        return EmulatedTensor(value.name, value.dtype.value, value.shape, storage, align=_align(value), fill=fill)
    storage[:] = POISON
    unwritten, places = np.zeros(nbytes, np.bool_), element_bytes(value)
    valid = None if places.all() else places
    return EmulatedTensor(value.name, value.dtype.value, value.shape, storage, unwritten, valid, _align(value))


def tensors_of(fusion: Fusion, storages: Sequence[Bytes]) -> list[EmulatedTensor]:
    """The tensors of a call in the order of its positions: inputs over their storages, which runs change where outputs
    are written into them, then outputs. One that lies in an input is that very tensor."""
    values = [fusion.value(name) for name in fusion.inputs]
    found = {v.name: input_tensor(v, storage) for v, storage in zip(values, storages, strict=True)}
    for _, name in fusion.aliases:
        places = element_bytes(fusion.value(name))
        found[name] = replace(found[name], valid=None if places.all() else places)
    made = {name: output_tensor(fusion.value(name)) for name in fusion.outputs if fusion.memory_of(name) == name}
    return [(found | made)[fusion.memory_of(name)] for name in (*fusion.inputs, *fusion.outputs)]


def element_bytes(value: Value) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A flag for each byte of a tensor's storage: whether it belongs to an element, not to a hole."""
    flags = np.zeros(value.storage_elems, np.bool_)
    np.lib.stride_tricks.as_strided(flags, value.shape, value.strides)[...] = True
    return np.repeat(flags, value.dtype.nbytes)


def launch_of(artifact: KernelArtifact, tensors: Sequence[EmulatedTensor]) -> Launch:
    """The launch of an artifact that has one, over tensors in the order of its positions: inputs, then outputs.

    Raises Unsupported for an artifact of several launches or with scratch memory: see `launches_of`.
    """
    if len(artifact.launches) != 1 or artifact.scratch:
        raise Unsupported("emulating several launches as one", "Run them in order.")
    return launches_of(artifact, tensors)[0]


def launches_of(artifact: KernelArtifact, tensors: Sequence[EmulatedTensor], parts: Parts = ()) -> tuple[Launch, ...]:
    """The launches of an artifact in order, over the same tensors (inputs, then outputs) and scratch buffers. Of a
    kernel over lists, those are the `parts` of the tensors, without any the whole ones.

    Scratch is poisoned, or zero where the artifact asks for that; what was not written must not be read. Mark what a
    launch wrote by `written_by` before the next one runs.
    """
    scratch = [_scratch(f"scratch{n}", spec) for n, spec in enumerate(artifact.scratch)]
    made = (launched(spec, artifact.arch, tensors, scratch) for spec in artifact.launches)
    if artifact.lists is None:
        return tuple(made)
    (elems,) = tensors[artifact.lists.sized].shape
    return tuple(_over_lists(launch, artifact.lists, tensors, parts or ((0, elems),)) for launch in made)


def _over_lists(launch: Launch, arg: ListArg, tensors: Sequence[EmulatedTensor], parts: Parts) -> Launch:
    """The launch with the table of these parts of the tensors as lists, and a block for each of their chunks. Of single
    elements, each part has the next of the storage, which begins again at its end."""
    slots = [tensors[position] for position in arg.positions]
    rows = [ListRow((0,) * len(slots), elems) for _, elems in parts]
    addresses = tuple(
        (address_offset(arg.rows, n, row), t.name, _begins(t, row, start))
        for n, t in enumerate(slots)
        for row, (start, _) in enumerate(parts)
    )
    filled = emulator.TableArgument(table(rows, len(slots), arg.rows, arg.tile), addresses)
    args = tuple(filled if isinstance(one, emulator.TableArgument) else one for one in launch.args)
    return replace(launch, args=args, grid=(chunks_of(rows, arg.tile), 1, 1))


def _begins(tensor: EmulatedTensor, row: int, start: int) -> int:
    """Bytes before a part's first element, or before its single one."""
    if tensor.shape:
        return start * (tensor.data.size // tensor.shape[0])
    return row * ITEM_BYTES[tensor.dtype] % tensor.data.size


def launched(
    spec: LaunchSpec, arch: str, tensors: Sequence[EmulatedTensor], scratch: Sequence[EmulatedTensor] = ()
) -> Launch:
    """One launch over tensors in the order of its positions, and scratch buffers."""
    every = (*tensors, *scratch)
    names = [tensor.name for tensor in every]
    return Launch(
        entry=spec.entry,
        arch=arch,
        grid=spec.grid,
        block=spec.block,
        args=tuple(_argument(arg, names, len(tensors)) for arg in spec.args),
        tensors={tensor.name: tensor for tensor in every},
        cluster=spec.cluster,
        dynamic_smem=spec.dynamic_smem_bytes,
    )


def written_by(launch: Launch, outcome: EmulatedOutcome) -> None:
    """What a launch wrote may be read by the next."""
    for name, flags in outcome.written.items():
        if (initialized := launch.tensors[name].initialized) is not None:
            initialized |= flags


def _scratch(name: str, spec: Scratch) -> EmulatedTensor:
    storage, flags = np.full(spec.bytes, POISON, np.uint8), np.zeros(spec.bytes, np.bool_)
    if spec.init == "zero":
        storage[:], flags[:] = 0, True
    return EmulatedTensor(name, "u8", (spec.bytes,), storage, flags, align=spec.align)


def _argument(arg: Arg, names: Sequence[str], tensors: int) -> emulator.Argument:
    """`names`: those of inputs, outputs and scratch buffers; of the first two there are `tensors`."""
    match arg:
        case TensorArg():
            return emulator.TensorArgument(names[arg.position])
        case ScratchArg():
            return emulator.TensorArgument(names[tensors + arg.index])
        case TensorMapArg():
            return emulator.EmulatedTensorMap(
                tensor=names[arg.position],
                dtype=arg.dtype,
                dims=arg.dims,
                strides_bytes=arg.strides_bytes,
                box=arg.box,
                element_strides=arg.element_strides,
                swizzle=f"{arg.swizzle}B" if arg.swizzle else "NONE",
                l2_promotion=arg.l2_promotion,
            )
        case ListArg():
            return emulator.TableArgument(b"", ())  # filled by `_over_lists`
        case ScalarArg():
            return emulator.ValueArgument(struct.pack(_SCALARS[arg.dtype], arg.value))
        case ScalarInputArg():
            raise Unsupported(
                f"emulating a kernel whose scalar {arg.position} has no number",
                "Put one in (fusetune.wire.scalars, with_numbers).",
            )


def _align(value: Value) -> int:
    """What is known of the address, and no more: a kernel that assumes more is found out."""
    return max(value.align, value.dtype.nbytes)
