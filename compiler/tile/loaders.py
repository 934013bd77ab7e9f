"""The loader: copies of tiles towards the threads."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import Arch
from compiler.tile.copy_plan import CopyPlan
from compiler.tile.infer import infer_plan
from compiler.tile.instruction import Path
from compiler.tile.layout import MatrixLayout
from compiler.tile.tile import GlobalTile, RegTile, SharedTile, TmemTile


@dataclass(frozen=True, slots=True)
class Loader:
    """Brings a tile from global memory to shared memory or registers, or from shared or tensor memory to registers.

    `warps` says which warp of the block takes which part of the tile (TileFusion, concepts).
    """

    warps: MatrixLayout
    arch: Arch

    def plan(
        self, target: SharedTile | RegTile, source: GlobalTile | SharedTile | TmemTile, path: Path | None = None
    ) -> CopyPlan:
        """The copy plan by the best instruction that can carry it, or by `path`.

        Raises TileError where none can (compiler.tile.infer.infer_plan).
        """
        return infer_plan(self.warps, source, target, self.arch, path)
