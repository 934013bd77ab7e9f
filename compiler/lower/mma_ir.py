"""Kernel IR of tensor cores: statements that are one instruction each (PTX ISA, wgmma, mma.sync, tcgen05.mma).

All threads of a warp group, or a warp, execute them together; those whose result is in tensor memory, one thread.
Between `MmaFence` and `WaitMma` the registers of results belong to the instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.mma.instructions import Instruction
from compiler.dtypes import DType
from compiler.ir.expr import Expr
from compiler.lower.operands import Reg, Shared, Tmem


@dataclass(frozen=True, slots=True)
class MatrixPlace:
    """An operand in shared memory, from `place` on: bytes of the descriptor's offsets and of its swizzle; whether the
    rows, not k, lie side by side (PTX ISA, wgmma, "Matrix Descriptor Format"; tcgen05, "Shared memory descriptor")."""

    place: Shared
    leading: int
    stride: int
    span: int
    is_transposed: bool


@dataclass(frozen=True, slots=True)
class MmaAsync:
    """target = left @ right + target, or, where `adds` is 0, left @ right; under way until a `WaitMma` that covers it.
    The threads may hold `left` (PTX ISA, wgmma.mma_async)."""

    instruction: Instruction
    target: Reg
    left: MatrixPlace | Reg
    right: MatrixPlace
    adds: Expr


@dataclass(frozen=True, slots=True)
class MmaFence:
    """What was done to registers comes before instructions that use them (PTX ISA, wgmma.fence)."""


@dataclass(frozen=True, slots=True)
class CommitMma:
    """Closes the group of the instructions since the last one (PTX ISA, wgmma.commit_group)."""


@dataclass(frozen=True, slots=True)
class WaitMma:
    """Waits until at most the last `pending` groups are under way (PTX ISA, wgmma.wait_group)."""

    pending: int


@dataclass(frozen=True, slots=True)
class HoldRegisters:
    """The compiler moves no use of a register array past this place, and keeps no copy of it: the registers are the
    instructions' from here on, or no longer."""

    name: str
    dtype: DType
    elems: int


@dataclass(frozen=True, slots=True)
class Mma:
    """target = left @ right + target, of a warp whose lanes hold the operands; done when the threads go on (PTX ISA,
    mma.sync)."""

    instruction: Instruction
    target: Reg
    left: Reg
    right: Reg


@dataclass(frozen=True, slots=True)
class TensorMma:
    """target = left @ right + target, or, where `adds` is 0, left @ right: one thread asks for it; under way until a
    `TmemCommit` of that thread has arrived (PTX ISA, tcgen05.mma, enable-input-d)."""

    instruction: Instruction
    target: Tmem
    left: MatrixPlace
    right: MatrixPlace
    adds: Expr


MmaStmt = Mma | MmaAsync | MmaFence | CommitMma | WaitMma | HoldRegisters | TensorMma
