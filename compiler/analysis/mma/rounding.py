"""Operands that products in tf32 alone read: the copy engine rounds them on their way to shared memory.

A tensor core reads the upper 19 bits of a word, which is less than there was. A tensor map of the type TFLOAT32 makes
of every word the nearest with no others, ties to even (seen on an H200), at no cost: half the error, and none that goes
one way.
"""

from __future__ import annotations

from compiler.analysis.tma.tensor_map import TensorMapCopy
from compiler.ir.domain import ScheduledFusion
from compiler.ir.ops import OpKind


def is_rounded(sf: ScheduledFusion, copy: TensorMapCopy) -> bool:
    """Whether a copy by a tensor map brings what it reads so."""
    return copy.is_load and is_read_in_tf32(sf, copy.op.output)


def is_read_in_tf32(sf: ScheduledFusion, name: str) -> bool:
    """Whether products in tf32, and nothing else, read a tensor, or copies of it."""
    readers = sf.consumers(name)
    return bool(readers) and all(
        op.kind is OpKind.MATMUL_TF32 or (op.kind is OpKind.COPY and is_read_in_tf32(sf, op.output)) for op in readers
    )
