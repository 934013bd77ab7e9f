"""Every way a fusion can be malformed: the place that is named, what was found and the fix."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusetune.wire import InvalidDocument, canonicalize, infer, parse_binding, parse_fusion
from fusetune.wire.bound import apply_binding
from fusetune.wire.extent import Extent
from fusetune.wire.suite import strip_case
from tests.sdk.fusion_strategies import Document, documents, sizes_for

BASE: Document = {
    "format": "fusetune.fusion/1",
    "inputs": [
        {"name": "x", "shape": ["M", 8], "dtype": "f32"},
        {"name": "b", "shape": [8], "dtype": "bf16"},
        {"name": "n", "shape": ["M", 8], "dtype": "i32"},
        {"name": "p", "shape": ["M", 8], "dtype": "bool"},
        {"name": "u", "shape": ["M", 8], "dtype": "u8"},
        {"name": "q", "shape": ["M", 8], "dtype": "f8e4m3"},
    ],
    "ops": [
        {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["bf"], "out": "bb", "shape": ["M", 8], "dims": [1]},
        {"op": "add", "in": ["x", "bb"], "out": "s"},
        {"op": "gelu", "in": ["s"], "out": "g"},
    ],
    "outputs": [{"name": "g"}],
}


def faults(document: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion(document)
    return [(p.where, p.found, p.fix) for p in caught.value.problems]


def op(name: str, *ins: Any, **attributes: Any) -> Callable[[Document], Any]:
    """Add an operator; it is ops[4]."""
    return lambda d: d["ops"].append({"op": name, "in": list(ins), "out": "z", **attributes})


def gather_of_a_part(d: Document) -> None:
    """Seven columns, which the index has eight of."""
    op("slice", "x", dim=1, start=0, stop=7)(d)
    d["ops"].append({"op": "gather", "in": ["z", "n"], "out": "y", "dim": 0})


def first_input(**changes: Any) -> Callable[[Document], Any]:
    return lambda d: d["inputs"][0].update(changes)


def output(**changes: Any) -> Callable[[Document], Any]:
    return lambda d: d["outputs"][0].update(changes)


SQUARE_OF_FP8: list[Document] = [
    {"op": "permute", "in": ["q"], "out": "qt", "dims": [1, 0]},
    {"op": "matmul", "in": ["q", "qt"], "out": "z"},
]
TWO_DTYPES = [
    {"op": "permute", "in": ["n"], "out": "nt", "dims": [1, 0]},
    {"op": "matmul", "in": ["x", "nt"], "out": "z"},
]
IN_TF32 = [
    {"op": "permute", "in": ["n"], "out": "nt", "dims": [1, 0]},
    {"op": "matmul", "in": ["n", "nt"], "out": "z", "precision": "tf32"},
]

CASES: list[tuple[str, Callable[[Document], Any], str, str, str]] = [
    # what is wrong, how to get there, place, part of what was found, part of the fix
    ("no format", lambda d: d.pop("format"), "format", "nothing", 'Write "format": "fusetune.fusion/1"'),
    ("other format", lambda d: d.update(format="fusetune.fusion/2"), "format", "fusion/2", "fusetune.fusion/1"),
    ("unknown field", lambda d: d.update(input=[]), "input", "unknown field", "Did you mean inputs?"),
    ("unknown field of an input", first_input(shap=[1]), "inputs[0].shap", "unknown field", "Did you mean shape?"),
    ("name with a dash", first_input(name="a-b"), "inputs[0].name", "'a-b'", "Rename"),
    ("name that is a number", first_input(name="inf"), "inputs[0].name", "'inf'", "Rename"),
    ("negative size", first_input(shape=[-1, 8]), "inputs[0].shape[0]", "-1", "such as 4096"),
    ("size in quotes", first_input(shape=["4096", 8]), "inputs[0].shape[0]", "'4096'", "Rename the symbol"),
    ("size that is no integer", first_input(shape=[2.0, 8]), "inputs[0].shape[0]", "2.0", "such as 4096"),
    ("truth value as size", first_input(shape=[True, 8]), "inputs[0].shape[0]", "True", "such as 4096"),
    ("shape that is a text", first_input(shape="M"), "inputs[0].shape", "'M'", "Write it in brackets: ['M']"),
    ("unknown dtype", first_input(dtype="fp32"), "inputs[0].dtype", "'fp32'", "one of these"),
    ("too few strides", first_input(strides=[1]), "inputs[0].strides", "1 strides", "remove them for a dense"),
    ("unknown operator", op("gellu", "x"), "ops[4].op", "gellu", "Did you mean gelu"),
    ("no operator", lambda d: d["ops"].append({"in": ["x"], "out": "z"}), "ops[4].op", "nothing", 'Add "op"'),
    ("missing attribute", op("cast", "x"), "ops[4].dtype", "nothing", "Add 'dtype'"),
    ("attribute of another operator", op("exp", "x", dims=[0]), "ops[4].dims", "unknown field", "Remove it"),
    ("keepdim as a number", op("sum", "x", dims=[0], keepdim=1), "ops[4].keepdim", "1", "Write true or false"),
    ("null operand", op("exp", None), "ops[4].in[0]", "None", "Name a tensor"),
    ("truth value as operand", op("add", "x", True), "ops[4].in[1]", "True", "Write 0 or 1"),
    ("bare infinity", op("add", "x", float("inf")), "ops[4].in[1]", "inf", "in quotes"),
    ("too few operands", op("add", "x"), "ops[4].in", "1 operands", "Add what is missing"),
    ("too many operands", op("exp", "x", "s"), "ops[4].in", "2 operands", "Remove what is too many"),
    ("nothing to join", op("cat", dim=0), "ops[4].in", "no operands", "Name the tensors"),
    ("number where a tensor must be", op("exp", 2), "ops[4].in[0]", "the number 2", "Name a tensor"),
    ("numbers only", op("add", 1, 2), "ops[4].in", "numbers only", "Work the number out"),
    ("numbers to choose from", op("where", "p", 1, 0), "ops[4].dtype", "two numbers and no dtype", '"dtype": "f32"'),
    ("half an integer chosen", op("where", "p", 0.5, 0, dtype="i32"), "ops[4].in[1]", "0.5", "correct the number"),
    ("dtype beside a tensor", op("where", "p", "x", 0, dtype="f32"), "ops[4].dtype", "f32", "Remove it, or cast"),
    ("bits of floats", op("bitwise_and", "x", 1), "ops[4].in[0]", "f32 (M, 8)", "Cast it to i32"),
    ("bools shifted", op("bitwise_left_shift", "p", 1), "ops[4].in[0]", "bool (M, 8)", "Cast it to i32"),
    ("integers rounded", op("round", "n"), "ops[4].in[0]", "i32 (M, 8)", "Cast it to f32"),
    ("unknown value", op("exp", "bbb"), "ops[4].in[0]", "'bbb'", "Did you mean bb"),
    ("use before definition", lambda d: d["ops"].insert(0, d["ops"].pop(2)), "ops[0].in[1]", "'bb'", "to the front"),
    ("name defined twice", lambda d: d["ops"][3].update(out="s"), "ops[3].out", "'s'", "Rename one of the two"),
    ("input defined twice", lambda d: d["inputs"][1].update(name="x"), "inputs[1].name", "'x'", "Rename one"),
    ("shape mismatch", op("add", "x", "bf"), "ops[4].in[1]", "f32 (8)", "Use broadcast_to first"),
    ("dtype mismatch", op("mul", "x", "n"), "ops[4].in[1]", "i32 (M, 8)", "Cast one"),
    ("div of integers", op("div", "n", 2), "ops[4].in[0]", "i32 (M, 8)", "Cast it to f32"),
    ("exp of integers", op("exp", "n"), "ops[4].in[0]", "i32 (M, 8)", "Cast it to f32"),
    ("mean of integers", op("mean", "n", dims=[0]), "ops[4].in[0]", "i32 (M, 8)", "Cast it to f32"),
    ("sum of bools", op("add", "p", "p"), "ops[4].in[0]", "bool (M, 8)", "Cast it to i32"),
    ("sum of 8-bit floats", op("add", "q", "q"), "ops[4].in[0]", "f8e4m3 (M, 8)", "Cast it to f32 first"),
    ("8-bit floats negated", op("neg", "q"), "ops[4].in[0]", "f8e4m3 (M, 8)", "Cast it to f32 first"),
    ("8-bit floats in order", op("lt", "q", 0), "ops[4].in[0]", "f8e4m3 (M, 8)", "Cast it to f32 first"),
    ("maximum of 8-bit floats", op("amax", "q", dims=[1]), "ops[4].in[0]", "f8e4m3 (M, 8)", "Cast it to f32 first"),
    ("product of 8-bit floats", lambda d: d["ops"].extend(SQUARE_OF_FP8), "ops[5].dtype", "None", '"dtype": "f32"'),
    ("iota of 8-bit floats", op("iota", shape=[4], dim=0, dtype="f8e5m2"), "ops[4].dtype", "f8e5m2", "Make an f32"),
    ("unsigned below zero", op("add", "u", -1), "ops[4].in[1]", "-1", "correct the number"),
    ("unsigned past its dtype", op("add", "u", 256), "ops[4].in[1]", "256", "correct the number"),
    ("infinite integer", op("add", "n", "-inf"), "ops[4].in[1]", "-inf", "Cast the tensor to a float"),
    ("NaN on integers", op("maximum", "nan", "n"), "ops[4].in[0]", "nan", "Cast the tensor to a float"),
    ("half an integer", op("add", "n", 0.5), "ops[4].in[1]", "0.5", "Cast the tensor to a float"),
    ("integer past its dtype", op("add", "n", 2**31), "ops[4].in[1]", "2147483648", "correct the number"),
    ("where without a bool", op("where", "x", "x", 0), "ops[4].in[0]", "f32 (M, 8)", "ne with 0"),
    ("where with another shape", op("where", "p", "b", 0), "ops[4].in[0]", "bool (M, 8)", "Use broadcast_to"),
    ("broadcast dims too few", op("broadcast_to", "x", shape=["M", 8], dims=[0]), "ops[4].dims", "[0]", "Say which"),
    ("broadcast dims twice", op("broadcast_to", "x", shape=["M", 8], dims=[1, 1]), "ops[4].dims", "[1, 1]", "repeated"),
    (
        "broadcast dims descend",
        op("broadcast_to", "x", shape=[8, "M"], dims=[1, 0]),
        "ops[4].dims",
        "[1, 0]",
        "Permute",
    ),
    ("broadcast dim past the end", op("broadcast_to", "bf", shape=[8], dims=[1]), "ops[4].dims[0]", "1", "is there"),
    ("broadcast of another size", op("broadcast_to", "bf", shape=[9], dims=[0]), "ops[4].shape[0]", "9", "Correct"),
    ("broadcast of a symbol", op("broadcast_to", "x", shape=[4, 8], dims=[0, 1]), "ops[4].shape[0]", "4", "Correct"),
    ("permute twice the same", op("permute", "x", dims=[0, 0]), "ops[4].dims", "[0, 0]", "Remove the repeated"),
    ("permute without one", op("permute", "x", dims=[1]), "ops[4].dims", "[1]", "Add the missing"),
    ("reshape to other size", op("reshape", "x", shape=["M", 9]), "ops[4].shape", "9*M elements", "write one as -1"),
    ("reshape, two free sizes", op("reshape", "x", shape=[-1, -1]), "ops[4].shape", "[-1, -1]", "other sizes"),
    ("reshape, no whole size", op("reshape", "b", shape=[-1, 3]), "ops[4].shape", "[-1, 3]", "Correct the other"),
    ("reshape, size of -2", op("reshape", "x", shape=[-2]), "ops[4].shape[0]", "-2", "such as 4096"),
    ("slice past the end", op("slice", "x", dim=1, start=0, stop=9), "ops[4].stop", "9", "Correct the bounds"),
    ("slice of nothing", op("slice", "x", dim=0, start=4, stop=4), "ops[4].stop", "4", "Correct the bounds"),
    ("slice of no step", op("slice", "x", dim=1, start=0, stop=8, step=0), "ops[4].step", "0", "Write an integer >= 1"),
    ("flip of no dimension", op("flip", "x", dims=[2]), "ops[4].dims[0]", "2", "is there"),
    ("flip of nothing", op("flip", "x", dims=[]), "ops[4].dims", "no dimensions", "Name what to turn around"),
    ("flip twice along one", op("flip", "x", dims=[1, -1]), "ops[4].dims", "[1, -1]", "Remove the repeated one"),
    ("pad of one dimension", op("pad", "x", low=[1], high=[1, 0]), "ops[4].low", "[1]", "Write 0 for a dimension"),
    ("pad of three", op("pad", "x", low=[1, 0], high=[1, 0, 0]), "ops[4].high", "[1, 0, 0]", "Write 0 for a dimension"),
    ("pad that takes away", op("pad", "x", low=[0, -1], high=[0, 0]), "ops[4].low[1]", "-1", "by slice(x)"),
    (
        "pad with a fraction",
        op("pad", "n", low=[0, 1], high=[0, 0], value=0.5),
        "ops[4].value",
        "0.5",
        "another number",
    ),
    ("pad with a name", op("pad", "x", low=[0, 1], high=[0, 0], value="s"), "ops[4].value", "'s'", "Write the number"),
    ("pad past bool", op("pad", "p", low=[0, 1], high=[0, 0], value=2), "ops[4].value", "2", "another number"),
    ("full past i8", op("full", shape=[4], value=128, dtype="i8"), "ops[4].value", "128", "another number"),
    ("full past f16", op("full", shape=[4], value=65505, dtype="f16"), "ops[4].value", "65505", 'Write "inf"'),
    ("full past f32", op("full", shape=[4], value=3.5e38, dtype="f32"), "ops[4].value", "3.5e+38", 'Write "inf"'),
    ("full of an operand", op("full", "x", shape=[4], value=1, dtype="f32"), "ops[4].in", "1 operands", "Remove"),
    ("full of a truth value", op("full", shape=[4], value=True, dtype="bool"), "ops[4].value", "True", "0 or 1"),
    ("slice of no dimension", op("slice", "x", dim=2, start=0, stop=1), "ops[4].dim", "2", "is there"),
    ("cat of other sizes", op("cat", "x", "bf", dim=0), "ops[4].in[1]", "f32 (8)", "Make the other sizes equal"),
    ("cat of other dtypes", op("cat", "x", "n", dim=0), "ops[4].in[1]", "i32 (M, 8)", "Cast one"),
    ("iota of bools", op("iota", shape=[4], dim=0, dtype="bool"), "ops[4].dtype", "bool", "Make an i32"),
    (
        "rand of a seed in two dimensions",
        op("rand", "x", "x", shape=[4]),
        "ops[4].in[0]",
        "f32 (M, 8)",
        "captured graph",
    ),
    ("rand without an offset", op("rand", "x", shape=[4]), "ops[4].in", "1 operands", "Add what is missing"),
    ("rand of halves", op("rand", "x", "x", shape=[4], dtype="bf16"), "ops[4].dtype", "bf16", "Write one of these"),
    ("iota along no dimension", op("iota", shape=[4], dim=1, dtype="i32"), "ops[4].dim", "1", "is there"),
    ("take by floats", op("take", "b", "x"), "ops[4].in[1]", "f32 (M, 8)", "Cast it to i64"),
    ("take by a mask", op("take", "x", "p"), "ops[4].in[1]", "bool (M, 8)", "Cast it to i64"),
    ("take by a number", op("take", "x", 3), "ops[4].in[1]", "the number 3", "Name a tensor"),
    ("take along no dimension", op("take", "x", "n", dim=2), "ops[4].dim", "2", "is there"),
    ("take of one", op("take", "x"), "ops[4].in", "1 operands", "Add what is missing"),
    ("gather without a dimension", op("gather", "x", "n"), "ops[4].dim", "nothing", "Add 'dim'"),
    ("gather by another rank", op("gather", "b", "n", dim=0), "ops[4].in[1]", "i32 (M, 8)", "or write take"),
    ("gather of too few", gather_of_a_part, "ops[5].in[1]", "i32 (M, 8)", "Take a part"),
    ("reduction of nothing", op("sum", "x", dims=[]), "ops[4].dims", "no dimensions", "Name what to reduce"),
    ("reduction past the end", op("amax", "x", dims=[-3]), "ops[4].dims[0]", "-3", "is there"),
    ("reduction twice", op("sum", "x", dims=[1, -1]), "ops[4].dims", "[1, -1]", "Remove the repeated"),
    ("sum in bool", op("sum", "p", dims=[0], dtype="bool"), "ops[4].dtype", "bool", "any tells"),
    ("sum of bools", op("sum", "p", dims=[0]), "ops[4].in[0]", "bool (M, 8)", "counts what is true"),
    ("mean with a dtype", op("mean", "x", dims=[0], dtype="f64"), "ops[4].dtype", "f64", "Cast the operand"),
    ("prefix along no dimension", op("cumsum", "x", dim=2), "ops[4].dim", "2", "is there"),
    ("prefix in bool", op("cumsum", "p", dim=0, dtype="bool"), "ops[4].dtype", "bool", "any tells"),
    ("truth of nothing", op("any", "x", dims=[]), "ops[4].dims", "no dimensions", "Name what to reduce"),
    ("truth past the end", op("all", "p", dims=[2]), "ops[4].dims[0]", "2", "is there"),
    ("index along no dimension", op("argmax", "x", dim=2), "ops[4].dim", "2", "is there"),
    ("index among bools", op("argmin", "p", dim=0), "ops[4].in[0]", "bool (M, 8)", "Cast it to i8"),
    ("index with dims", op("argmax", "x", dims=[0]), "ops[4].dims", "unknown", "Did you mean dim"),
    ("matmul of vectors", op("matmul", "bf", "bf"), "ops[4].in[0]", "f32 (8)", "Reshape it to two"),
    ("matmul of other sizes", op("matmul", "x", "x"), "ops[4].in[1]", "f32 (M, 8)", "Permute, reshape"),
    ("matmul of two dtypes", lambda d: d["ops"].extend(TWO_DTYPES), "ops[5].in[1]", "i32 (8, M)", "Cast one of"),
    (
        "precision of integers",
        lambda d: d["ops"].extend(IN_TF32),
        "ops[5].precision",
        "tf32",
        "cast both operands to f32",
    ),
    ("precision of another", op("matmul", "x", "x", precision="tf16"), "ops[4].precision", "tf16", "Write one of"),
    ("symbol of no input", op("iota", shape=["K"], dim=0, dtype="i32"), "ops[4].shape[0]", "symbol 'K'", "an input's"),
    ("no outputs", lambda d: d.update(outputs=[]), "outputs", "no entries", "Name the values"),
    ("unknown output", output(name="gg"), "outputs[0].name", "'gg'", "Did you mean g"),
    ("input as output", output(name="x"), "outputs[0].name", "input 'x'", "Add a copy op"),
    ("output twice", lambda d: d["outputs"].append({"name": "g"}), "outputs[1].name", "'g'", "or a copy"),
    ("stated shape", output(shape=[8, "M"]), "outputs[0].shape", "[8, 'M']", "Correct it"),
    ("stated dtype", output(dtype="bf16"), "outputs[0].dtype", "bf16", "cast before"),
    ("stated strides", output(strides=[9]), "outputs[0].strides", "1 strides", "Correct the strides"),
    ("strides of no symbol", output(strides=["K", 1]), "outputs[0].strides[0]", "symbol 'K'", "Use a symbol of"),
    ("size over 2^32", first_input(shape=[2**32 + 1]), "inputs[0].shape", "4294967297 in dim", "Split the tensor"),
    ("rank 9", op("broadcast_to", "bf", shape=[8] * 9, dims=[0]), "ops[4]", "rank 9", "Merge dimensions"),
    ("2^48 bytes", op("broadcast_to", "bf", shape=[2**30, 2**13, 8], dims=[2]), "ops[4]", "bytes", "Split the tensor"),
    ("257 ops", lambda d: d.update(ops=d["ops"] * 65), "ops", "260 entries", "Split the fusion"),
    ("65 operands", op("cat", *["x"] * 65, dim=0), "ops[4].in", "65 operands", "Join in steps"),
    ("integer too long", op("add", "n", 10**400), "ops[4].in[1]", "1000", "correct the number"),
    ("float too long", op("add", "x", 10**400), "ops[4].in[1]", "an integer over", '"inf"'),
    ("65 inputs", lambda d: d.update(inputs=d["inputs"] * 17), "inputs", "102 entries", "Split the fusion"),
]


@pytest.mark.parametrize(("change", "where", "found", "fix"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_malformed_fusion_names_place_and_fix(change: Any, where: str, found: str, fix: str) -> None:
    document = copy.deepcopy(BASE)
    change(document)
    told = faults(document)
    first_where, first_found, first_fix = told[0]
    assert first_where == where
    assert found in first_found
    assert fix in first_fix


def test_the_base_of_the_table_is_valid() -> None:
    assert str(infer(parse_fusion(BASE)).types["g"]) == "f32 (M, 8)"


@pytest.mark.parametrize(
    ("change", "type_"),
    [
        pytest.param(op("copy", "q"), "f8e4m3 (M, 8)", id="copied"),
        pytest.param(op("permute", "q", dims=[1, 0]), "f8e4m3 (8, M)", id="moved"),
        pytest.param(op("cat", "q", "q", dim=1), "f8e4m3 (M, 16)", id="joined"),
        pytest.param(op("where", "p", "q", "-inf"), "f8e4m3 (M, 8)", id="chosen-or-a-number"),
        pytest.param(op("eq", "q", 1000.5), "bool (M, 8)", id="equal-to-a-number"),
        pytest.param(op("ne", "q", "q"), "bool (M, 8)", id="unequal"),
        pytest.param(op("cast", "q", dtype="f8e5m2"), "f8e5m2 (M, 8)", id="cast"),
        pytest.param(op("gather", "q", "n", dim=1), "f8e4m3 (M, 8)", id="chosen-by-index"),
        pytest.param(op("add", "u", 255), "u8 (M, 8)", id="unsigned-up-to-its-end"),
    ],
)
def test_what_short_types_take(change: Any, type_: str) -> None:
    document = copy.deepcopy(BASE)
    change(document)
    assert str(infer(parse_fusion(document)).types["z"]) == type_


def test_limits_are_the_last_sizes_that_fit() -> None:
    document = copy.deepcopy(BASE)
    document["inputs"].append({"name": "wide", "shape": [2**32, 2**12], "dtype": "i8"})
    document["inputs"].append({"name": "deep", "shape": [1] * 8, "dtype": "i8"})
    parse_fusion(document)


def test_every_fault_is_told_once() -> None:
    document = copy.deepcopy(BASE)
    document["ops"][0]["in"] = ["nope"]  # bf, bb, s and g have no type now, which is no fault of theirs
    document["ops"].append({"op": "sum", "in": ["x"], "out": "t", "dims": [7]})
    document["outputs"].append({"name": "x"})
    assert [place for place, _, _ in faults(document)] == ["ops[0].in[0]", "ops[4].dims[0]", "outputs[1].name"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "text that is not JSON", id="nothing"),
        pytest.param("{", "line 1 column 2", id="cut-off"),
        pytest.param(b"\xff\xfe\xfd", "text that is not JSON", id="not-text"),
        pytest.param("[" * 200_000, "not JSON", id="nested"),
        pytest.param('{"ops": [], "ops": []}', "'ops' stands twice", id="field-twice"),
        pytest.param('{"format": NaN}', "NaN is no JSON number", id="constant"),
        pytest.param("9" * 5000, "not JSON", id="long-number"),
        pytest.param("[1]", "[1]", id="array"),
        pytest.param("null", "None", id="null"),
    ],
)
def test_text_that_is_no_document(text: str | bytes, says: str) -> None:
    ((where, found, _),) = faults(text)
    assert where == "fusion"
    assert says in found


def test_the_attribute_name_is_no_field_of_the_document() -> None:
    document = copy.deepcopy(BASE)
    document["ops"][3] = {"op": "gelu", "ins": ["s"], "out": "g"}
    assert [place for place, _, _ in faults(document)] == ["ops[3].in", "ops[3].ins"]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(documents())
def test_documents_survive_the_round_trip(document: Document) -> None:
    fusion = parse_fusion(document)
    assert parse_fusion(fusion.to_json()) == fusion
    assert parse_fusion(json.dumps(document).encode()) == fusion
    assert hash(parse_fusion(fusion.to_json())) == hash(fusion)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(documents())
def test_symbolic_inference_agrees_with_inference_on_sizes(document: Document) -> None:
    sizes = sizes_for(document)
    fusion = parse_fusion(document)
    bound = apply_binding(fusion, parse_binding({"sizes": sizes}))
    for name, symbolic in infer(fusion).types.items():
        assert bound.types[name].dtype == symbolic.dtype
        assert [e.constant for e in bound.types[name].shape] == [value_of(e, sizes) for e in symbolic.shape]


def value_of(extent: Extent, sizes: dict[str, int]) -> int:
    total = 0
    for symbols, coefficient in extent.terms:
        for symbol in symbols:
            coefficient *= sizes[symbol]
        total += coefficient
    return total


SCRAPS: list[Any] = [None, True, -1, 0, 1.5, "x0", "M", [], {}, [[]], {"a": 1}, 2**70, 10**400, "inf", math.nan]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(documents(), st.data())
def test_a_damaged_document_is_a_fusion_or_has_problems(document: Document, data: st.DataObject) -> None:
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.integers(0, 5)) == 0:
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from(SCRAPS))
    try:
        fusion = parse_fusion(document)
    except InvalidDocument:
        return  # anything else that is raised fails the test
    assert canonicalize(canonicalize(fusion)) == canonicalize(fusion)


SUITE = json.loads(Path("benchmarks/suite/suite_public.json").read_text())["cases"]


@pytest.mark.parametrize("case", [c for case in SUITE for c in (case, case["tiny"])], ids=lambda c: c.get("id", "tiny"))
def test_cases_of_the_public_suite_are_fusions(case: Document) -> None:
    fusion, binding = strip_case(case)
    bound = apply_binding(parse_fusion(json.dumps(fusion)), parse_binding(json.dumps(binding)))
    stated = [tuple(tensor["strides"]) for tensor in case["inputs"]]
    assert [layout.strides for layout in bound.inputs] == stated
    for out in case["outputs"]:
        assert [extent.constant for extent in bound.types[out["name"]].shape] == out["shape"]


def test_the_suite_has_its_32_cases() -> None:
    assert len(SUITE) == 32
