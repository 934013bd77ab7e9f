"""The instructions of tensor cores: shapes and types (PTX ISA, "Shape for wgmma.mma_async", "Matrix Fragments for
mma.m16n8k16", "Kinds of matrix-multiply" of tcgen05.mma).

An instruction takes `MMA_K_BYTES` of the dimension that is summed along, of every type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.arch import (
    MMA_K_BYTES,
    MMA_SYNC_COLUMNS,
    MMA_SYNC_ROWS,
    TCGEN05_COLUMNS,
    TCGEN05_HALF_ROWS,
    TCGEN05_ROWS,
    WARP_THREADS,
    WARPGROUP_THREADS,
    WGMMA_ROWS,
    Arch,
)
from compiler.dtypes import FP8, DType

_HALVES = frozenset({DType.F16, DType.BF16})


class MmaUnit(StrEnum):
    """How the tensor cores are asked: by a warp group whose operands lie in shared memory, by a warp whose operands its
    lanes hold, or by one thread whose operands lie in shared memory, for a result in tensor memory."""

    WGMMA = "wgmma"
    MMA_SYNC = "mma_sync"
    TCGEN05 = "tcgen05"

    @property
    def threads(self) -> int:
        """Threads that execute an instruction together."""
        return {MmaUnit.WGMMA: WARPGROUP_THREADS, MmaUnit.MMA_SYNC: WARP_THREADS, MmaUnit.TCGEN05: 1}[self]

    @property
    def reads_shared(self) -> bool:
        """Whether descriptors say where in shared memory both operands lie."""
        return self is not MmaUnit.MMA_SYNC


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: m x k by k x n elements of `operand`, added to m x n of `accumulator`. There is none that takes
    all of an f32."""

    unit: MmaUnit
    m: int
    n: int
    k: int
    operand: DType
    accumulator: DType
    holds_rows: bool = False
    """Of wgmma: whether threads hold the rows' operand, which lies in shared memory otherwise."""
    in_tf32: bool = False
    """Of f32: whether the upper 19 bits are what is asked for (PTX ISA, "Alternate Floating-Point Data Formats")."""

    def __str__(self) -> str:
        held = " of rows in registers" if self.holds_rows else ""
        operand = "tf32" if self.in_tf32 else self.operand
        return f"{self.unit} m{self.m}n{self.n}k{self.k} {operand} -> {self.accumulator}{held}"

    @property
    def held(self) -> int:
        """Elements of the result that a thread holds."""
        return self.m * self.n // self.unit.threads

    @property
    def is_known(self) -> bool:
        """Whether there is such an instruction, on an architecture that has its unit."""
        is_paired = self.accumulator is (DType.I32 if self.operand is DType.I8 else DType.F32)
        is_type = self.operand in _HALVES | FP8 | {DType.I8} or (self.operand is DType.F32 and self.in_tf32)
        if not is_paired or not is_type or self.k != MMA_K_BYTES // self.operand.nbytes:
            return False
        if self.unit is MmaUnit.MMA_SYNC:
            return (self.m, self.n) == (MMA_SYNC_ROWS, MMA_SYNC_COLUMNS)
        if self.unit is MmaUnit.TCGEN05:
            return self._is_of_tensor_memory
        step = 16 if self.operand is DType.I8 and self.n > 32 else 8
        return self.m == WGMMA_ROWS and 0 < self.n <= 256 and self.n % step == 0

    @property
    def _is_of_tensor_memory(self) -> bool:
        """Columns by 16, of 64 rows by 8: the manual has 8 for 128 rows too, which CUTLASS and DeepGEMM do not take.
        Integers have 8 and 24 besides multiples of 16."""
        if not 0 < self.n <= 256 or self.m not in (TCGEN05_ROWS, TCGEN05_HALF_ROWS):
            return False
        is_half = self.m == TCGEN05_HALF_ROWS
        if self.operand is DType.I8:
            return self.n % TCGEN05_COLUMNS == 0 or (is_half and self.n in (8, 24))
        return self.n % (8 if is_half else TCGEN05_COLUMNS) == 0

    def is_on(self, arch: Arch) -> bool:
        """Whether an architecture has the unit, for these types (PTX ISA, target ISA notes)."""
        if self.unit is MmaUnit.WGMMA:
            return arch.capability == (9, 0)
        if self.unit is MmaUnit.TCGEN05:
            return arch.has_tmem and (self.operand is not DType.I8 or arch.capability == (10, 0))
        return arch.capability >= ((8, 9) if self.operand in FP8 else (8, 0))

    @property
    def transposes(self) -> bool:
        """Whether operands in shared memory may have the rows, or columns, side by side: of 16 bits, for a result in
        tensor memory also of 8 bits, whose columns are then multiples of 16 (PTX ISA, tcgen05.mma: transposition)."""
        if self.unit is MmaUnit.TCGEN05:
            return self.operand in _HALVES or (self.operand is not DType.F32 and self.n % TCGEN05_COLUMNS == 0)
        return self.operand in _HALVES
