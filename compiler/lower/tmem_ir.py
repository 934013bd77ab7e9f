"""Kernel IR of tensor memory: statements that are one instruction each (PTX ISA, tcgen05). Whole warps execute them.

An allocation is the block's: its address comes to all threads through shared memory, and places are lanes and columns
from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.tmem.patterns import Pattern
from compiler.lower.operands import Barrier, Reg, Shared, Tmem


@dataclass(frozen=True, slots=True)
class TmemAllocate:
    """The warp that executes it allocates `columns` for its block, and waits until they are free; their address is
    written to `byte_offset` of dynamic shared memory."""

    columns: int
    byte_offset: int


@dataclass(frozen=True, slots=True)
class TmemRelinquish:
    """The block allocates no more: others of the multiprocessor may."""


@dataclass(frozen=True, slots=True)
class TmemAddress:
    """Each thread reads the address of the allocation from `byte_offset` of dynamic shared memory."""

    byte_offset: int


@dataclass(frozen=True, slots=True)
class TmemDeallocate:
    """The warp that executes it frees the allocation, of so many columns."""

    columns: int


@dataclass(frozen=True, slots=True)
class TmemLoad:
    """The threads of a warp load `registers` words each: a pattern `repeats` times. They arrive by `WaitTmemLoads`.

    `half_offset`: columns from the first half of 16x32bx2 to the second; None for other patterns.
    """

    target: Reg
    source: Tmem
    pattern: Pattern
    repeats: int
    registers: int
    half_offset: int | None = None


@dataclass(frozen=True, slots=True)
class TmemStore:
    """The same way back. What was stored can be read once `WaitTmemStores` has returned."""

    source: Reg
    target: Tmem
    pattern: Pattern
    repeats: int
    registers: int
    half_offset: int | None = None


@dataclass(frozen=True, slots=True)
class TmemCopy:
    """One thread asks for a tile: `row_bytes` of each of 128 lanes, shared -> tensor memory. In shared memory 16 bytes
    of eight lanes follow each other, `stride` bytes from there to the next eight lanes, `leading` to their other 16.
    """

    target: Tmem
    source: Shared
    row_bytes: int
    leading: int
    stride: int


@dataclass(frozen=True, slots=True)
class TmemShift:
    """One thread asks for rows to be moved: 32 bytes of 31 lanes, from `rows` on, each to the next lane."""

    rows: Tmem


@dataclass(frozen=True, slots=True)
class TmemCommit:
    """The thread lets `barrier` know when what it has asked for is there; one arrival."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Unpack:
    """The first `nbytes` bytes of a register array become those of another one, of another type."""

    target: Reg
    source: Reg
    nbytes: int


@dataclass(frozen=True, slots=True)
class WaitTmemLoads:
    """Waits until all loads of the warp have come to its registers."""


@dataclass(frozen=True, slots=True)
class WaitTmemStores:
    """Waits until all stores of the warp are done."""


@dataclass(frozen=True, slots=True)
class TmemFenceBefore:
    """What this thread did in tensor memory comes before the barrier that follows."""


@dataclass(frozen=True, slots=True)
class TmemFenceAfter:
    """What this thread does in tensor memory comes after the barrier before."""


TmemStmt = (
    TmemAllocate
    | TmemRelinquish
    | TmemAddress
    | TmemDeallocate
    | TmemLoad
    | TmemStore
    | TmemCopy
    | TmemShift
    | TmemCommit
    | Unpack
    | WaitTmemLoads
    | WaitTmemStores
    | TmemFenceBefore
    | TmemFenceAfter
)
