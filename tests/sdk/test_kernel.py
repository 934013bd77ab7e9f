from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from fusetune.bindings import read_binding
from fusetune.errors import InvalidBinding, NoDevice, WrongArguments
from fusetune.fusion import Fusion, FusionBuilder
from fusetune.kernel import EmptyKernel, Kernel, empty_kernel
from fusetune.torch import Runner
from fusetune.wire.artifact import Timing
from fusetune.wire.binding import Binding
from tests.sdk.fake_service import MEASURED, artifact, bias_gelu, kernel_view

BF16 = torch.bfloat16
ROWS = Binding(sizes={"M": 8})


def kernel(median_us: float | None = None, **info: Any) -> Kernel:
    timing = None
    if median_us is not None:
        timing = Timing(policy="p", card="NVIDIA H200", median_us=median_us, p10_us=1, p90_us=99, samples_us=())
    made = artifact(bias_gelu(), ROWS, timing=timing, evidence=MEASURED)
    return Kernel(made, info=kernel_view(made, **info)[0], origin="service")


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({}, "NVIDIA H200, 20.0 us median, correct"),
        ({"floor_us": 15.0}, "20.0 us median, 75% of the card's limit, correct"),
        ({"stale": True, "stale_reason": "driver 580 -> 590"}, "time: measured, stale: driver 580 -> 590)"),
        ({"stale": True}, "stale: made under other conditions)"),
    ],
)
def test_the_repr_shows_what_the_service_knows(info: dict[str, Any], shown: str) -> None:
    assert shown in repr(kernel(20.0, **info))


def test_without_a_measurement_no_share_of_the_limit_is_shown() -> None:
    assert "limit" not in repr(kernel(None, floor_us=15.0))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param(
            kernel(), "this kernel is for the NVIDIA H200 (sm_90a), and no such card is attached", id="served"
        ),
        pytest.param(
            Kernel(kernel().artifact),
            "this kernel is for a card of sm_90a, and no such card is attached",
            id="of-a-file",
        ),
        pytest.param(Kernel(kernel(20.0).artifact), "this kernel is for the NVIDIA H200 (sm_90a)", id="timed"),
    ],
)
def test_a_call_without_the_card_says_for_which_card_the_kernel_is(
    monkeypatch: pytest.MonkeyPatch, made: Kernel, says: str
) -> None:
    def absent(self: Runner, inputs: Any, out: Any) -> Any:
        raise NoDevice("torch sees no CUDA device", "Run it elsewhere.", True)

    monkeypatch.setattr(Runner, "__call__", absent)
    with pytest.raises(NoDevice, match=re.escape(says)) as caught:
        made(torch.zeros(8))
    assert caught.value.is_absent

    def full(self: Runner, inputs: Any, out: Any) -> Any:
        raise NoDevice("the device has no room", "Tune again.")

    monkeypatch.setattr(Runner, "__call__", full)
    with pytest.raises(NoDevice, match=re.escape("the device has no room. Tune again.")):
        made(torch.zeros(8))


def empty(fusion: Fusion, **sizes: int) -> EmptyKernel | None:
    return empty_kernel(read_binding(fusion, sizes)[1])


def gelu(rows: int = 0) -> EmptyKernel:
    found = empty(bias_gelu(), M=rows)
    assert found is not None
    return found


@pytest.mark.parametrize(("rows", "is_empty"), [(0, True), (1, False)])
def test_only_a_size_of_0_is_empty(rows: int, is_empty: bool) -> None:
    assert (empty(bias_gelu(), M=rows) is not None) is is_empty


def two_outputs() -> Fusion:
    f = FusionBuilder()
    x = f.input("x", ("M", 4), "f32")
    f.output(f.exp(x), name="e")
    f.output(x.sum((1,)), name="s")
    return f.build()


def reduced(op: str, dim: int) -> Fusion:
    f = FusionBuilder()
    x = f.input("x", ("M", 4), "f32")
    f.output(getattr(f, op)(x, (dim,)), name="s")
    return f.build()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_empty_outputs_have_shape_dtype_and_device(device: str) -> None:
    found = empty(two_outputs(), M=0)
    assert found is not None
    e, s = found(torch.zeros(0, 4, device=device))
    assert isinstance(e, torch.Tensor)
    assert isinstance(s, torch.Tensor)
    assert [(t.shape, t.dtype, t.device.type) for t in (e, s)] == [
        ((0, 4), torch.float32, device),
        ((0,), torch.float32, device),
    ]


def test_one_output_is_no_tuple_and_out_is_taken() -> None:
    x, bias, out = torch.zeros(0, 64, dtype=BF16), torch.zeros(64, dtype=BF16), torch.zeros(0, 64, dtype=BF16)
    assert isinstance(gelu()(x, bias), torch.Tensor)
    assert gelu()(x, bias, out=out) is out
    assert gelu()(x, bias, out=[out]) is out


@pytest.mark.parametrize(
    ("inputs", "out", "fault"),
    [
        pytest.param([(0, 64)], None, "inputs: found 1, expected 2", id="count"),
        pytest.param([(1, 64), (64,)], None, r"input 0: found shape \(1, 64\)", id="rows"),
        pytest.param([(0, 64), (65,)], None, r"input 1: found shape \(65,\)", id="full-input"),
        pytest.param([(0, 64), (64,)], (1, 64), r"output 0: found shape \(1, 64\)", id="out"),
    ],
)
def test_an_empty_call_is_checked_like_any_other(
    inputs: list[tuple[int, ...]], out: tuple[int, ...] | None, fault: str
) -> None:
    given = None if out is None else torch.zeros(out, dtype=BF16)
    with pytest.raises(WrongArguments, match=fault):
        gelu()(*(torch.zeros(shape, dtype=BF16) for shape in inputs), out=given)


def test_dtype_devices_and_gradients_are_checked_too() -> None:
    x, bias = torch.zeros(0, 64, dtype=BF16), torch.zeros(64, dtype=BF16)
    with pytest.raises(WrongArguments, match="float32"):
        gelu()(x.float(), bias)
    with pytest.raises(WrongArguments, match="input 1: found device meta, expected cpu"):
        gelu()(x, bias.to("meta"))
    with pytest.raises(WrongArguments, match="no backward"):
        gelu()(x.requires_grad_(), bias)
    with torch.no_grad():
        gelu()(x, bias)


def test_the_repr_of_nothing() -> None:
    assert repr(gelu()) == "EmptyKernel(bf16[0, 64], bf16[64] -> bf16[0, 64]; nothing to compute)"


@pytest.mark.parametrize(
    ("fusion", "is_refused"),
    [
        pytest.param(reduced("sum", 1), False, id="rows-stay-empty"),
        pytest.param(reduced("sum", 0), True, id="sum-of-nothing-is-0"),
    ],
)
def test_a_size_of_0_with_an_output_that_is_not_empty_is_refused(fusion: Fusion, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(InvalidBinding, match="output 's' has elements"):
            empty(fusion, M=0)
    else:
        assert empty(fusion, M=0) is not None
