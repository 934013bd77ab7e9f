"""What users write who know other frameworks, and graphs that have no order: the error says what to write instead."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from fusetune.wire import InvalidDocument, canonicalize, fingerprint, infer, parse_binding, parse_fusion
from fusetune.wire.advice import DTYPE_ADVICE, DTYPE_OF, OP_OF, RECIPE_OF
from fusetune.wire.bound import apply_binding
from fusetune.wire.fusion import FORMAT, MODEL_OF_OP, DTypeName
from fusetune.wire.problems import Problem

DTYPES = get_args(DTypeName)


def fusion(*ops: dict[str, Any], dtype: str = "f32", shape: tuple[Any, ...] = (64, 64)) -> dict[str, Any]:
    inputs = [{"name": "x", "shape": list(shape), "dtype": dtype}]
    return {"format": FORMAT, "inputs": inputs, "ops": list(ops), "outputs": [{"name": ops[-1]["out"]}]}


def op(name: str, out: str, *ins: Any, **attributes: Any) -> dict[str, Any]:
    return {"op": name, "in": list(ins), "out": out, **attributes}


def only_problem(document: dict[str, Any]) -> Problem:
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion(document)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scatter_add", "take(x, index) where the inverse of the index is at hand"),
        ("index_put", "take(x, index)"),
        ("topk", "pass its result as an input"),
        ("embedding", "Did you mean take?"),
        ("index_select", "Did you mean take?"),
        ("take_along_dim", "Did you mean gather?"),
        ("clamp", "minimum(maximum(x, low), high)"),
        ("logical_and", "bitwise_and(a, b) of two bool"),
        ("roll", "cat(...) of two results of slice(x)"),
        ("constant_pad_nd", "Did you mean pad?"),
        ("full_like", "Did you mean full?"),
        ("flipud", "Did you mean flip?"),
        ("einsum", "permute(x), broadcast_to(x), mul(a, b) and sum(x, dims)"),
        ("softmax", "exp(sub(x, broadcast_to(amax(x, dims))))"),
        ("LayerNorm", "rsqrt(add(v, eps))"),
        ("layernorm", "rsqrt(add(v, eps))"),
        ("var", "mean(square("),
        ("std", "sqrt("),
        ("max", "maximum(a, b) of two tensors, or amax(x, dims) of one"),
        ("min", "minimum(a, b) of two tensors, or amin(x, dims) of one"),
        ("power", "Did you mean pow?"),
        ("erfc", "sub(1, erf(x))"),
        ("bfloat16", "Write cast(x) to bf16."),
        ("rint", "Did you mean round?"),
        ("shl", "Did you mean bitwise_left_shift?"),
        ("transpose", "Did you mean permute?"),
        ("torch.multiply", "Did you mean mul?"),
        ("Add", "Did you mean add?"),
        ("addd", "Did you mean add?"),
        ("nll_loss", "neg(gather(p, index))"),
        ("histc", "leave it out and pass its result as an input"),
    ],
)
def test_an_operator_that_is_none_gets_a_name_or_a_recipe(name: str, says: str) -> None:
    problem = only_problem(fusion(op(name, "y", "x")))
    assert (problem.where, problem.found) == ("ops[0].op", repr(name))
    assert says in problem.fix
    assert "Known operators: abs add" in problem.fix


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        ("bfloat16", "Did you mean bf16?"),
        ("torch.bfloat16", "Did you mean bf16?"),
        ("half", "Did you mean f16?"),
        ("float16", "Did you mean f16?"),
        ("float", "Did you mean f32?"),
        ("float32", "Did you mean f32?"),
        ("double", "Did you mean f64?"),
        ("int", "Did you mean i32?"),
        ("long", "Did you mean i64?"),
        ("short", "Did you mean i16?"),
        ("uint8", "Did you mean u8?"),
        ("uint16", "Cast to i32"),
        ("float8_e4m3fn", "Did you mean f8e4m3?"),
        ("torch.float8_e5m2", "Did you mean f8e5m2?"),
        ("float8_e4m3fnuz", "Cast to f8e4m3"),
        ("f23", "Did you mean f32?"),
    ],
)
@pytest.mark.parametrize("where", ["inputs[0].dtype", "ops[0].dtype"])
def test_a_dtype_that_is_none_gets_one_that_is(dtype: str, says: str, where: str) -> None:
    cast = op("cast", "y", "x", dtype=dtype if where.startswith("ops") else "f32")
    problem = only_problem(fusion(cast, dtype="f32" if where.startswith("ops") else dtype))
    assert problem.where == where
    assert says in problem.fix


def test_advice_is_for_names_that_are_none_and_tells_of_names_that_are() -> None:
    assert not (OP_OF.keys() | RECIPE_OF.keys()) & MODEL_OF_OP.keys()
    assert not OP_OF.keys() & RECIPE_OF.keys()
    assert not (DTYPE_OF.keys() | DTYPE_ADVICE.keys()) & set(DTYPES)
    assert set(OP_OF.values()) <= MODEL_OF_OP.keys()
    assert set(DTYPE_OF.values()) <= set(DTYPES)
    for name, recipe in RECIPE_OF.items():
        assert set(re.findall(r"(\w+)\(", recipe)) <= MODEL_OF_OP.keys(), name


@pytest.mark.parametrize(
    ("ops", "where", "told"),
    [
        pytest.param([op("add", "a", "x", "a")], "ops[0].in[1]", "'a' needs 'a'", id="itself"),
        pytest.param(
            [op("add", "a", "x", "b"), op("relu", "b", "a")],
            "ops[0].in[1]",
            "'a' needs 'b', which needs 'a'",
            id="each-other",
        ),
        pytest.param(
            [op("exp", "a", "c"), op("relu", "b", "a"), op("add", "c", "x", "b")],
            "ops[0].in[0]",
            "'a' needs 'c', which needs 'b', which needs 'a'",
            id="three",
        ),
        pytest.param(
            [op("relu", "v0", "v11"), *(op("relu", f"v{n}", f"v{n - 1}") for n in range(1, 12))],
            "ops[0].in[0]",
            "which needs 'v7', which needs 6 more, which needs 'v0'",
            id="long",
        ),
    ],
)
def test_a_cycle_is_called_one_and_its_values_are_named(ops: list[dict[str, Any]], where: str, told: str) -> None:
    problem = only_problem(fusion(*ops))
    assert problem.where == where
    assert "in a cycle: " in problem.found
    assert told in problem.found
    assert "Break the cycle" in problem.fix


def test_what_stands_too_late_and_is_no_cycle_is_to_be_moved() -> None:
    problem = only_problem(fusion(op("add", "a", "x", "b"), op("relu", "b", "x")))
    assert (problem.where, problem.found) == ("ops[0].in[1]", "'b'")
    assert "Move the op" in problem.fix


# Reshapes that depend on a symbol -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        pytest.param((-1, 128), 64, (32, 128), id="even"),
        pytest.param((-1, 128), 63, None, id="odd"),
        pytest.param(("M", "M"), 64, (64, 64), id="square"),
        pytest.param(("M", "M"), 63, None, id="no-square"),
        pytest.param((-1, "M", "M"), 32, (2, 32, 32), id="twice"),
        pytest.param((16, 256), 64, (16, 256), id="numbers"),
        pytest.param((16, 256), 32, None, id="other-numbers"),
    ],
)
def test_a_reshape_is_settled_at_binding(shape: tuple[Any, ...], size: int, result: tuple[int, ...] | None) -> None:
    document = parse_fusion(fusion(op("reshape", "y", "x", shape=list(shape)), shape=("M", 64)))
    assert fingerprint(canonicalize(document)) == fingerprint(document)
    binding = parse_binding({"sizes": {"M": size}})
    if result is not None:
        assert tuple(e.constant for e in apply_binding(document, binding).types["y"].shape) == result
        return
    with pytest.raises(InvalidDocument) as caught:
        apply_binding(document, binding)
    (problem,) = caught.value.problems
    assert problem.where == "ops[0].shape"
    assert f"f32 ({size}, 64)" in problem.expected


@pytest.mark.parametrize("shape", [("M", 65), ("M", 64, 2), (0, -1), ("M", "M", 64, 0)])
def test_a_reshape_that_no_binding_settles_is_refused_at_once(shape: tuple[Any, ...]) -> None:
    assert only_problem(fusion(op("reshape", "y", "x", shape=list(shape)), shape=("M", 64))).where == "ops[0].shape"


def test_quotients_are_sizes_like_others() -> None:
    """Equal to themselves, however they were made; joined, sliced and folded."""
    found = infer(
        parse_fusion(
            fusion(
                op("reshape", "a", "x", shape=[-1, 128]),
                op("exp", "e", "x"),
                op("reshape", "b", "e", shape=[-1, 128]),
                op("add", "c", "a", "b"),
                op("cat", "d", "c", "c", dim=0),
                op("reshape", "back", "c", shape=["M", 64]),
                op("add", "y", "back", "x"),
                shape=("M", 64),
            )
        )
    )
    assert str(found.types["c"]) == "f32 ((M / 2), 128)"
    assert str(found.types["d"]) == "f32 (2*(M / 2), 128)"
    assert str(found.types["y"]) == "f32 (M, 64)"


def test_quotients_of_quotients_stay_short() -> None:
    ops, last = [], "x"
    for n in range(60):
        ops += [
            op("reshape", f"a{n}", last, shape=[-1, 3]),
            op("reshape", f"b{n}", last, shape=[-1, 5, 3]),
            op("reshape", f"c{n}", f"b{n}", shape=[-1, 3]),
            op("cat", f"d{n}", f"a{n}", f"c{n}", dim=0),
        ]
        last = f"d{n}"
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion(fusion(*ops, shape=("M", 64)))
    assert all(len(str(problem)) < 2000 for problem in caught.value.problems)
