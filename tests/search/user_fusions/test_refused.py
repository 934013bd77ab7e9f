"""What users of the new operators post that is not taken: refused by name, with what to do instead."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.errors import Unsupported
from fusetune import FusionBuilder
from fusetune.wire import InvalidDocument, parse_fusion
from fusetune.wire.fusion import FORMAT
from tests.bound import dense

INPUTS = [
    {"name": "x", "shape": ["M", 64], "dtype": "f32"},
    {"name": "n", "shape": ["M", 64], "dtype": "i32"},
    {"name": "i", "shape": ["M"], "dtype": "i64"},
    {"name": "q", "shape": ["M", 64], "dtype": "f8e4m3"},
    {"name": "b", "shape": ["M", 64], "dtype": "bool"},
]

LEFT_OUT = "Leave it out, and pass its result as an input"


def problems(op: str, ins: tuple[Any, ...], **attributes: Any) -> str:
    ops = [{"op": op, "in": ins, "out": "y", **attributes}]
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion({"format": FORMAT, "inputs": INPUTS, "ops": ops, "outputs": [{"name": "y"}]})
    return " ".join(map(str, caught.value.problems))


@pytest.mark.parametrize(
    ("op", "ins", "attributes", "says"),
    [
        ("scatter", "xn", {}, "'scatter', expected the name of an operator. Leave it out: which element is written"),
        ("scatter_add", "xn", {}, "Write take(x, index) where the inverse of the index is at hand"),
        ("index_put_", "xn", {}, "or pass its result as an input"),
        ("sort", "x", {}, "'sort', expected the name of an operator. " + LEFT_OUT),
        ("topk", "x", {}, "of its indices make take(x, index) or gather(x, index)"),
        ("argsort", "x", {}, LEFT_OUT),
        ("nonzero", "x", {}, LEFT_OUT),
        ("conv2d", "xx", {}, "'conv2d', expected the name of an operator. " + LEFT_OUT),
        ("max_pool2d", "x", {}, LEFT_OUT),
        ("cumprod", "x", {}, "of what runs along a dimension there is cumsum"),
        ("atan2", "xx", {}, "Pass a table of its values as an input"),
        ("erfinv", "x", {}, LEFT_OUT),
        ("einsum", "xx", {}, "Write permute(x), broadcast_to(x), mul(a, b) and sum(x, dims)"),
        ("dropout", "x", {}, "where(ge(rand(shape, seed, offset), p), mul(x, 1 / (1 - p)), 0)"),
        ("bitwise_xor", "xx", {}, "expected an integer dtype for bitwise_xor. Cast it to i32 or i64 first"),
        ("bitwise_left_shift", "xx", {}, "expected an integer dtype for bitwise_left_shift. Cast it to i32 or i64"),
        ("div", "nn", {}, "expected a float dtype for div. Cast it to f32 first"),
        ("add", "qq", {}, "f8e4m3 (M, 64), expected a dtype with arithmetic for add. Cast it to f32 first"),
        ("lt", "qq", {}, "expected a dtype with arithmetic for lt. Cast it to f32 first"),
        ("sum", "q", {"dims": [1], "keepdim": False}, "expected a dtype with arithmetic for sum"),
        ("add", "bb", {}, "expected a number dtype for add. Cast it to i32 first"),
        ("where", "xxx", {}, "expected a bool tensor. Compare first: ne with 0 gives a bool"),
        ("take", "xx", {"dim": 0}, "expected an index of i32 or i64. Cast it to i64 first"),
        ("add", "xn", {}, "expected dtype f32. Cast one of the operands first"),
        ("add", "xi", {}, "Use broadcast_to first: nothing is implicit"),
        ("cast", "x", {"dtype": "uint16"}, "Cast to i32 before, which holds all of it"),
        ("cast", "x", {"dtype": "complex64"}, "Pass real and imaginary parts as two tensors"),
        ("rand", "ii", {"shape": [3]}, "expected the seed, an i64 tensor without dimensions"),
        ("pad", "x", {"low": [-1, 0], "high": [0, 0], "value": 0}, "Take elements away by slice(x)"),
    ],
)
def test_the_refusal_says_what_to_do(op: str, ins: str, attributes: dict[str, Any], says: str) -> None:
    assert says in problems(op, tuple(ins), **attributes)


def by_its_greatest(f: FusionBuilder) -> None:
    """An index that floats decide: of rounded ones nobody can tell which is right."""
    x = f.input("x", (37, 8), "f32")
    f.output(f.gather(x, 1, (x * 0.7).argmax(1, keepdim=True)))


def by_a_float(f: FusionBuilder) -> None:
    x, table = f.input("x", (37,), "f32"), f.input("table", (9, 4), "f32")
    f.output(f.take(table, x.cast("i64")))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (by_its_greatest, "floats that are rounded decide an index"),
        (by_its_greatest, "Pass the index as an input"),
        (by_a_float, "operator cast (v0): floats decide an index"),
    ],
)
def test_what_binding_refuses_has_a_name(build: Any, says: str) -> None:
    f = FusionBuilder()
    build(f)
    with pytest.raises(Unsupported) as caught:
        dense(f)
    assert says in str(caught.value)
