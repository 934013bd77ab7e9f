"""Which instructions may carry a copy between two tiles, and what is in the way of the others."""

from __future__ import annotations

from math import prod

from compiler.analysis.memory.swizzle import repeat_bytes
from compiler.arch import (
    BULK_BYTES,
    BULK_SMEM_ALIGN,
    MATRIX_ROW_BYTES,
    MATRIX_ROWS,
    STMATRIX_CAPABILITY,
    TENSOR_MAP_BOX,
    TENSOR_MAP_RANK,
    TENSOR_MAP_STRIDE_BYTES,
    WORD_BYTES,
    Arch,
)
from compiler.copies.errors import TileError
from compiler.copies.instruction import JOINED, Path
from compiler.copies.layout import Layout, LayoutStep, coalesced
from compiler.copies.registers import RegisterLayout
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile
from compiler.ir.iter_domain import MemoryType


def paths_between(source: Tile, target: Tile) -> tuple[Path, ...]:
    """The instructions that connect two memories, the one with the least work for the threads first; between global
    and shared memory vectors connect them too, by way of registers."""
    ends = (source.memory, target.memory)
    found = tuple(path for path, pairs in JOINED.items() if ends in pairs)
    by_registers = set(ends) == {MemoryType.GLOBAL, MemoryType.SHARED}
    return (*found, Path.VECTOR) if by_registers else found


def obstacle(path: Path, source: Tile, target: Tile, arch: Arch) -> TileError | None:
    """Why an instruction cannot carry the copy, None if it can. What vectors need is seen when they are cut."""
    match path:
        case Path.TMA:
            return _tma_obstacle(source, target, arch)
        case Path.BULK_1D:
            return _bulk_1d_obstacle(source, target, arch)
        case Path.LDMATRIX | Path.STMATRIX:
            return _matrix_obstacle(path, source, target, arch)
        case Path.LD_TMEM | Path.ST_TMEM if not arch.has_tmem:
            return _refused(path, arch.name, "an architecture with tensor memory", "Compile for one.")
        case _:
            return None


def widest_vector_bytes(source: Tile, target: Tile, arch: Arch) -> int:
    """Bytes of the widest access of a thread that both sides allow."""
    shared = MemoryType.SHARED in (source.memory, target.memory)
    return min(WORD_BYTES[-1], arch.max_vector_bytes) if shared else arch.max_vector_bytes


def _refused(path: Path, found: str, expected: str, fix: str) -> TileError:
    return TileError(f"copy by {path}", found, expected, fix)


def _fills_in_order(g: GlobalTile, s: SharedTile) -> bool:
    """True if the shared tile is one dense run whose neighbours are neighbours in global memory."""
    run = 1
    for extent, in_global, in_shared in _common_levels(g.layout, s.layout):
        if in_shared != run or (run == 1 and in_global != 1):
            return False
        run *= extent
    return True


def _common_levels(a: Layout, b: Layout) -> list[tuple[int, int, int]]:
    """(extent, stride in `a`, stride in `b`) of levels that both layouts have, innermost of `b` first.

    Levels of one that cross a level of the other are cut at it.
    """
    out: list[tuple[int, int, int]] = []
    for of_a, of_b in ((a.row_steps, b.row_steps), (a.column_steps, b.column_steps)):
        left_a, left_b = list(coalesced(of_a)), list(coalesced(of_b))
        while left_a and left_b:
            x, y = left_a.pop(), left_b.pop()
            extent = min(x.extent, y.extent)
            if max(x.extent, y.extent) % extent:
                return [(0, 0, 0)]
            out.append((extent, x.stride, y.stride))
            if x.extent > extent:
                left_a.append(LayoutStep(x.extent // extent, x.stride * extent))
            if y.extent > extent:
                left_b.append(LayoutStep(y.extent // extent, y.stride * extent))
    return sorted(out, key=lambda level: level[2])


def _sides(source: Tile, target: Tile) -> tuple[GlobalTile, SharedTile] | None:
    match source, target:
        case (GlobalTile() as g, SharedTile() as s) | (SharedTile() as s, GlobalTile() as g):
            return g, s
        case _:
            return None


def _bulk_1d_obstacle(source: Tile, target: Tile, arch: Arch) -> TileError | None:
    path, sides = Path.BULK_1D, _sides(source, target)
    if sides is None or not arch.has_tma:
        return _refused(path, arch.name, "an architecture with bulk copies", "Copy by vectors.")
    g, s = sides
    if s.swizzle is not None:
        return _refused(path, str(s.swizzle), "no swizzle", "Copy by TMA, or lay the tile out without a swizzle.")
    levels = _common_levels(g.layout, s.layout)
    if not _fills_in_order(g, s) or any(in_global != in_shared for _, in_global, in_shared in levels):
        return _refused(path, f"{g.layout} and {s.layout}", "one run on both sides", "Copy row by row, or by TMA.")
    nbytes, nbits = prod(g.shape) * g.dtype.nbits // 8, g.dtype.nbits
    starts = [(g.offset * nbits // 8, g.align), (s.offset * nbits // 8, s.align)]
    if nbytes % BULK_BYTES or any(start % BULK_BYTES or align % BULK_BYTES for start, align in starts):
        return _refused(path, f"{nbytes} bytes", f"multiples of {BULK_BYTES} bytes, aligned alike", "Copy by vectors.")
    return None


def _tma_obstacle(source: Tile, target: Tile, arch: Arch) -> TileError | None:
    path, sides = Path.TMA, _sides(source, target)
    if sides is None or not arch.has_tma:
        return _refused(path, arch.name, "an architecture with tensor maps", "Copy by cp.async or by vectors.")
    g, s = sides
    nbits = g.dtype.nbits
    if s.span is None:
        return _refused(path, str(s.swizzle), "a swizzle mode of the hardware", "Copy by cp.async or by vectors.")
    if not _fills_in_order(g, s):
        return _refused(
            path, f"{g.layout} and {s.layout}", "the dense order of the global tile", "Lay the shared tile out densely."
        )
    levels = _common_levels(g.layout, s.layout) or [(1, 1, 1)]
    inner = levels[0][0] * nbits // 8
    if len(levels) > TENSOR_MAP_RANK or max(n for n, _, _ in levels) > TENSOR_MAP_BOX:
        found = " x ".join(str(n) for n, _, _ in levels)
        return _refused(
            path,
            f"box {found}",
            f"{TENSOR_MAP_RANK} dimensions up to {TENSOR_MAP_BOX}",
            "Cut the tile into smaller ones.",
        )
    if inner % BULK_BYTES or (s.span and inner != s.span):
        expected = f"{s.span} bytes, the swizzle's span" if s.span else f"a multiple of {BULK_BYTES} bytes"
        return _refused(path, f"{inner} bytes a row", expected, "Choose another row of the tile, or copy by vectors.")
    strides = [stride * nbits // 8 for _, stride, _ in levels[1:]]
    if g.align % BULK_BYTES or any(x % BULK_BYTES or x >= TENSOR_MAP_STRIDE_BYTES for x in strides):
        found = f"{g.align}-byte alignment, strides of {strides} bytes"
        return _refused(path, found, f"multiples of {BULK_BYTES} under 2^40", "Copy by vectors.")
    start = s.offset * nbits // 8
    if s.align % BULK_SMEM_ALIGN or start % repeat_bytes(s.span):
        return _refused(path, f"start at byte {start}", f"a multiple of {repeat_bytes(s.span)}", "Align the tile.")
    return None


def _matrix_obstacle(path: Path, source: Tile, target: Tile, arch: Arch) -> TileError | None:
    shared, registers = (source, target) if path is Path.LDMATRIX else (target, source)
    assert isinstance(shared, SharedTile), "matrices are offered between shared memory and registers"
    assert isinstance(registers, RegTile), "matrices are offered between shared memory and registers"
    if path is Path.STMATRIX and arch.capability < STMATRIX_CAPABILITY:
        return _refused(path, arch.name, "capability 9.0", "Store by vectors.")
    if not isinstance(registers.layout, RegisterLayout):
        return _refused(path, str(registers.layout), "base tiles", "Hold the tile as a matrix of base tiles.")
    if shared.dtype.nbits != 16:
        return _refused(path, str(shared.dtype), "elements of 16 bits", "Copy by vectors.")
    if max(shared.run(d, MATRIX_ROW_BYTES) for d in (0, 1)) < MATRIX_ROWS:
        return _refused(path, str(shared), "rows of 8 elements, 16-byte aligned", "Align the rows to 16 bytes.")
    return None
