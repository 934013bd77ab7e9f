"""Where things lie in tensor memory: fragments of `tcgen05.ld` and `.st`, tiles of `tcgen05.cp`.

Sources: PTX ISA, "Data Movement Shape" and "tcgen05.cp"; the formulas of the fragments were
computed against the copy traits of CUTLASS for sm_100. An address has the lane in bits 31:16 and the column of 32-bit
cells in bits 15:0 (PTX ISA, "Tensor Memory Addressing").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from compiler.emulate.threads import WARP

TENSOR_LANES = 128
TENSOR_COLUMNS = 512
"""Columns of 32-bit cells (PTX ISA, "Tensor Memory")."""

QUARTER = 32
"""Lanes that one warp of four may reach with ld and st (PTX ISA, "Access restrictions")."""

Integers = npt.NDArray[np.int64]

_REGISTERS_AT_X1 = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
_NUMS = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_REGISTERS = 128

FRAGMENT_SHAPES = tuple(_REGISTERS_AT_X1)


@dataclass(frozen=True, slots=True)
class RegisterCells:
    """Cells of a warp's registers: arrays (threads, registers, halves) of lanes and columns past the address.

    Plain registers have one cell; with .pack::16b or .unpack::16b two, the low half first.
    """

    lanes: Integers
    columns: Integers

    @property
    def rows(self) -> int:
        """Lanes of tensor memory that it covers: 16 or 32."""
        return int(self.lanes.max()) + 1


def registers_of(shape: str, num: int) -> int:
    """32-bit registers a thread (PTX ISA, "tcgen05.ld"). Raises ValueError for a form that does not exist."""
    count = _REGISTERS_AT_X1.get(shape, 0) * num
    if num not in _NUMS or not 0 < count <= _MOST_REGISTERS:
        raise ValueError(f".{shape}.x{num}")
    return count


@cache
def fragment(shape: str, num: int, packed: bool = False, split: int = 0) -> RegisterCells:
    """The cells of `.shape.xN`. `split`: columns from the first half of 16x32bx2 to the second.

    Packed, the columns are twice as many, but `split` is as given: CUTLASS passes 2N there, which makes the halves one
    block. Raises ValueError for a form that does not exist.
    """
    t = np.arange(WARP)[:, None]
    r = np.arange(registers_of(shape, num))[None, :]
    lanes, columns = {
        "32x32b": (t, r),
        "16x64b": ((t >> 2) + 8 * (t & 1), ((t >> 1) & 1) + 2 * r),
        "16x128b": ((t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)),
        "16x256b": ((t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)),
        "16x32bx2": (t & 15, r),
    }[shape]
    lanes, columns = (np.broadcast_to(a, (WARP, r.size))[..., None].astype(np.int64) for a in (lanes, columns))
    if packed:
        lanes = np.broadcast_to(lanes, (WARP, r.size, 2))
        columns = 2 * columns + np.arange(2)
    if shape == "16x32bx2":
        columns = columns + (split * (t >> 4))[..., None]
    return RegisterCells(lanes, columns)


@dataclass(frozen=True, slots=True)
class CopyShape:
    """A shape of `tcgen05.cp`: `rows` of `chunks` times 16 bytes, each row to all of the lanes `lanes[row]`."""

    rows: int
    chunks: int
    lanes: npt.NDArray[np.int64]


def _tile(rows: int, bits: int, lanes: Integers) -> CopyShape:
    return CopyShape(rows, bits // 128, lanes.reshape(rows, -1))


_ROW64 = np.arange(64)
TILES = {
    ("128x256b", ""): _tile(128, 256, np.arange(128)),
    ("128x128b", ""): _tile(128, 128, np.arange(128)),
    ("4x256b", ""): _tile(4, 256, 32 * np.arange(4)),
    ("64x128b", "warpx2::02_13"): _tile(64, 128, np.stack([_ROW64, _ROW64 + 64], axis=1)),
    ("64x128b", "warpx2::01_23"): _tile(
        64, 128, np.stack([_ROW64 + 32 * (_ROW64 >> 5), _ROW64 + 32 * (_ROW64 >> 5) + 32], axis=1)
    ),
    ("32x128b", "warpx4"): _tile(32, 128, np.arange(32)[:, None] + 32 * np.arange(4)),
}
"""By shape and multicast: `02_13` copies the first 32 rows to the quarters 0 and 2, the others to 1 and 3; `01_23` to 0
and 1, and to 2 and 3 (PTX ISA, "tcgen05.cp"). A row of 4x256b goes to the first lane of each quarter."""
