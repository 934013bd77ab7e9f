"""What is run: a kernel of a module, its grid, its arguments and tensors; and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.report import EmulatorFault

Bytes = npt.NDArray[np.uint8]


class Completion(StrEnum):
    """When asynchronous operations complete. Every order is one that the memory model allows.

    eager    at once, when issued
    lazy     as late as can be: only when nothing else can go on
    random   at any time between, drawn from a seed, and warps take turns at random
    """

    EAGER = "eager"
    LAZY = "lazy"
    RANDOM = "random"


@dataclass(frozen=True)
class EmulatedTensor:
    """A tensor in global memory.

    `data` holds its bytes from the first element to the last, holes of strided tensors included; the run changes it.
    `initialized` has a flag a byte, None if all is: reading another byte before it is written is a fault.
    `valid` has a flag a byte, None if all may be written: False where a strided tensor has holes.
    `align` divides its address; below 256 the address is a multiple of no more than that.
    `fill`, for tensors too large to make whole, gives the bytes from start to stop when they are first touched; `data`
    is then np.zeros, which takes no memory until it is touched, and only bytes that the kernel wrote are put into it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Bytes
    initialized: npt.NDArray[np.bool_] | None = None
    valid: npt.NDArray[np.bool_] | None = None
    align: int = 256
    fill: Callable[[int, int], Bytes] | None = None


@dataclass(frozen=True)
class EmulatedTensorMap:
    """A tensor map argument, everything innermost first (CUDA driver API, cuTensorMapEncodeTiled).

    `strides_bytes` has rank-1 entries. `swizzle` is NONE 32B 64B 128B 128B_ATOM_32B 128B_ATOM_32B_FLIP_8B or
    128B_ATOM_64B; `interleave` NONE 16B 32B; `oob_fill` zero or nan. `dtype` is one of `features.tma.elements.DTYPES`.
    `offset_bytes` is added to the tensor's address.
    """

    tensor: str
    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "NONE"
    interleave: str = "NONE"
    oob_fill: str = "zero"
    l2_promotion: int = 0
    offset_bytes: int = 0


@dataclass(frozen=True)
class TensorArgument:
    """The address of a tensor, `offset_bytes` into it."""

    tensor: str
    offset_bytes: int = 0


@dataclass(frozen=True)
class ValueArgument:
    """An argument passed by value: its bytes, little-endian (a scalar or a struct)."""

    data: bytes


@dataclass(frozen=True)
class TableArgument:
    """Bytes by value in which addresses stand: (where in the bytes, tensor, bytes into it), each."""

    data: bytes
    addresses: tuple[tuple[int, str, int], ...]


Argument = TensorArgument | EmulatedTensorMap | ValueArgument | TableArgument


@dataclass(frozen=True)
class Launch:
    """One launch of kernel `entry`; tensors by name. Sizes as CUDA orders them, x first."""

    entry: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Argument, ...]
    tensors: dict[str, EmulatedTensor]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0


@dataclass(frozen=True)
class Options:
    """How to run. `blocks`: linear indices of the blocks to run, None for all (whole clusters are run).

    `races`: look for races; `counts`: count memory accesses. Both cost time.
    `max_instructions` bounds the instructions of all warps together, so that a kernel that never ends is reported.
    """

    completion: Completion = Completion.EAGER
    seed: int = 0
    blocks: tuple[int, ...] | None = None
    max_instructions: int = 2_000_000_000
    races: bool = True
    counts: bool = True


@dataclass(frozen=True)
class EmulatedOutcome:
    """The faults, what was counted, and for each tensor a flag a byte that the kernel wrote.

    `unlisted`: occurrences of faults beyond those that a report lists. `instructions`: of all warps together.
    `met_limit`: the run was ended after `Options.max_instructions`, and the last of the faults says so.
    """

    faults: tuple[EmulatorFault, ...]
    counters: dict[str, Any]
    written: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    unlisted: int = 0
    instructions: int = 0
    met_limit: bool = False
