"""Tensor memory: what each tensor needs, how it is allocated, and how it is reached."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.analysis.id_graph import IdGraph
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion


class Pattern(StrEnum):
    """Which lanes and columns the threads of a warp reach in one access (PTX ISA, tcgen05.ld shapes)."""

    P32X32B = "32x32b"
    P16X64B = "16x64b"
    P16X128B = "16x128b"
    P16X256B = "16x256b"
    P16X32BX2 = "16x32bx2"


@dataclass(frozen=True, slots=True)
class TmemTensor:
    """A tensor in tensor memory: lanes and 4-byte columns it needs, columns of its region (None where too many)."""

    tensor: str
    lanes: int
    columns: int
    allocated_columns: int | None


@dataclass(frozen=True, slots=True)
class TmemAccess:
    """One copy between registers and tensor memory: the pattern it has (None: none), 4-byte words a thread moves."""

    output: str
    tensor: str
    pattern: Pattern | None
    words: int
    breaches: tuple[Violation | Kept, ...]


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Every tensor in tensor memory in the order of the fusion, every access in the order of the operators."""

    tensors: tuple[TmemTensor, ...]
    accesses: tuple[TmemAccess, ...]
    breaches: tuple[Violation | Kept, ...]


def plan_tensor_memory(sf: ScheduledFusion, graph: IdGraph) -> TensorMemory:
    """The plan of a scheduled fusion."""
    raise NotImplementedError
