"""Rules on cp.async: what a thread moves from global to shared memory past its registers (PTX ISA, cp.async)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.arch import CP_ASYNC_BYTES
from compiler.copies.instruction import thread_access
from compiler.errors import Violation
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, model_rule


@model_rule
def cp_async_moves_4_8_or_16_bytes(s: Schedule) -> Iterator[Violation]:
    """A thread moves 4, 8 or 16 bytes at a time by cp.async: the vectorized axis, or one element without. (PTX ISA,
    cp.async: cp-size)"""
    for op in s.sf.ops:
        access = thread_access(s.sf, op) if op.via is CopyVia.CP_ASYNC else None
        if access is None or access.nbits * access.elems in {8 * n for n in CP_ASYNC_BYTES}:
            continue
        bits = access.nbits * access.elems
        yield Violation(
            "cp_async_moves_4_8_or_16_bytes",
            f"{op.output} (via {op.via})",
            f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits",
            f"{', '.join(map(str, CP_ASYNC_BYTES[:-1]))} or {CP_ASYNC_BYTES[-1]} bytes",
            "Vectorize an axis of as many elements, or load through registers.",
        )
