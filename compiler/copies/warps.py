"""The warp layout of a block whose threads are spread over a tile."""

from __future__ import annotations

from math import prod

from compiler.arch import WARP_THREADS
from compiler.copies.layout import LayoutStep, MatrixLayout, layout_from
from compiler.copies.registers import Move, Moves


def warps_of(block: tuple[int, int, int], threads: tuple[Moves, Moves, Moves]) -> MatrixLayout | None:
    """Which warp has which part of the tile; None where warps do not tile it, or are no matrix of dense strides."""
    rows: list[tuple[int, LayoutStep]] = []
    columns: list[tuple[int, LayoutStep]] = []
    stride = 1
    for extent, moves in zip(block, threads, strict=True):
        if prod(m.extent for m in moves) not in (1, extent):
            return None
        for move in reversed(moves):
            warp = _of_warps(move, stride)
            if warp is None:
                return None
            if warp.extent > 1:
                step = move.rows or move.columns
                (rows if move.rows else columns).append((step, warp))
            stride *= move.extent
        stride = stride if moves else stride * extent
    in_order = [tuple(s for _, s in sorted(side, key=lambda x: -x[0])) for side in (rows, columns)]
    found = layout_from(in_order[0], in_order[1])
    return found if isinstance(found, MatrixLayout) else None


def _of_warps(move: Move, stride: int) -> LayoutStep | None:
    """The part of a move of threads, `stride` apart, that goes from warp to warp; None where it cuts warps apart."""
    if stride % WARP_THREADS == 0:
        return LayoutStep(move.extent, stride // WARP_THREADS)
    if WARP_THREADS % stride:
        return None
    lanes = min(move.extent, WARP_THREADS // stride)
    return LayoutStep(move.extent // lanes, 1) if move.extent % lanes == 0 else None
