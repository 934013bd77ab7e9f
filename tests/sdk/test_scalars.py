"""Numbers that a call passes by value: where a fusion may use them, what a call takes, and what a kernel then gets."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusetune import Binding, FusionBuilder, InvalidFusion, Kernel, WrongArguments, binding_of
from fusetune.kernel import empty_kernel
from fusetune.launch.launcher import Launcher
from fusetune.launch.params import PackedParams, pack_params
from fusetune.scalars import numbers_of
from fusetune.wire import InvalidDocument, canonicalize, fingerprint, parse_fusion
from fusetune.wire.artifact import KernelArtifact, LaunchSpec, ScalarArg, ScalarInputArg, ScalarSpec, TensorArg
from fusetune.wire.bound import apply_binding
from fusetune.wire.scalars import held, with_numbers
from tests.sdk.launch.test_launcher import ARTIFACT, STREAM, FakeDriver, fake
from tests.sdk.test_torch_kernel import artifact

__all__ = ["fake"]


def document(*ops: dict[str, Any], **changes: Any) -> dict[str, Any]:
    inputs = [
        {"name": name, "shape": [8], "dtype": dtype}
        for name, dtype in (("x", "f32"), ("h", "bf16"), ("n", "i8"), ("p", "bool"))
    ]
    scalars = [{"name": "lr", "dtype": "f64"}, {"name": "k", "dtype": "i64"}]
    return {
        "format": "fusetune.fusion/1",
        "inputs": inputs,
        "scalars": scalars,
        "ops": list(ops),
        "outputs": [{"name": "z"}],
        **changes,
    }


def op(name: str, *ins: Any, **more: Any) -> dict[str, Any]:
    return {"op": name, "in": list(ins), "out": "z", **more}


@pytest.mark.parametrize(
    "made",
    [
        op("mul", "lr", "x"), op("sub", "h", "lr"), op("gt", "h", "lr"), op("add", "x", "k"), op("mul", "n", "k"),
        op("where", "p", "lr", "x"), op("where", "p", "n", "k"), op("fma", "x", "lr", "k"), op("lt", "k", "n"),
        op("where", "p", "lr", 0, dtype="f32"), op("where", "p", "k", "k", dtype="i8"),
    ],
)  # fmt: skip
def test_a_scalar_stands_where_a_number_may(made: dict[str, Any]) -> None:
    parse_fusion(document(made))


@pytest.mark.parametrize(
    ("made", "where", "found", "fix"),
    [
        (op("mul", "lr", "n"), "ops[0].in[0]", "f64 scalar 'lr'", "Declare the scalar as i64"),
        (op("eq", "p", "k"), "ops[0].in[1]", "i64 scalar 'k'", "Cast the tensor to i32"),
        (op("mul", "lr", "k"), "ops[0].in", "numbers only", "before the call, and pass it as a scalar"),
        (op("mul", "lr", 2), "ops[0].in", "numbers only", "pass it as a scalar of its own"),
        (op("where", "p", "lr", 0), "ops[0].dtype", "two numbers", "Say which it shall have"),
        (op("where", "p", "lr", "k", dtype="i8"), "ops[0].in[1]", "f64 scalar 'lr'", "Declare the scalar as i64"),
        (op("where", "p", "lr", 0), "ops[0].dtype", "two numbers and no dtype", "Say which"),
        (op("where", "p", "lr", 0, dtype="i32"), "ops[0].in[1]", "f64 scalar 'lr'", "Declare the scalar as i64"),
        (op("exp", "lr"), "ops[0].in[0]", "f64 scalar 'lr'", "Name a tensor"),
        (op("broadcast_to", "k", shape=[8], dims=[]), "ops[0].in[0]", "i64 scalar 'k'", "Name a tensor"),
        (op("where", "k", "x", "x"), "ops[0].in[0]", "i64 scalar 'k'", "Compare first"),
        ({**op("neg", "x"), "out": "lr"}, "ops[0].out", "'lr'", "Rename"),
    ],
)
def test_elsewhere_it_is_refused(made: dict[str, Any], where: str, found: str, fix: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion(document(made))
    first = caught.value.problems[0]
    assert first.where == where
    assert found in first.found
    assert fix in first.fix


@pytest.mark.parametrize(
    ("changes", "where", "fix"),
    [
        ({"outputs": [{"name": "lr"}]}, "outputs[0].name", "Return what an op makes of it"),
        ({"scalars": [{"name": "x", "dtype": "f64"}]}, "scalars[0].name", "Rename"),
        ({"scalars": [{"name": "lr", "dtype": "f32"}]}, "scalars[0].dtype", "Write one of these"),
        ({"scalars": [{"name": "lr"}]}, "scalars[0].dtype", "Add 'dtype'"),
        ({"scalars": [{"name": f"c{i}", "dtype": "i64"} for i in range(65)]}, "scalars", "Split the fusion"),
    ],
)
def test_a_malformed_declaration_names_its_place(changes: dict[str, Any], where: str, fix: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_fusion(document(op("neg", "x"), **changes))
    assert (where, True) in [(p.where, fix in p.fix) for p in caught.value.problems]


def test_the_fingerprint_knows_scalars_by_their_order_and_not_by_name() -> None:
    ops = (op("mul", "lr", "x"),)
    base = fingerprint(parse_fusion(document(*ops)))
    renamed = document(op("mul", "i0", "x"), scalars=[{"name": "i0", "dtype": "f64"}, {"name": "v0", "dtype": "i64"}])
    assert fingerprint(parse_fusion(renamed)) == base
    turned = document(*ops, scalars=[{"name": "k", "dtype": "i64"}, {"name": "lr", "dtype": "f64"}])
    assert fingerprint(parse_fusion(turned)) != base
    integers = document(op("mul", "k", "x"))
    assert fingerprint(parse_fusion(integers)) != base


def test_no_scalars_is_what_it_was_before_there_were_any() -> None:
    """Fingerprints of fusions without scalars stay."""
    plain = document(op("neg", "x"))
    del plain["scalars"]
    for given_ in (plain, {**plain, "scalars": []}):
        assert "scalars" not in canonicalize(parse_fusion(given_)).to_json()
    assert fingerprint(parse_fusion(plain)) == fingerprint(parse_fusion({**plain, "scalars": []}))


def test_the_builder_has_scalars() -> None:
    f = FusionBuilder()
    x = f.input("x", ("M",), "f32")
    lr = f.scalar("lr")
    count = f.scalar("count", "i64")
    f.output(lr * (x - lr) + count, "y")
    fusion = f.build()
    assert [(s.name, s.dtype) for s in fusion.numbers] == [("lr", "f64"), ("count", "i64")]
    assert str(fusion).startswith("fusion(x: f32 (M), lr: f64 by value, count: i64 by value) -> y\n")
    with pytest.raises(InvalidFusion, match="a new name"):
        f.scalar("x")
    with pytest.raises(InvalidFusion, match="expected a tensor"):
        f.exp(lr)  # type: ignore[arg-type]  # what is refused
    f.scalar("other")  # the builder goes on
    with pytest.raises(InvalidFusion, match="another builder"):
        f.mul(x, FusionBuilder().scalar("lr"))


def test_tensors_alone_say_what_a_kernel_is_tuned_for() -> None:
    """The arguments of a call may be passed whole: what stands after the tensors says nothing."""
    f = FusionBuilder()
    f.output(f.input("x", ("M",), "f32") * f.scalar("lr"), "y")
    fusion, x = f.build(), torch.zeros(24)
    assert binding_of(fusion, (x,)) == binding_of(fusion, (x, torch.tensor(3.0)))
    assert binding_of(fusion, (x, 0.5)) == binding_of(fusion, (x,))  # type: ignore[arg-type]  # numbers say nothing


F64, I64, BYTE = ScalarSpec(dtype="f64"), ScalarSpec(dtype="i64"), ScalarSpec(dtype="i64", low=-128, high=127)


@pytest.mark.parametrize(
    ("spec", "given_", "value"),
    [
        (F64, 0.1, 0.1), (F64, 3, 3.0), (F64, torch.tensor(0.5), 0.5), (F64, torch.tensor(3), 3.0),
        (F64, torch.tensor(0.1, dtype=torch.float64), 0.1), (F64, math.inf, math.inf),
        (I64, 1 << 62, 1 << 62), (I64, torch.tensor(-7), -7), (BYTE, 127, 127), (BYTE, -128, -128),
    ],
)  # fmt: skip
def test_a_call_takes_numbers_and_tensors_without_dimensions(spec: ScalarSpec, given_: object, value: float) -> None:
    (found,) = numbers_of((spec,), (given_,))
    assert found == value
    assert type(found) is (float if spec.dtype == "f64" else int)


@pytest.mark.parametrize(
    ("spec", "given_", "found", "expected"),
    [
        (F64, "0.1", "'0.1', of type str", "the kernel takes an f64"),
        (F64, True, "True, of type bool", "a number"),
        (F64, None, "None, of type NoneType", "a number"),
        (F64, 10**400, "an integer over 1.8e308", "a number that f64 can hold"),
        (I64, 3.0, "3.0, of type float", "an integer"),
        (I64, torch.tensor(3.0), "3.0, of type float", "an integer"),
        (BYTE, 128, "128", "-128 to 127"),
        (BYTE, torch.tensor(-129), "-129", "-128 to 127"),
        (F64, torch.zeros(1), r"a tensor of shape \(1,\)", "without dimensions"),
        (F64, torch.zeros((), device="meta"), "a tensor on meta", "in the host's memory"),
    ],
)
def test_anything_else_is_named_with_what_it_is(spec: ScalarSpec, given_: object, found: str, expected: str) -> None:
    with pytest.raises(WrongArguments, match=f"scalar 1: found {found}.*expected .*{expected}"):
        numbers_of((F64, spec), (0.5, given_))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)))
def test_a_parameter_holds_what_torch_makes_of_the_number(value: int | float) -> None:
    """Beside f32 a number of Python becomes an f32, rounded once, infinite past the largest."""
    given_ = torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)
    assert held(value, "f32") == given_.to(torch.float32).item() == (torch.ones(1) * value).item()
    assert held(value, "f64") == given_.to(torch.float64).item()


@pytest.mark.parametrize("value", [(1 << 60) + (1 << 36) + 1, -(1 << 60) - (1 << 36) - 1, (1 << 60) + (1 << 36)])
def test_a_large_integer_is_rounded_once(value: int) -> None:
    """By way of f64 the first two would lie halfway, and go to the even side."""
    assert held(value, "f32") == torch.tensor(value).to(torch.float32).item()


def test_every_call_packs_its_own_numbers() -> None:
    args = (TensorArg(position=0), ScalarInputArg(position=1, dtype="f32"), ScalarInputArg(position=0, dtype="i64"))
    packed = pack_params(args, (0x1000,), (), lambda *_: None)
    for k, lr in ((5, 0.1), (-6, 1e300)):
        packed.tell((k, lr))
        _, first, second = packed.value_addresses
        assert ctypes.c_float.from_address(first).value == held(lr, "f32")
        assert ctypes.c_int64.from_address(second).value == k


def _with_scalars() -> KernelArtifact:
    first, second = ARTIFACT.launches
    told = ScalarInputArg(position=0, dtype="i64")
    launches = (first.model_copy(update={"args": (*first.args, told)}), second)
    return ARTIFACT.model_copy(update={"launches": launches, "scalars": (I64,)})


def test_the_same_addresses_with_other_numbers_are_another_call(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    told = PackedParams.tell

    def spied(self: PackedParams, numbers: tuple[int | float, ...]) -> None:
        told(self, numbers)
        seen.extend(ctypes.c_int64.from_address(address).value for address, _ in self.scalars)

    monkeypatch.setattr(PackedParams, "tell", spied)
    launcher = Launcher(_with_scalars())
    for number in (7, 8, 7):
        launcher.launch((0x1000, 0x2000), STREAM, (0x3000, 0x4000), (number,))
    assert seen == [7, 8, 7]
    with pytest.raises(WrongArguments, match="scalars: found 0, expected 1"):
        launcher.launch((0x1000, 0x2000), STREAM, (0x3000, 0x4000))


def test_a_call_has_its_numbers_after_its_tensors() -> None:
    """Empty results need no GPU, and are called alike."""
    f = FusionBuilder()
    f.output(f.input("x", ("M",), "f32") * f.scalar("lr"), "y")
    kernel = empty_kernel(apply_binding(f.build(), Binding(sizes={"M": 0})))
    assert kernel is not None
    assert "f32[0], f64 by value -> f32[0]" in repr(kernel)
    y = kernel(torch.zeros(0), 0.5)
    assert isinstance(y, torch.Tensor)
    assert y.shape == (0,)
    with pytest.raises(WrongArguments, match="found 1, expected 1 tensors and then 1 scalars"):
        kernel(torch.zeros(0))
    with pytest.raises(WrongArguments, match="scalar 0: found 'a', of type str"):
        kernel(torch.zeros(0), "a")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(WrongArguments, match=r"input 0: found float, expected torch\.Tensor"):
        kernel(0.5, torch.zeros(0))


def test_a_kernel_names_its_scalars_and_older_ones_have_none() -> None:
    made = Kernel(artifact(scalars=(F64, BYTE)))
    assert ", f64 by value, i64 by value -> " in repr(made)
    older = artifact().model_dump(mode="json")
    del older["scalars"]
    assert KernelArtifact.model_validate(older, strict=False).scalars == ()


def test_numbers_are_put_into_the_launches_that_read_them() -> None:
    told = with_numbers(_with_scalars(), (9,))
    assert told.scalars == ()
    assert told.launches[0].args[-1] == ScalarArg(dtype="i64", value=9)
    assert told.launches[1] == ARTIFACT.launches[1]
    assert isinstance(told.launches[0], LaunchSpec)
