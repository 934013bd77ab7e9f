"""Which reductions are short of blocks, and into how many parts they are worth splitting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isqrt, log, prod

from compiler.arch import REGISTER_BYTES, Arch, Card
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS, SUMS

BLOCKS_PER_SM = 2
"""Blocks of work below which a reduction is worth splitting (measured by others on an H100: 32 rows of 40960 gain half
their time, 256 rows lose)."""

LEAST_FOLDED = 4096
"""Elements that a block folds at the least, 8 KiB of 16-bit ones: with fewer, blocks are over before they overlap."""

COLUMN_ELEMS = 64
"""Kept elements that a block of a column reduction takes side by side: a row of 128 bytes of 16-bit elements."""

HELD_SHARE = 4
"""A block that goes through a part twice and reads it once holds it in one of so many of a multiprocessor's registers,
beside what is computed of it: in 32 of each of 512 threads on Hopper."""

NEAR = 0.5
"""How far a divisor may be from the parts wanted: half or twice as many, which still is one of once, twice and four
times what suffices."""

NEAR_HELD = 1.5
"""How many times the parts that fill the card those that blocks hold must be: with fewer, clusters of blocks hold what
one does not."""

_STEP = 1.25
"""Numbers of parts lie in steps of a quarter; where there is a rest, the smallest one stands for all of a step."""

WHOLE_ELEMS = 64
"""Parts of the innermost dimension are multiples of this, 128 bytes of 16-bit elements: where the first is aligned, all
are, and a warp's vectors divide them."""


@dataclass(frozen=True, slots=True)
class SplitPlace:
    """How a reduction is split: dimension `dim` in `count` parts of `part` elements each, and `rest` elements beside
    them, fewer than two parts."""

    dim: int
    count: int
    part: int
    rest: int = 0


def split_factors(fusion: Fusion, card: Card) -> tuple[int, ...]:
    """Into how many parts folding is worth splitting, ascending, at most four; none where blocks suffice.

    They bring the reduction with the fewest blocks to once, twice and four times the blocks that suffice, as nearly as
    its sizes allow, and leave each block enough to do. Where a part is gone through twice, as a variance is, and none
    of these is one that a block holds, there are more parts, which it does.
    """
    wanting = [(found, op) for op in fusion.ops if (found := short_of_blocks(fusion, op, card)) is not None]
    if not wanting:
        return ()
    blocks, op = min(wanting, key=lambda one: one[0])
    shape = fusion.value(op.tensor_inputs[0]).shape
    most = prod(shape[d] for d in op.dims) * _columns(shape, op.dims) // LEAST_FOLDED
    wanted = [min(most, max(2, times * BLOCKS_PER_SM * card.sm_count // blocks)) for times in (1, 2, 4)]
    if (held := min(most, _held_parts(fusion, op, card.arch))) > NEAR_HELD * wanted[-1]:
        wanted.append(held)
    places = [place_of_split(shape, op.dims, n) for n in wanted if n >= 2]
    return tuple(sorted({place.count for place in places if place is not None and place.count <= _STEP * most}))


def merging_helps(fusion: Fusion, card: Card) -> bool:
    """Whether reductions split so would gain if neighbouring dimensions were one: a part is in pieces, as a dimension
    right outside of the split one is folded too, or no one dimension has as many parts as blocks can hold."""
    factors = split_factors(fusion, card)
    for op in fusion.ops:
        if short_of_blocks(fusion, op, card) is None:
            continue
        shape = fusion.value(op.tensor_inputs[0]).shape
        real = [d for d, n in enumerate(shape) if n > 1]
        places = [place for factor in factors if (place := place_of_split(shape, op.dims, factor)) is not None]
        if any(d in op.dims for place in places for d in real[: real.index(place.dim)][-1:]):
            return True
        if _held_parts(fusion, op, card.arch) > NEAR_HELD * max((place.count for place in places), default=1):
            return True
    return False


def short_of_blocks(fusion: Fusion, op: Op, card: Card) -> int | None:
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
    return blocks if blocks < BLOCKS_PER_SM * card.sm_count else None


def place_of_split(shape: Sequence[int], folded: Sequence[int], factor: int) -> SplitPlace | None:
    """Where to split what is folded into about `factor` parts; None where it cannot be.

    By a divisor of a folded dimension if one is near, the outermost of equals; else by any number, with a rest.
    """
    whole = prod(shape[d] for d in folded)
    divisors = [(_apart(k, factor), d, k) for d in folded for k in _divisors(shape[d]) if 1 < k < whole]
    exact = [SplitPlace(d, k, shape[d] // k) for _, d, k in sorted(divisors)]
    counts = _step_of(factor)
    near = [place for place in exact if _apart(place.count, counts.start) <= NEAR]
    return next(iter([*near[:1], *_with_rest(shape, folded, counts), *exact[:1]]), None)


def _step_of(factor: int) -> range:
    """The numbers of parts that `factor` stands for. One of them, asked for, stands for the same."""
    step = floor(log(factor, _STEP) + 1e-9)
    return range(max(2, ceil(_STEP**step - 1e-9)), ceil(_STEP ** (step + 1) - 1e-9))


def _with_rest(shape: Sequence[int], folded: Sequence[int], counts: range) -> Iterator[SplitPlace]:
    """The split of the longest folded dimension into one of these numbers of parts that leaves the smallest rest."""
    d = max(folded, key=lambda d: shape[d])
    grain = WHOLE_ELEMS if d == len(shape) - 1 else 1
    found = [SplitPlace(d, k, part, shape[d] - k * part) for k in counts if (part := shape[d] // k // grain * grain)]
    yield from sorted((p for p in found if p.rest < 2 * p.part), key=lambda p: (p.rest, p.count))[:1]


def _apart(a: int, b: int) -> float:
    return abs(a - b) / max(a, b)


def _held_parts(fusion: Fusion, op: Op, arch: Arch) -> int:
    """Parts of what a reduction folds of which a block holds all that is read, inputs of as many elements; 0 where it
    goes through them once."""
    if not _is_folded_twice(fusion, op):
        return 0
    source = fusion.value(op.tensor_inputs[0])
    read = sum(v.dtype.nbytes for v in map(fusion.value, fusion.inputs) if v.elems == source.elems)
    folded = prod(source.shape[d] for d in op.dims)
    return -(-folded * _columns(source.shape, op.dims) * read // (arch.registers_per_sm * REGISTER_BYTES // HELD_SHARE))


def _is_folded_twice(fusion: Fusion, op: Op) -> bool:
    """Whether a mean, or sum, of what a reduction folds goes into what another sums along the same dimensions; sums
    that follow a maximum are folded along with it (`compiler.schedule.online`)."""
    shape = fusion.value(op.tensor_inputs[0]).shape
    alike = [o for o in fusion.ops if o.kind in SUMS and o.dims == op.dims]
    alike = [o for o in alike if fusion.value(o.tensor_inputs[0]).shape == shape]
    behind = set[str]()
    for o in fusion.ops:
        if not behind.isdisjoint(o.tensor_inputs):
            if o in alike:
                return True
            behind.add(o.output)
        elif o in alike:
            behind.add(o.output)
    return False


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
