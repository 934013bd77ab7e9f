"""Knobs and constraints of products whose tiles all threads of a block bring: by warps, and by threads.

load                   how tiles come to shared memory: "tma", "cp_async", or "vector", through registers
raster, raster_group   tiles in order: strips of so many tile rows, or tile columns, one after the other
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.arch import BARRIER_BYTES, CP_ASYNC_BYTES, REGISTER_BYTES, SMEM_LINE_BYTES, Arch
from search.space.constraints import Constraint
from search.space.groups import CP_ASYNC, SHALLOW, TMA, VECTOR
from search.space.knobs import Knob
from search.space.schedulers.product_facts import K, ProductShape
from search.space.schedulers.product_tiles import COLUMNS, ROWS

TILE = ("tile_rows", "tile_columns")


@dataclass(frozen=True)
class BroughtFacts:
    """What constraints read of a product. `threads`: the knobs that say how many threads a block has, and their number
    from these; `tiles`: rows and columns of tiles that there are."""

    shape: ProductShape
    arch: Arch
    threads: tuple[str, str]
    count: Callable[[Any, Any], Any]
    tiles: tuple[Sequence[int], Sequence[int]]

    @property
    def word_bytes(self) -> tuple[int, int]:
        """Of words that threads load of each operand."""
        return self.shape.left.word_bytes, self.shape.right.word_bytes

    @property
    def line(self) -> int:
        """Elements of a line of a tile."""
        return SMEM_LINE_BYTES // self.shape.left.dtype.nbytes

    @property
    def is_k_major(self) -> tuple[bool, bool]:
        return self.shape.left.major == K, self.shape.right.major == K

    def knobs(self, groups: Sequence[int]) -> tuple[Knob, ...]:
        """How tiles come, in how many stages, and in which order. `groups`: of tile rows or columns."""
        copied = all(n in CP_ASYNC_BYTES for n in self.word_bytes)
        mapped = self.shape.left.is_mapped and self.shape.right.is_mapped and self.arch.has_tma
        loads = (*((TMA,) if mapped else ()), *((CP_ASYNC,) if copied else ()), VECTOR)
        rows, columns = self.tiles
        return (
            Knob("load", loads),
            Knob("tile_rows", tuple(rows)),
            Knob("tile_columns", tuple(columns)),
            Knob("stages", SHALLOW),
            Knob("raster", (ROWS, COLUMNS)),
            Knob("raster_group", tuple(groups)),
        )

    def passing(self, load: Any, rows: Any, columns: Any, threads: Any) -> Any:
        """Registers of a thread for words on their way to shared memory: what is narrower than a register has one."""
        each = [n * SMEM_LINE_BYTES // of * -(-of // REGISTER_BYTES) for n, of in self._sides(rows, columns)]
        return np.where(load == VECTOR, sum(each) // threads, 0)

    def constraints(self) -> list[Constraint]:
        """Whole lines, words, strips; stages that fit."""
        return [*self._tiles(), *self._stages(), *self._order()]

    def _sides(self, rows: Any, columns: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
        left, right = self.word_bytes
        return (rows, left), (columns, right)

    def _tiles(self) -> list[Constraint]:
        majors = self.is_k_major
        least = [max(tiles[0], 0 if k else self.line) for tiles, k in zip(self.tiles, majors, strict=True)]

        def words(load: Any, rows: Any, columns: Any, one: Any, other: Any) -> Any:
            threads = self.count(one, other)
            whole = [n * SMEM_LINE_BYTES % (of * threads) == 0 for n, of in self._sides(rows, columns)]
            return (load == TMA) | (whole[0] & whole[1])

        return [
            Constraint(
                "product_tiles_are_whole_lines",
                TILE,
                lambda *sizes: np.logical_and(*(k | (n % self.line == 0) for n, k in zip(sizes, majors, strict=True))),
                "Where rows of an operand lie side by side, a tile has whole lines of 128 bytes of them.",
            ),
            Constraint(
                "product_words_are_whole",
                ("load", *TILE, *self.threads),
                words,
                "Threads have equal numbers of words of a tile.",
            ),
            Constraint(
                "tile_exceeds_the_problem",
                TILE,
                lambda rows, columns: (
                    ((rows < 2 * self.shape.m) | (rows == least[0]))
                    & ((columns < 2 * self.shape.n) | (columns == least[1]))
                ),
                "A tile is not twice the problem.",
            ),
        ]

    def _stages(self) -> list[Constraint]:
        chunks = -(-self.shape.k // self.line)

        def memory(rows: Any, columns: Any, stages: Any) -> Any:
            needed = (rows + columns) * SMEM_LINE_BYTES * stages + BARRIER_BYTES * stages
            return needed <= self.arch.smem_per_block_optin_bytes

        return [
            Constraint(
                "shared_memory_fits_the_block",
                (*TILE, "stages"),
                memory,
                "Stages fit the shared memory of a block.",
            ),
            Constraint(
                "redundant_stages",
                ("load", "stages"),
                lambda load, stages: (stages == 1) | ((load != VECTOR) & (stages <= chunks)),
                "Stages are filled ahead by copies, and hold no more than there is to sum along.",
            ),
        ]

    def _order(self) -> list[Constraint]:
        def strips(raster: Any, group: Any, rows: Any, columns: Any) -> Any:
            along = np.where(raster == ROWS, -(-self.shape.m // rows), -(-self.shape.n // columns))
            return (group == 1) | (along % group == 0)

        return [
            Constraint(
                "product_strips_are_whole", ("raster", "raster_group", *TILE), strips, "Strips of tiles are whole."
            ),
            Constraint(
                "redundant_raster",
                ("raster", "raster_group"),
                lambda raster, group: (group > 1) | (raster == ROWS),
                "Strips of one tile row are the order of columns.",
            ),
        ]
