"""Moving words and bytes between arrays of lanes and the data of a region."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import Offsets


def indices(offsets: Offsets, unit: int, count: int) -> npt.NDArray[np.int64]:
    """Word indices, (lanes, count)."""
    first: npt.NDArray[np.int64] = (offsets >> (unit.bit_length() - 1))[:, None]
    return first if count == 1 else first + np.arange(count)


def turns(at: npt.NDArray[np.int64]) -> list[npt.NDArray[np.intp]]:
    """Positions in rounds without two at one word; at one word, in order of lanes."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(at) else np.zeros(0, np.intp)
    if len(starts) == len(at):
        return [np.arange(len(at))]
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.r_[starts, len(at)]))
    by_rank = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[by_rank])) + 1
    return [order[part] for part in np.split(by_rank, cuts)]


def rows(found: Any) -> npt.NDArray[np.bool_]:
    """A flag a lane, which NumPy's reductions do not say of themselves."""
    return np.asarray(found, np.bool_)


_FEW = 4
"""Up to so many long runs of bytes are sliced one by one."""


def gathered(data: npt.NDArray[Any], offsets: Offsets, nbytes: int) -> npt.NDArray[Any]:
    """(len(offsets), nbytes) bytes of `data`."""
    if len(offsets) <= _FEW:
        return np.stack([data[o : o + nbytes] for o in offsets.tolist()]) if len(offsets) else data[:0].reshape(0, 1)
    word = _word(offsets, nbytes)
    words = data.view(f"u{word}")
    at = (offsets // word)[:, None]
    found = words[at] if word == nbytes else words[at + np.arange(nbytes // word)]
    gathered_bytes: npt.NDArray[Any] = found.view(data.dtype).reshape(len(offsets), nbytes)
    return gathered_bytes


def scatter(data: npt.NDArray[Any], offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """Stores (len(offsets), nbytes) bytes into `data`."""
    nbytes = values.shape[1]
    if len(offsets) <= _FEW:
        for offset, row in zip(offsets.tolist(), values, strict=True):
            data[offset : offset + nbytes] = row
        return
    word = _word(offsets, nbytes)
    at = (offsets // word)[:, None] + np.arange(nbytes // word)
    data.view(f"u{word}")[at] = np.ascontiguousarray(values).view(f"u{word}")


def _word(offsets: Offsets, nbytes: int) -> int:
    """The widest word that offsets and length are multiples of."""
    common = int(np.bitwise_or.reduce(offsets)) | nbytes | 8
    return common & -common
