"""One form for every operator: what is fused, what stays, and how exact functions may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from compiler.errors import InvalidFusion, InvalidStep
from compiler.ir.fusion import Fusion, Operand
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.pinned import graded, grades_of, pinned
from compiler.reference import evaluate
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from compiler.schedule.steps import Recompute
from compiler.wire import bind, fusion_from_json, fusion_to_json
from fusetune.wire import parse_binding, parse_fusion
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for

SHAPE = [4, 8]


def fusion_of(ops: list[Document], *outputs: str, dtype: str = "f32") -> Fusion:
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": name, "shape": SHAPE, "dtype": dtype} for name in "abcd"],
        "ops": ops,
        "outputs": [{"name": name} for name in outputs],
    }
    return bind(parse_fusion(document), parse_binding({}))


def op(kind: str, out: str, *ins: Any, **attributes: Any) -> Document:
    return {"op": kind, "in": list(ins), "out": out, **attributes}


def forms(fusion: Fusion) -> list[str]:
    """`fma(i0,i1,i2)`, one an operator."""

    def text(x: Operand) -> str:
        return str(x)

    return [f"{o.kind}({','.join(map(text, o.inputs))})" for o in pinned(fusion).ops]


PRODUCT, SUM = op("mul", "p", "a", "b"), op("add", "s", "p", "c")

CONTRACTED = [
    pytest.param([PRODUCT, SUM], ["s"], ["fma(i0,i1,i2)"], id="the-sum-alone-reads-it"),
    pytest.param([PRODUCT, SUM], ["s", "p"], ["mul(i0,i1)", "add(v0,i2)"], id="an-output-stays"),
    pytest.param(
        [PRODUCT, SUM, op("neg", "n", "p")], ["s", "n"], ["mul(i0,i1)", "add(v0,i2)", "neg(v0)"], id="read-twice-stays"
    ),
    pytest.param([PRODUCT, op("add", "s", "p", "p")], ["s"], ["mul(i0,i1)", "add(v0,v0)"], id="twice-in-one-sum-stays"),
    pytest.param([PRODUCT, op("sub", "s", "p", "c")], ["s"], ["neg(i2)", "fma(i0,i1,v0)"], id="less-another"),
    pytest.param([PRODUCT, op("sub", "s", "c", "p")], ["s"], ["neg(i0)", "fma(v0,i1,i2)"], id="less-the-product"),
    pytest.param([PRODUCT, op("sub", "s", "p", 2.0)], ["s"], ["fma(i0,i1,-2.0)"], id="less-a-number"),
    pytest.param(
        [op("mul", "p", "a", 0.1), op("sub", "s", "c", "p")], ["s"], ["fma(i0,-0.1,i2)"], id="less-a-scaled-one"
    ),
    pytest.param([op("square", "p", "a"), SUM], ["s"], ["fma(i0,i0,i2)"], id="a-square"),
    pytest.param(
        [PRODUCT, op("mul", "q", "c", "d"), op("add", "s", "p", "q")],
        ["s"],
        ["mul(i2,i3)", "fma(i0,i1,v0)"],
        id="of-two-products-the-first",
    ),
    pytest.param([PRODUCT, op("maximum", "s", "p", "c")], ["s"], ["mul(i0,i1)", "maximum(v0,i2)"], id="no-sum"),
    pytest.param(
        [PRODUCT, op("mul", "q", "a", "b"), SUM, op("add", "t", "q", "d")],
        ["s", "t"],
        ["mul(i0,i1)", "add(v0,i2)", "add(v0,i3)"],
        id="said-twice-is-one-value",
    ),
]


@pytest.mark.parametrize(("ops", "outputs", "expected"), CONTRACTED)
def test_a_product_enters_the_sum_that_alone_reads_it(
    ops: list[Document], outputs: list[str], expected: list[str]
) -> None:
    assert forms(fusion_of(ops, *outputs)) == expected


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i32"])
def test_products_of_16_bits_and_of_integers_are_values(dtype: str) -> None:
    assert forms(fusion_of([PRODUCT, SUM], "s", dtype=dtype)) == ["mul(i0,i1)", "add(v0,i2)"]


def test_a_product_that_only_a_fold_reads_is_a_term() -> None:
    folded = op("sum", "s", "p", dims=[1])
    assert pinned(fusion_of([PRODUCT, folded], "s")).terms == ("v0",)
    assert pinned(fusion_of([PRODUCT, folded], "s", "p")).terms == ()
    assert pinned(fusion_of([PRODUCT, op("amax", "s", "p", dims=[1])], "s")).terms == ()


def limit(ops: list[Document], *outputs: str, kind: str, dtype: str = "f32") -> MathGrade:
    (found,) = {o.grade for o in pinned(fusion_of(ops, *outputs, dtype=dtype)).ops if o.kind == kind}
    return found


E, NARROW = op("exp", "e", "a"), op("cast", "n", "t", dtype="bf16")
T = op("tanh", "t", "a")

LIMITS = [
    pytest.param([E], ["e"], "exp", MathGrade.APPROX, id="a-stored-float"),
    pytest.param([E, op("gt", "y", "e", "b")], ["y"], "exp", MathGrade.EXACT, id="compared"),
    pytest.param([E, op("cast", "y", "e", dtype="i8")], ["y"], "exp", MathGrade.EXACT, id="cast-to-integers"),
    pytest.param(
        [E, op("neg", "m", "e"), op("amax", "f", "m", dims=[1]), op("gt", "y", "f", 1.0)],
        ["y"],
        "exp",
        MathGrade.EXACT,
        id="compared-behind-an-exact-fold",
    ),
    pytest.param(
        [E, op("sum", "f", "e", dims=[1]), op("gt", "y", "f", 1.0)], ["y"], "exp", MathGrade.APPROX, id="summed-first"
    ),
    pytest.param([T, NARROW], ["n"], "tanh", MathGrade.COARSE, id="rounded-to-16-bits"),
    pytest.param([T, NARROW], ["n", "t"], "tanh", MathGrade.EXACT, id="and-stored-as-it-is"),
    pytest.param(
        [T, op("sum", "f", "t", dims=[1]), op("cast", "n", "f", dtype="bf16")],
        ["n"],
        "tanh",
        MathGrade.EXACT,
        id="summed-before-it-is-rounded",
    ),
]


@pytest.mark.parametrize(("ops", "outputs", "kind", "expected"), LIMITS)
def test_how_exact_a_function_has_to_be(
    ops: list[Document], outputs: list[str], kind: str, expected: MathGrade
) -> None:
    assert limit(ops, *outputs, kind=kind) is expected


def test_one_choice_for_the_whole_fusion_keeps_to_every_limit() -> None:
    fusion = fusion_of([E, T, NARROW, op("exp", "x", "b"), op("gt", "y", "x", 1.0)], "e", "n", "y")
    assert grades_of(fusion) == tuple(MathGrade)
    for grade, expected in (
        (MathGrade.EXACT, {}),
        (MathGrade.APPROX, {"v0": "approx", "v1": "approx"}),
        (MathGrade.COARSE, {"v0": "approx", "v1": "coarse"}),
    ):
        assert graded(pinned(fusion), grade).grades == expected


@settings(derandomize=True, max_examples=150, deadline=None)
@given(documents(BINDABLE))
def test_a_pinned_fusion_means_the_same(document: Document) -> None:
    """Without rounding; and it is pinned, is so once, and is what is read back of its document."""
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    made = pinned(fusion)
    assert made.is_pinned
    assert pinned(made) is made
    assert fusion_from_json(fusion_to_json(made)) == made
    rng = np.random.default_rng(5)
    inputs: list[Any] = [
        rng.normal(size=v.shape).astype(np.float16)
        if v.dtype.is_float
        else rng.integers(-5, 6, v.shape) > 0
        if v.dtype == "bool"
        else rng.integers(-5, 6, v.shape)
        for v in map(fusion.value, fusion.inputs)
    ]
    before, after = (evaluate(one, inputs, np, rounds=False) for one in (fusion, made))
    for want, have in zip(before, after, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("forms", "place"),
    [
        pytest.param(3, "pinned", id="no-object"),
        pytest.param({"grades": {}}, "pinned", id="without-terms"),
        pytest.param({"grades": {"v9": "approx"}, "terms": []}, "pinned.grades", id="a-grade-of-nothing"),
        pytest.param({"grades": {"v0": "best"}, "terms": []}, "pinned.grades.v0", id="no-grade"),
        pytest.param({"grades": {}, "terms": ["v9"]}, "pinned.terms", id="a-term-of-nothing"),
    ],
)
def test_unknown_forms_are_refused_by_place(forms: object, place: str) -> None:
    document = {**fusion_to_json(pinned(fusion_of([E], "e"))), "pinned": forms}
    with pytest.raises(InvalidFusion) as refused:
        fusion_from_json(document)
    assert refused.value.problems[0].where == place


@pytest.mark.parametrize(("kind", "is_legal"), [("amax", True), ("sum", False)])
def test_a_sum_of_floats_is_not_folded_again(kind: str, is_legal: bool) -> None:
    ops = [
        op(kind, "f", "a", dims=[1]),
        op("broadcast_to", "g", "f", shape=SHAPE, dims=[0]),
        op("sub", "x", "a", "g"),
        op("exp", "y", "x"),
    ]
    sf = start(fusion_of(ops, "y"))
    (fold,) = (o.output for o in sf.ops if o.kind in (OpKind.SUM, OpKind.AMAX))
    (reader,) = (o.output for o in sf.consumers(fold))
    step = Recompute(fold, reader, f"{fold}_again")
    if is_legal:
        assert apply(sf, step).producer(f"{fold}_again") is not None
    else:
        with pytest.raises(InvalidStep, match="is a sum"):
            apply(sf, step)
