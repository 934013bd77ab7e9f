"""The builder writes the documents that one would write by hand, and refuses at once what cannot be."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fusetune import Fusion, FusionBuilder, InvalidFusion, Tensor
from fusetune.wire.fusion import INTEGER_ONLY, MODEL_OF_OP

BIAS_GELU = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 4096], "dtype": "bf16"}, {"name": "b", "shape": [4096], "dtype": "bf16"}],
    "ops": [
        {"op": "cast", "in": ["x"], "out": "t0", "dtype": "f32"},
        {"op": "cast", "in": ["b"], "out": "t1", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["t1"], "out": "t2", "shape": ["M", 4096], "dims": [1]},
        {"op": "add", "in": ["t0", "t2"], "out": "t3"},
        {"op": "gelu", "in": ["t3"], "out": "t4"},
        {"op": "cast", "in": ["t4"], "out": "out", "dtype": "bf16"},
    ],
    "outputs": [{"name": "out"}],
}


def bias_gelu() -> Fusion:
    f = FusionBuilder()
    x = f.input("x", ("M", 4096), "bf16")
    b = f.input("b", (4096,), "bf16")
    y = f.gelu(x.cast("f32") + b.cast("f32").broadcast_to(x.shape, dims=(1,)))
    f.output(y.cast("bf16"), name="out")
    return f.build()


def test_builds_the_document() -> None:
    assert json.loads(bias_gelu().to_json()) == BIAS_GELU


def test_a_fusion_comes_back_from_its_json() -> None:
    fusion = bias_gelu()
    assert Fusion.from_json(fusion.to_json()) == fusion == Fusion.from_json(BIAS_GELU)
    assert Fusion.from_json(fusion.to_json()).fingerprint == fusion.fingerprint


def test_repr_shows_the_graph() -> None:
    lines = repr(bias_gelu()).splitlines()
    assert lines[0] == "fusion(x: bf16 (M, 4096), b: bf16 (4096)) -> out"
    assert lines[3] == "  t2 = broadcast_to(t1, shape=(M, 4096), dims=(1))"


@pytest.mark.parametrize(
    ("make", "op", "ins"),
    [
        pytest.param(lambda x, y: x + y, "add", ["x", "y"], id="add"),
        pytest.param(lambda x, y: x - 1, "sub", ["x", 1], id="number-right"),
        pytest.param(lambda x, y: 1 - x, "sub", [1, "x"], id="number-left"),
        pytest.param(lambda x, y: 2.5 * x, "mul", [2.5, "x"], id="mul"),
        pytest.param(lambda x, y: 1 / y, "div", [1, "y"], id="div"),
        pytest.param(lambda x, y: 3 + y, "add", [3, "y"], id="radd"),
        pytest.param(lambda x, y: 7 // y, "floor_divide", [7, "y"], id="floordiv"),
        pytest.param(lambda x, y: x % y, "remainder", ["x", "y"], id="mod"),
        pytest.param(lambda x, y: x**3, "pow", ["x", 3], id="pow"),
        pytest.param(lambda x, y: -x, "neg", ["x"], id="neg"),
        pytest.param(lambda x, y: abs(x), "abs", ["x"], id="abs"),
        pytest.param(lambda x, y: x @ y, "matmul", ["x", "y"], id="matmul"),
        pytest.param(lambda x, y: x + float("-inf"), "add", ["x", "-inf"], id="minus-infinity"),
        pytest.param(lambda x, y: x + float("nan"), "add", ["x", "nan"], id="nan"),
    ],
)
def test_operators(make: Callable[[Tensor, Tensor], Tensor], op: str, ins: list[Any]) -> None:
    f = FusionBuilder()
    f.output(make(f.input("x", (4, 4), "f32"), f.input("y", (4, 4), "f32")))
    (written,) = json.loads(f.build().to_json())["ops"]
    assert (written["op"], written["in"]) == (op, ins)


def test_every_operator_of_the_format_is_a_method() -> None:
    f = FusionBuilder()
    x, i = f.input("x", (4, 4), "f32"), f.input("i", (4, 4), "i64")
    attributes: dict[str, tuple[Any, ...]] = {
        "cast": (x, "f16"), "broadcast_to": (x, (2, 4, 4), (1, 2)), "permute": (x, (1, 0)), "reshape": (x, (-1,)),
        "slice": (x, 0, 1, 3), "cat": ((x, x), 0), "iota": ((4,), 0, "i32"), "where": (f.lt(x, 0), x, 0),
        "fma": (x, x, 0.5), "cumsum": (x, 0), "pad": (x, (0, 1), (2, 0), -1.5), "full": ((4,), float("inf"), "f16"),
        "rand": ((4, 4), f.input("seed", (), "i64"), f.input("offset", (), "i64")), "take": (x, i), "gather": (x, 1, i),
    }  # fmt: skip
    for name, model in MODEL_OF_OP.items():
        binary = model.__name__ in ("Binary", "Compare", "Matmul")
        reduce = model.__name__ in ("Reduce", "Truth", "Flip")
        of = i if name in INTEGER_ONLY else x
        arguments = attributes.get(name) or ((of, of) if binary else (of, (0,)) if reduce else (of,))
        made = getattr(f, name)(*arguments)
    f.output(made)
    assert [op.op for op in f.build().ops][1:] == list(MODEL_OF_OP)


REFUSED: list[tuple[str, Callable[[FusionBuilder, Tensor, Tensor], Any], str, str]] = [
    ("shapes differ", lambda f, x, b: x + b, "ops[1].in[1]", "broadcast_to"),
    ("unknown dtype", lambda f, x, b: x.cast("f33"), "ops[1].dtype", "one of these"),  # type: ignore[arg-type]  # what is refused
    ("a scalar alone", lambda f, x, b: f.scalar("s") * 2, "s", "before the call"),
    ("a scalar negated", lambda f, x, b: -f.scalar("s"), "s", "before the call"),
    ("no such dimension", lambda f, x, b: x.sum((2,)), "ops[1].dims[0]", "is there"),
    ("name taken", lambda f, x, b: f.input("x", (1,), "f32"), "inputs[2].name", "Rename"),
    ("bad symbol", lambda f, x, b: f.input("q", ("2M",), "f32"), "inputs[2].shape[0]", "Rename the symbol"),
    ("input returned", lambda f, x, b: f.output(x), "outputs[1].name", "copy"),
    ("truth value", lambda f, x, b: x + True, "ops[1].in[1]", "0 or 1"),
    ("another builder", lambda f, x, b: FusionBuilder().neg(x), "ops[0].in[0]", "one builder"),
    ("a size for a shape", lambda f, x, b: f.input("q", 4, "f32"), "inputs[2].shape", "in brackets: [4]"),  # type: ignore[arg-type]  # what is refused
    ("a text for a shape", lambda f, x, b: f.input("q", "MN", "f32"), "inputs[2].shape", "in brackets"),
    ("a size for strides", lambda f, x, b: f.input("q", (4,), "f32", strides=1), "inputs[2].strides", "brackets: [1]"),  # type: ignore[arg-type]  # what is refused
    ("a number for dims", lambda f, x, b: x.permute(1), "ops[1].dims", "in brackets: [1]"),  # type: ignore[arg-type]  # what is refused
    ("nothing returned", lambda f, x, b: f.output(None), "outputs[1]", "the result of an operator"),  # type: ignore[arg-type]  # what is refused
    ("made of a derived size", lambda f, x, b: f.iota(f.cat((x, x), 0).shape, 0, "i32"), "ops[2].shape[0]", "symbol"),
]


@pytest.mark.parametrize(("make", "where", "fix"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_mistake_is_refused_at_once_and_leaves_no_trace(make: Any, where: str, fix: str) -> None:
    f = FusionBuilder()
    x, b = f.input("x", ("M", 8), "f32"), f.input("b", (8,), "f32")
    f.output(f.exp(x), name="y")
    with pytest.raises(InvalidFusion) as caught:
        make(f, x, b)
    assert caught.value.problems[0].where == where
    assert fix in caught.value.problems[0].fix
    assert [output.name for output in f.build().outputs] == ["y"]


def test_a_tensor_has_no_truth_value() -> None:
    x = FusionBuilder().input("x", (4,), "f32")
    with pytest.raises(TypeError, match="use where"):
        bool(x)


def test_generated_names_make_room_for_the_users() -> None:
    f = FusionBuilder()
    y = f.exp(f.input("t0", (4,), "f32"))
    f.output(f.log(y), name="t1")
    assert [op.out for op in f.build().ops] == ["t2", "t1"]


def test_the_error_survives_a_process_border() -> None:
    with pytest.raises(InvalidFusion) as caught:
        Fusion.from_json("{}")
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_importing_the_sdk_is_light() -> None:
    heavy = "{'torch', 'numpy', 'cuda', 'optuna'}"
    code = f"import sys, fusetune; print(sorted({heavy} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "sdk"})
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


def test_an_input_may_be_called_as_results_were_once_numbered() -> None:
    f = FusionBuilder()
    x = f.input("_0", (4,), "f32")
    f.output(x.cast("bf16"), name="out")
    assert [op.out for op in f.build().ops] == ["out"]
