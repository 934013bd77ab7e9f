"""Constraints of the scheduler of products on stages that are dealt to blocks in equal shares (stream-K).

Tiles that do not fill all multiprocessors alike leave some of them idle; shares of stages do not, but for what is
handed over: of each tile that several blocks have parts of.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from search.space.constraints import Constraint
from search.space.schedulers.product_tiles import NONE

LEAST_DEALT, MOST_DEALT = 4, 6
"""Stages of a block's share, and tiles of one: a part that is handed over takes as long as some stages do, and what the
last tiles leave idle is little of many."""

MOST_SHARES = 4
"""Blocks over tiles: one adds up what so many others hand over."""


class Counts(Protocol):
    """What is counted of a product in tiles, for a card of `sm_count` multiprocessors."""

    @property
    def sm_count(self) -> int: ...

    def tiles(self, swap: Any, tile_rows: Any, tile_columns: Any) -> Any:
        """Of all results of a batch."""
        ...

    def stages(self, each: Any) -> Any:
        """Stages of so many lines that the sum takes."""
        ...


def dealt_constraints(f: Counts, ping_pong: str) -> list[Constraint]:
    """`ping_pong`: the consumers that have tiles of their own."""
    tile = ("dealt", "blocks_per_sm", "paired", "swap", "tile_rows", "tile_columns")

    def blocks_of(each: Any, paired: Any) -> Any:
        return f.sm_count * each // np.where(paired == NONE, 1, 2)

    def tiles_of(paired: Any, swap: Any, rows: Any, columns: Any) -> Any:
        return f.tiles(swap, rows, columns) // np.where(paired == NONE, 1, 2)

    def several(dealt: Any, paired: Any, swap: Any, rows: Any, columns: Any, lines: Any) -> Any:
        return (dealt == 0) | (tiles_of(paired, swap, rows, columns) > 1) & (f.stages(lines) > 1)

    def long(dealt: Any, each: Any, paired: Any, swap: Any, rows: Any, columns: Any, lines: Any) -> Any:
        stages = tiles_of(paired, swap, rows, columns) * f.stages(lines)
        return (dealt == 0) | (stages >= LEAST_DEALT * blocks_of(each, paired))

    def few(dealt: Any, each: Any, paired: Any, swap: Any, rows: Any, columns: Any) -> Any:
        tiles, blocks = tiles_of(paired, swap, rows, columns), blocks_of(each, paired)
        return (dealt == 0) | (blocks <= MOST_SHARES * tiles) & (tiles <= MOST_DEALT * blocks)

    def idle(dealt: Any, each: Any, paired: Any, swap: Any, rows: Any, columns: Any) -> Any:
        tiles, blocks = tiles_of(paired, swap, rows, columns), blocks_of(each, paired)
        return (dealt == 0) | (tiles % np.maximum(1, blocks) != 0)

    return [
        Constraint(
            "product_stages_are_dealt_to_blocks_that_stay",
            ("dealt", "consumers", "blocks_per_sm", "parts"),
            lambda dealt, consumers, blocks, parts: (
                (dealt == 0) | (consumers != ping_pong) & (blocks == 1) & (parts == 1)
            ),
            "Blocks that stay, one on each multiprocessor, and compute one tile at a time, have shares of stages: they"
            " wait for each other, and find room whatever registers they get.",
        ),
        Constraint(
            "product_deals_are_of_several_stages",
            ("dealt", "paired", "swap", "tile_rows", "tile_columns", "k_lines"),
            several,
            "There are several tiles, of several stages each.",
        ),
        Constraint("product_shares_are_long", (*tile, "k_lines"), long, "A block's share is at least four stages."),
        Constraint(
            "product_shares_are_of_few_tiles",
            tile,
            few,
            "At most four blocks have parts of a tile beside its own, and at most six tiles fall to one.",
        ),
        Constraint("redundant_deal", tile, idle, "Tiles that fill all blocks alike are not dealt stage by stage."),
    ]
