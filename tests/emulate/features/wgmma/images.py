"""Operands of products as copies leave them in shared memory, and the descriptors of their parts.

Written apart from the emulator: a matrix is cut into boxes whose lines are as wide as the swizzle spans, boxes lie one
after another, and in line L of 128 bytes chunk c of 16 bytes stands at c ^ (L % 8), c ^ (L % 4), c ^ (L % 2) or c (PTX
ISA, "Swizzling Modes"). Steps are those of a box of all rows and all of k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.emulate.features.wgmma.kernel import Descriptor

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

MODES = {"none": (0, 16, 1), "32B": (3, 32, 2), "64B": (2, 64, 4), "128B": (1, 128, 8)}
"""By name: the code of wgmma, bytes of a line, how many lines of 128 bytes differ."""


@dataclass(frozen=True)
class Image:
    """A matrix (rows, k) of unsigned words in shared memory, `offset` bytes into `tile`."""

    matrix: Array
    is_transposed: bool = False
    mode: str = "128B"
    offset: int = 0

    @property
    def data(self) -> Bytes:
        """Its bytes, from `offset` on."""
        _, width, lines = MODES[self.mode]
        lying = np.ascontiguousarray(self.matrix.T if self.is_transposed else self.matrix).view(np.uint8)
        boxes = lying.reshape(len(lying), -1, width).transpose(1, 0, 2)
        chunks = boxes.reshape(-1, 8, 16)
        line = np.arange(len(chunks))[:, None] + self.offset // 128
        placed = np.empty_like(chunks)
        placed[np.arange(len(chunks))[:, None], np.arange(8)[None, :] ^ line % lines] = chunks
        return placed.reshape(-1)

    def part(self, step: int) -> Descriptor:
        """The descriptor of the operand of instruction `step` along k, of 32 bytes of k each."""
        code, width, _ = MODES[self.mode]
        rows, depth = self.matrix.shape
        element = self.matrix.itemsize
        if self.is_transposed:
            k = step * (32 // element)
            if self.mode == "none":
                return Descriptor(self.offset + k * 16, 128, depth * 16, code)
            return Descriptor(self.offset + k * width, depth * width, 8 * width, code)
        if self.mode == "none":
            return Descriptor(self.offset + 2 * step * rows * 16, rows * 16, 128, code)
        box, within = divmod(32 * step, width)
        return Descriptor(self.offset + box * rows * width + within, 16, 8 * width, code)
