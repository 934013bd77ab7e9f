"""What share of each output the input sets decide: of the other elements nothing tells a right value from a wrong one.

It is a property of the fusion and of the inputs, known before any kernel is: a comparison that a sum's last bits turn
over, an integer made of an exponential. An output is judged at all only if one input set decides nearly all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.ir.fusion import Fusion
from search.proof.verify.arrays import Arrays, elems_of
from search.proof.verify.expected import Expected, undecided
from search.proof.verify.inputs import input_sets

LEAST_DECIDED = 0.99
"""The least share of an output that one input set has to decide (docs/verification.md)."""


def shares(expected: Sequence[Expected], arrays: Arrays) -> tuple[float, ...]:
    """The decided share of each output of one input set, 0 to 1. Reads the GPU once."""
    counts = arrays.to_host([undecided(one, arrays) for one in expected])
    return tuple(1.0 - count / elems_of(one.shape) for count, one in zip(counts, expected, strict=True))


def best_shares(fusion: Fusion, arrays: Arrays, expected: Callable[[str], Sequence[Expected]]) -> tuple[float, ...]:
    """The largest share of each output that one of the input sets decides; no more sets are asked for than it takes for
    every output to have `LEAST_DECIDED`. `expected`: what the outputs must be, by the name of a set."""
    best = (0.0,) * len(fusion.outputs)
    for name in input_sets(fusion):
        best = tuple(map(max, best, shares(expected(name), arrays)))
        if min(best) >= LEAST_DECIDED:
            break
    return best


def why_undecided(best: Sequence[float]) -> str:
    """What stands in the way of proving any kernel, in words; empty where every output is decided."""
    low = [f"output {number} {share:.1%}" for number, share in enumerate(best) if share < LEAST_DECIDED]
    if not low:
        return ""
    return (
        f"telling right kernels of this fusion from wrong ones (decided in the best input set: {', '.join(low)};"
        f" needed: at least {LEAST_DECIDED:.0%}; the rest hangs on the order of a sum or the last bits of a function)"
    )


UNDECIDED_FIX = (
    "Return the floats that decide, compare with a margin that is more than their rounding,"
    " or round to the nearest before a cast to integers."
)
