"""Where an order of operators may be cut: of few operators everywhere, of many where cuts are worth looking at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import POINTWISE, OpKind
from compiler.ir.touched import stored_bytes

MOST_PLACES = 40
"""Places of an order, its start and end among them, that are looked at first; no segment has more steps."""

_PLAIN = POINTWISE | {OpKind.COPY}


def every_place(ops: Sequence[Op]) -> tuple[int, ...]:
    """Before, between and behind all operators."""
    return tuple(range(len(ops) + 1))


def places_of(fusion: Fusion, ops: Sequence[Op]) -> tuple[int, ...]:
    """All places of a short order. Of a long one, at most `MOST_PLACES`, those where the fewest bytes cross.

    Pointwise operators of one shape that follow each other are not cut apart: a kernel that holds one of them nearly
    always holds them all, and what crosses between them has the size of what crosses at their end.
    """
    if len(ops) < MOST_PLACES:
        return every_place(ops)
    inner = [n for n in range(1, len(ops)) if not _go_on(fusion, ops[n - 1], ops[n])]
    crossing = _crossing_bytes(fusion, ops)
    groups = MOST_PLACES - 2
    ends = [len(inner) * g // groups for g in range(groups + 1)]
    found = {min(inner[a:b], key=lambda n: (crossing[n], n)) for a, b in pairwise(ends) if a < b}
    return (0, *sorted(found), len(ops))


def _go_on(fusion: Fusion, op: Op, following: Op) -> bool:
    same = fusion.value(op.output).shape == fusion.value(following.output).shape
    return same and op.kind in _PLAIN and following.kind in _PLAIN


def _crossing_bytes(fusion: Fusion, ops: Sequence[Op]) -> list[int]:
    """For each place, the bytes of the results made before it that operators from there on read."""
    last: dict[str, int] = {}
    for n, op in enumerate(ops):
        last.update(dict.fromkeys(op.tensor_inputs, n))
    changes = [0] * (len(ops) + 2)
    for n, op in enumerate(ops):
        nbytes = stored_bytes([fusion.value(op.output)])
        changes[n + 1] += nbytes
        changes[max(n, last.get(op.output, n)) + 1] -= nbytes
    crossing, found = 0, list[int]()
    for change in changes[:-1]:
        crossing += change
        found.append(crossing)
    return found
