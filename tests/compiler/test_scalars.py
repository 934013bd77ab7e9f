"""Scalars in the compiler: bound, stored, cut into launches, printed; and what they mean, held against torch."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from compiler.dtypes import DType
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion, Literal, Scalar
from compiler.ir.index_ranges import index_ranges
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.ir.printer import fusion_text
from compiler.ir.scalars import integer_range
from compiler.nvrtc import compile_now
from compiler.pipeline import artifact, generate
from compiler.reference import evaluate, settled
from compiler.wire import bind, fusion_from_json, fusion_to_json, trace_from_json, trace_to_json
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import DTypeName, ScalarName
from search.launches.cut import cut_at
from search.tuning.candidates.plan import Plan
from tests.search.proof.emulated.kernels import CARD
from tests.search.scalars import adamw
from tests.shares import inside

HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def of(made: FusionBuilder) -> Fusion:
    return bind(made.build(), Binding())


def beside(dtype: DTypeName, kind: str = "mul", scalar: ScalarName = "f64") -> Fusion:
    f = FusionBuilder()
    x = f.input("x", (64,), dtype)
    f.output(getattr(f, kind)(x, f.scalar("s", scalar)), "y")
    return of(f)


@pytest.mark.parametrize(
    ("dtype", "scalar", "as_"),
    [("f64", "f64", "f64"), ("f32", "f64", "f32"), ("f16", "f64", "f32"), ("bf16", "i64", "f32"),
     ("f64", "i64", "f64"), ("i64", "i64", "i64"), ("i32", "i64", "i64"), ("i8", "i64", "i64")],
)  # fmt: skip
def test_an_operand_has_the_type_that_the_kernel_gets(dtype: DTypeName, scalar: ScalarName, as_: str) -> None:
    fusion = beside(dtype, scalar=scalar)
    assert fusion.ops[0].inputs == ("i0", Scalar("c0", DType(as_)))
    assert fusion.scalars == (Scalar("c0", DType(scalar)),)
    assert f"c0: {scalar} by value" in fusion_text(fusion)


def test_a_bound_fusion_and_its_pinned_form_are_stored_and_read() -> None:
    for fusion in (adamw(100), pinned(adamw(100))):
        assert fusion_from_json(fusion_to_json(fusion)) == fusion


def test_a_stored_fusion_has_canonical_names() -> None:
    document = fusion_to_json(beside("f32"))
    document["fusion"]["scalars"][0]["name"] = "lr"
    document["fusion"]["ops"][0]["in"] = ["i0", "lr"]
    with pytest.raises(InvalidFusion, match=r"fusion\.scalars\[0\]\.name: found 'lr', expected 'c0'"):
        fusion_from_json(document)


def test_products_go_into_sums_and_no_scalar_changes_its_sign() -> None:
    f = FusionBuilder()
    x, y, s = f.input("x", (8,), "f32"), f.input("y", (8,), "f32"), f.scalar("s")
    f.output(y - x * s, "a")
    f.output(y - s * x, "b")
    f.output(x * y - s, "c")
    f.output(s - x * x, "d")
    kinds = [op.kind for op in pinned(of(f)).ops]
    assert [kinds.count(k) for k in (OpKind.FMA, OpKind.SUB, OpKind.MUL)] == [3, 1, 1]


def test_equal_numbers_do_not_make_two_scalars_one() -> None:
    f = FusionBuilder()
    x = f.input("x", (8,), "f32")
    f.output(x * f.scalar("s") + x * f.scalar("t"), "y")
    assert len(settled(pinned(of(f)), (2.0, 2.0)).ops) == len(pinned(of(f)).ops) == 2


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("i8", -128, 127), ("i32", -(2**31), 2**31 - 1), ("i64", -(2**63), 2**63 - 1), ("f32", -(2**63), 2**63 - 1)],
)
def test_an_integer_is_in_the_range_of_what_it_stands_beside(dtype: DTypeName, low: int, high: int) -> None:
    fusion = beside(dtype, scalar="i64")
    assert integer_range(fusion, "c0") == (low, high)


@inside("number", (0.1, -3.3, 1e-7, 3.4e38, 1e300, 7, (1 << 60) + 1))
@inside("kind", ("mul", "add", "sub", "gt", "eq"))
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
def test_a_scalar_means_what_a_number_means_in_torch(dtype: DTypeName, kind: str, number: int | float) -> None:
    """On CUDA arithmetic of halves is f32 on both sides (ATen, opmath); torch on the host rounds some numbers first."""
    held = {"f64": torch.float64, "f32": torch.float32, **HALVES}[dtype]
    x = (torch.randn(64, generator=torch.Generator().manual_seed(1)) * 4).to(held)
    if abs(number) < 10:
        x[0] = number  # as a comparison has it
    wide = x.float() if dtype in HALVES and kind not in ("gt", "eq") else x
    want = getattr(torch, kind)(wide, number)
    fusion = settled(beside(dtype, kind, "i64" if isinstance(number, int) else "f64"), (number,))
    (found,) = evaluate(fusion, [x.to(torch.float64).numpy()], np)
    assert torch.equal(torch.from_numpy(found).to(held), want.to(held))
    assert kind != "eq" or abs(number) >= 10 or bool(want[0])


def test_the_formula_of_a_step_is_that_of_torch() -> None:
    weight = torch.nn.Parameter(torch.randn(500, generator=torch.Generator().manual_seed(2)))
    optimizer = torch.optim.AdamW([weight], lr=1e-3)
    p, m, v = weight.detach().clone(), torch.zeros(500), torch.zeros(500)
    fusion = pinned(adamw(500))
    for step, lr in enumerate((1e-3, 5e-4, 2e-2), 1):
        optimizer.param_groups[0]["lr"] = lr
        weight.grad = torch.randn(500, generator=torch.Generator().manual_seed(step))
        optimizer.step()
        numbers = (lr, 0.9, 0.999, 1e-8, 0.01, 1 - 0.9**step, (1 - 0.999**step) ** 0.5)
        given = [x.detach().double().numpy() for x in (p, weight.grad, m, v)]
        p, m, v = (torch.from_numpy(x).float() for x in evaluate(settled(fusion, numbers), given, np))
        assert torch.allclose(p, weight.detach(), rtol=1e-5, atol=2e-6)


def test_every_launch_gets_the_scalars_that_it_reads() -> None:
    fusion = pinned(adamw(4096))
    made = [op.output for op in fusion.ops]
    first = fusion.outputs[2]
    cut = cut_at(fusion, [[first], [name for name in fusion.outputs if name != first]])
    assert all(part.fusion.scalars == fusion.scalars for part in cut.parts)
    assert first in made


def test_kernels_declare_what_they_read_in_the_order_of_a_call() -> None:
    f = FusionBuilder()
    x, w = f.input("x", (4096,), "f32"), f.input("w", (4096,), "f64")
    unread, s, k = f.scalar("unread"), f.scalar("s"), f.scalar("k", "i64")
    f.output(x * s + k, "y")
    f.output(w * s, "z")
    assert unread.name == "unread"
    fusion = of(f)
    plan = Plan.of(fusion, CARD)
    (name, space), *_ = plan.searchable.items()
    (point, *_) = space.sample(1, 0)
    trace = plan.schedulers[name].trace(plan.fusion, point)
    assert trace_from_json(trace_to_json(trace)) == trace
    generated = generate(trace, CARD.arch)
    parameters = re.search(r"fusetune_kernel\((.*)\)", generated.source)
    assert parameters is not None
    assert parameters[1].endswith("const float c1_f32, const double c1_f64, const float c2_f32")
    compiled = artifact(generated, compile_now(generated.source, CARD.arch.name))
    told = [(a.position, a.dtype) for a in compiled.launches[0].args if a.kind == "scalar_input"]
    assert told == [(1, "f32"), (1, "f64"), (2, "f32")]
    assert [(s.dtype, s.low) for s in compiled.scalars] == [("f64", None), ("f64", None), ("i64", -(2**63))]


def test_numbers_take_the_places_of_scalars() -> None:
    fusion = settled(beside("bf16"), (0.1,))
    (literal,) = (x for x in fusion.ops[0].inputs if isinstance(x, Literal))
    assert literal.value == torch.tensor(0.1, dtype=torch.float32).item()
    assert fusion.scalars == ()


def test_an_index_is_not_made_of_a_scalar() -> None:
    """No input set could know which indices are in range."""
    f = FusionBuilder()
    table, rows = f.input("table", (64, 8), "f32"), f.input("rows", (5,), "i64")
    f.output(f.take(table, rows + f.scalar("first", "i64")), "y")
    with pytest.raises(Unsupported, match="a scalar, which only a call tells, decides an index"):
        index_ranges(of(f))
