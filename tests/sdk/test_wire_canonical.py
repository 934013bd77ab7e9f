"""What changes a fingerprint and what does not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusetune.wire import binding_hash, canonicalize, fingerprint, infer, parse_binding, parse_fusion
from fusetune.wire.canonical import live_ops
from fusetune.wire.extent import dense_strides
from fusetune.wire.fusion import INTEGER_ONLY
from tests.sdk.fusion_strategies import BINARY, REDUCE, UNARY, Document, Draw, documents, sizes_for

NUMBERS = ("inf", "-inf", "nan")
laws = settings(derandomize=True, max_examples=150, deadline=None)


def hash_of(document: Document) -> str:
    return fingerprint(parse_fusion(document))


def rename(document: Document, values: dict[str, str], symbols: dict[str, str]) -> Document:
    def named(x: Any) -> Any:
        return values.get(x, x) if isinstance(x, str) and x not in NUMBERS else x

    renamed = copy.deepcopy(document)
    for tensor in (*renamed["inputs"], *renamed["outputs"]):
        tensor["name"] = named(tensor["name"])
    for op in renamed["ops"]:
        op["in"], op["out"] = [named(x) for x in op["in"]], named(op["out"])
    for place in (*renamed["inputs"], *renamed["ops"]):
        if "shape" in place:
            place["shape"] = [symbols.get(size, size) for size in place["shape"]]
    return renamed


@laws
@given(documents(), st.randoms(use_true_random=False))
def test_names_of_values_and_symbols_mean_nothing(document: Document, random: Any) -> None:
    names = [x["name"] for x in document["inputs"]] + [op["out"] for op in document["ops"]]
    # Names that the canonical form itself gives out, in another order.
    fresh = [f"{random.choice('iv')}{i}" for i in range(len(names))]
    random.shuffle(fresh)
    renamed = rename(document, dict(zip(names, fresh, strict=True)), {"M": "s1", "N": "s0"})
    assert hash_of(renamed) == hash_of(document)


@laws
@given(documents(), st.data())
def test_the_order_of_independent_ops_means_nothing(document: Document, data: st.DataObject) -> None:
    defined = {tensor["name"] for tensor in document["inputs"]}
    waiting, shuffled = list(document["ops"]), []
    while waiting:
        ready = [op for op in waiting if all(not isinstance(x, str) or x in defined or x in NUMBERS for x in op["in"])]
        op = data.draw(st.sampled_from(ready))
        waiting.remove(op)
        defined.add(op["out"])
        shuffled.append(op)
    assert hash_of({**document, "ops": shuffled}) == hash_of(document)


@laws
@given(documents(), st.data())
def test_ops_that_no_output_needs_mean_nothing(document: Document, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(document["ops"])))
    dead = {"op": "copy", "in": ["x0"], "out": "dead"}
    longer = {**document, "ops": [*document["ops"][:at], dead, *document["ops"][at:]]}
    assert hash_of(longer) == hash_of(document)


@st.composite
def with_defaults_written(draw: Draw) -> tuple[Document, Document]:
    """A document, and the same with some defaults and redundant facts spelled out, and some left out."""
    document = draw(documents())
    types = infer(parse_fusion(document)).types
    spelled = copy.deepcopy(document)
    for tensor in spelled["inputs"]:
        strides = [stride and stride.size for stride in dense_strides(types[tensor["name"]].shape)]
        if None not in strides and draw(st.booleans()):
            tensor["strides"] = [7 if size == 1 else s for size, s in zip(tensor["shape"], strides, strict=True)]
    for op in spelled["ops"]:
        result = types[op["out"]]
        if op.get("keepdim") is False:
            del op["keepdim"]
        if op["op"] in REDUCE:
            rank = types[op["in"][0]].rank
            op["dims"] = [dim - rank * draw(st.booleans()) for dim in reversed(op["dims"])]
        if op["op"] in ("permute", "broadcast_to"):
            op["dims"] = [dim - result.rank * draw(st.booleans()) for dim in op["dims"]]
        if op["op"] == "slice":
            op.setdefault("step", 1)
        if op["op"] == "flip":
            op["dims"] = [dim - result.rank * draw(st.booleans()) for dim in reversed(op["dims"])]
        if op["op"] in ("pad", "full"):
            op["value"] = float(op["value"])
        if op["op"] in ("slice", "cat", "iota"):
            op["dim"] -= result.rank
        if op["op"] == "matmul":
            op["dtype"] = result.dtype
        if op["op"] == "copy":
            op["memory"] = None
        if op["op"] == "reshape" and result.shape[0].size is not None:
            op["shape"] = [result.shape[0].size]
        op["in"] = [float(x) if type(x) is int else x for x in op["in"]]
    for output in spelled["outputs"]:
        result = types[output["name"]]
        sizes = [extent.size for extent in result.shape]
        output["dtype"] = result.dtype
        if None not in sizes:
            output["shape"] = sizes
    return document, spelled


@laws
@given(with_defaults_written())
def test_defaults_that_are_spelled_out_mean_nothing(pair: tuple[Document, Document]) -> None:
    document, spelled = pair
    assert hash_of(spelled) == hash_of(document)


@laws
@given(documents())
def test_the_canonical_form_is_valid_and_its_own_canonical_form(document: Document) -> None:
    canonical = canonicalize(parse_fusion(document))
    assert parse_fusion(canonical.to_json()) == canonical
    assert canonicalize(canonical) == canonical


@laws
@given(documents(["unary", "binary", "reduce"], ["f32"]), st.data())
def test_another_operator_is_another_fusion(document: Document, data: st.DataObject) -> None:
    changed = copy.deepcopy(document)
    op = changed["ops"][data.draw(st.sampled_from(live_ops(parse_fusion(document))))]
    family = next(names for names in (UNARY, BINARY, REDUCE, ["copy", "exp"]) if op["op"] in names)
    op["op"] = data.draw(st.sampled_from([name for name in family if name not in {op["op"], *INTEGER_ONLY}]))
    assert hash_of(changed) != hash_of(document)


BASE: Document = {
    "format": "fusetune.fusion/1",
    "inputs": [
        {"name": "x", "shape": ["M", 8], "dtype": "f32"},
        {"name": "y", "shape": ["M", 8], "dtype": "f32"},
        {"name": "w", "shape": [8, 8], "dtype": "f32"},
    ],
    "ops": [
        {"op": "sub", "in": ["x", "y"], "out": "d"},
        {"op": "add", "in": ["d", 2], "out": "a"},
        {"op": "lt", "in": ["x", "y"], "out": "c"},
        {"op": "where", "in": ["c", "a", "x"], "out": "h"},
        {"op": "slice", "in": ["h"], "out": "l", "dim": 1, "start": 0, "stop": 4},
        {"op": "slice", "in": ["h"], "out": "r", "dim": 1, "start": 4, "stop": 8},
        {"op": "cat", "in": ["r", "l"], "out": "j", "dim": 1},
        {"op": "matmul", "in": ["j", "w"], "out": "m"},
        {"op": "permute", "in": ["w"], "out": "wt", "dims": [1, 0]},
        {"op": "sum", "in": ["wt"], "out": "s", "dims": [0]},
        {"op": "iota", "in": [], "out": "n", "shape": [4, 4], "dim": 0, "dtype": "i32"},
        {"op": "reshape", "in": ["n"], "out": "n2", "shape": [2, 8]},
        {"op": "broadcast_to", "in": ["s"], "out": "b", "shape": [8, 8], "dims": [1]},
        {"op": "cast", "in": ["b"], "out": "k", "dtype": "bf16"},
        {"op": "copy", "in": ["wt"], "out": "wc"},
    ],
    "outputs": [{"name": "k"}, {"name": "wc"}, {"name": "n2"}, {"name": "m"}],
}


def op_of(document: Document, out: str) -> Document:
    return next(op for op in document["ops"] if op["out"] == out)


def setting(out: str, **changes: Any) -> Callable[[Document], None]:
    return lambda d: op_of(d, out).update({name.replace("ins", "in"): value for name, value in changes.items()})


def ended_by(**op: Any) -> Document:
    """The base with one operator more, whose result is returned too."""
    return {**BASE, "ops": [*BASE["ops"], {**op, "out": "e"}], "outputs": [*BASE["outputs"], {"name": "e"}]}


PADDED = {"op": "pad", "in": ["w"], "low": [1, 0], "high": [0, 2]}
FILLED = {"op": "full", "in": [], "shape": [4, 8], "value": 1, "dtype": "f32"}
SLICED = {"op": "slice", "in": ["w"], "dim": 0, "start": 0, "stop": 8, "step": 2}
FLIPPED = {"op": "flip", "in": ["w"], "dims": [0]}


@pytest.mark.parametrize(
    ("op", "change", "equal"),
    [
        pytest.param(PADDED, {"value": 0.0}, True, id="a-pad-is-of-zeros"),
        pytest.param(PADDED, {"value": -0.0}, False, id="of-another-zero"),
        pytest.param(PADDED, {"value": "inf"}, False, id="of-another-number"),
        pytest.param(PADDED, {"low": [0, 0], "high": [1, 2]}, False, id="at-the-other-end"),
        pytest.param(FILLED, {"value": 1.0}, True, id="a-number-in-its-dtype"),
        pytest.param(FILLED, {"value": 2}, False, id="another-number"),
        pytest.param(FILLED, {"dtype": "f16"}, False, id="another-dtype"),
        pytest.param(SLICED, {"step": 3}, False, id="another-step"),
        pytest.param({**SLICED, "step": 1}, {"step": None}, True, id="each-one"),
        pytest.param(FLIPPED, {"dims": [-2]}, True, id="dimensions-from-the-end"),
        pytest.param(FLIPPED, {"dims": [1]}, False, id="another-dimension"),
    ],
)
def test_attributes_of_views_are_part_of_the_meaning(op: Document, change: Document, equal: bool) -> None:
    assert (hash_of(ended_by(**op)) == hash_of(ended_by(**{**op, **change}))) is equal


CHANGES: dict[str, Callable[[Document], Any]] = {
    "input order": lambda d: d["inputs"].insert(0, d["inputs"].pop(1)),
    "output order": lambda d: d["outputs"].reverse(),
    "an output less": lambda d: d["outputs"].pop(),
    "an input that is not used": lambda d: d["inputs"].append({"name": "z", "shape": [1], "dtype": "f32"}),
    "a size instead of a symbol": lambda d: [t.update(shape=[16, 8]) for t in d["inputs"][:2]],
    "strides that are not dense": lambda d: d["inputs"][0].update(strides=[16, 1]),
    "strides by symbol": lambda d: d["inputs"][0].update(strides=["P", 1]),
    "operand order of sub": setting("d", ins=["y", "x"]),
    "operand order of add": setting("a", ins=[2, "d"]),
    "number": setting("a", ins=["d", 2.5]),
    "number, infinite": setting("a", ins=["d", "inf"]),
    "branches of where": setting("h", ins=["c", "x", "a"]),
    "bounds of a slice": setting("l", start=1, stop=5),
    "order of cat": setting("j", ins=["l", "r"]),
    "result dtype of matmul": setting("m", dtype="f16"),
    "precision of matmul": setting("m", precision="tf32"),
    "order of dims": setting("wt", dims=[0, 1]),
    "reduced dims": setting("s", dims=[1]),
    "dim of iota": setting("n", dim=1),
    "dtype of iota": setting("n", dtype="i64"),
    "shape of reshape": setting("n2", shape=[8, 2]),
    "dims of broadcast_to": setting("b", dims=[0]),
    "dtype of cast": setting("k", dtype="f16"),
    "memory of copy": setting("wc", memory="tmem"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_meaning_changes_the_fingerprint(change: Callable[[Document], Any]) -> None:
    changed = copy.deepcopy(BASE)
    change(changed)
    assert hash_of(changed) != hash_of(BASE)


@pytest.mark.parametrize(
    ("dtype", "left", "right", "equal"),
    [
        pytest.param("f32", 2, 2.0, True, id="2-is-2.0-on-floats"),
        pytest.param("f32", 0.0, -0.0, False, id="zeros-differ-on-floats"),
        pytest.param("i32", 0, -0.0, True, id="zeros-are-equal-on-integers"),
        pytest.param("i64", 2**62, 2**62 + 1, False, id="integers-keep-all-digits"),
        pytest.param("f32", "inf", "-inf", False, id="infinities-differ"),
    ],
)
def test_numbers_are_equal_if_the_other_operand_says_so(dtype: str, left: Any, right: Any, equal: bool) -> None:
    def adding(number: Any) -> str:
        inputs = [{"name": "x", "shape": [4], "dtype": dtype}]
        ops = [{"op": "add", "in": ["x", number], "out": "y"}]
        return hash_of({"format": "fusetune.fusion/1", "inputs": inputs, "ops": ops, "outputs": [{"name": "y"}]})

    assert (adding(left) == adding(right)) is equal


@pytest.mark.parametrize(
    ("left", "right", "dtype", "equal"),
    [
        pytest.param(1.5, 1.25, "f32", False, id="fractions-are-kept"),
        pytest.param(1, 1.0, "f32", True, id="1-is-1.0-on-floats"),
        pytest.param(-0.0, 0, "i64", True, id="zeros-are-equal-on-integers"),
    ],
)
def test_numbers_that_a_mask_chooses_between_are_of_the_result(left: Any, right: Any, dtype: str, equal: bool) -> None:
    def choosing(number: Any) -> str:
        inputs = [{"name": "c", "shape": [4], "dtype": "bool"}]
        ops = [{"op": "where", "in": ["c", number, 0], "out": "y", "dtype": dtype}]
        return hash_of({"format": "fusetune.fusion/1", "inputs": inputs, "ops": ops, "outputs": [{"name": "y"}]})

    assert (choosing(left) == choosing(right)) is equal


def test_kept_dimensions_are_part_of_the_meaning() -> None:
    def reduced(keepdim: bool) -> Document:
        op = {"op": "sum", "in": ["x"], "out": "s", "dims": [0], "keepdim": keepdim}
        return {**BASE, "ops": [op], "outputs": [{"name": "s"}]}

    assert hash_of(reduced(True)) != hash_of(reduced(False))


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        pytest.param({"op": "sum", "dims": [0]}, {"op": "sum", "dims": [0], "dtype": "f32"}, True, id="own-dtype"),
        pytest.param({"op": "sum", "dims": [0]}, {"op": "sum", "dims": [0], "dtype": "f64"}, False, id="other-dtype"),
        pytest.param({"op": "any", "dims": [0, 1]}, {"op": "any", "dims": [-1, -2]}, True, id="dims-from-zero"),
        pytest.param({"op": "any", "dims": [0]}, {"op": "all", "dims": [0]}, False, id="any-all"),
        pytest.param({"op": "cumsum", "dim": 1}, {"op": "cumsum", "dim": -1, "dtype": "f32"}, True, id="prefix-dtype"),
        pytest.param({"op": "cumsum", "dim": 1}, {"op": "cumsum", "dim": 0}, False, id="prefix-dim"),
        pytest.param({"op": "argmax", "dim": 1}, {"op": "argmax", "dim": -1}, True, id="dim-from-zero"),
        pytest.param({"op": "argmax", "dim": 1}, {"op": "argmax"}, False, id="of-all"),
    ],
)
def test_folds_are_equal_if_they_mean_the_same(left: Document, right: Document, equal: bool) -> None:
    def folding(op: Document) -> str:
        return hash_of({**BASE, "ops": [{"in": ["x"], "out": "s", **op}], "outputs": [{"name": "s"}]})

    assert (folding(left) == folding(right)) is equal


def test_without_a_dimension_a_vector_is_all_elements() -> None:
    def folding(**dim: int) -> str:
        inputs, op = [{"name": "x", "shape": [8], "dtype": "f32"}], {"op": "argmax", "in": ["x"], "out": "s", **dim}
        return hash_of({"format": "fusetune.fusion/1", "inputs": inputs, "ops": [op], "outputs": [{"name": "s"}]})

    assert folding() == folding(dim=0)


@pytest.mark.parametrize(("dtype", "number", "kept"), [("f32", 1.5, 1.5), ("f32", 2, 2.0), ("i64", 2, 2)])
def test_a_choice_between_numbers_keeps_them_in_the_dtype_it_says(dtype: str, number: float, kept: float) -> None:
    inputs = [{"name": "c", "shape": [8], "dtype": "bool"}]
    op = {"op": "where", "in": ["c", number, 0], "out": "s", "dtype": dtype}
    document = {"format": "fusetune.fusion/1", "inputs": inputs, "ops": [op], "outputs": [{"name": "s"}]}
    found = canonicalize(parse_fusion(document)).ops[0].ins[1]
    assert (found, type(found)) == (kept, type(kept))


def test_the_fingerprint_is_the_same_on_every_machine() -> None:
    assert hash_of(BASE) == "1a9df5f0387615bb3aa933643fce3571d12db5194e584209ef0ea6f2776ad5fd"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        pytest.param({}, {"inputs": [{}, {}, {}]}, True, id="defaults"),
        pytest.param({}, {"inputs": [{"strides": [8, 1]}, {"align": 16}, {}]}, True, id="defaults-written"),
        pytest.param({}, {"inputs": [{"strides": [9, 1]}, {}, {}]}, False, id="strides"),
        pytest.param({}, {"inputs": [{"align": 128}, {}, {}]}, False, id="align"),
        pytest.param({}, {"inputs": [{}, {}, {"align": 128}]}, False, id="align-of-another"),
        pytest.param({}, {"sizes": {"M": 5}}, False, id="size"),
    ],
)
def test_binding_hash(left: Document, right: Document, equal: bool) -> None:
    fusion = parse_fusion(BASE)
    hashes = [binding_hash(fusion, parse_binding({"sizes": {"M": 4}, **binding})) for binding in (left, right)]
    assert (hashes[0] == hashes[1]) is equal


@laws
@given(documents())
def test_binding_hash_knows_no_names(document: Document) -> None:
    sizes = sizes_for(document)
    symbols = {"M": "s1", "N": "s0"}
    renamed = rename(document, {tensor["name"]: f"q{i}" for i, tensor in enumerate(document["inputs"])}, symbols)
    before = binding_hash(parse_fusion(document), parse_binding({"sizes": sizes}))
    after = {symbols[symbol]: size for symbol, size in sizes.items()}
    assert binding_hash(parse_fusion(renamed), parse_binding({"sizes": after})) == before
