"""Knobs and constraints of products whose tiles all threads of a block bring: by warps, and by threads.

load                   how tiles come to shared memory: "tma", "cp_async", or "vector", through registers
raster, raster_group   tiles in order: strips of so many tile rows, or tile columns, one after the other
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import BARRIER_BYTES, CP_ASYNC_BYTES, REGISTER_BYTES, SMEM_LINE_BYTES, Arch
from search.space.constraints import Constraint
from search.space.groups import CP_ASYNC, RASTERS, ROWS, SHALLOW, TMA, VECTOR, raster_constraints
from search.space.knobs import Knob
from search.space.schedulers.product_facts import ProductShape
from search.space.schedulers.product_operands import K, ProductOperand, lines_are

TILE = ("tile_rows", "tile_columns")


def stage_depth(shape: ProductShape) -> int:
    """Elements along k of a stage: a line of the operand whose elements in memory are the narrowest."""
    return SMEM_LINE_BYTES // min(side.dtype.nbytes for side in shape.sides)


def prologue_refusal(shape: ProductShape) -> str | None:
    """Why what is done to operands before they are multiplied cannot be done in registers; None where it can."""
    for side in shape.sides:
        if not side.keeps_zero and shape.k % stage_depth(shape):
            return f"{side.chain[-1]}: zeros past the end of what is summed along would not stay zeros"
    return None


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
    def k(self) -> int:
        """Elements along k of a stage: a line of the narrower operand."""
        return stage_depth(self.shape)

    def knobs(self, groups: Sequence[int]) -> tuple[Knob, ...]:
        """How tiles come, in how many stages, and in which order. `groups`: of tile rows or columns."""
        copied = all(side.word_bytes in CP_ASYNC_BYTES for side in self.shape.sides)
        mapped = all(side.is_mapped for side in self.shape.sides) and self.arch.has_tma
        loads = (*((TMA,) if mapped else ()), *((CP_ASYNC,) if copied else ()), VECTOR)
        rows, columns = self.tiles
        return (
            Knob("load", loads),
            Knob("tile_rows", tuple(rows)),
            Knob("tile_columns", tuple(columns)),
            Knob("stages", SHALLOW),
            Knob("raster", RASTERS),
            Knob("raster_group", tuple(groups)),
        )

    def passing(self, load: Any, rows: Any, columns: Any, threads: Any) -> Any:
        """Registers of a thread for words on their way to shared memory: what is narrower than a register has one."""
        words = sum(
            n // side.word_bytes * -(-side.word_bytes // REGISTER_BYTES) for n, side in self._tile(rows, columns)
        )
        return np.where(load == VECTOR, words // threads, 0)

    def constraints(self) -> list[Constraint]:
        """Whole lines, words, strips; stages that fit."""
        return [*self._tiles(), *self._stages(), *self._order()]

    def _tile(self, rows: Any, columns: Any) -> Iterator[tuple[Any, ProductOperand]]:
        """Bytes of a stage of each operand."""
        for extent, of in ((rows, self.shape.rows), (columns, self.shape.columns)):
            yield from ((extent * self.k * side.dtype.nbytes, side) for side in of)

    def _least(self, sides: Sequence[ProductOperand]) -> int:
        """What a tile has at least, and a multiple of, along the dimension of these operands: lines of those whose rows
        lie side by side."""
        return max((SMEM_LINE_BYTES // side.dtype.nbytes for side in sides if side.major != K), default=1)

    def _tiles(self) -> list[Constraint]:
        lines = self._least(self.shape.rows), self._least(self.shape.columns)
        least = [max(of[0], line) for of, line in zip(self.tiles, lines, strict=True)]

        def words(load: Any, rows: Any, columns: Any, one: Any, other: Any) -> Any:
            threads = self.count(one, other)
            whole = [n % (side.word_bytes * threads) == 0 for n, side in self._tile(rows, columns)]
            return (load == TMA) | reduce(np.logical_and, whole)

        return [
            Constraint(
                "product_tiles_are_whole_lines",
                TILE,
                lambda rows, columns: (rows % lines[0] == 0) & (columns % lines[1] == 0),
                lines_are(SMEM_LINE_BYTES),
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
        chunks = -(-self.shape.k // self.k)

        def memory(rows: Any, columns: Any, stages: Any) -> Any:
            needed = sum(nbytes for nbytes, _ in self._tile(rows, columns)) * stages + BARRIER_BYTES * stages
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
        def along(raster: Any, rows: Any, columns: Any) -> Any:
            return np.where(raster == ROWS, -(-self.shape.m // rows), -(-self.shape.n // columns))

        return raster_constraints(TILE, along)
