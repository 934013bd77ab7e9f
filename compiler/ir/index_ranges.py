"""Which numbers the inputs of a fusion may hold so that no index that is data is out of range.

Worked out backward from every take and gather, through integers that others make of them: moves, casts, sums and
products with numbers, bounds. What is wanted of a value is one range, so that a sum of two halves it; what follows from
no range is refused. Nothing that a kernel does depends on it: who makes inputs asks, a verifier first of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import CARRIES, CHOICES, EXTREMES, OpKind
from compiler.ir.scalars import read_by

Range = tuple[int, int]
"""The least and the greatest."""


@lru_cache(maxsize=64)
def index_ranges(fusion: Fusion) -> Mapping[str, Range]:
    """The inputs that decide where something is read, and the range of each.

    Raises Unsupported, by the operator, for an index that is computed from floats, or by what no range of its operands
    follows from.
    """
    wanted: dict[str, Range] = {}
    for op in reversed(fusion.ops):
        found = list(_asked(fusion, op, wanted))
        if op.kind in CHOICES:
            found.append((op.tensor_inputs[1], (0, fusion.value(op.tensor_inputs[0]).shape[op.dims[0]] - 1)))
        for name, (low, high) in found:
            least, greatest = wanted.get(name, _held(fusion.value(name).dtype))
            wanted[name] = max(least, low), min(greatest, high)
            if wanted[name][0] > wanted[name][1]:
                raise _refused(op, "no number of its index is in range for all that it chooses from")
    return {name: wanted[name] for name in fusion.inputs if name in wanted}


def _asked(fusion: Fusion, op: Op, wanted: Mapping[str, Range]) -> Iterator[tuple[str, Range]]:
    """What an operator's operands must hold so that its result is what is wanted of it."""
    if op.output not in wanted:
        return
    low, high = wanted[op.output]
    operands = op.tensor_inputs[:1] if op.kind in CHOICES else op.tensor_inputs
    if any(fusion.value(name).dtype.is_float for name in operands):
        raise _refused(op, "floats decide an index")
    numbers = [x.value for x in op.inputs if isinstance(x, Literal)]
    if (low, high) == _held(fusion.value(op.output).dtype):  # whatever it is, what reads it keeps it in range
        yield from ((name, _held(fusion.value(name).dtype)) for name in operands)
        return
    if read_by(op):
        raise _refused(op, "a scalar, which only a call tells, decides an index")
    match op.kind:
        case OpKind.FULL | OpKind.PAD:
            _refuse_beyond(op, [op.fills_with], low, high)
            yield from ((name, (low, high)) for name in operands)
        case kind if kind in CARRIES or kind in EXTREMES or kind is OpKind.CAST:
            yield from ((name, (low, high)) for name in operands)
        case OpKind.IOTA:
            if low > 0 or high < fusion.value(op.output).shape[op.dims[0]] - 1:
                raise _refused(op, "positions that are out of range decide an index")
        case OpKind.WHERE:
            _refuse_beyond(op, numbers, low, high)
            mask, *chosen = operands
            yield mask, (0, 1)
            yield from ((name, (low, high)) for name in chosen)
        case OpKind.NEG:
            yield operands[0], (-high, -low)
        case OpKind.ABS if low <= 0:
            yield operands[0], (-high, high)
        case OpKind.MAXIMUM | OpKind.MINIMUM | OpKind.RELU:
            bounds = numbers or ([0] if op.kind is OpKind.RELU else [])
            yield from ((name, _bounded(op, bounds, low, high)) for name in operands)
        case OpKind.ADD | OpKind.SUB if numbers:
            yield operands[0], _moved(op, int(numbers[0]), low, high)
        case OpKind.ADD:
            yield from zip(operands, _halves(fusion, operands, low, high), strict=True)
        case OpKind.MUL if numbers and numbers[0] > 0:
            yield operands[0], (-(-low // int(numbers[0])), high // int(numbers[0]))
        case OpKind.FLOOR_DIVIDE if numbers and op.inputs[0] == operands[0] and numbers[0] > 0:
            step = int(numbers[0])
            yield operands[0], (low * step, high * step + step - 1)
        case OpKind.REMAINDER if numbers and op.inputs[0] == operands[0] and numbers[0] > 0:
            _refuse_beyond(op, [0, numbers[0] - 1], low, high)
            yield operands[0], _held(fusion.value(operands[0]).dtype)
        case _:
            raise _refused(op, "no range of what it is made of is known to keep an index in range")


def _refused(op: Op, why: str) -> Unsupported:
    fix = (
        "Pass the index as an input, or make it of one by abs, or by add, sub, mul, remainder, maximum and minimum "
        "with numbers."
    )
    return Unsupported(f"operator {op.kind} ({op.output}): {why}", fix)


def _held(dtype: DType) -> Range:
    return (0, 1) if dtype is DType.BOOL else dtype.integer_range


def _refuse_beyond(op: Op, numbers: list[int | float], low: int, high: int) -> None:
    if any(not low <= number <= high for number in numbers):
        raise _refused(op, "a number that is out of range decides an index")


def _bounded(op: Op, numbers: list[int | float], low: int, high: int) -> Range:
    """Of what is kept above, or below, a number: anything on its far side, where that is in range itself."""
    if not numbers:
        return low, high
    number, (least, greatest) = int(numbers[0]), _held(DType.I64)
    is_least = op.kind is not OpKind.MINIMUM
    if number > high if is_least else number < low:
        raise _refused(op, "a number that is out of range decides an index")
    if is_least:
        return least if number >= low else low, high
    return low, greatest if number <= high else high


def _moved(op: Op, number: int, low: int, high: int) -> Range:
    """Of a sum or difference with a number."""
    if op.kind is OpKind.ADD:
        return low - number, high - number
    return (number - high, number - low) if isinstance(op.inputs[0], Literal) else (low + number, high + number)


def _halves(fusion: Fusion, operands: tuple[str, ...], low: int, high: int) -> tuple[Range, Range]:
    """Of the two sides of a sum: positions have their own range, what is left is for the other side."""
    for place, name in enumerate(operands):
        made = fusion.producer(name)
        while made is not None and made.kind in CARRIES and made.kind not in CHOICES and len(made.inputs) == 1:
            made = fusion.producer(made.tensor_inputs[0])
        if made is not None and made.kind is OpKind.IOTA:
            top = fusion.value(made.output).shape[made.dims[0]] - 1
            own, other = (0, top), (low, high - top)
            return (other, own) if place else (own, other)
    half = (high - low) // 2
    return (low, low + half), (0, high - low - half)
