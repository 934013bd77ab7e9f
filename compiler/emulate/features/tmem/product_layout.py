"""Where a product of tcgen05.mma lies in tensor memory (PTX ISA, "Data Path Layout Organization").

D of M rows and N columns, for one block (.cta_group::1) or a pair (::2); a row's block, lane and column:

M 128, one      lane m, column n                                             (layout D)
M 64, one       lane 32*(m/16) + m%16, from lane 0 or 16 on; column n        (layout F)
M 256, pair     block m/128, lane m%128, column n                            (layout A)
M 128, pair     block m/64, lane m%64 + 64*(n >= N/2), column n mod N/2      (layout B)

A in tensor memory has the lanes of D, a row's elements packed to cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.tmem.layout import TENSOR_COLUMNS, TENSOR_LANES
from compiler.emulate.features.tmem.memory import STRIP, strips_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ProductPlace:
    """Cells of D, (rows, columns), from the first block's first one, and the `strips` that they are; `columns` that it
    takes in each block.

    `lanes` are those of the rows of A, (rows,), None where no layout of A is known.
    """

    cells: Integers
    strips: Integers
    columns: int
    lanes: Integers | None


@lru_cache(64)
def product_place(rows: int, columns: int, blocks: int) -> ProductPlace:
    """The place of D, and of A, from lane 0 and column 0 on."""
    m, n = np.arange(rows)[:, None], np.arange(columns)[None, :]
    block, lane, column = m * 0, m, n
    taken = columns
    match rows, blocks:
        case 64, 1:
            lane = 32 * (m >> 4) + (m & 15)
        case 256, 2:
            block, lane = m >> 7, m & 127
        case 128, 2:
            taken = columns // 2
            block, lane, column = m >> 6, (m & 63) + 64 * (n >= taken), n % taken
        case _:
            pass
    cells = (block * TENSOR_LANES + lane) * TENSOR_COLUMNS + column
    lanes = None if lane.shape[1] > 1 else (block * TENSOR_LANES + lane)[:, 0]
    cells = np.broadcast_to(cells, (rows, columns)).astype(np.int64)
    return ProductPlace(cells, np.unique(strips_of(cells)), taken, lanes)


def strips_from(place: ProductPlace, slot: int, lane: int, column: int) -> Integers:
    """The strips of a product whose D begins at a lane, a multiple of 16, and a column of a block."""
    strips: Integers = place.strips + (slot * TENSOR_LANES + lane) // STRIP * TENSOR_COLUMNS + column
    return strips
