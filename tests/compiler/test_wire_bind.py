"""From the wire into the compiler: what is bound, what is refused, and the way back into a trace."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from compiler.dtypes import DType
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion, Literal, Op, Value
from compiler.ir.ops import OpKind
from compiler.wire import bind, fusion_from_json, fusion_to_json, to_wire
from fusetune.wire import binding_hash, fingerprint, parse_binding, parse_fusion
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for

BIAS: Document = {
    "format": "fusetune.fusion/1",
    "inputs": [
        {"name": "x", "shape": ["M", 8], "dtype": "bf16", "strides": ["P", 1]},
        {"name": "b", "shape": [8], "dtype": "bf16"},
    ],
    "ops": [
        {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
        {"op": "exp", "in": ["bf"], "out": "dead"},
        {"op": "broadcast_to", "in": ["bf"], "out": "bb", "shape": ["M", 8], "dims": [-1]},
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        {"op": "maximum", "in": ["xf", "nan"], "out": "m"},
        {"op": "add", "in": ["m", "bb"], "out": "s"},
        {"op": "permute", "in": ["s"], "out": "t", "dims": [1, 0]},
    ],
    "outputs": [{"name": "t"}],
}
BINDING: Document = {"sizes": {"M": 4, "P": 16}, "inputs": [{"align": 128}, {}]}


def bound(fusion: Document = BIAS, binding: Document = BINDING) -> Fusion:
    return bind(parse_fusion(fusion), parse_binding(binding))


def test_bind_gives_canonical_names_sizes_and_strides() -> None:
    fusion = bound()
    assert fusion.inputs == ("i0", "i1")
    assert fusion.value("i0") == Value("i0", (4, 8), DType.BF16, (16, 1), 128)
    assert fusion.value("i1") == Value("i1", (8,), DType.BF16, (1,), 16)
    assert fusion.ops == (
        Op(OpKind.CAST, ("i0",), "v0"),
        Op(OpKind.MAXIMUM, ("v0", Literal(math.nan)), "v1"),
        Op(OpKind.CAST, ("i1",), "v2"),
        Op(OpKind.BROADCAST_TO, ("v2",), "v3", (1,)),
        Op(OpKind.ADD, ("v1", "v3"), "v4"),
        Op(OpKind.PERMUTE, ("v4",), "v5", (1, 0)),
    )
    assert fusion.outputs == ("v5",)
    assert fusion.value("v5") == Value("v5", (8, 4), DType.F32, (4, 1))
    assert fusion.fingerprint == fingerprint(parse_fusion(BIAS))
    assert fusion.binding_hash == binding_hash(parse_fusion(BIAS), parse_binding(BINDING))


def test_the_stride_of_a_size_of_one_is_set_as_if_contiguous() -> None:
    binding = {"sizes": {"M": 1, "P": 999}}
    assert bound(BIAS, binding).value("i0").strides == (8, 1)


def test_a_broadcast_input_keeps_its_stride_of_zero() -> None:
    document = copy.deepcopy(BIAS)
    del document["inputs"][0]["strides"]
    binding = {"sizes": {"M": 4}, "inputs": [{"strides": [0, 1]}, {}]}
    assert bound(document, binding).value("i0").strides == (0, 1)


def free_layout(document: Document) -> None:
    del document["inputs"][0]["strides"]


def layouts(*inputs: Document, **sizes: int) -> Document:
    return {"sizes": {"M": 4, **sizes}, "inputs": list(inputs)}


REFUSED: list[tuple[str, Document, str, str, str]] = [
    ("missing symbol", {"sizes": {"M": 4}}, "binding.sizes.P", "nothing", "Give it a size"),
    ("unknown symbol", {"sizes": {"M": 4, "P": 16, "MM": 4}}, "binding.sizes.MM", "an unknown", "Did you mean M?"),
    ("strides inside the rows", layouts(P=7), "binding.inputs[0].strides", "share an address", "Copy"),
    ("strides against the fusion", layouts({"strides": [17, 1]}, {}, P=16), "binding.inputs[0].strides", "[17, 1]", ""),
    ("one layout of two", layouts({}, P=16), "binding.inputs", "1 entries", "leave it out"),
    ("stride rank", layouts({}, {"strides": [1, 1]}, P=16), "binding.inputs[1].strides", "2 strides", "Correct"),
    ("negative stride", layouts({}, {"strides": [-1]}, P=16), "binding.inputs[1].strides[0]", "-1", "Copy"),
    ("2^40 bytes", layouts(P=2**39), "binding.inputs[0].strides[0]", str(2**40), "Copy"),
    ("align below an element", layouts({}, {"align": 1}, P=16), "binding.inputs[1].align", "1", "aligned address"),
    ("size over 2^32", layouts(M=2**32 + 1, P=8), "inputs[0].shape", "4294967297", "Split"),
    ("no elements", layouts(M=0, P=8), "inputs[0].shape", "bf16 (0, 8)", "empty tensors"),
]


@pytest.mark.parametrize(("binding", "where", "found", "fix"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_binding_that_does_not_fit_is_refused(binding: Document, where: str, found: str, fix: str) -> None:
    with pytest.raises(InvalidFusion) as caught:
        bound(BIAS, binding)
    problem = caught.value.problems[0]
    assert problem.where == where
    assert found in problem.found
    assert fix in problem.fix


def test_nearest_layouts_that_fit() -> None:
    bound(BIAS, layouts(P=8))
    bound(BIAS, layouts({}, {"align": 2}, P=16))
    bound(BIAS, layouts(P=2**39 - 1))


def appended(**op: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["ops"].append({"out": "z", **op})
        document["outputs"].append({"name": "z"})

    return change


UNSUPPORTED: list[tuple[str, Callable[[Document], Any], str]] = [
    ("product", appended(op="matmul", dtype="f64", **{"in": ["s", "t"]}), "matmul of f32 into f64 (ops[7], 'z')"),
    ("memory of copy", appended(op="copy", **{"in": ["s"]}, memory="tmem"), "copy to memory tmem (ops[7], 'z')"),
    ("literal over f32", appended(op="add", **{"in": ["s", 3.5e38]}), "literal 3.5e+38 (ops[7], 'z')"),
    ("literal under f32", appended(op="mul", **{"in": ["s", 1e-46]}), "literal 1e-46 (ops[7], 'z')"),
]


@pytest.mark.parametrize(("change", "what"), [c[1:] for c in UNSUPPORTED], ids=[c[0] for c in UNSUPPORTED])
def test_what_is_valid_but_not_compiled_is_named(change: Any, what: str) -> None:
    document = copy.deepcopy(BIAS)
    change(document)
    with pytest.raises(Unsupported) as caught:
        bound(document)
    assert caught.value.what == what
    assert caught.value.fix


@pytest.mark.parametrize("number", [3.4028235e38, -3.4028235e38, 1e-45, 0, -0.0, "inf", "-inf", "nan"])
def test_literals_that_f32_holds_are_taken(number: float | str) -> None:
    document = copy.deepcopy(BIAS)
    appended(op="add", **{"in": ["s", number]})(document)
    bound(document)


def test_an_operator_that_no_output_needs_may_be_unsupported() -> None:
    document = copy.deepcopy(BIAS)
    document["ops"].append({"op": "matmul", "in": ["s", "t"], "out": "z", "dtype": "f64"})
    assert bound(document) == bound()


def one_op(dtype: str, extents: list[int], /, **op: Any) -> Fusion:
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": extents, "dtype": dtype}],
        "ops": [{"out": "y", **op}],
        "outputs": [{"name": "y"}],
    }
    return bound(document, {"sizes": {}})


ATTRIBUTES: list[tuple[str, Document, Op]] = [
    ("reshape", {"op": "reshape", "in": ["x"], "shape": [-1, 6]}, Op(OpKind.RESHAPE, ("i0",), "v0")),
    ("slice", {"op": "slice", "in": ["x"], "dim": -1, "start": 1, "stop": 3}, Op(OpKind.SLICE, ("i0",), "v0", (2,), 1)),
    ("cat", {"op": "cat", "in": ["x", "x"], "dim": -2}, Op(OpKind.CAT, ("i0", "i0"), "v0", (1,))),
    (
        "iota",
        {"op": "iota", "in": [], "shape": [2, 7], "dim": -1, "dtype": "i64"},
        Op(OpKind.IOTA, (), "v0", (1,)),
    ),
    ("sum", {"op": "sum", "in": ["x"], "dims": [-1, 0]}, Op(OpKind.SUM, ("i0",), "v0", (0, 2))),
    ("amax", {"op": "amax", "in": ["x"], "dims": [1], "keepdim": True}, Op(OpKind.AMAX, ("i0",), "v0", (1,))),
    ("compare", {"op": "ge", "in": ["x", 3]}, Op(OpKind.GE, ("i0", Literal(3)), "v0")),
]


@pytest.mark.parametrize(("document", "op"), [c[1:] for c in ATTRIBUTES], ids=[c[0] for c in ATTRIBUTES])
def test_attributes_are_counted_from_zero(document: Document, op: Op) -> None:
    fusion = one_op("f32", [2, 3, 4], **document)
    assert fusion.ops == (op,)
    assert fusion_from_json(json.loads(json.dumps(fusion_to_json(fusion)))) == fusion


def test_literals_of_integers_stay_exact() -> None:
    number = 2**63 - 1  # no float is equal to it
    fusion = one_op("i64", [4], op="add", **{"in": ["x", number]})
    assert fusion_from_json(json.loads(json.dumps(fusion_to_json(fusion)))).ops == fusion.ops
    (literal,) = (x for x in fusion.ops[0].inputs if isinstance(x, Literal))
    assert (literal.value, type(literal.value)) == (number, int)


@pytest.mark.parametrize("number", [3.5e38, 1e-46])
def test_literals_of_f64_may_leave_the_range_of_f32(number: float) -> None:
    assert one_op("f64", [4], op="mul", **{"in": ["x", number]}).ops[0].inputs[1] == Literal(number)


bindable = documents(BINDABLE)
laws = settings(derandomize=True, max_examples=100, deadline=None)


@laws
@given(bindable)
def test_a_bound_fusion_survives_the_way_through_json(document: Document) -> None:
    fusion = bound(document, {"sizes": sizes_for(document)})
    text = json.dumps(fusion_to_json(fusion))
    assert fusion_from_json(json.loads(text)) == fusion
    assert json.dumps(fusion_to_json(fusion_from_json(json.loads(text)))) == text


@laws
@given(bindable)
def test_binding_what_was_bound_changes_only_the_hashes(document: Document) -> None:
    fusion = bound(document, {"sizes": sizes_for(document)})
    again = bind(*to_wire(fusion))
    assert (again.values, again.inputs, again.ops, again.outputs) == (
        fusion.values,
        fusion.inputs,
        fusion.ops,
        fusion.outputs,
    )


@pytest.mark.parametrize(
    ("change", "where"),
    [
        pytest.param(lambda d: d.pop("fingerprint"), "fingerprint", id="field-missing"),
        pytest.param(lambda d: d.update(more=1), "more", id="field-unknown"),
        pytest.param(lambda d: d.update(format="fusetune.bound/2"), "format", id="other-format"),
        pytest.param(lambda d: d["fusion"]["ops"][3].update(shape=[5, 8]), "ops[4].in[1]", id="shapes-are-inferred"),
        pytest.param(lambda d: d["binding"]["inputs"].pop(), "binding.inputs", id="layout-missing"),
        pytest.param(
            lambda d: d.update(fusion=json.loads(json.dumps(d["fusion"]).replace('"i0"', '"tx"'))),
            "fusion.inputs[0].name",
            id="name-of-a-thread-index",
        ),
    ],
)
def test_a_stored_fusion_is_checked_when_read(change: Callable[[Document], Any], where: str) -> None:
    document = json.loads(json.dumps(fusion_to_json(bound())))
    change(document)
    with pytest.raises(InvalidFusion) as caught:
        fusion_from_json(document)
    assert caught.value.problems[0].where == where
