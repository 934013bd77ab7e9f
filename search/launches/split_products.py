"""Products of matrices with few tiles, in two steps: parts of what is summed along first, then the sums of the parts.

A kernel has a block for each tile of the result, so that small results keep few multiprocessors busy, however long the
sums are. Parts of them are a dimension more, of a batch; a second launch adds them up, and does what comes behind.
Parts are stored in the dtype of the sum, and added in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.arch import BULK_BYTES, WGMMA_ROWS, Card
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CONTRACTIONS, OpKind
from search.launches.writer import Writer

_TILES = ((WGMMA_ROWS, 128), (2 * WGMMA_ROWS, 128), (2 * WGMMA_ROWS, 256))
"""Tiles that all parts together may have one of for each multiprocessor: the smaller, the fewer parts, which move less;
the larger, the less of the operands is read again and again. Along the longer dimension first."""

_MOST_PARTS = 32

_LEAST_SUMMED = 512
"""Elements along k of a part at the least, eight stages."""


def product_factors(fusion: Fusion, card: Card) -> tuple[int, ...]:
    """Into how many parts the products that are short of tiles are worth splitting, ascending; none where none is."""
    found = (set(_factors(fusion, op, card)) for op in fusion.ops if op.kind in CONTRACTIONS)
    return tuple(sorted(set[int]().union(*found)))


def split_products(fusion: Fusion, factor: int, card: Card) -> Fusion | None:
    """The fusion with products that are short of tiles summed in so many parts; None where none is."""
    w, cut = Writer(fusion), dict[_Side, str]()
    for op in fusion.ops:
        if op.kind in CONTRACTIONS and factor in _factors(fusion, op, card):
            _split(w, fusion, op, factor, cut)
        else:
            w.copy(op)
    return w.fusion() if cut else None


_Side = tuple[str, bool]
"""An operand, and whether it is a left one."""


def _factors(fusion: Fusion, op: Op, card: Card) -> Iterator[int]:
    """Of the numbers of equal parts whose rows begin at multiples of 16 bytes, those with about a tile for each
    multiprocessor."""
    left = fusion.value(op.tensor_inputs[0])
    (*batch, m, k), n = left.shape, fusion.value(op.output).shape[-1]
    long, short = max(m, n), min(m, n)
    tiles = [prod(batch) * -(-long // rows) * -(-short // columns) for rows, columns in _TILES]
    if tiles[0] >= card.sm_count:
        return
    able = [
        parts
        for parts in range(2, min(_MOST_PARTS, k // _LEAST_SUMMED) + 1)
        if k % parts == 0 and k // parts * left.dtype.nbytes % BULK_BYTES == 0
    ]
    for count in dict.fromkeys(tiles):
        fit = [parts for parts in able if count * parts <= card.sm_count]
        yield from fit[-1:]


def _split(w: Writer, fusion: Fusion, op: Op, factor: int, cut: dict[_Side, str]) -> None:
    """Writes a product in parts; what several multiply by is `cut` once, so that one kernel can still share it."""
    left, right = (w.names[x] for x in op.tensor_inputs)
    result = fusion.value(op.output)
    (*batch, m, k), n = fusion.value(op.tensor_inputs[0]).shape, result.shape[-1]
    rank, part = len(batch), k // factor
    dtype = DType.I32 if result.dtype is DType.I32 else DType.F32
    if (left, True) not in cut:
        apart = w.reshape(left, (*batch, m, factor, part))
        first = (*range(rank), rank + 1, rank, rank + 2)
        cut[left, True] = w.put(OpKind.PERMUTE, [apart], (*batch, factor, m, part), w.value(apart).dtype, first)
    if (right, False) not in cut:
        cut[right, False] = w.reshape(right, (*batch, factor, part, n))
    parts = w.put(op.kind, [cut[left, True], cut[right, False]], (*batch, factor, m, n), dtype, grade=op.grade)
    total = w.put(OpKind.SUM, [parts], (*batch, m, n), dtype, (rank,))
    w.names[op.output] = w.cast(total, result.dtype)
