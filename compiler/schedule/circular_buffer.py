"""The loop that a circular buffer turns with (nvFuser, circular buffers)."""

from __future__ import annotations

from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind, CircularBuffer, TensorView


def buffer_limit(t: TensorView) -> int:
    """The buffered loop lies left of this position: the compute-at position, or the first unrolled axis."""
    unroll = next((i for i, p in enumerate(t.types) if p is ParallelType.UNROLL), len(t.loop))
    return min(t.compute_at, unroll)


def serial_positions(t: TensorView) -> tuple[int, ...]:
    """Loops that could be buffered, outermost first: neither parallel nor broadcast, left of the limit."""
    pairs = zip(t.loop[: buffer_limit(t)], t.types, strict=False)
    return tuple(i for i, (a, p) in enumerate(pairs) if not (p.is_block or p.is_thread or a.is_broadcast))


def buffered_position(t: TensorView, options: CircularBuffer) -> int | None:
    """Position of the loop that the buffer turns with, or None: the outermost that could be where warps of their own
    load, else the innermost (nvFuser, circular buffers)."""
    found = serial_positions(t)
    if not found:
        return None
    return found[0] if options.kind is BufferKind.WARP_SPECIALIZED else found[-1]
