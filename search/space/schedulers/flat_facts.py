"""What the knobs and constraints of the flat scheduler read of a fusion: numbers of its iteration space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, CP_ASYNC_BYTES, MAX_WORD_BYTES, Arch
from search.space.expressions import looked_up
from search.space.groups import COLUMNS_INNER, ROWS_INNER, SWEPT
from search.space.schedulers.aligned_rows import even_threads, phase_of, rows_apart, straddles
from search.space.schedulers.iteration_space import HELD, IterationSpace, Operand
from search.space.schedulers.multicasts import MULTICASTS, Multicasts, multicasts_of
from search.space.schedulers.row_shape import Phase

ROW_ORDERS = ("natural", "broadcast_last")

KEPT_BYTES = range(1 << 20, 26 << 20)
"""Bytes of broadcast operands that a hint helps L2 to keep: what is smaller stays there by itself, and the rest of L2
serves the streams."""


@dataclass(frozen=True)
class FlatFacts:
    """Numbers of a fusion that constraints read."""

    space: IterationSpace
    arch: Arch
    sm_count: int

    @property
    def in_parts(self) -> bool:
        """True where outputs are stored in parts: a tensor map starts where its output does."""
        return bool(self.space.parts)

    @property
    def two_d(self) -> bool:
        return len(self.space.sizes) > 1

    @property
    def narrowest(self) -> int:
        return min(o.nbytes for o in self.space.operands)

    @property
    def stored_operands(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.space.operands if o.is_output)

    def side(self, name: str) -> tuple[Operand, ...]:
        """Operands that the load or the store path moves."""
        return self.space.stageable if name == "load" else self.stored_operands

    @property
    def staged(self) -> int:
        """Bytes of one element of every input that can be staged in shared memory."""
        return sum(o.nbytes for o in self.space.stageable)

    @property
    def stream_in(self) -> int:
        """Bytes of one element of every streamed input."""
        return sum(o.nbytes for o in self.space.streams if not o.is_output)

    @property
    def is_kept_in_tmem(self) -> bool:
        """Whether streamed inputs may go through tensor memory."""
        return self.arch.has_tmem and self.stream_in > 0

    @cached_property
    def stream_widths(self) -> tuple[int, ...]:
        """Bytes of the elements of streamed inputs, each once."""
        return tuple(sorted({o.nbytes for o in self.space.streams if not o.is_output}))

    def streams_in(self, view: str, elems: int) -> bool:
        """True if every streamed input is moved in words of so many elements, whole ones of 4 bytes."""
        streams = [o for o in self.space.streams if not o.is_output]
        return all(self.space.lanes(o, view, elems) == elems for o in streams)

    @property
    def stored(self) -> int:
        return sum(o.nbytes for o in self.space.operands if o.is_output)

    @property
    def narrowest_stored(self) -> int:
        return min(o.nbytes for o in self.space.operands if o.is_output)

    @property
    def repeated(self) -> int:
        return sum(o.nbytes for o in self.space.repeated)

    @property
    def repeated_bytes(self) -> int:
        """Size of the operands that are read again and again."""
        return sum(self.space.distinct(o) * o.nbytes for o in self.space.repeated)

    @property
    def tile_orders(self) -> tuple[str, ...]:
        """Rows innermost brings the users of what repeats along them together, where no order of rows does.

        Else it only takes neighbouring blocks to distant memory: 3 % slower at best (H200).
        """
        is_useful = len(self.space.sizes) == 2 and self.repeated_bytes >= KEPT_BYTES.start
        swept = (order for order in SWEPT if self.space.swept_parts(order))
        return (COLUMNS_INNER, ROWS_INNER, *swept) if is_useful else (COLUMNS_INNER,)

    @property
    def keeps_broadcasts(self) -> bool:
        """True if a hint helps L2 to keep what operands repeat: all of it, or what of it is swept."""
        is_swept = any(order in SWEPT for order in (*self.tile_orders, *self.row_orders))
        return self.repeated_bytes in KEPT_BYTES or is_swept

    def parts(self, tile_order: Any) -> Any:
        """Parts of a row that are swept one after the other; 0 where the order of tiles sweeps none."""
        return looked_up("parts", self.space.swept_parts, tile_order)

    @property
    def inner(self) -> int:
        return self.space.sizes[-1]

    def short_rows(self, vector: int) -> tuple[int, ...]:
        """Threads along a row that is too short for a warp, if it is: rows are then side by side in it."""
        return tuple(t for t in (4, 8, 16) if self.two_d and self.inner <= t * vector)[:1]

    def rows(self, row_order: Any) -> Any:
        """Extent of the outer dimension that rows are cut from, for each row order of an array."""
        if not self.two_d:
            return 1
        last = {order: self.space.sizes[self.space.outer_order(order)[-1]] for order in ROW_ORDERS}
        return np.where(row_order == "broadcast_last", last["broadcast_last"], last["natural"])

    def takes_words(self, view: str, elems: int) -> bool:
        """True if some operand can be moved in words of so many elements; the others are moved in narrower ones."""
        return any(self.space.lanes(o, view, elems) == elems for o in self.space.operands)

    @cached_property
    def widest_vector(self) -> int:
        """Elements of the widest words in which some operand can be moved, shifted ones among them."""
        views = ("1d", "2d") if self.two_d else ("1d",)
        taken = (v for v in self.vectors if any(self.takes_words(view, v) for view in views))
        return max(1, *taken, *self.shifted_vectors)

    def copies_by(self, view: str, elems: int) -> bool:
        """True if threads can copy every stageable input to shared memory past their registers, in the words that it is
        moved in where others are of so many elements."""
        words = (self.space.lanes(o, view, elems) * o.nbytes for o in self.space.stageable)
        return bool(self.space.stageable) and all(word in CP_ASYNC_BYTES for word in words)

    @cached_property
    def multicasts(self) -> Multicasts | None:
        """What one copy can bring to all blocks of a cluster."""
        able = self.two_d and self.arch.has_tma and self.arch.max_cluster >= MULTICASTS[-1]
        return multicasts_of(self.space) if able else None

    @property
    def vectors(self) -> tuple[int, ...]:
        """Elements of the words that threads move."""
        return tuple(v for v in (1, 2, 4, 8, 16) if v * self.narrowest <= MAX_WORD_BYTES)

    @cached_property
    def phases(self) -> dict[int, Phase]:
        """Vectors that lie along rows only where those are shifted, and that rows are longer than: by how much."""
        able = self.vectors[1:] if self.two_d else ()
        found = {v: phase_of(self.space, v) for v in able if v < self.inner}
        return {v: phase for v, phase in found.items() if phase is not None}

    @property
    def shifted_vectors(self) -> tuple[int, ...]:
        """Those vectors."""
        return tuple(self.phases)

    @cached_property
    def word_vectors(self) -> tuple[int, ...]:
        """Those of them of which some input can be loaded in words that straddle two aligned ones."""
        inputs = [o for o in self.space.operands if not o.is_output]
        return tuple(v for v, p in self.phases.items() if any(straddles(self.space, o, p) for o in inputs))

    @cached_property
    def even_threads(self) -> tuple[int, ...]:
        """Threads, beside powers of two, that cut shifted rows with little rest."""
        return even_threads(self.space, self.shifted_vectors[-1]) if self.shifted_vectors else ()

    def apart(self, row_order: Any, vector: Any) -> Any:
        """Rows from one of a thread's to the next, along shifted rows."""

        def of_one(order: str, elems: int) -> int:
            if order not in self.row_orders or elems not in self.phases:
                return 1
            return rows_apart(self.phases[elems], self.space.outer_order(order)[-1])

        return looked_up("rows_apart", of_one, row_order, vector)

    def is_aligned(self, name: str) -> bool:
        """True if a side's operands are dense along the innermost dimension and start on 16 bytes."""
        last = len(self.space.sizes) - 1
        dense = all(self.space.stride(o, last) == 1 or self.space.elems == 1 for o in self.side(name))
        return dense and all(o.align % BULK_BYTES == 0 for o in self.side(name))

    def bulk_rows(self, name: str) -> bool:
        """True if a side's operands have contiguous rows at a pitch of whole 16 bytes, at 16-byte addresses."""
        last = len(self.space.sizes) - 1
        return self.is_aligned(name) and all(
            self.space.stride(o, g) * o.nbytes % BULK_BYTES == 0 for o in self.side(name) for g in range(last)
        )

    def is_merged(self, name: str) -> bool:
        """True if a side's operands are one run over all dimensions, which the merged view can cut anywhere."""
        return all(self.space.is_merged(o) for o in self.side(name))

    @cached_property
    def row_orders(self) -> tuple[str, ...]:
        """The orders of rows that differ, with those that hold an operand for fewer steps than there are."""
        if len(self.space.sizes) <= 2 or not self.repeated:
            return ROW_ORDERS[:1]
        held = (order for order, steps in HELD.items() if steps <= self.held_extent)
        swept = (order for order in SWEPT if self.space.swept_rows(order))
        return (*ROW_ORDERS, *held, *swept)

    @cached_property
    def held_extent(self) -> int:
        """Extent of the dimension that an operand can be held along."""
        return 1 if self.space.held_group is None else self.space.sizes[self.space.held_group]

    def held(self, row_order: Any) -> Any:
        """Steps that a thread takes along that dimension."""
        return looked_up("held", lambda order: HELD.get(order, 1), row_order)

    def swept(self, row_order: Any) -> Any:
        """Rows that are swept together; 0 where the order sweeps none."""
        return looked_up("swept", self.space.swept_rows, row_order)

    def tiles(self, two_d: Any, row_order: Any, rows: Any, cols: Any) -> Any:
        """Tiles of a view, as arrays."""
        extent, steps = self.rows(row_order), self.held_extent
        outer = prod(self.space.sizes[:-1]) // extent
        outer = np.where(self.held(row_order) > 1, outer // steps * -(-steps // self.held(row_order)), outer)
        flat = -(-self.space.elems // cols)
        return np.where(two_d, outer * -(-extent // rows) * -(-self.inner // cols), flat)
