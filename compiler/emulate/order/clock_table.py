"""A table of vector clocks, rows of which many lanes share. Rows and columns are added; a row does not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.order.events import Clocks, Ints


class ClockTable:
    """Rows of clocks. Row 0 knows nothing."""

    def __init__(self, width: int) -> None:
        self._cells = np.zeros((64, width), np.int32)
        self.rows = 1
        self.generation = 0
        """Goes up when rows are numbered anew."""

    @property
    def width(self) -> int:
        """Columns."""
        return self._cells.shape[1]

    @property
    def flat(self) -> Clocks:
        """All cells in a row, row after row of `width`."""
        return self._cells.reshape(-1)

    def bytes_of(self, rows: int) -> int:
        """Bytes of so many rows."""
        return rows * self.width * 4

    def __getitem__(self, rows: Any) -> Clocks:
        """One row, or several: (rows, width). Not to be changed."""
        found: Clocks = self._cells[rows]
        return found

    def append(self, rows: Clocks) -> int:
        """Adds rows, (rows, width); the number of the first."""
        first, self.rows = self.rows, self.rows + len(rows)
        if self.rows > len(self._cells):
            cells = np.zeros((max(2 * len(self._cells), self.rows), self.width), np.int32)
            cells[:first] = self._cells[:first]
            self._cells = cells
        self._cells[first : self.rows] = rows
        return first

    def raise_to(self, row: int, columns: list[int], clocks: list[int]) -> None:
        """Raises some clocks of a row that was just added, and that nobody has yet."""
        np.maximum.at(self._cells[row], columns, clocks)

    def add_columns(self, count: int) -> range:
        """Adds columns, of which nothing is known; their numbers."""
        first = self.width
        cells = np.zeros((len(self._cells), first + count), np.int32)
        cells[:, :first] = self._cells
        self._cells = cells
        return range(first, first + count)

    def keep(self, used: npt.NDArray[np.integer[Any]]) -> Ints:
        """Drops all rows but these and row 0; the new number of each old one."""
        kept = np.unique(np.append(used, 0))
        numbers = np.zeros(self.rows, np.int32)
        numbers[kept] = np.arange(len(kept))
        self._cells[: len(kept)] = self._cells[kept]
        self.rows = len(kept)
        self.generation += 1
        return numbers
