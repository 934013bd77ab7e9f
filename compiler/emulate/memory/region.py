"""A region: memory that belongs together, with what has been written in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.ptx.module import StateSpace

Offsets = npt.NDArray[np.int64]
"""Byte offsets into the data of a region, one a lane."""

PAGE = 65536
"""Bytes that are filled together on first touch."""

POISON = 0xA5
"""The byte that memory holds before anything is written to it."""


@dataclass(eq=False)
class MemoryRegion:
    """A tensor, the shared memory of all blocks that run, the local memory of all threads, parameters, constants.

    `data` are the bytes. The copies of shared memory (one a block) and of local memory (one a thread) lie `pitch` bytes
    apart in it, so that an offset into `data` says block and place. `base` is the address, in its space, of the first
    byte of every copy, a multiple of 256; a tensor that is aligned to less starts `lead` bytes later. `size` are the
    bytes that may be addressed in a copy, from `lead` on; the rest of the pitch is out of bounds.

    `written` has a flag a byte, None where everything counts as initialised; `changed` one for tensors: what the kernel
    wrote (nothing at all unless `is_changed`); `valid`: False where a strided tensor has holes. `fill` gives bytes on
    first touch (`launch.Tensor`).
    `number` tells regions apart in the log of accesses.
    """

    name: str
    space: StateSpace
    base: int
    size: int
    data: npt.NDArray[np.uint8]
    number: int
    pitch: int = 0
    lead: int = 0
    written: npt.NDArray[np.bool_] | None = None
    changed: npt.NDArray[np.bool_] | None = None
    valid: npt.NDArray[np.bool_] | None = None
    writable: bool = True
    fill: Callable[[int, int], npt.NDArray[np.uint8]] | None = None
    is_changed: bool = False

    def touch(self, offsets: Offsets, nbytes: int) -> None:
        """Fills the pages of a tensor that is filled on first touch; offsets are those of `nbytes` bytes each.

        A tensor that nobody has written yet is not filled: what it holds is poison, whatever the bytes are.
        """
        assert self.fill is not None
        first, last = offsets // PAGE, (offsets + nbytes - 1) // PAGE
        if nbytes <= PAGE and self._present[first].all() and self._present[last].all():
            return
        between = (np.minimum(first + i, last) for i in range(1, nbytes // PAGE + 1))
        pages = np.unique(np.concatenate([first, last, *between]))
        if self.written is not None:
            self._present[pages] = True
            return
        for page in pages[~self._present[pages]].tolist():
            start, stop = page * PAGE, min((page + 1) * PAGE, self.lead + self.size)
            self.data[start:stop] = self.fill(start - self.lead, stop - self.lead)
            self._present[page] = True

    def touched(self) -> Iterator[tuple[int, int]]:
        """Where, in `data`, the pages lie that were touched: start and stop of each."""
        end = self.lead + self.size
        for page in np.flatnonzero(self._present).tolist():
            yield max(page * PAGE, self.lead), min((page + 1) * PAGE, end)

    @cached_property
    def _present(self) -> npt.NDArray[np.bool_]:
        return np.zeros(self.data.size // PAGE + 1, np.bool_)

    @cached_property
    def views(self) -> dict[int, npt.NDArray[Any]]:
        """The data as words of 1, 2, 4 and 8 bytes; its length is a multiple of 16."""
        return {n: self.data.view(f"u{n}") for n in (1, 2, 4, 8)}

    @cached_property
    def written_words(self) -> dict[int, npt.NDArray[Any]] | None:
        """The flags `written`, 1, 2, 4 and 8 at a time; None where everything counts as initialised."""
        if self.written is None:
            return None
        flags = self.written.view(np.uint8)
        return {n: flags.view(f"u{n}") for n in (1, 2, 4, 8)}

    @cached_property
    def changed_words(self) -> dict[int, npt.NDArray[Any]] | None:
        """The flags `changed`, 1, 2, 4 and 8 at a time."""
        if self.changed is None:
            return None
        flags = self.changed.view(np.uint8)
        return {n: flags.view(f"u{n}") for n in (1, 2, 4, 8)}

    def address(self, offset: int) -> int:
        """The address, in the region's space, of an offset into the data."""
        return self.base + (offset % self.pitch if self.pitch else offset)


ALL_SET = {n: int.from_bytes(b"\x01" * n, "little") for n in (1, 2, 4, 8)}
"""Words of flags that are all set."""


def padded(nbytes: int) -> int:
    """The next multiple of 16: the length of a region's data."""
    return -(-nbytes // 16) * 16


def flags(nbytes: int, value: bool) -> npt.NDArray[np.bool_]:
    """A flag a byte."""
    return np.ones(padded(nbytes), np.bool_) if value else np.zeros(padded(nbytes), np.bool_)
