"""How many tensors one kernel may be made of.

A fusion has at most 256 operators, but what lies before a concatenation is computed once for each of its pieces, so
that nested ones multiply it each time: 20 doublings in a row are a million pieces.
"""

from __future__ import annotations

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind

MOST_TENSORS = 512
"""Tensors of one kernel, its inputs aside. 128 pieces of one row are 447, and few points of theirs are legal; twice as
many pieces fit no registers."""

MOST_REQUESTS = 4 * MOST_TENSORS
"""Tensors asked for, those among them that are another one seen through a view."""

_FIX = "Leave some of its operators to other launches, or join fewer pieces."


def refuse_many_pieces(fusion: Fusion) -> None:
    """Raises Unsupported before any is made where concatenations alone give an output more pieces than tensors.

    The count is a least one: what is sliced counts as one piece, and two operands as the one with more.
    """
    pieces = dict.fromkeys(fusion.inputs, 1)
    for op in fusion.ops:
        counts = [pieces[name] for name in op.tensor_inputs]
        if op.kind is OpKind.CAT:
            pieces[op.output] = sum(counts)
        else:
            pieces[op.output] = 1 if op.kind is OpKind.SLICE else max(counts, default=1)
    for name in fusion.outputs:
        if pieces[name] > MOST_TENSORS:
            raise Unsupported(
                f"output {name} of {pieces[name]} pieces, which nested concatenations join, in a kernel of at most "
                f"{MOST_TENSORS} tensors",
                _FIX,
            )


def refuse_many_tensors(output: str, tensors: int, requests: int) -> None:
    """Raises Unsupported once as many were made, or asked for, on the way to an output."""
    if tensors > MOST_TENSORS or requests > MOST_REQUESTS:
        raise Unsupported(
            f"output {output} in a kernel of at most {MOST_TENSORS} tensors, of which it needs more (what nested "
            "concatenations and slices read is computed for each piece)",
            _FIX,
        )
