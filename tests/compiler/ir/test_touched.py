"""What a fusion reads of its inputs: whole tensors, what slices leave, and elements that strides repeat."""

from __future__ import annotations

from math import prod

import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import OpKind
from compiler.ir.touched import read_bytes, written_bytes

F32 = DType.F32


def fusion(inputs: list[Value], ops: list[tuple[Op, tuple[int, ...]]], *outputs: str) -> Fusion:
    made = [Value(op.output, shape, F32, dense_strides(shape)) for op, shape in ops]
    names = tuple(value.name for value in inputs)
    return Fusion((*inputs, *made), names, tuple(op for op, _ in ops), outputs, "", "")


def dense(*shape: int, dtype: DType = F32) -> list[Value]:
    return [Value("i0", shape, dtype, dense_strides(shape))]


def cut(output: str, start: int, source: str = "i0", dim: int = 1) -> Op:
    return Op(OpKind.SLICE, (source,), output, (dim,), start)


SLICED = [(cut("v0", 3), (8, 5))]
HALVES = [(cut("v0", 0), (8, 50)), (cut("v1", 50), (8, 50)), (Op(OpKind.MUL, ("v0", "v1"), "v2"), (8, 50))]
OVERLAP = [(cut("v0", 0), (8, 80)), (cut("v1", 20), (8, 80)), (Op(OpKind.MUL, ("v0", "v1"), "v2"), (8, 80))]
DERIVED = [(Op(OpKind.SQUARE, ("i0",), "v0"), (8, 100)), (cut("v1", 99, "v0"), (8, 1))]
SUMS = [(Op(OpKind.SUM, ("i0",), "v0", (1,)), (8,)), (cut("v1", 0, "v0", 0), (2,))]
JOINED = [(cut("v0", 90), (8, 10)), (Op(OpKind.CAT, ("v0", "v0"), "v1", (1,)), (8, 20))]


@pytest.mark.parametrize(
    ("inputs", "ops", "output", "read"),
    [
        pytest.param(dense(8, 100), [(Op(OpKind.SQUARE, ("i0",), "v0"), (8, 100))], "v0", 800, id="whole"),
        pytest.param(dense(8, 100), SLICED, "v0", 40, id="slice"),
        pytest.param(dense(8, 100), HALVES, "v2", 800, id="two-halves"),
        pytest.param(dense(8, 100), OVERLAP, "v2", 800, id="slices-that-overlap-are-no-more-than-all"),
        pytest.param(dense(8, 100), DERIVED, "v1", 8, id="slice-of-what-is-computed"),
        pytest.param(dense(8, 100), SUMS, "v1", 200, id="two-sums-of-eight"),
        pytest.param(dense(8, 100), JOINED, "v1", 80, id="one-slice-twice"),
        pytest.param([Value("i0", (8, 100), F32, (0, 1))], SLICED, "v0", 5, id="stride-0-repeats"),
        pytest.param(dense(8, 0), [(Op(OpKind.SQUARE, ("i0",), "v0"), (8, 0))], "v0", 0, id="empty"),
    ],
)
def test_what_is_read(inputs: list[Value], ops: list[tuple[Op, tuple[int, ...]]], output: str, read: int) -> None:
    made = fusion(inputs, ops, output)
    assert read_bytes(made) == {"i0": 4 * read}
    assert written_bytes(made) == {output: 4 * prod(made.value(output).shape)}
