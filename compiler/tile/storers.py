"""The storer: copies of tiles away from the threads."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import Arch
from compiler.tile.copy_plan import CopyPlan
from compiler.tile.infer import infer_plan
from compiler.tile.instruction import Path
from compiler.tile.layout import MatrixLayout
from compiler.tile.tile import GlobalTile, RegTile, SharedTile, TmemTile


@dataclass(frozen=True, slots=True)
class Storer:
    """Takes a tile from registers to shared, global or tensor memory, or from shared to global memory.

    `warps` says which warp of the block takes which part of the tile (TileFusion, concepts).
    """

    warps: MatrixLayout
    arch: Arch

    def plan(
        self, target: GlobalTile | SharedTile | TmemTile, source: RegTile | SharedTile, path: Path | None = None
    ) -> CopyPlan:
        """The copy plan by the best instruction that can carry it, or by `path`.

        Raises TileError where none can (compiler.tile.infer.infer_plan).
        """
        return infer_plan(self.warps, source, target, self.arch, path)
