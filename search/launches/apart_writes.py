"""Results that are written into an input, worked out apart and copied there last.

y -> memory of x, z of y and x   ->   t, z of t and x, then t copied into the memory of x

What else reads the input and the new value reads the input as it was, and the value where it was stored before.
"""

from __future__ import annotations

from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from search.launches.writer import Writer


def apart_writes(fusion: Fusion) -> Fusion | None:
    """The fusion in which all that is written into an input is a copy of a result; None where nothing is."""
    if not fusion.aliases:
        return None
    writer = Writer(fusion)
    for op in fusion.ops:
        writer.copy(op)
    for output, _ in fusion.aliases:
        value = fusion.value(output)
        writer.names[output] = writer.put(OpKind.COPY, [writer.names[output]], value.shape, value.dtype)
    return writer.fusion()
