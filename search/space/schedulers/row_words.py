"""Rows of which some begin at other phases than what vectors are aligned to: words that straddle two aligned ones.

Vectors are aligned to one stream, an output where there is one: parts of its sectors would cost most (`RowShape.
reference`). What has another pitch, or the same place in every row, a weight, begins at any element of a vector: a
thread loads the two aligned words that hold its own and shifts them (CUB, batched memory copies).
"""

from __future__ import annotations

from compiler.arch import MAX_WORD_BYTES
from search.space.groups import LEAST_WORD_ELEMS, widest_word
from search.space.schedulers.row_shape import RowOperand, RowShape


def in_words(rows: RowShape, elems: int) -> RowShape | None:
    """The rows where vectors of `elems` begin at multiples of a vector in memory, shifted if need be; None where no
    operand comes in words of so many elements, or vectors cannot be aligned."""
    operand = rows.reference
    found = rows.aligned(elems) or rows
    if operand is None or found.width(operand, elems) < widest_word(operand.nbytes, elems):
        return None
    return found if any(straddles(found, o, elems) for o in rows.operands) else None


def straddles(rows: RowShape, operand: RowOperand, elems: int) -> bool:
    """True for an input whose vectors of `elems` are neighbours in memory and not aligned: of fewer elements than
    `LEAST_WORD_ELEMS` two words are as many loads as those are, and a bound of a view would cut words."""
    is_read = operand.in_rows and not operand.is_output and not operand.within and operand.chosen is None
    able = is_read and LEAST_WORD_ELEMS <= elems <= MAX_WORD_BYTES // operand.nbytes and rows.is_run(operand)
    return able and rows.width(operand, elems) < elems
