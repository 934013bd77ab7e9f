"""Copy plans: who moves which elements of a tile, in which round, by which instruction, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from compiler.analysis.memory.matrix import halves_of, named_rows
from compiler.arch import MATRIX_ELEMENT_BYTES, MATRIX_ROW_BYTES, WARP_THREADS
from compiler.copies.errors import TileError
from compiler.copies.figures import BankConflicts, Coalescing, bank_conflicts, coalescing
from compiler.copies.instruction import Path
from compiler.copies.layout import MAX_ENUMERATED, Array
from compiler.copies.registers import Moves, ThreadLayout, count, place, positions
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile
from compiler.ir.iter_domain import MemoryType


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The copy of `source` to `target`, tiles of one shape.

    In every one of the rounds, which `rounds` moves through, each thread makes one access, whose elements `access`
    moves through; `threads` are the moves of each dimension of the `block`. Accesses outside the tile are not made.
    `is_transposed`: ldmatrix or stmatrix exchanges rows and columns of the 8 x 8 matrices.
    """

    path: Path
    source: Tile
    target: Tile
    block: tuple[int, int, int]
    threads: tuple[Moves, Moves, Moves]
    rounds: Moves
    access: Moves
    is_transposed: bool = False

    def __post_init__(self) -> None:
        if self.path.is_matrix and not isinstance(self.registers, RegTile):
            raise TileError("copy plan", str(self.path), "registers on one side", "Move the tile by vectors.")

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    @property
    def layout(self) -> ThreadLayout:
        """(thread, round and element) -> (row, column); the elements of an access count fastest."""
        shape = self.memory_tiles[0].shape if self.memory_tiles else self._block_shape()
        return ThreadLayout(shape, self.block, self.threads, (*self.rounds, *self.access))

    @property
    def memory_tiles(self) -> tuple[GlobalTile | SharedTile, ...]:
        """The sides that have addresses."""
        return tuple(t for t in (self.source, self.target) if isinstance(t, GlobalTile | SharedTile))

    @property
    def registers(self) -> RegTile | None:
        """The side in registers."""
        return next((t for t in (self.source, self.target) if isinstance(t, RegTile)), None)

    @property
    def width(self) -> int:
        """Elements of one access."""
        return count(self.access)

    @property
    def access_bytes(self) -> int:
        return self.width * self.source.dtype.nbits // 8

    @property
    def round_count(self) -> int:
        return count(self.rounds)

    @property
    def thread_count(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warp_count(self) -> int:
        return -(-self.thread_count // WARP_THREADS)

    def moves(self, thread: int, round_: int) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the elements that a thread moves in a round; none for a thread that sits it out."""
        layout = self.layout
        if (corner := layout.corner(thread)) is None:
            return ()
        down, right = place((), 0, self.rounds, round_)
        row, column = corner[0] + down, corner[1] + right
        rows, columns = layout.shape
        return tuple(
            (row + r, column + c) for r, c in positions(self.access) if row + r < rows and column + c < columns
        )

    @property
    def coalescing(self) -> Coalescing | None:
        """Figures of the global side, None without one. Raises TileError for a tile too large to enumerate."""
        tile = next((t for t in self.memory_tiles if isinstance(t, GlobalTile)), None)
        if tile is None:
            return None
        nbytes = tile.dtype.nbytes if self.path.is_bulk else self.access_bytes
        return coalescing(self._requests(tile), nbytes)

    def bank_conflicts(self, tile: SharedTile) -> BankConflicts | None:
        """Figures of a shared side, None where the copy engine reaches it. Raises as `coalescing` does."""
        if self.path.is_bulk:
            return None
        if self.path.is_matrix:
            return bank_conflicts(self._matrix_requests(tile), MATRIX_ROW_BYTES)
        # Lanes and copy engine of cp.async write as a store of that width would.
        return bank_conflicts(self._requests(tile), self.access_bytes)

    @property
    def holds_columns(self) -> bool:
        """Whether the two elements of a matrix that a lane of ldmatrix or stmatrix holds are neighbours of a column of
        it, not of a row, which lies side by side in shared memory."""
        (shared,) = self.memory_tiles
        if shared.dtype.nbytes > MATRIX_ELEMENT_BYTES:  # a lane holds whole words
            return False
        moves = [m for m in self.access if m.extent > 1]
        pair = moves[-1 if shared.dtype.nbytes == MATRIX_ELEMENT_BYTES else -2]
        return (shared.run(1, MATRIX_ROW_BYTES) > 1) != (pair.columns > 0)

    def _requests(self, tile: GlobalTile | SharedTile) -> Iterator[Array]:
        """Byte addresses of each request: of a warp's lanes, -1 for an idle one, or of a bulk copy's elements."""
        at = self._addresses(tile)
        if self.path.is_bulk:
            yield from (of_access for of_thread in at for of_access in of_thread if (of_access >= 0).any())
            return
        words = at[:, :, 0]
        for first in range(0, len(words), WARP_THREADS):
            for request in words[first : first + WARP_THREADS].T:
                if (request >= 0).any():
                    yield np.pad(request, (0, WARP_THREADS - len(request)), constant_values=-1)

    def _addresses(self, tile: GlobalTile | SharedTile) -> Array:
        """Byte address [thread, round, element of the access], -1 where there is none."""
        layout = self.layout
        if self.path.is_bulk:
            x, y, z = (count(moves) for moves in self.threads)
            layout = replace(layout, block=(x, y, z))
        if layout.thread_count * layout.register_count > MAX_ENUMERATED:
            raise TileError(
                "copy plan",
                f"{layout.thread_count * layout.register_count} moved elements",
                f"at most {MAX_ENUMERATED} to look at one by one",
                "Look at a part of the tile.",
            )
        rows, columns, active = layout.places()
        inside = active.astype(np.bool_)
        at = np.full(rows.shape, -1, dtype=np.int64)
        at[inside] = tile.addresses()[rows[inside], columns[inside]]
        return at.reshape(len(at), -1, self.width)

    def _matrix_requests(self, tile: SharedTile) -> Iterator[Array]:
        """Row addresses of the 8 x 8 matrices of an access, which lanes 0-7, 8-15, 16-23 and 24-31 give."""
        at = self._addresses(tile)
        for first in range(0, len(at), WARP_THREADS):
            for request in at[first : first + WARP_THREADS].transpose(1, 2, 0):
                yield named_rows(halves_of(request, tile.dtype.nbytes))[0]

    def _block_shape(self) -> tuple[int, int]:
        """The shape of a copy between registers and tensor memory."""
        return self.source.shape if not isinstance(self.source, RegTile) else self.target.shape

    def __str__(self) -> str:
        return table(self)


SHOWN_LINES = 8
"""Lines of the table of moves that are printed."""


def table(plan: CopyPlan) -> str:
    """The plan to read: what is copied, how, at what cost, and who moves what."""
    return f"{head(plan)}\n\n{_who_moves_what(plan)}"


def head(plan: CopyPlan) -> str:
    """What is copied, how, and at what cost: a line each."""
    (rows, columns), dtype = plan.shape, plan.source.dtype
    lines = [
        ("copy", f"{rows} x {columns} {dtype}, {_word(plan.source)} -> {_word(plan.target)}"),
        ("path", f"{plan.path}{', transposed' if plan.is_transposed else ''}, {plan.access_bytes} bytes an access"),
        ("source", str(plan.source)),
        ("target", str(plan.target)),
        ("threads", _threads(plan)),
        ("rounds", str(plan.round_count)),
    ]
    if (found := plan.coalescing) is not None:
        lines.append(("global", str(found)))
    for tile in plan.memory_tiles:
        if isinstance(tile, SharedTile) and (conflicts := plan.bank_conflicts(tile)) is not None:
            lines.append(("shared", str(conflicts)))
    return "\n".join(f"{name:<8}  {text}" for name, text in lines)


def _threads(plan: CopyPlan) -> str:
    moving = count(m for moves in plan.threads for m in moves)
    if plan.path.is_bulk:
        return (
            f"{moving} of {plan.thread_count} asks the copy engine" if moving == 1 else f"{moving} ask the copy engine"
        )
    warps = f"{plan.warp_count} warp{'s' if plan.warp_count > 1 else ''}"
    return f"{plan.thread_count} in {warps}" + (f", {moving} move elements" if moving < plan.thread_count else "")


def _who_moves_what(plan: CopyPlan) -> str:
    """The first rounds of the first warps: the rectangle that each lane's access covers. Idle warps are left out."""
    lanes = [i for i in (0, 1, 2, 3, WARP_THREADS - 1) if i < plan.thread_count]
    if plan.path.is_bulk:
        lanes = lanes[: count(m for moves in plan.threads for m in moves)]
    rows = [["round", "warp", *(f"lane {i}" for i in lanes)]]
    left_out = 0
    for round_, warp in product(range(plan.round_count), range(plan.warp_count)):
        if len(rows) > SHOWN_LINES:
            left_out = plan.round_count * plan.warp_count - round_ * plan.warp_count - warp
            break
        cells = [_rectangle(plan.moves(warp * WARP_THREADS + i, round_)) for i in lanes]
        if any(c != "-" for c in cells):
            rows.append([str(round_), str(warp), *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*text, f"({left_out} more)"] if left_out else text)


def _rectangle(places: tuple[tuple[int, int], ...]) -> str:
    """Rows and columns of an access, such as `3, 8-11`; `0/8, 0-1` are columns 0 and 1 of rows 0 and 8."""
    if not places:
        return "-"
    return ", ".join(_ranges({p[d] for p in places}) for d in (0, 1))


def _ranges(values: set[int]) -> str:
    first = sorted(v for v in values if v - 1 not in values)
    last = sorted(v for v in values if v + 1 not in values)
    return "/".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True))


def _word(tile: Tile) -> str:
    return {MemoryType.LOCAL: "registers", MemoryType.TENSOR: "tensor memory"}.get(tile.memory, str(tile.memory))
