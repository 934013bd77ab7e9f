"""Folds of the rows, or columns, of a product, begun in its own kernel: what each thread has of a tile's row first.

    product [M, N] -> [M, tiles, columns / 8, 4, 2] -> fold of the last and the third: [M, tiles, 4] -> fold of the rest

Four lanes have a row of a tile between them, each two neighbours of every eight columns (PTX ISA, wgmma: register
fragments of D; mma: matrix fragments of C). So a thread folds what it holds, and stores one part for each row: no
thread waits for another. A second launch folds the parts of a row in their order. All of it are plain operators of
the fusion: sums are the same whatever runs beside them.
"""

from __future__ import annotations

from compiler.arch import FRAGMENT_COLUMNS, FRAGMENT_LANES
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CONTRACTIONS, FOLDS, POINTWISE, OpKind
from search.launches.writer import Writer

WIDTHS = (256, 192, 128, 64)
"""Columns of a tile whose rows are folded, the best first: of a wide one few parts are left."""

MOST_WIDTHS = 2
"""Widths that are tried of a product: each is a rewriting with a space of its own."""


def tile_widths(fusion: Fusion) -> tuple[int, ...]:
    """Columns of tiles in which the rows of a product are worth folding, or rows in which its columns are; none where
    neither is folded, or both."""
    sums = _folds(fusion)
    folded = {(op.dims, fusion.value(op.tensor_inputs[0]).shape) for op in sums}
    if len(folded) != 1:
        return ()
    (((at,), shape),) = folded
    along = shape[at]
    whole = (along,) if along % FRAGMENT_COLUMNS == 0 and along <= WIDTHS[0] else ()
    fit = dict.fromkeys((*whole, *(n for n in WIDTHS if n <= along and along % n == 0)))
    return tuple(fit)[:MOST_WIDTHS]


def in_tiles(fusion: Fusion, width: int) -> Fusion:
    """The fusion with rows, or columns, of products folded in tiles of so many elements first. `width`: of
    `tile_widths`."""
    w, sums = Writer(fusion), _folds(fusion)
    for op in fusion.ops:
        if op in sums:
            _fold(w, op, width)
        else:
            w.copy(op)
    return w.fusion()


def _fold(w: Writer, op: Op, width: int) -> None:
    shape, (at,) = w.source.value(op.tensor_inputs[0]).shape, op.dims
    before, tiles, behind = shape[:at], shape[at] // width, shape[at + 1 :]
    kind, dtype = w.parts_of(op)
    pieces = (width // FRAGMENT_COLUMNS, FRAGMENT_LANES, FRAGMENT_COLUMNS // FRAGMENT_LANES)
    cut = w.reshape(w.cast(w.names[op.tensor_inputs[0]], dtype), (*before, tiles, *pieces, *behind))
    parts = w.put(kind, [cut], (*before, tiles, FRAGMENT_LANES, *behind), dtype, (at + 1, at + 3))
    flat = w.reshape(parts, (*before, tiles * FRAGMENT_LANES, *behind))
    w.finish(op, w.put(kind, [flat], (*before, *behind), dtype, (at,)))


def _folds(fusion: Fusion) -> list[Op]:
    """The folds along rows or columns of what is elementwise of a product. Not where every element of a row needs what
    its fold gives: a launch behind it has the whole row then."""
    shapes = {op.output: fusion.value(op.output).shape for op in fusion.ops if op.kind in CONTRACTIONS}
    made, found = set(shapes), []
    for op in fusion.ops:
        if (op.kind in POINTWISE or op.kind is OpKind.COPY) and not made.isdisjoint(op.tensor_inputs):
            made.add(op.output)
        elif op.kind in FOLDS and op.tensor_inputs[0] in made:
            source = fusion.value(op.tensor_inputs[0]).shape
            if op.dims in ((len(source) - 1,), (len(source) - 2,)):
                found.append(op)
    return [op for op in found if not _is_spread(fusion, op)]


def _is_spread(fusion: Fusion, fold: Op) -> bool:
    """Whether as many elements as are folded are made of a fold's result."""
    elems, made = fusion.value(fold.tensor_inputs[0]).elems, {fold.output}
    for op in fusion.ops:
        if not made.isdisjoint(op.tensor_inputs):
            made.add(op.output)
    return any(fusion.value(name).elems >= elems for name in made)
