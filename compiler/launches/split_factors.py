"""Which reductions are short of blocks, and into how many parts they are worth splitting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt, prod

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import REDUCTIONS, OpKind

BLOCKS_PER_SM = 2
"""Blocks of work below which a reduction is worth splitting (measured by others on an H100: 32 rows of 40960 gain half
their time, 256 rows lose)."""

LEAST_FOLDED = 4096
"""Elements that a block folds at the least, 8 KiB of 16-bit ones: with fewer, blocks are over before they overlap."""

COLUMN_ELEMS = 64
"""Kept elements that a block of a column reduction takes side by side: a row of 128 bytes of 16-bit elements."""

FOLDS = REDUCTIONS | {OpKind.MEAN}
"""Operators of a fusion that fold dimensions."""


def split_factors(fusion: Fusion, sm_count: int) -> tuple[int, ...]:
    """The factors by which folding is worth splitting, ascending, at most three; none where blocks suffice.

    They divide what the reduction with the fewest blocks folds, bring it to once, twice and four times the blocks that
    suffice, as nearly as divisors allow, and leave each block enough to do.
    """
    wanting = [(found, op) for op in fusion.ops if (found := short_of_blocks(fusion, op, sm_count)) is not None]
    if not wanting:
        return ()
    blocks, op = min(wanting, key=lambda one: one[0])
    shape = fusion.value(op.tensor_inputs[0]).shape
    most = prod(shape[d] for d in op.dims) * _columns(shape, op.dims) // LEAST_FOLDED
    usable = sorted({k for d in op.dims for k in _divisors(shape[d]) if 2 <= k <= most})
    if not usable:
        return ()
    wanted = [max(2, times * BLOCKS_PER_SM * sm_count // blocks) for times in (1, 2, 4)]
    return tuple(sorted({min(usable, key=lambda k: (_apart(k, n), k)) for n in wanted}))


def short_of_blocks(fusion: Fusion, op: Op, sm_count: int) -> int | None:
    """The blocks that one kernel has for a reduction where they are fewer than suffice; None where they are not.

    None as well for other operators, and where too little is folded to be split.
    """
    if op.kind not in FOLDS:
        return None
    shape = fusion.value(op.tensor_inputs[0]).shape
    columns = _columns(shape, op.dims)
    if prod(shape[d] for d in op.dims) * columns < 2 * LEAST_FOLDED:
        return None
    kept = prod(n for d, n in enumerate(shape) if d not in op.dims)
    blocks = -(-kept // columns)
    return blocks if blocks < BLOCKS_PER_SM * sm_count else None


def place_of_split(shape: Sequence[int], folded: Sequence[int], factor: int) -> tuple[int, int] | None:
    """The folded dimension to split and its divisor that is nearest to `factor`; of equals, the outermost dimension.

    None where there is no divisor but 1 and all that is folded.
    """
    whole = prod(shape[d] for d in folded)
    found = [(_apart(k, factor), d, k) for d in folded for k in _divisors(shape[d]) if 1 < k < whole]
    if not found:
        return None
    _, d, k = min(found)
    return d, k


def _apart(a: int, b: int) -> float:
    return abs(a - b) / max(a, b)


def _columns(shape: Sequence[int], folded: Sequence[int]) -> int:
    """Kept elements that a block takes at a time: some where the innermost dimension is kept, else one."""
    inner = 1
    for d in reversed(range(len(shape))):
        if d in folded and shape[d] > 1:
            break
        inner *= shape[d]
    return min(inner, COLUMN_ELEMS)


def _divisors(n: int) -> Iterator[int]:
    low = [k for k in range(1, isqrt(n) + 1) if n % k == 0]
    yield from sorted({*low, *(n // k for k in low)})
