"""The memory of a launch: tensors, module variables, parameters; and what each batch of blocks adds to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.tma.tensor_map import encode
from compiler.emulate.launch import EmulatedTensor, EmulatedTensorMap, Launch, TableArgument, TensorArgument
from compiler.emulate.memory.region import POISON, MemoryRegion, flags, padded
from compiler.emulate.memory.windows import GLOBAL_BASE, GLOBAL_GAP, SHARED_BASE
from compiler.emulate.ptx.module import Function, Module, StateSpace, Variable
from compiler.emulate.threads import Threads

_ALIGN = 256
"""What allocators give at least; a tensor that promises less starts a little later."""

_BANK_LINE = 128
"""Bytes of one line of the 32 banks of shared memory."""

_SHARED_GAP = _BANK_LINE
"""Bytes of the guard zone between two shared variables: whole lines, so that bank conflicts stay."""

_LOCAL_BASE = 256
"""The first local address: null is not in local memory."""


@dataclass(frozen=True)
class LaunchMemory:
    """Memory that outlives a batch. `tensors` in order of their addresses, module variables among them.

    `symbols`: the address of each variable and parameter, in its space (global ones are generic addresses).
    `shared`: a flag a byte of one block's shared memory, static and dynamic; False in guard zones between variables.
    `local_bytes`: of one thread.
    """

    tensors: list[MemoryRegion]
    by_name: dict[str, MemoryRegion]
    param: MemoryRegion
    const: MemoryRegion
    symbols: dict[str, int]
    shared: npt.NDArray[np.bool_]
    local_bytes: int

    @property
    def shared_bytes(self) -> int:
        """Bytes of one block's shared memory, guard zones included."""
        return self.shared.size


class BadLaunch(ValueError):
    """The launch does not fit the kernel: says what is wrong."""


def launch_memory(module: Module, function: Function, launch: Launch) -> LaunchMemory:
    """Lays out tensors, variables and parameters. Raises BadLaunch where arguments do not fit the parameters."""
    symbols: dict[str, int] = {}
    tensors: list[MemoryRegion] = []
    by_name: dict[str, MemoryRegion] = {}
    base = GLOBAL_BASE
    for tensor in launch.tensors.values():
        region = _tensor(tensor, base, len(tensors))
        tensors.append(region)
        by_name[tensor.name] = region
        base = _after(region)
    for variable in module.variables:
        if variable.space is StateSpace.GLOBAL:
            region = _variable(variable, base, len(tensors))
            tensors.append(region)
            symbols[variable.name] = region.base
            base = _after(region)
    number = len(tensors)
    const_end = _lay_out([v for v in module.variables if v.space is StateSpace.CONST], symbols, _ALIGN)
    const = MemoryRegion(
        "constant memory", StateSpace.CONST, 0, const_end, np.zeros(padded(const_end), np.uint8), number
    )
    const.writable = False
    for variable in module.variables:
        if variable.space in (StateSpace.CONST, StateSpace.GLOBAL) and (variable.initial or variable.relocations):
            home = const if variable.space is StateSpace.CONST else _at(tensors, symbols[variable.name])
            _initialise(home, symbols[variable.name] - home.base, variable, symbols)
    shared = _shared(module, function)
    shared_end = _lay_out(shared, symbols, SHARED_BASE, _SHARED_GAP)
    dynamic = [v for v in shared if v.nbytes == 0]
    start = _aligned(shared_end, max([16, *(v.align for v in dynamic)])) if launch.dynamic_smem else shared_end
    for variable in dynamic:
        symbols[variable.name] = start
    shared_bytes = start + launch.dynamic_smem - SHARED_BASE
    owned = np.zeros(max(0, shared_bytes), np.bool_)
    for variable in shared:
        at = symbols[variable.name] - SHARED_BASE
        owned[at : at + (variable.nbytes or launch.dynamic_smem)] = True
    local_end = _lay_out(
        [v for v in function.variables if v.space in (StateSpace.LOCAL, StateSpace.PARAM)], symbols, _LOCAL_BASE
    )
    param = _parameters(function, launch, by_name, symbols, number + 1)
    return LaunchMemory(
        tensors,
        by_name,
        param,
        const,
        symbols,
        owned,
        local_end - _LOCAL_BASE,
    )


def shared_region(memory: LaunchMemory, threads: Threads) -> MemoryRegion:
    """The shared memory of the blocks of a batch, unwritten."""
    pitch = _aligned(memory.shared_bytes + 64, _BANK_LINE)
    nbytes = pitch * len(threads.blocks)
    valid = None
    if not memory.shared.all():
        whole = np.zeros(pitch, np.bool_)
        whole[: memory.shared.size] = memory.shared
        valid = np.tile(whole, len(threads.blocks))
    return MemoryRegion(
        "shared memory",
        StateSpace.SHARED,
        SHARED_BASE,
        memory.shared_bytes,
        np.full(nbytes, POISON, np.uint8),
        len(memory.tensors) + 2,
        pitch,
        written=flags(nbytes, False),
        valid=valid,
    )


def local_region(memory: LaunchMemory, threads: Threads) -> MemoryRegion:
    """The local memory of the threads of a batch, unwritten."""
    pitch = padded(memory.local_bytes)
    nbytes = pitch * threads.lanes
    return MemoryRegion(
        "local memory",
        StateSpace.LOCAL,
        _LOCAL_BASE,
        memory.local_bytes,
        np.full(nbytes, POISON, np.uint8),
        len(memory.tensors) + 3,
        pitch,
        written=flags(nbytes, False),
    )


def copy_back(memory: LaunchMemory, launch: Launch) -> None:
    """Puts what the kernel left in the tensors back into the launch's arrays."""
    for name, region in memory.by_name.items():
        if not region.is_changed or region.data is launch.tensors[name].data:
            continue
        data, mine = launch.tensors[name].data, slice(region.lead, region.lead + region.size)
        if region.fill is None:
            data[:] = region.data[mine]
        else:
            assert region.changed is not None
            for start, stop in region.touched():
                written = start + np.flatnonzero(region.changed[start:stop])
                data[written - region.lead] = region.data[written]


def _tensor(tensor: EmulatedTensor, base: int, number: int) -> MemoryRegion:
    lead = tensor.align % _ALIGN
    nbytes = tensor.data.size
    is_shared = tensor.fill is not None and not lead and padded(nbytes) == nbytes
    data = tensor.data if is_shared else np.zeros(padded(lead + nbytes), np.uint8)
    if tensor.fill is None:
        data[lead : lead + nbytes] = tensor.data

    def placed(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        if tensor.fill is not None and not lead and marks.size == data.size:
            return marks  # too large to copy
        whole = flags(lead + nbytes, False)
        whole[lead : lead + nbytes] = marks
        return whole

    return MemoryRegion(
        tensor.name,
        StateSpace.GLOBAL,
        base,
        nbytes,
        data,
        number,
        lead=lead,
        written=None if tensor.initialized is None else placed(tensor.initialized),
        changed=flags(lead + nbytes, False),
        valid=None if tensor.valid is None else placed(tensor.valid),
        fill=tensor.fill,
    )


def _variable(variable: Variable, base: int, number: int) -> MemoryRegion:
    return MemoryRegion(
        variable.name, StateSpace.GLOBAL, base, variable.nbytes, np.zeros(padded(variable.nbytes), np.uint8), number
    )


def _after(region: MemoryRegion) -> int:
    return _aligned(region.base + region.lead + region.size + GLOBAL_GAP, _ALIGN)


def _at(tensors: list[MemoryRegion], address: int) -> MemoryRegion:
    return next(t for t in tensors if t.base == address)


def _initialise(home: MemoryRegion, at: int, variable: Variable, symbols: dict[str, int]) -> None:
    if variable.initial:
        home.data[at : at + len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    for offset, symbol in variable.relocations:
        address = (symbols.get(symbol.name, 0) + symbol.offset).to_bytes(8, "little")
        home.data[at + offset : at + offset + 8] = np.frombuffer(address, np.uint8)


def _shared(module: Module, function: Function) -> list[Variable]:
    return [v for v in (*module.variables, *function.variables) if v.space is StateSpace.SHARED]


def _lay_out(variables: Iterable[Variable], symbols: dict[str, int], start: int, gap: int = 0) -> int:
    """Places variables one after another, as declared, `gap` bytes between; the first address after the last."""
    end = start
    for variable in variables:
        if variable.nbytes:
            start = _aligned(start, variable.align)
            symbols[variable.name] = start
            end = start + variable.nbytes
            start = _aligned(end, gap) + gap if gap else end
    return end


def _parameters(
    function: Function, launch: Launch, tensors: dict[str, MemoryRegion], symbols: dict[str, int], number: int
) -> MemoryRegion:
    """The kernel's parameters at their offsets, aligned as declared (PTX ISA, "Kernel Function Parameters")."""
    if len(launch.args) != len(function.params):
        raise BadLaunch(
            f"args: found {len(launch.args)}, expected {len(function.params)}: those of kernel {function.name}."
        )
    end = _lay_out(function.params, symbols, 0)
    region = MemoryRegion("kernel parameters", StateSpace.PARAM, 0, end, np.zeros(padded(end), np.uint8), number)
    region.writable = False
    for index, (variable, argument) in enumerate(zip(function.params, launch.args, strict=True)):
        if isinstance(argument, TensorArgument):
            home = tensors[argument.tensor]
            data = (home.base + home.lead + argument.offset_bytes).to_bytes(8, "little")
        elif isinstance(argument, EmulatedTensorMap):
            home = tensors[argument.tensor]
            data = encode(argument, home.base + home.lead)
        elif isinstance(argument, TableArgument):
            data = _with_addresses(argument, tensors)
        else:
            data = argument.data
        if len(data) != variable.nbytes:
            raise BadLaunch(
                f"Parameter {index} of {function.name} has {variable.nbytes} bytes, its argument {len(data)}. "
                "Give a tensor for a pointer, a tensor map for 128 bytes, a scalar of the parameter's type otherwise."
            )
        at = symbols[variable.name]
        region.data[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return region


def _with_addresses(argument: TableArgument, tensors: dict[str, MemoryRegion]) -> bytes:
    data = bytearray(argument.data)
    for at, name, offset in argument.addresses:
        home = tensors[name]
        data[at : at + 8] = (home.base + home.lead + offset).to_bytes(8, "little")
    return bytes(data)


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


__all__ = ["BadLaunch", "LaunchMemory", "copy_back", "launch_memory", "local_region", "shared_region"]
