"""The unscheduled form: views at the inputs, one shape from there to an output, the same meaning."""

from __future__ import annotations

import pytest

from compiler.errors import Unsupported
from compiler.ir.ops import OpKind
from compiler.schedule.start import parts_text, start
from tests.compiler.schedule.start_forms import (
    RUN,
    broadcast,
    cat,
    check_form,
    check_meaning,
    every,
    flip,
    fusion_of,
    halves,
    op,
    pad,
    permute,
    printed,
    reduce,
    reshape,
    take,
)
from tests.compiler.schedules import from_wire
from tests.sdk.fusion_strategies import Document

# Tables --------------------------------------------------------------------------------------------------------------


CASES = [
    pytest.param([[2, 3]], [op("exp", "y", "x0")], ["y"], ["v0[2,3] = exp(i0)"], id="no-view"),
    pytest.param(
        [[2, 3]],
        [op("exp", "e", "x0"), permute("e", "y", 1, 0)],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "w1[3,2] = exp(w0)", "v1[3,2] = copy(w1)"],
        id="permute-moves-before-the-arithmetic",
    ),
    pytest.param(
        [[2, 3], [3]],
        [broadcast("x1", "b", [2, 3], 1), op("add", "y", "x0", "b")],
        ["y"],
        ["w0[b2,3] = broadcast_to(i1) [1]", "v1[2,3] = add(i0, w0)"],
        id="broadcast-operand",
    ),
    pytest.param(
        [[2, 3], [3]],
        [op("exp", "e", "x1"), broadcast("e", "b", [2, 3], 1), op("add", "y", "x0", "b")],
        ["y"],
        ["w0[b2,3] = broadcast_to(i1) [1]", "w1[b2,3] = exp(w0)", "v2[2,3] = add(i0, w1)"],
        id="a-result-that-varies-along-nothing-new-stays-broadcast",
    ),
    pytest.param(
        [[2, 3]],
        [permute("x0", "y", 1, 0)],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "v0[3,2] = copy(w0)"],
        id="a-view-as-output-is-copied",
    ),
    pytest.param(
        [[3]],
        [broadcast("x0", "y", [2, 3], 1)],
        ["y"],
        ["w0[b2,3] = broadcast_to(i0) [1]", "v0[2,3] = copy(w0)"],
        id="a-broadcast-as-output-is-copied",
    ),
    pytest.param(
        [[2, 3, 4]],
        [permute("x0", "a", 2, 0, 1), permute("a", "b", 1, 2, 0), op("neg", "y", "b")],
        ["y"],
        ["v2[2,3,4] = neg(i0)"],
        id="permutes-that-undo-each-other-vanish",
    ),
    pytest.param(
        [[2, 3, 4]],
        [permute("x0", "a", 1, 0, 2), permute("a", "b", 0, 2, 1), op("neg", "y", "b")],
        ["y"],
        ["w0[3,4,2] = permute(i0) [1, 2, 0]", "v2[3,4,2] = neg(w0)"],
        id="a-chain-of-permutes-is-one",
    ),
    pytest.param(
        [[2, 3]],
        [permute("x0", "t", 1, 0), op("add", "y", "t", "t")],
        ["y"],
        ["w0[3,2] = permute(i0) [1, 0]", "v1[3,2] = add(w0, w0)"],
        id="the-same-view-is-made-once",
    ),
    pytest.param(
        [[3, 3]],
        [permute("x0", "t", 1, 0), op("add", "y", "t", "x0")],
        ["y"],
        ["w0[3,3] = permute(i0) [1, 0]", "v1[3,3] = add(w0, i0_1)"],
        id="the-same-input-through-two-views-is-two-tensors",
    ),
    pytest.param(
        [[2, 3]],
        [op("exp", "e", "x0"), op("neg", "y", "e")],
        ["y", "e"],
        ["v0[2,3] = exp(i0)", "v1[2,3] = neg(v0)"],
        id="an-output-consumed-inside",
    ),
    pytest.param(
        [[4, 6]],
        [take("x0", "a", 1, 1, 5), reshape("a", "b", 4, 2, 2), permute("b", "y", 1, 0, 2)],
        ["y"],
        ["w0[2,4,2] = view(i0) d1, (d0 * 2 + d2 + 1)"],
        id="a-chain-of-views-is-one-read",
    ),
    pytest.param(
        [[2, 3, 4], [12]],
        [reshape("x0", "a", 2, 12), broadcast("x1", "b", [2, 12], 1), op("add", "y", "a", "b")],
        ["y"],
        ["w0[b2,3,4] = view(i1) (d1 * 4 + d2)", "v2[2,3,4] = add(i0, w0)"],
        id="the-space-is-cut-where-a-reshape-cuts-it",
    ),
    pytest.param(
        [[2, 3, 4]],
        [op("exp", "e", "x0"), reshape("e", "f", 6, 4), op("neg", "y", "f")],
        ["e", "y"],
        ["v0[2,3,4] = exp(i0)", "v2[2,3,4] = neg(v0)"],
        id="outputs-of-two-shapes-in-one-order",
    ),
    pytest.param([[]], [op("exp", "y", "x0")], ["y"], ["v0[1] = exp(w0)"], id="rank-0"),
    pytest.param(
        [[2, 3]],
        [
            {"op": "iota", "in": [], "out": "i", "shape": [3, 2], "dim": 0, "dtype": "f32"},
            permute("i", "p", 1, 0),
            op("add", "y", "x0", "p"),
        ],
        ["y"],
        ["w0[b2,3] = iota() d1"],
        id="an-index-through-a-view",
    ),
    pytest.param(
        [[2, RUN], [2, RUN]],
        [cat("c", 1, "x0", "x1"), op("neg", "y", "c")],
        ["y"],
        [f"v1_0[2,{RUN}] = neg(i0)", f"v1_1[2,{RUN}] = neg(i1)"],
        id="equal-operands-of-a-cat-are-stored-in-parts",
    ),
    pytest.param(
        [[2, RUN - 1], [2, RUN - 1]],
        [cat("c", 1, "x0", "x1"), op("neg", "y", "c")],
        ["y"],
        [f"v1[2,{2 * RUN - 2}] = neg(w4)", f"w4[2,{2 * RUN - 2}] = where(w3, w0, w1)"],
        id="parts-of-shorter-runs-are-selected",
    ),
    pytest.param(
        [[2, 3], [2, 5], [2, 8]],
        [cat("c", 1, "x0", "x1"), op("add", "y", "c", "x2")],
        ["y"],
        [
            "w0[2,8] = view(i0) d0, d1 if 0 <= d1 < 3",
            "w1[2,8] = view(i1) d0, (d1 + -3) if 3 <= d1 < 8",
            "w4[2,8] = where(w3, w0, w1)",
        ],
        id="others-are-selected",
    ),
    pytest.param(
        [[2, 2 * RUN]],
        [*halves("x0", RUN), cat("c", 1, "b", "a"), op("add", "y", "x0", "c")],
        ["y"],
        [
            f"w0[2,{RUN}] = view(i0) d0, d1",
            f"w1[2,{RUN}] = view(i0) d0, (d1 + {RUN})",
            f"v3_0[2,{RUN}] = add(w0, w1)",
            f"v3_1[2,{RUN}] = add(w1, w0)",
        ],
        id="halves-that-change-places-are-read-once",
    ),
    pytest.param(
        [[2, 2 * RUN - 2]],
        [*halves("x0", RUN - 1), cat("c", 1, "b", "a"), op("add", "y", "x0", "c")],
        ["y"],
        [f"v3[2,{2 * RUN - 2}] = add(w6, w4)", f"w4[2,{2 * RUN - 2}] = where(w3, w0, w1)"],
        id="shorter-halves-that-change-places-are-selected",
    ),
    pytest.param(
        [[4, 6]],
        [reduce("sum", "y", "x0", 1)],
        ["y"],
        ["v0_sum[4,r6] = sum(i0)", "v0[4] = copy(v0_sum)"],
        id="a-fold",
    ),
    pytest.param(
        [[4, 6]],
        [reduce("mean", "m", "x0", 0, 1)],
        ["m"],
        ["v0_sum[1,r4,r6] = sum(w0)", "w2[1] = div(v0_sum, 24.0)"],
        id="over-everything",
    ),
    pytest.param(
        [[4, 6]],
        [
            reduce("amax", "m", "x0", 1, keepdim=True),
            broadcast("m", "b", [4, 6], 0, 1),
            op("sub", "d", "x0", "b"),
            reduce("sum", "s", "d", 1),
        ],
        ["d", "s"],
        ["w1[4,b6] = broadcast_to(v0_amax) [0]", "v2[4,6] = sub(i0, w1)", "v3_sum[4,r6] = sum(v2)"],
        id="one-fold-after-the-other",
    ),
    pytest.param(
        [[2, 6, 5]],
        [
            reshape("x0", "g", 2, 3, 10),
            reduce("mean", "m", "g", 2, keepdim=True),
            broadcast("m", "b", [2, 3, 10], 0, 1, 2),
            op("sub", "d", "g", "b"),
            reshape("d", "y", 2, 6, 5),
        ],
        ["y"],
        ["v1_sum[2,3,r2,r5] = sum(w0)", "w2[2,3,b2,b5] = broadcast_to(v1_sum) [0, 1]"],
        id="groups",
    ),
    pytest.param(
        [[2, 1, 3]],
        [reduce("sum", "s", "x0", 1), op("neg", "y", "s")],
        ["y"],
        ["w0[2,3] = view(i0) d0, 0, d1", "v1[2,3] = neg(w0)"],
        id="a-fold-of-one-element-is-none",
    ),
    pytest.param(
        [[2, 3], [3], [2, 3]],
        [
            broadcast("x1", "b", [2, 3], 1),
            op("exp", "e", "b"),
            op("add", "y", "x0", "e"),
            op("mul", "z", "x2", "e"),
        ],
        ["y", "z"],
        ["v1[b2,3] = exp(w0)", "v2[2,3] = add(i0, v1)", "w7[b2,3] = exp(w8)", "v3[2,3] = mul(i2, w7)"],
        id="repeated-along-what-nothing-joins",
    ),
    pytest.param(
        [[2, 3], [3]],
        [
            broadcast("x1", "b", [2, 3], 1),
            op("exp", "e", "b"),
            op("add", "y", "x0", "e"),
            op("mul", "z", "x0", "e"),
        ],
        ["y", "z"],
        ["v1[b2,3] = exp(w0)", "v2[2,3] = add(i0, v1)", "v3[2,3] = mul(i0, v1)"],
        id="repeated-along-what-is-joined",
    ),
    pytest.param(
        [[2, 3], [3]],
        [broadcast("x1", "b", [2, 3], 1), op("exp", "y", "b"), op("neg", "z", "y")],
        ["y", "z"],
        ["w1[b2,3] = exp(w0)", "v1[2,3] = copy(w1)", "v2[2,3] = copy(w3)"],
        id="stored-and-repeated",
    ),
    pytest.param(
        [[4, 6]],
        [
            reduce("amax", "m", "x0", 0, 1, keepdim=True),
            broadcast("m", "b", [4, 6], 0, 1),
            op("sub", "d", "x0", "b"),
            take("d", "low", 1, 0, 2),
            take("d", "high", 1, 2, 6),
            cat("y", 1, "high", "low"),
        ],
        ["y"],
        ["v0_amax[1,r4,r6] = amax(w1)", "w1[1,4,6] = broadcast_to(i0) [1, 2]"],
        id="a-fold-whose-result-is-used-in-parts",
    ),
    pytest.param(
        [[9, 4]],
        [every("x0", "s", 0, 0, 9, 2), op("exp", "y", "s")],
        ["y"],
        ["v1[5,4] = exp(i0_s1)"],
        id="every-second-row-is-a-tensor",
    ),
    pytest.param(
        [[9, 4]],
        [every("x0", "s", 0, 0, 9, 2), permute("s", "t", 1, 0), op("exp", "y", "t")],
        ["y"],
        ["w0[4,5] = permute(i0_s1) [1, 0]"],
        id="and-permuted",
    ),
    pytest.param(
        [[9, 4]],
        [every("x0", "s", 0, 1, 9, 2), op("exp", "y", "s")],
        ["y"],
        ["w0[4,4] = view(i0) (d0 * 2 + 1), d1"],
        id="from-the-second-on-a-view",
    ),
    pytest.param(
        [[9, 4]],
        [flip("x0", "f", 0, 1), op("exp", "y", "f")],
        ["y"],
        ["w0[9,4] = view(i0) (d0 * -1 + 8), (d1 * -1 + 3)"],
        id="flipped",
    ),
    pytest.param(
        [[4, 6]],
        [flip("x0", "f", 1), reshape("f", "r", 8, 3), op("exp", "y", "r")],
        ["y"],
        ["w0[4,2,3] = view(i0) d0, (d1 * -3 + d2 * -1 + 5)"],
        id="flipped-and-reshaped",
    ),
    pytest.param(
        [[4, 6]],
        [pad("x0", "p", [1, 0], [0, 2]), op("exp", "y", "p")],
        ["y"],
        ["w0[5,8] = view(i0) (d0 + -1), d1 if 1 <= d0 < 5 if 0 <= d1 < 6", "v1[5,8] = exp(w0)"],
        id="padded-with-zeros-is-a-view",
    ),
    pytest.param(
        [[4, 6]],
        [flip("x0", "f", 0), pad("f", "p", [1, 0], [0, 0]), op("exp", "y", "p")],
        ["y"],
        ["w0[5,6] = view(i0) (d0 * -1 + 4), d1 if 1 <= d0 < 5"],
        id="flipped-and-padded",
    ),
    pytest.param(
        [[4]],
        [pad("x0", "p", [1], [2], -1.5), op("exp", "y", "p")],
        ["y"],
        ["w2[7] = lt(w1, 5.0)", "w3[7] = where(w2, w0, -1.5)", "w5[7] = where(w4, -1.5, w3)"],
        id="padded-with-a-number-is-chosen",
    ),
    pytest.param(
        [[4]],
        [pad("x0", "p", [1], [2], -0.0), op("exp", "y", "p")],
        ["y"],
        ["w3[7] = where(w2, w0, -0.0)"],
        id="a-negative-zero-is-another-number",
    ),
    pytest.param(
        [[4]],
        [op("exp", "e", "x0"), pad("e", "y", [0], [2])],
        ["y"],
        ["w1[6] = exp(w0)", "w4[6] = where(w3, w1, 0.0)"],
        id="a-padded-result-is-chosen",
    ),
    pytest.param(
        [[4, 6]],
        [pad("x0", "p", [1, 0], [0, 2]), take("p", "s", 0, 1, 5), take("s", "u", 1, 0, 6), op("exp", "y", "u")],
        ["y"],
        ["v3[4,6] = exp(i0)"],
        id="padded-and-cut-again",
    ),
    pytest.param(
        [[4, 6]],
        [pad("x0", "p", [0, 3], [0, 0], 7), take("p", "s", 1, 0, 2), op("exp", "y", "s")],
        ["y"],
        ["w0[b4,b2] = full(7.0)"],
        id="of-a-pad-only-what-it-adds",
    ),
    pytest.param(
        [[4]],
        [{"op": "full", "in": [], "out": "c", "shape": [4], "value": 2, "dtype": "f32"}, op("mul", "y", "x0", "c")],
        ["y"],
        ["w0[b4] = full(2.0)", "v1[4] = mul(i0, w0)"],
        id="a-constant",
    ),
    pytest.param(
        [[2, 3]],
        [op("mul", "y", "x0", 2.5)],
        ["y"],
        ["v0[2,3] = mul(i0, 2.5)"],
        id="literals-stay",
    ),
]


@pytest.mark.parametrize(("shapes", "ops", "outputs", "expected"), CASES)
def test_forms(shapes: list[list[int]], ops: list[Document], outputs: list[str], expected: list[str]) -> None:
    fusion = fusion_of(shapes, ops, *outputs)
    sf = start(fusion)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    assert set(expected) <= set(printed(sf))


SIZE_ONE = [
    pytest.param([[1, 3]], [broadcast("x0", "b", [2, 3], 0, 1), op("exp", "y", "b")], "b2,3", id="rows"),
    pytest.param([[2, 1]], [broadcast("x0", "b", [2, 3], 0, 1), op("exp", "y", "b")], "2,b3", id="columns"),
    pytest.param([[1]], [broadcast("x0", "b", [4], 0), op("exp", "y", "b")], "b4", id="scalar"),
    pytest.param([[2, 1]], [broadcast("x0", "b", [5, 2, 3], 1, 2), op("exp", "y", "b")], "b5,2,b3", id="and-new"),
    pytest.param([[1, 3]], [op("exp", "e", "x0"), broadcast("e", "y", [2, 3], 0, 1)], "b2,3", id="of-a-result"),
    pytest.param(
        [[1, 3]],
        [permute("x0", "t", 1, 0), broadcast("t", "b", [3, 2], 0, 1), op("exp", "y", "b")],
        "3,b2",
        id="of-a-permute",
    ),
    pytest.param(
        [[2, 1, 1]],
        [broadcast("x0", "b", [2, 3, 4], 0, 1, 2), permute("b", "t", 2, 0, 1), op("exp", "y", "t")],
        "b4,2,b3",
        id="permuted-afterwards",
    ),
    pytest.param([[1, 3]], [broadcast("x0", "b", [1, 3], 0, 1), op("exp", "y", "b")], "1,3", id="one-to-one-is-none"),
]


@pytest.mark.parametrize(("shapes", "ops", "kinds"), SIZE_ONE)
def test_dimensions_of_size_one_expand(shapes: list[list[int]], ops: list[Document], kinds: str) -> None:
    fusion = fusion_of(shapes, ops, "y")
    sf = start(fusion)
    check_form(fusion, sf)
    check_meaning(fusion, sf)
    (read,) = next(o for o in sf.ops if o.kind is OpKind.EXP).tensor_inputs
    assert ",".join(f"{'b' if a.is_broadcast else ''}{a.extent}" for a in sf.tensor(read).logical) == kinds


REFUSED = [
    pytest.param(
        [[2, 3]], [op("exp", "e", "x0"), permute("e", "y", 1, 0)], ["e", "y"], "output v1 of shape", id="permuted"
    ),
    pytest.param(
        [[4]],
        [broadcast("x0", "y", [2, 4], 1), broadcast("x0", "z", [3, 4], 1)],
        ["y", "z"],
        "output v1 of shape",
        id="two-sizes",
    ),
    pytest.param(
        [[4, 6]],
        [
            reduce("sum", "s", "x0", 1, keepdim=True),
            broadcast("s", "b", [4, 6], 0, 1),
            op("mul", "m", "x0", "b"),
            reduce("sum", "t", "m", 0, keepdim=True),
            broadcast("t", "c", [4, 6], 0, 1),
            op("sub", "y", "m", "c"),
        ],
        ["y"],
        r"operator sum \(v3\), whose result varies",
        id="a-fold-over-what-another-kept",
    ),
    pytest.param(
        [[4, 6], [4, 5]],
        [reduce("sum", "s", "x0", 1), reduce("amax", "t", "x1", 1), op("add", "y", "s", "t")],
        ["y"],
        r"operator amax \(v1\)",
        id="two-lengths",
    ),
]


@pytest.mark.parametrize(("shapes", "ops", "outputs", "named"), REFUSED)
def test_what_one_space_cannot_hold_is_refused_by_name(
    shapes: list[list[int]], ops: list[Document], outputs: list[str], named: str
) -> None:
    with pytest.raises(Unsupported, match=named):
        start(fusion_of(shapes, ops, *outputs))


@pytest.mark.parametrize(("low", "is_refused"), [([1, 0], True), ([0, 3], False)], ids=["rows", "columns"])
def test_rows_of_a_pad_are_taken_where_it_adds_none(low: list[int], is_refused: bool) -> None:
    """Whether a row is one that the pad adds is data."""
    inputs = [{"name": "x0", "shape": [4, 6], "dtype": "f32"}, {"name": "x1", "shape": [9], "dtype": "i32"}]
    ops = [pad("x0", "p", low, [0, 0], 2), {"op": "take", "in": ["p", "x1"], "out": "y", "dim": 0}]
    fusion = from_wire(inputs, ops, "y")
    if is_refused:
        with pytest.raises(Unsupported, match=r"operator pad \(v0\), of whose result rows are taken"):
            start(fusion)
        return
    assert "w1[9,9] = take" in "".join(printed(start(fusion)))


@pytest.mark.parametrize(
    ("shapes", "ops", "told"),
    [
        pytest.param([[2, RUN]] * 2, [cat("y", 1, "x0", "x1")], "stored in 2 parts, in each of which", id="parts"),
        pytest.param([[2, RUN - 1]] * 2, [cat("y", 1, "x0", "x1")], "2 parts would be runs of 508 bytes", id="short"),
        pytest.param(
            [[2, RUN], [2, 3 * RUN], [2, 2 * RUN]],
            [cat("c", 1, "x0", "x1"), cat("d", 1, "x2", "x2"), op("add", "y", "c", "d")],
            "stored in 4 parts",
            id="parts-of-both",
        ),
        pytest.param([[2, 3], [2, 512]], [cat("y", 1, "x0", "x1")], "", id="too-many"),
        pytest.param([[2, 512]], [op("neg", "y", "x0")], "", id="no-concatenation"),
    ],
)
def test_how_outputs_are_stored_is_told(shapes: list[list[int]], ops: list[Document], told: str) -> None:
    """As they are: a part is a tensor of its own."""
    fusion = fusion_of(shapes, ops, "y")
    said = parts_text(fusion)
    assert told in said
    assert bool(said) == bool(told)
    assert len(start(fusion).outputs) == (int(told.split()[2]) if told.startswith("stored in") else 1)
