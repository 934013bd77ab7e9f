"""What every scheduler of pointwise fusions does with the tensors between the loads and the stores."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.dtypes import FP8, DType
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import POINTWISE, RANDOM, REDUCTIONS, OpKind
from compiler.ir.tensor import TensorOp
from compiler.schedule import steps
from search.space.builder import TraceBuilder

_HALVES = frozenset({DType.BF16, DType.F16})


def cache_registers(b: TraceBuilder) -> tuple[list[str], list[str]]:
    """Gives every input its register copy and every output a register tensor before it.

    Returns (register tensors loaded from memory, outputs' register tensors), in order.
    """
    loaded: list[str] = []
    for name in b.sf.inputs:
        readers = b.sf.consumers(name)
        if any(op.kind in POINTWISE | RANDOM or b.tensor(op.output).memory is MemoryType.GLOBAL for op in readers):
            b.do(steps.CacheInput(name, f"{name}_r", MemoryType.LOCAL))
        loaded += [op.output for op in b.sf.consumers(name)]
    stored: list[str] = []
    for name in b.sf.outputs:
        b.do(steps.CacheOutput(name, f"{name}_r", MemoryType.LOCAL))
        stored.append(f"{name}_r")
    return loaded, stored


def choosing(b: TraceBuilder) -> frozenset[str]:
    """The register tensors that say where others are read: indices that are data, and what these are made of, but for
    what is behind a reduction."""
    found = {name for op in b.sf.ops for name in op.choosing}
    for op in reversed(b.sf.ops):
        if op.output in found and op.kind not in REDUCTIONS:
            found.update(n for n in op.tensor_inputs if b.tensor(n).memory is MemoryType.LOCAL)
    return frozenset(found)


def is_packed_cast(b: TraceBuilder, name: str) -> bool:
    """True for a cast from f32 to a shorter float, or between floats of up to 32 bits one of which has 8: that has
    instructions for two values at once."""
    op = b.sf.producer(name)
    if op is None or op.kind is not OpKind.CAST:
        return False
    made, read = b.tensor(name).dtype, b.tensor(op.tensor_inputs[0]).dtype
    return narrows_in_pairs(read, made) or (read in FP8 and widens_in_pairs(read, made))


def narrows_in_pairs(read: DType, made: DType) -> bool:
    """Whether there are instructions that cast two values at once to a shorter float."""
    return (read is DType.F32 and made in _HALVES | FP8) or (read in _HALVES | FP8 and made in FP8 and read is not made)


def widens_in_pairs(read: DType, made: DType) -> bool:
    """Whether there are instructions that cast two values at once to a longer float."""
    return (read in _HALVES | FP8 and made is DType.F32) or (read in FP8 and made in _HALVES)


def inline_body(b: TraceBuilder, between: list[str], stored: list[str], position: int) -> None:
    """Puts the tensors between loads and stores into the loops of the stores.

    `position`: where the vector axis stands. A tensor that a vectorized op reads is computed for all lanes first;
    any other goes inside the lane loop, where it is one register.
    """
    inside, kept = set(between), set(stored)
    whole = {
        name
        for name in between
        if is_packed_cast(b, name)
        or any(op.output not in inside or is_packed_cast(b, op.output) for op in b.sf.consumers(name))
    }
    whole = complete_vectors([op for op in b.sf.ops if op.output in inside | kept], whole | kept)
    b.inline((name for name in between if name not in whole), position + 1)
    b.inline((name for name in (*between, *stored) if name in whole), position)


def complete_vectors(ops: Sequence[TensorOp], whole: set[str]) -> set[str]:
    """The tensors, of those that `ops` compute in lane loops, of which all lanes are computed before any reader begins:
    `whole`, and those whose readers stand in different lane loops, one after the other.

    A lane loop ends where a whole vector is complete.
    """
    while True:
        loop: dict[str, int] = {}
        for op in ops:
            loop[op.output] = max((loop[n] + (n in whole) for n in op.tensor_inputs if n in loop), default=0)
        apart = {
            n for op in ops for n in op.tensor_inputs if n in loop and n not in whole and loop[n] != loop[op.output]
        }
        if not apart:
            return whole
        whole = whole | apart
