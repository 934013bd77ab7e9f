"""The allocation domain of a swizzled box, as schedule steps: the inverse of recognising it."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arch import SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.dtypes import DType
from compiler.schedule.steps import Merge, Split, Swizzle


def swizzle_steps(
    tv: str, dtype: DType, box: Sequence[int], span: int, at: int = 0
) -> tuple[Merge | Split | Swizzle, ...]:
    """Steps that lay a box out by a mode: on its axes, at `at` and after, they make [-1, s, 8/s, s, 16 bytes].

    `box`: extents, innermost first; the axes stand outermost first. The steps are transforms of an allocation domain
    or of a loop domain alike; none for span 0. Raises ValueError for a span that is none, a box whose rows are not one
    span long, or elements that do not divide 16 bytes.
    """
    if span == 0:
        return ()
    if span not in SWIZZLE_SPANS:
        raise ValueError(f"span: found {span}, expected 0 or one of {SWIZZLE_SPANS}.")
    if SWIZZLE_CHUNK_BYTES % dtype.nbytes or dtype.nbits < 8:
        raise ValueError(
            f"dtype: found {dtype}, expected elements that divide {SWIZZLE_CHUNK_BYTES} bytes. Use no swizzle."
        )
    if not box or box[0] * dtype.nbytes != span:
        found = box[0] * dtype.nbytes if box else 0
        raise ValueError(f"box[0]: found {found} bytes, expected the span, {span}. Split the innermost axis by it.")
    # A box of one dimension is one row: splitting it by its own extent makes the row axis.
    rows: tuple[Merge | Split, ...] = (Split(tv, at, box[0]),) if len(box) == 1 else (Merge(tv, at),) * (len(box) - 2)
    chunks = span // SWIZZLE_CHUNK_BYTES
    return (
        *rows,
        Split(tv, at + 1, SWIZZLE_CHUNK_BYTES // dtype.nbytes),
        Split(tv, at, SMEM_LINE_BYTES // span),
        Split(tv, at, chunks),
        Swizzle(tv, at + 1, at + 3),
    )
