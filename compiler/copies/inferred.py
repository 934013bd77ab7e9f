"""Inference of a copy plan from a layout of warps, a target tile and a source tile."""

from __future__ import annotations

from dataclasses import replace

from compiler.arch import WARP_THREADS, Arch
from compiler.copies.copy_plan import CopyPlan
from compiler.copies.errors import TileError
from compiler.copies.instruction import Path
from compiler.copies.lanes import plan_by_lanes
from compiler.copies.layout import MatrixLayout, cosize, is_injective, size
from compiler.copies.paths import obstacle, paths_between, widest_vector_bytes
from compiler.copies.registers import Move, RegisterLayout, ThreadLayout
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile, TmemTile
from compiler.copies.tmem_path import cut_into_accesses
from compiler.copies.vectors import cut_into_vectors


def infer_plan(warps: MatrixLayout, source: Tile, target: Tile, arch: Arch, path: Path | None = None) -> CopyPlan:
    """The plan by the first instruction that can carry the copy, or by `path`.

    Raises TileError for tiles of unequal shape or type, warps that are no arrangement, memories that nothing connects,
    and a `path` that cannot carry the copy, with the reason.
    """
    check_warps(warps, arch)
    _check_tiles(warps, source, target)
    paths = paths_between(source, target)
    if not paths or (path is not None and path not in paths):
        raise TileError(
            f"copy by {path}" if path else "copy",
            f"{source.memory} -> {target.memory}",
            f"one of {', '.join(paths)}" if paths else "memories that an instruction connects",
            "Copy by another instruction." if paths else "Copy through registers.",
        )
    refused: TileError | None = None
    for candidate in (path,) if path is not None else paths:
        try:
            return _plan(candidate, warps, source, target, arch)
        except TileError as error:
            refused = error
    assert refused is not None, "there is a path to try"
    raise refused


def check_warps(warps: MatrixLayout, arch: Arch) -> None:
    """Raises TileError unless the layout numbers 1, 2, ... warps of one block."""
    if cosize(warps) != size(warps) or not is_injective(warps):
        raise TileError("warp layout", str(warps), "warps numbered 0, 1, 2, ...", "Use dense strides.")
    if size(warps) * WARP_THREADS > arch.max_threads_per_block:
        most = arch.max_threads_per_block // WARP_THREADS
        raise TileError("warp layout", f"{size(warps)} warps", f"at most {most}", "Use fewer warps.")


def block_shape(tile: Tile, warps: MatrixLayout) -> tuple[int, int]:
    """The shape of what the whole block holds: base tiles are one warp's."""
    if isinstance(tile, RegTile) and isinstance(tile.layout, RegisterLayout):
        return tile.shape[0] * warps.shape[0], tile.shape[1] * warps.shape[1]
    return tile.shape


def _check_tiles(warps: MatrixLayout, source: Tile, target: Tile) -> None:
    shapes = block_shape(source, warps), block_shape(target, warps)
    if shapes[0] != shapes[1]:
        raise TileError(
            "tiles of a copy", f"shapes {shapes[0]} and {shapes[1]}", "one shape", "Take tiles of one shape."
        )
    if source.dtype is not target.dtype:
        raise TileError(
            "tiles of a copy", f"{source.dtype} and {target.dtype}", "one element type", "Convert in registers."
        )


def _plan(path: Path, warps: MatrixLayout, source: Tile, target: Tile, arch: Arch) -> CopyPlan:
    """The plan by one instruction. Raises TileError, saying what is in the way."""
    if (error := obstacle(path, source, target, arch)) is not None:
        raise error
    one = ((), (), ())
    if path.is_bulk:
        rows, columns = source.shape
        whole = (Move(rows, 1, 0), Move(columns, 0, 1))
        return CopyPlan(path, source, target, (1, 1, 1), one, (), whole)
    registers = next((t for t in (source, target) if isinstance(t, RegTile)), None)
    if registers is None:
        assert isinstance(source, GlobalTile | SharedTile)
        assert isinstance(target, GlobalTile | SharedTile)
        return plan_by_lanes(path, warps, source, target, arch)
    layout = _of_block(registers, warps)
    plan = CopyPlan(path, source, target, layout.block, layout.threads, layout.registers, ())
    memory = target if registers is source else source
    if isinstance(memory, TmemTile):
        cut = cut_into_accesses(memory, layout)
        if cut is None:
            raise TileError(
                f"copy by {path}",
                f"{registers.layout} against {memory}",
                "an access pattern in every warp's own subpartition",
                "Hold in each warp the 32 lanes that it can reach.",
            )
        return replace(plan, rounds=cut[0], access=cut[1])
    assert isinstance(memory, GlobalTile | SharedTile)
    if path.is_matrix:
        return _by_matrices(plan, registers, memory)
    rounds, access = cut_into_vectors(layout, memory, widest_vector_bytes(source, target, arch))
    return replace(plan, rounds=rounds, access=access)


def _of_block(registers: RegTile, warps: MatrixLayout) -> ThreadLayout:
    if isinstance(registers.layout, RegisterLayout):
        return registers.layout.over(warps)
    if registers.layout.thread_count != size(warps) * WARP_THREADS:
        raise TileError(
            "register tile",
            f"{registers.layout.thread_count} threads",
            f"{size(warps) * WARP_THREADS}, those of the warps",
            "Use as many warps as hold the tile.",
        )
    return registers.layout


def _by_matrices(plan: CopyPlan, registers: RegTile, shared: GlobalTile | SharedTile) -> CopyPlan:
    """Four matrices of a base tile in every round; each lane gets two neighbours of each."""
    assert isinstance(registers.layout, RegisterLayout)
    base = registers.layout.base.registers
    contiguous = 1 if shared.run(1, 16) > 1 else 0
    pair = 1 if base[-1].columns else 0
    return replace(plan, rounds=plan.rounds[: -len(base)], access=base, is_transposed=contiguous != pair)
