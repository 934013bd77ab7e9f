"""A tile in shared memory as a picture: 128-byte rows of 32 banks, and which 16 bytes of the tile lie where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.analysis.memory.bank_conflicts import ideal_wavefronts, wavefronts
from compiler.analysis.memory.swizzle import CHUNKS_OF_A_LINE, chunk_mask
from compiler.analysis.tma.tensor_map import TensorMapCopy
from compiler.arch import SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS, WARP_THREADS
from compiler.explain.names import counted
from compiler.explain.svg import FAINT, INK, picture, rect, text, text_width

_SHOWN_ROWS = 8
_CELL_WIDE, _CELL_HIGH, _EDGE, _TOP = 100.0, 30.0, 20.0, 96.0
_COLOURS = ("#f4b6b6", "#f7d9a8", "#f3f0a6", "#c4e8b0", "#aee6dd", "#b3d1f5", "#cfc0f2", "#f1bfe3")
"""One for each logical column of chunks; a ninth column has the first colour again."""


@dataclass(frozen=True, slots=True)
class BankedTile:
    """A tile of `rows` rows of `row_bytes` bytes each, dense but for a swizzle of `span` bytes (0: none)."""

    rows: int
    row_bytes: int
    span: int

    @property
    def columns(self) -> int:
        """Chunks of one row of the tile."""
        return self.row_bytes // SWIZZLE_CHUNK_BYTES

    def address(self, row: int, column: int) -> int:
        """Where chunk `column` of tile row `row` lies, in bytes from the tile's start.

        The chunk's place in its 128 bytes is xored with low bits of the 128-byte row (nvFuser, TMA: data swizzle).
        """
        chunk = (row * self.row_bytes) // SWIZZLE_CHUNK_BYTES + column
        return SWIZZLE_CHUNK_BYTES * (chunk ^ (chunk // CHUNKS_OF_A_LINE & chunk_mask(self.span)))

    def row_wavefronts(self) -> tuple[int, int]:
        """Wavefronts of a warp that reads 32 chunks in the tile's own order, 16 bytes a thread; and the fewest."""
        return self._wavefronts(lambda lane: (lane // self.columns, lane % self.columns))

    def column_wavefronts(self) -> tuple[int, int]:
        """Wavefronts of a warp that reads one chunk column of 32 rows, 16 bytes a thread; and the fewest."""
        return self._wavefronts(lambda lane: (lane, 0))

    def _wavefronts(self, chunk_of: Callable[[int], tuple[int, int]]) -> tuple[int, int]:
        chunks = [chunk_of(lane) for lane in range(WARP_THREADS)]
        found = [self.address(*c) for c in chunks if c[0] < self.rows]
        phases = -(-len(found) * ideal_wavefronts(SWIZZLE_CHUNK_BYTES) // WARP_THREADS)
        return wavefronts(found, SWIZZLE_CHUNK_BYTES), phases


def banked_tile(copy: TensorMapCopy) -> BankedTile | None:
    """The tile of a copy as banks see it; None where it has no whole chunks, or no tensor map was found."""
    if not copy.dims:
        return None
    row_bits = copy.dims[0].tile_size.value * copy.shared_tensor.dtype.nbits
    rows = 1
    for d in copy.dims[1:]:
        rows *= d.tile_size.value
    if row_bits % (8 * SWIZZLE_CHUNK_BYTES) or not row_bits or rows < 1 or copy.swizzle not in (0, *SWIZZLE_SPANS):
        return None
    return BankedTile(rows, row_bits // 8, copy.swizzle)


def banks(tile: BankedTile, title: str) -> str:
    """An SVG of the first 128-byte rows that the tile takes: in each 16 bytes the logical row and chunk there."""
    total = tile.rows * tile.columns
    lines = min(_SHOWN_ROWS, -(-total * SWIZZLE_CHUNK_BYTES // SMEM_LINE_BYTES))
    per_line = SMEM_LINE_BYTES // SWIZZLE_CHUNK_BYTES
    # A swizzle stays inside a period of eight rows of its span, so chunks past the shown lines lie past them too.
    at = {}
    for chunk in range(min(total, lines * per_line)):
        row, column = divmod(chunk, tile.columns)
        at[tile.address(row, column) // SWIZZLE_CHUNK_BYTES] = (row, column)
    left = _EDGE + 72
    shapes = [
        text(_EDGE, 28, title, size=15, bold=True),
        text(_EDGE, 50, f"tile of {tile.rows} rows of {tile.row_bytes} bytes, swizzle {_swizzle(tile)}"),
    ]
    for i in range(per_line):
        x = left + i * _CELL_WIDE
        shapes.append(text(x + _CELL_WIDE / 2, _TOP - 10, f"banks {4 * i}-{4 * i + 3}", size=11, anchor="middle"))
    for j in range(lines):
        y = _TOP + j * _CELL_HIGH
        shapes.append(text(left - 8, y + 19, f"byte {j * SMEM_LINE_BYTES}", size=11, anchor="end", fill=FAINT))
        for i in range(per_line):
            x = left + i * _CELL_WIDE
            found = at.get(j * per_line + i)
            fill = "#ffffff" if found is None else _COLOURS[found[1] % len(_COLOURS)]
            shapes.append(rect(x, y, _CELL_WIDE, _CELL_HIGH, fill=fill, stroke=INK))
            if found is not None:
                words = f"row {found[0]}, chunk {found[1]}"
                shapes.append(text(x + _CELL_WIDE / 2, y + 19, words, size=11, anchor="middle"))
    notes = bank_notes(tile)
    below = _TOP + lines * _CELL_HIGH + 26
    shapes += [text(_EDGE, below + 18 * i, words) for i, words in enumerate(notes)]
    width = max([left + per_line * _CELL_WIDE + _EDGE, *(text_width(n) + 2 * _EDGE for n in notes)])
    return picture(width, below + 18 * len(notes) + 2, title, shapes)


def bank_notes(tile: BankedTile) -> list[str]:
    """What a warp pays for reading along rows and down a column, in words."""
    found = []
    for words, (taken, fewest) in (
        ("along the rows, 16 bytes a thread", tile.row_wavefronts()),
        ("down one chunk column, 16 bytes a thread", tile.column_wavefronts()),
    ):
        verdict = "no bank conflict" if taken == fewest else f"{taken / fewest:g}-way bank conflict"
        found.append(f"a warp that reads {words}: {counted(taken, 'wavefront')}, at best {fewest}: {verdict}")
    return found


def _swizzle(tile: BankedTile) -> str:
    return f"{tile.span} bytes" if tile.span else "none"
