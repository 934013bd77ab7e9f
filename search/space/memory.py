"""Whether what a fusion reads and writes fits the memory of a card: no schedule helps where it does not."""

from __future__ import annotations

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.touched import distinct_bytes


def refuse_beyond(memory_bytes: int, fusion: Fusion) -> None:
    """Raises Unsupported where inputs and outputs are more than that; values between launches are not counted."""
    needed = sum(distinct_bytes(fusion.value(name)) for name in (*fusion.inputs, *fusion.outputs))
    if needed > memory_bytes:
        raise Unsupported(
            f"A fusion with {needed} bytes of inputs and outputs, on a card with {memory_bytes} bytes of memory,",
            "Split its tensors, or name a card with more memory.",
        )
