"""What a launch costs, told by the bytes that it moves alone: enough to compare places to cut a memory-bound fusion."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.ir.fusion import Fusion, Value
from compiler.ir.touched import distinct_bytes, read_bytes, written_bytes

LAUNCH_US = 1.5
"""A launch after another on the same stream, over data that lies in L2 (measured on an H200: 1.25 us to 1.9 us)."""

BYTES_PER_US = 4.275e6
"""Best copies on an H200, from 6 MB to 1 GB (measured; least squares of time over bytes)."""


def launch_us(nbytes: int) -> float:
    """Microseconds of one launch that reads and writes `nbytes`."""
    return LAUNCH_US + nbytes / BYTES_PER_US


def moved_bytes(part: Fusion) -> int:
    """Bytes that the kernel of a fusion reads and writes where it touches each element once."""
    return sum((written_bytes(part) | read_bytes(part)).values())


def stored_bytes(values: Iterable[Value]) -> int:
    """Bytes of the distinct elements of these values: a stride of 0 repeats one."""
    return sum(distinct_bytes(v) for v in values)
