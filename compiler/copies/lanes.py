"""Lanes of warps side by side over a tile: the plan of a copy between two memories that the threads carry."""

from __future__ import annotations

from compiler.analysis.memory.bank_conflicts import wavefronts
from compiler.arch import CP_ASYNC_BYTES, SECTOR_BYTES, WARP_THREADS, Arch
from compiler.copies.copy_plan import CopyPlan
from compiler.copies.errors import TileError
from compiler.copies.instruction import Path
from compiler.copies.layout import MatrixLayout
from compiler.copies.paths import widest_vector_bytes
from compiler.copies.registers import Move, count
from compiler.copies.tile import GlobalTile, MemoryTile


def plan_by_lanes(
    path: Path,
    warps: MatrixLayout,
    source: MemoryTile,
    target: MemoryTile,
    arch: Arch,
) -> CopyPlan:
    """Lanes side by side over the tile, in the arrangement that costs the memories least."""
    most = widest_vector_bytes(source, target, arch)
    runs = [min(source.run(d, most), target.run(d, most)) for d in (0, 1)]
    along = _contiguous_dimension(source if isinstance(source, GlobalTile) else target)
    dimension = along if runs[along] >= runs[1 - along] else 1 - along
    width, nbits = runs[dimension], source.dtype.nbits
    if path is Path.CP_ASYNC:
        fitting = [b for b in CP_ASYNC_BYTES if b * 8 % nbits == 0 and b * 8 // nbits <= width]
        if not fitting:
            raise TileError(
                f"copy by {path}", f"runs of {width * nbits // 8} bytes", f"{CP_ASYNC_BYTES} bytes", "Copy by vectors."
            )
        width = fitting[-1] * 8 // nbits
    if width * nbits % 8:
        raise TileError(f"copy by {path}", f"runs of {width * nbits} bits", "whole bytes", "Lay out pairs of elements.")
    plans = [_arranged(path, warps, source, target, dimension, width, n) for n in (32, 16, 8, 4, 2, 1)]
    return min(plans, key=lambda p: _cost(p, along))


def _contiguous_dimension(tile: MemoryTile) -> int:
    """The dimension along which neighbours lie closest."""
    return 0 if tile.layout.row_steps[-1].stride < tile.layout.column_steps[-1].stride else 1


def _arranged(
    path: Path,
    warps: MatrixLayout,
    source: MemoryTile,
    target: MemoryTile,
    dimension: int,
    width: int,
    lanes_across: int,
) -> CopyPlan:
    """Warps and lanes as blocks of rows x columns; rounds step by what the block covers."""
    height, across = (width, 1) if dimension == 0 else (1, width)
    lane_rows = WARP_THREADS // lanes_across
    warp_rows, warp_columns = warps.shape
    down, right = lane_rows * height, lanes_across * across
    warp_moves = (Move(warp_rows, down, 0), Move(warp_columns, 0, right))
    row_by_row = warps.strides == (warp_columns, 1) or warp_rows == 1
    threads = (
        *(warp_moves if row_by_row else warp_moves[::-1]),
        Move(lane_rows, height, 0),
        Move(lanes_across, 0, across),
    )
    covered = down * warp_rows, right * warp_columns
    rounds = (
        Move(-(-source.shape[0] // covered[0]), covered[0], 0),
        Move(-(-source.shape[1] // covered[1]), 0, covered[1]),
    )
    access = (Move(width, 1, 0) if dimension == 0 else Move(width, 0, 1),)
    return CopyPlan(path, source, target, (count(threads), 1, 1), (threads, (), ()), rounds, access)


def _cost(plan: CopyPlan, along: int) -> tuple[int, int, int, int]:
    """Sectors, wavefronts and rounds of the first warp's first access times all rounds; then lanes along the run."""
    first = [p[0] for lane in range(WARP_THREADS) if (p := plan.moves(lane, 0))]
    sectors = waves = 0
    for tile in plan.memory_tiles:
        at = [tile.address(*place) for place in first]
        if isinstance(tile, GlobalTile):
            sectors += len({a // SECTOR_BYTES for a in at})
        else:
            waves += wavefronts(at, plan.access_bytes)
    lanes = plan.threads[0][-1 if along else -2].extent
    return sectors * plan.round_count, waves * plan.round_count, plan.round_count, -lanes
