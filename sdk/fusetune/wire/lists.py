"""Lists of tensors of one launch: the table that a kernel reads of them, and how a flat tensor is taken as a list.

A block works on one chunk of one tensor. The table is a parameter by value, column by column: the addresses of each
slot, then the lengths in elements, the numbers of the tensors' first chunks and one more, and the number of tensors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LIST_ELEMS = 1 << 24
"""The size that stands for any in a fusion over lists: its kernels are tuned once, for tensors of all lengths."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """One tensor of each list: their addresses by slot, and their elements."""

    addresses: tuple[int, ...]
    elems: int


def table_bytes(slots: int, rows: int) -> int:
    """Bytes of a table with room for so many rows, as a compiler lays it out."""
    return -(-(rows * (8 * slots + 12) + 8) // 8) * 8


def address_offset(rows: int, slot: int, row: int) -> int:
    """Where an address lies in a table with room for so many rows."""
    return 8 * (slot * rows + row)


def chunks_of(rows: Sequence[ListRow], tile: int) -> int:
    """Blocks of a launch over these rows."""
    return sum(-(-row.elems // tile) for row in rows)


def table(rows: Sequence[ListRow], slots: int, room: int, tile: int) -> bytes:
    """The table of at most `room` rows, none of which is empty."""
    addresses = [row.addresses[slot] if row else 0 for slot in range(slots) for row in _padded(rows, room)]
    elems = [row.elems if row else 0 for row in _padded(rows, room)]
    first = [0]
    for row in _padded(rows, room):
        first.append(first[-1] + (-(-row.elems // tile) if row else 0))
    data = struct.pack(f"<{len(addresses) + room}Q{room + 2}I", *addresses, *elems, *first, len(rows))
    return data.ljust(table_bytes(slots, room), b"\0")


def pieces(elems: int, tile: int, step: int) -> tuple[tuple[int, int], ...]:
    """(start, elements) of the parts that a flat tensor is taken as a list of: parts of a chunk, one, more, and the
    rest, in multiples of `step`, the elements of an aligned word."""
    found: list[tuple[int, int]] = []
    start = 0
    for wanted in (step, tile - step, tile, 3 * tile + step):
        size = min(max(step, wanted), elems - start)
        if size > 0:
            found.append((start, size))
            start += size
    return (*found, *(((start, elems - start),) if start < elems else ()))


def _padded(rows: Sequence[ListRow], room: int) -> Iterator[ListRow | None]:
    yield from rows
    yield from (None for _ in range(room - len(rows)))
