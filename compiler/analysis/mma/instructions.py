"""The instructions of tensor cores: shapes and types (PTX ISA, "Shape for wgmma.mma_async", "Matrix Fragments for
mma.m16n8k16").

An instruction takes `MMA_K_BYTES` of the dimension that is summed along, of every type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.arch import (
    MMA_K_BYTES,
    MMA_SYNC_COLUMNS,
    MMA_SYNC_ROWS,
    WARP_THREADS,
    WARPGROUP_THREADS,
    WGMMA_ROWS,
    Arch,
)
from compiler.dtypes import FP8, DType

_HALVES = frozenset({DType.F16, DType.BF16})


class MmaUnit(StrEnum):
    """How the tensor cores are asked: by a warp group whose operands lie in shared memory, or by a warp whose operands
    its lanes hold."""

    WGMMA = "wgmma"
    MMA_SYNC = "mma_sync"

    @property
    def threads(self) -> int:
        """Threads that execute an instruction together."""
        return WARPGROUP_THREADS if self is MmaUnit.WGMMA else WARP_THREADS


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: m x k by k x n elements of `operand`, added to m x n of `accumulator`."""

    unit: MmaUnit
    m: int
    n: int
    k: int
    operand: DType
    accumulator: DType
    holds_rows: bool = False
    """Of wgmma: whether threads hold the rows' operand, which lies in shared memory otherwise."""

    def __str__(self) -> str:
        held = " of rows in registers" if self.holds_rows else ""
        return f"{self.unit} m{self.m}n{self.n}k{self.k} {self.operand} -> {self.accumulator}{held}"

    @property
    def held(self) -> int:
        """Elements of the result that a thread holds."""
        return self.m * self.n // self.unit.threads

    @property
    def is_known(self) -> bool:
        """Whether there is such an instruction, on an architecture that has its unit."""
        is_paired = self.accumulator is (DType.I32 if self.operand is DType.I8 else DType.F32)
        is_type = self.operand in _HALVES | FP8 | {DType.I8}
        if not is_paired or not is_type or self.k != MMA_K_BYTES // self.operand.nbytes:
            return False
        if self.unit is MmaUnit.MMA_SYNC:
            return (self.m, self.n) == (MMA_SYNC_ROWS, MMA_SYNC_COLUMNS)
        step = 16 if self.operand is DType.I8 and self.n > 32 else 8
        return self.m == WGMMA_ROWS and 0 < self.n <= 256 and self.n % step == 0

    def is_on(self, arch: Arch) -> bool:
        """Whether an architecture has the unit, for these types (PTX ISA, target ISA notes)."""
        if self.unit is MmaUnit.WGMMA:
            return arch.capability == (9, 0)
        return arch.capability >= ((8, 9) if self.operand in FP8 else (8, 0))

    @property
    def transposes(self) -> bool:
        """Whether operands in shared memory may have the rows, or columns, side by side: of 16 bits only."""
        return self.operand in _HALVES
