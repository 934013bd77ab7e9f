"""What a call hands to the launcher, and what it gives back: tensors on the host stand in for those of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import fusetune.torch
from fusetune.errors import WrongArguments
from fusetune.kernel import Kernel
from fusetune.torch import DTYPES, check_tensor
from fusetune.wire.artifact import Scratch, TensorSpec
from tests.sdk.test_torch_kernel import artifact


class Recorded:
    """Stands in for `Launcher`: keeps the addresses of every call."""

    calls: list[tuple[tuple[int, ...], tuple[int, ...]]]

    def __init__(self, *_: Any) -> None:
        pass

    def launch(
        self,
        pointers: tuple[int, ...],
        stream: int,
        scratch: tuple[int, ...] = (),
        numbers: tuple[int | float, ...] = (),
    ) -> None:
        Recorded.calls.append((pointers, scratch))


def _host(kind: str, tensors: Sequence[torch.Tensor], specs: tuple[TensorSpec, ...], _: object) -> torch.device:
    for position, (tensor, wanted) in enumerate(zip(tensors, specs, strict=True)):
        check_tensor(f"{kind} {position}", tensor, wanted)
    return torch.device("cpu", 0)


def _host_inputs(*arguments: Any, **named: Any) -> torch.device:
    return _host(*arguments, *named.values())


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    Recorded.calls = []
    monkeypatch.setattr(fusetune.torch, "Launcher", Recorded)
    monkeypatch.setattr(fusetune.torch, "_check_all", _host_inputs)
    monkeypatch.setattr(fusetune.torch, "_stream_of", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


def spec(dtype: str, *shape: int) -> TensorSpec:
    strides = tuple(torch.empty(shape, device="meta").stride())
    return TensorSpec(shape=shape, strides=strides, dtype=dtype, align=DTYPES[dtype].itemsize)


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_have_the_element_type_and_layout_of_their_spec(dtype: str) -> None:
    transposed = TensorSpec(shape=(6, 4), strides=(1, 6), dtype=dtype, align=1)
    kernel = Kernel(artifact(inputs=(spec(dtype, 4, 6),), outputs=(transposed,)))
    x = torch.ones(4, 6).to(DTYPES[dtype])
    y = kernel(x)
    assert isinstance(y, torch.Tensor)
    assert (tuple(y.shape), y.stride(), y.dtype) == ((6, 4), (1, 6), DTYPES[dtype])
    assert Recorded.calls == [((x.data_ptr(), y.data_ptr()), ())]


def test_several_outputs_of_different_shapes_and_types_come_as_a_tuple() -> None:
    """A kept dimension of size 1 stays in the result, and a mask is a tensor of bools."""
    outputs = (spec("f16", 4, 6), spec("f32", 4, 1), spec("bool", 4, 6), spec("i64", 6))
    kernel = Kernel(artifact(inputs=(spec("f16", 4, 6),), outputs=outputs))
    x = torch.ones(4, 6, dtype=torch.float16)
    found = kernel(x)
    assert isinstance(found, tuple)
    assert [(tuple(t.shape), t.dtype) for t in found] == [(one.shape, DTYPES[one.dtype]) for one in outputs]
    mine = [torch.empty(one.shape, dtype=DTYPES[one.dtype]) for one in outputs]
    assert kernel(x, out=mine) == tuple(mine)
    assert Recorded.calls[1][0] == (x.data_ptr(), *(t.data_ptr() for t in mine))
    with pytest.raises(WrongArguments, match=r"output 2: found torch\.uint8, expected torch\.bool"):
        kernel(x, out=[*mine[:2], torch.empty(4, 6, dtype=torch.uint8), mine[3]])


def test_what_a_call_before_has_checked_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = (spec("f16", 4, 6), spec("bool", 6))
    kernel = Kernel(artifact(inputs=(spec("f16", 4, 6),), outputs=outputs))
    x = torch.ones(4, 6, dtype=torch.float16)
    kernel(x)
    monkeypatch.setattr(fusetune.torch, "_check_all", lambda *_, **__: pytest.fail("it is known"))
    assert kernel.known is not None
    found = kernel.known((x,))
    assert isinstance(found, tuple)
    assert [(tuple(t.shape), t.dtype) for t in found] == [(one.shape, DTYPES[one.dtype]) for one in outputs]
    assert Recorded.calls[1:] == [((x.data_ptr(), *(t.data_ptr() for t in found)), ())]


@pytest.mark.parametrize("what", ["the first call", "an output in place"])
def test_what_is_not_known_is_checked(what: str) -> None:
    """Nothing was checked before a first call, and what a call writes beside new tensors is looked at each time."""
    output = spec("f32", 4, 6)
    if what == "an output in place":
        output = output.model_copy(update={"alias": 0})
    kernel = Kernel(artifact(inputs=(spec("f32", 4, 6),), outputs=(output,)))
    if what != "the first call":
        kernel(torch.ones(4, 6))
    assert kernel.known is None


def test_a_call_that_is_known_gets_scratch_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = (Scratch(bytes=100, align=256),)
    kernel = Kernel(artifact(inputs=(spec("f32", 4, 6),), outputs=(spec("f32", 4, 6),), scratch=scratch))
    x = torch.ones(4, 6)
    kernel(x)
    monkeypatch.setattr(fusetune.torch, "_check_all", lambda *_, **__: pytest.fail("it is known"))
    assert kernel.known is not None
    for current in (-1, x.get_device()):  # elsewhere, and on torch's current device
        monkeypatch.setattr(fusetune.torch, "_current_index", lambda current=current: current)
        monkeypatch.setattr(
            fusetune.torch, "_new", lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype)
        )
        assert kernel._runner is not None
        kernel._runner._launchers[x.get_device()] = next(iter(kernel._runner._launchers.values()))
        found: Any = kernel.known((x,))
        pointers, (address,) = Recorded.calls[-1]
        assert pointers == (x.data_ptr(), found.data_ptr())
        assert address % 256 == 0


def test_launches_get_scratch_memory_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.Tensor] = []
    empty = torch.empty

    def noted(*arguments: Any, **options: Any) -> torch.Tensor:
        made.append(empty(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(torch, "empty", noted)
    kernel = Kernel(
        artifact(
            inputs=(spec("f32", 8),),
            outputs=(spec("f32", 1),),
            scratch=(Scratch(bytes=100, align=256), Scratch(bytes=4096, align=256)),
        )
    )
    kernel(torch.zeros(8))
    ((_, scratch),) = Recorded.calls
    assert [address % 256 for address in scratch] == [0, 0]
    buffers = [tensor for tensor in made if tensor.dtype == torch.uint8]
    for address, buffer, size in zip(scratch, buffers, (100, 4096), strict=True):
        assert buffer.data_ptr() <= address
        assert address + size <= buffer.data_ptr() + buffer.nbytes


def test_on_torchs_current_device_outputs_are_made_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(artifact(inputs=(spec("f32", 4, 6),), outputs=(spec("f32", 4, 6),)))
    x = torch.ones(4, 6)
    kernel(x)
    made: list[torch.Tensor] = []

    def new(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        made.append(torch.empty_strided(size, stride, dtype=dtype))
        return made[-1]

    monkeypatch.setattr(fusetune.torch, "_new", new)
    monkeypatch.setattr(fusetune.torch, "_current_index", lambda: x.get_device())
    assert kernel._runner is not None
    (launcher,) = kernel._runner._launchers.values()
    kernel._runner._launchers[x.get_device()] = launcher
    monkeypatch.setattr(launcher, "launch_again", lambda pointers, stream: False, raising=False)
    assert kernel.known is not None
    found = kernel.known((x,))
    assert found is made[0]
    assert Recorded.calls[1:] == [((x.data_ptr(), made[0].data_ptr()), ())]
