"""Order: which tiles neighbouring blocks take.

columns_inner, rows_inner    those along the innermost dimension of the outputs, or across it
grouped                      a few along it, then the next rows. What blocks read and write at a time then lies close
                             together on both sides, however long rows are
as_stored                    in the order of the outputs in memory, where other indices of a batch lie between rows
swept_2m, _4m, _8m           a part of all rows first: the part for which broadcast operands have so many bytes
raster                       of products: strips of so many tile rows, or tile columns, one after the other
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from search.space.constraints import Constraint

COLUMNS_INNER, ROWS_INNER = "columns_inner", "rows_inner"

GROUPED = "grouped"
"""H200: rows of 256 KB took 0.5 to 4 % longer so, rows of 167 KB whose neighbours lie in 333 planes 5 % less."""

AS_STORED = "as_stored"
"""One index after the other, rows are written before the next tile's. H200: [4, 512, 16, 1024] of bf16 permuted by
(3, 0, 2, 1) took 34.7 us so and 36.2 with the batch outermost, [20, 31, 16, 64, 24] of f16 reversed 17.9 either way."""

SWEPT = {"swept_2m": 2 << 20, "swept_4m": 4 << 20, "swept_8m": 8 << 20}
"""Orders in which blocks go on with the next rows only when all have used what broadcast operands have for so many
rows as take these bytes: it stays in L2 meanwhile, and the other operands are read in long runs. A 12.6 MB operand
added to 32 slabs: 198.2 us swept by 3 MB, 201.5 by 1.5 MB, 203.8 row after row (H200); held in registers for 2 or 4
slabs of a sweep as well, no less. Where rows are all the slabs have, parts of rows are swept, as an order of tiles."""

ROWS, COLUMNS = RASTERS = ("rows", "columns")

KNOBS = {"tile_order": (COLUMNS_INNER, ROWS_INNER, GROUPED, AS_STORED, *SWEPT), "raster": RASTERS}


def raster_constraints(axes: tuple[str, ...], along: Callable[..., Any]) -> list[Constraint]:
    """What strips of tiles may be. `along` of a raster and the knobs `axes`: the tiles along the side that it names."""
    return [
        Constraint(
            "product_strips_are_whole",
            ("raster", "raster_group", *axes),
            lambda raster, group, *knobs: (group == 1) | (along(raster, *knobs) % group == 0),
            "Strips of tiles are whole.",
        ),
        Constraint(
            "redundant_raster",
            ("raster", "raster_group"),
            lambda raster, group: (group > 1) | (raster == ROWS),
            "Strips of one tile row are the order of columns.",
        ),
    ]
