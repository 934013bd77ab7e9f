"""Tensors of a scheduled fusion: their domains, memory and place in the loop nest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.dtypes import DType
from compiler.ir.fusion import Operand
from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import OpKind


class CopyVia(StrEnum):
    """How a copy between memories is carried out; the value is its name in explicit schedules."""

    PLAIN = "plain"
    TMA = "tma"
    BULK1D = "bulk1d"


class CachePolicy(StrEnum):
    """Cache hint of a global access by a thread (PTX ISA, ld/st cache operators and eviction priorities)."""

    DEFAULT = "default"
    NO_ALLOCATE = "no_allocate"
    STREAMING = "streaming"
    EVICT_FIRST = "evict_first"


class MathGrade(StrEnum):
    """How exactly an elementwise function is computed: a few ulp, approximate instructions that keep nearly all bits of
    f32, or the coarse ones that suffice for results stored in 16 bits."""

    EXACT = "exact"
    APPROX = "approx"
    COARSE = "coarse"


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory order of a tensor: axes outermost first and their strides in elements, None where contiguity gives it.

    `exprs` lead from the tensor's loop axes (as they were when the allocation was set) to `axes`.
    """

    axes: tuple[IterDomain, ...]
    strides: tuple[int | None, ...]
    exprs: tuple[IdExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """`stages` copies of a shared tensor, `prefetch` of them filled ahead of use (nvFuser, circular buffers)."""

    stages: int
    prefetch: int


@dataclass(frozen=True, slots=True)
class TensorView:
    """One tensor: logical -> loop by `exprs`; `types` says how each loop axis is carried out.

    `compute_at`: the tensor is computed inside the first `compute_at` loops of its consumers.
    A global tensor's allocation is always set (its strides); for the others, unset means the loop domain (nvFuser,
    memory order).
    """

    name: str
    dtype: DType
    memory: MemoryType
    logical: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    types: tuple[ParallelType, ...]
    exprs: tuple[IdExpr, ...] = ()
    allocation: Allocation | None = None
    compute_at: int = 0
    circular: CircularBuffer | None = None
    align: int = 16

    def axes_of(self, *types: ParallelType) -> tuple[IterDomain, ...]:
        return tuple(a for a, t in zip(self.loop, self.types, strict=True) if t in types)

    @property
    def bulk_axes(self) -> tuple[IterDomain, ...]:
        return self.axes_of(ParallelType.BULK)

    @property
    def vector_axis(self) -> IterDomain | None:
        found = self.axes_of(ParallelType.VECTORIZE)
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class TensorOp:
    """`output = kind(inputs)` over tensors of a scheduled fusion; `dims` as in `ir.fusion.Op`.

    `via` and `cache` concern copies between memories; `grade` says how exactly a function is computed.
    """

    kind: OpKind
    inputs: tuple[Operand, ...]
    output: str
    dims: tuple[int, ...] = ()
    via: CopyVia = CopyVia.PLAIN
    cache: CachePolicy = CachePolicy.DEFAULT
    grade: MathGrade = MathGrade.EXACT

    @property
    def tensor_inputs(self) -> tuple[str, ...]:
        return tuple(x for x in self.inputs if isinstance(x, str))
