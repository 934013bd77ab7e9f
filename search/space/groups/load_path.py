"""The load path: how elements come from memory to the registers of threads, through a shared tile or past it.

vector      threads load words into registers; where elements go through a shared tile, they store them there
words       the same, each word put together of two aligned ones that it straddles
direct      the same, past the shared tile that others go through
cp_async    threads copy to shared memory past their registers: a thread asks for all of its part of a tile before
            it waits, and holds none of it (PTX ISA, cp.async; CUDA guide, asynchronous copies)
tma         the copy engine brings boxes of a tensor map
bulk        the copy engine brings runs

rows_begin  where vectors lie in rows that begin at any element. "as_they_are": counted from the row's first element.
            "aligned": rows are shifted so that vectors lie at multiples of a vector in memory. "in_words": shifted as
            well, and what begins at other phases comes in words that straddle two aligned ones
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, CP_ASYNC_BYTES, MAX_WORD_BYTES, TENSOR_MAP_BOX
from compiler.ir.tensor import CopyVia
from search.space.constraints import Constraint
from search.space.knobs import Knob

VECTOR, WORDS, DIRECT, CP_ASYNC, TMA, BULK = "vector", "words", "direct", "cp_async", "tma", "bulk"

LOAD_PATHS: Mapping[str, CopyVia] = {
    VECTOR: CopyVia.PLAIN,
    WORDS: CopyVia.PLAIN,
    DIRECT: CopyVia.PLAIN,
    CP_ASYNC: CopyVia.CP_ASYNC,
    TMA: CopyVia.TMA,
    BULK: CopyVia.BULK1D,
}
"""By word, the means. Schedulers ask for the means, and offer all words of one that a fusion's tiles can have."""

AS_THEY_ARE, ALIGNED, IN_WORDS = BEGINS = ("as_they_are", "aligned", "in_words")

KNOBS = {"load": tuple(LOAD_PATHS), "rows_begin": BEGINS}

LEAST_WORD_ELEMS = 4
"""Elements of a word that straddles two: two loads bring it, of fewer as many as element by element."""


def _is_by(path: Any, *means: CopyVia) -> Any:
    return reduce(operator.or_, [path == word for word, via in LOAD_PATHS.items() if via in means])


def is_copied(path: Any) -> Any:
    """Where threads copy past their registers. `path`: a word, an array of them, or a knob in an expression; of a load,
    or of a store, whose words mean the same."""
    return _is_by(path, CopyVia.CP_ASYNC)


def is_mapped(path: Any) -> Any:
    """Where the copy engine goes by a tensor map."""
    return _is_by(path, CopyVia.TMA)


def is_run(path: Any) -> Any:
    """Where the copy engine moves runs."""
    return _is_by(path, CopyVia.BULK1D)


def is_staged(path: Any) -> Any:
    """Where a shared tile is filled past the registers: by threads, or by the copy engine."""
    return _is_by(path, CopyVia.CP_ASYNC, CopyVia.TMA, CopyVia.BULK1D)


def fills_by_threads(path: Any) -> Any:
    """Where threads fill a shared tile, if there is one: through their registers, or past them."""
    return (path == VECTOR) | is_copied(path)


def boxes_fit(axes: tuple[str, ...], holds: Callable[..., Any]) -> Constraint:
    """Where no box of a tensor map has more than `TENSOR_MAP_BOX` elements in a dimension."""
    reason = f"A box has at most {TENSOR_MAP_BOX} elements in a dimension."
    return Constraint("tensor_map_boxes_are_1_to_256", axes, holds, reason)


def inner_boxes_are_whole(axes: tuple[str, ...], holds: Callable[..., Any]) -> Constraint:
    """Where the rows of a box are as long as the copy engine asks."""
    reason = f"The inner box is a multiple of {BULK_BYTES} bytes."
    return Constraint("tensor_map_inner_box_is_a_multiple_of_16_bytes", axes, holds, reason)


def copies_have_a_width(axes: tuple[str, ...], holds: Callable[..., Any]) -> Constraint:
    """Where threads that copy past their registers move as many bytes at a time as cp.async can."""
    reason = "A thread copies 4, 8 or 16 bytes at a time past its registers."
    return Constraint("cp_async_moves_4_8_or_16_bytes", axes, holds, reason)


def load_knob(able: Mapping[str, bool]) -> Knob:
    """The knob of a scheduler whose tiles can be loaded so, in its order: with a word by which copies are made, it
    offers all others by the same means."""
    found = (w for word, is_able in able.items() if is_able for w, via in LOAD_PATHS.items() if _is_alike(w, via, word))
    return Knob("load", tuple(found))


def _is_alike(word: str, via: CopyVia, other: str) -> bool:
    return word == other or via is LOAD_PATHS[other] is not CopyVia.PLAIN


def rows_begin_knob(shifted: Iterable[int], in_words: Iterable[int]) -> Knob:
    """The knob, where vectors of so many elements lie along shifted rows, and come in words that straddle two."""
    able = {AS_THEY_ARE: True, ALIGNED: bool(shifted), IN_WORDS: bool(in_words)}
    return Knob("rows_begin", tuple(word for word in BEGINS if able[word]))


def widest_word(nbytes: int, elems: int) -> int:
    """Elements of a word of `elems` elements of so many bytes, or of the widest word there is."""
    return min(elems, MAX_WORD_BYTES // nbytes)


def copies_by(elems: Any, sizes: Iterable[int]) -> Any:
    """Where words of `elems` elements are of a width that cp.async has, for elements of each of `sizes` bytes."""
    return reduce(operator.and_, [np.isin(elems * n, CP_ASYNC_BYTES) for n in dict.fromkeys(sizes)], np.bool_(True))
