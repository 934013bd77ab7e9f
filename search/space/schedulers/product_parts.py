"""Constraints of the scheduler of products on sums in parts, of several blocks.

Where parts meet: in "memory", where the last block of a tile adds up what the others have left; or in the cluster of a
tile's blocks, whose "first" one is sent all, or each its "slice" of the columns. In memory of the device as many tiles
as multiprocessors can be summed, in clusters any number, of parts that fit their shared memory.
"""

from __future__ import annotations

from typing import Any, Protocol

from compiler.arch import FRAGMENT_COLUMNS
from search.space.constraints import Constraint
from search.space.groups import TMA
from search.space.schedulers.product_tiles import NONE

MEMORY, FIRST, SLICE = SUMS_IN = ("memory", "first", "slice")

PARTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
"""Of a sum, in blocks of their own; no more than a cluster has on Hopper."""

MOST_WAVES = 4
"""Blocks of clusters over multiprocessors: of more tiles each has enough to do without parts."""

SUM_BYTES = 4
"""Of an element of a sum."""


class Tiled(Protocol):
    """What is counted of a product in tiles, for a card of `sm_count` multiprocessors."""

    @property
    def sm_count(self) -> int: ...

    def tiles(self, swap: Any, tile_rows: Any, tile_columns: Any) -> Any:
        """Of all results of a batch."""
        ...

    def have_stages(self, parts: Any, each: Any) -> Any:
        """Whether none of so many parts of a sum is without a stage."""
        ...


def sent_bytes(parts: Any, sums_in: Any, rows: Any, columns: Any) -> Any:
    """Shared memory of a block in which the parts of others arrive."""
    slices = (sums_in == SLICE) * (parts - 1) + 1
    return (sums_in != MEMORY) * (parts - 1) * (rows * columns * SUM_BYTES // slices)


def parts_constraints(f: Tiled, ping_pong: str) -> list[Constraint]:
    """`ping_pong`: the consumers that have tiles of their own."""

    def resident(parts: Any, sums_in: Any, swap: Any, rows: Any, columns: Any) -> Any:
        most = f.sm_count * ((sums_in != MEMORY) * (MOST_WAVES - 1) + 1)
        return (parts == 1) | (f.tiles(swap, rows, columns) * parts <= most)

    def alike(sums_in: Any, parts: Any, columns: Any, store: Any, wide: Any) -> Any:
        whole = (columns % (FRAGMENT_COLUMNS * parts) == 0) & ((store != TMA) | (wide * parts == columns))
        return (sums_in != SLICE) | whole

    return [
        Constraint(
            "product_parts_are_resident",
            ("parts", "sums_in", "swap", "tile_rows", "tile_columns"),
            resident,
            "Blocks that wait for a sum in memory and those that make it have a multiprocessor each; those of clusters"
            " are few to each.",
        ),
        Constraint(
            "product_parts_have_stages",
            ("parts", "k_lines"),
            lambda parts, each: f.have_stages(parts, each),
            "Every part of a sum but the last has as many stages, and that one has some.",
        ),
        Constraint(
            "parts_of_a_sum_are_taken_by_whole_blocks",
            ("parts", "consumers", "blocks_per_sm"),
            lambda parts, consumers, blocks: (parts == 1) | ((consumers != ping_pong) & (blocks == 0)),
            "Blocks with one tile have a part of its sum.",
        ),
        Constraint(
            "product_clusters_have_one_use",
            ("sums_in", "paired"),
            lambda sums_in, paired: (sums_in == MEMORY) | (paired == NONE),
            "Blocks of a cluster have parts of one sum, or share an operand.",
        ),
        Constraint(
            "product_slices_are_alike",
            ("sums_in", "parts", "tile_columns", "store", "store_columns"),
            alike,
            "Slices of a tile's columns are equal, whole pieces of 8, and what the copy engine stores at a time.",
        ),
        Constraint(
            "redundant_sums_in",
            ("parts", "sums_in"),
            lambda parts, sums_in: (parts > 1) | (sums_in == MEMORY),
            "There are parts that meet.",
        ),
    ]
