"""Several launches over scratch memory, on a driver that writes down what it is asked for."""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Sequence
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusetune import torch as fusetune_torch
from fusetune.errors import LaunchFailed, WrongArguments
from fusetune.launch import launcher as launcher_module
from fusetune.launch.launcher import Launcher
from fusetune.wire.artifact import (
    Conditions,
    KernelArtifact,
    LaunchSpec,
    Resources,
    Scratch,
    ScratchArg,
    TensorArg,
    TensorSpec,
)

STREAM = 7
SPEC = TensorSpec(shape=(4,), strides=(1,), dtype="f32", align=16)
ARTIFACT = KernelArtifact(
    fingerprint="f",
    binding="b",
    arch="sm_90a",
    inputs=(SPEC,),
    outputs=(SPEC,),
    launches=(
        LaunchSpec(
            entry="k_0", grid=(2, 1, 1), block=(32, 1, 1), args=(TensorArg(position=0), ScratchArg(index=1)),
        ),
        LaunchSpec(
            entry="k_1", grid=(3, 1, 1), block=(64, 1, 1),
            args=(ScratchArg(index=1), ScratchArg(index=0), TensorArg(position=1)),
        ),
    ),
    scratch=(Scratch(bytes=64, align=256, init="zero"), Scratch(bytes=128, align=256)),
    cubin=base64.b64encode(b"cubin"),
    cubin_sha256=sha256(b"cubin").hexdigest(),
    source="",
    ptx="",
    trace={},
    resources=Resources(registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0),
    code_hash="c",
    conditions=Conditions(generator="g", nvrtc="13.0"),
)  # fmt: skip


class FakeDriver:
    """Every call as a line: what is cleared, and what is launched with which addresses."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.artifact = ARTIFACT

    def cuMemsetD8Async(self, address: int, value: int, nbytes: int, stream: int) -> tuple[Any]:  # noqa: N802 (the driver's name)
        self.calls.append(("clear", address, value, nbytes, stream))
        return (SimpleNamespace(value=0),)

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[Any]:  # noqa: N802 (the driver's name)
        *shape, _, stream, params, _ = rest
        count = len(next(one for one in self.artifact.launches if one.entry == function).args)
        places = (ctypes.c_uint64 * count).from_address(params)
        self.calls.append((function, tuple(shape), stream, [ctypes.c_uint64.from_address(p).value for p in places]))
        return (SimpleNamespace(value=0),)


class Inside:
    """A context that is current already."""

    def __init__(self, device: int) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver()
    module = SimpleNamespace(function=lambda launch: launch.entry)
    monkeypatch.setattr(launcher_module, "driver", lambda: made)
    monkeypatch.setattr(launcher_module, "current_context", Inside)
    monkeypatch.setattr(launcher_module, "acquire_module", lambda artifact, device: module)
    return made


def test_scratch_is_cleared_and_launches_follow_in_order(fake: FakeDriver) -> None:
    Launcher(ARTIFACT).launch((0x1000, 0x2000), STREAM, (0x3000, 0x4000))
    assert fake.calls == [
        ("clear", 0x3000, 0, 64, STREAM),
        ("k_0", (2, 1, 1, 32, 1, 1), STREAM, [0x1000, 0x4000]),
        ("k_1", (3, 1, 1, 64, 1, 1), STREAM, [0x4000, 0x3000, 0x2000]),
    ]


def test_other_scratch_is_other_arguments(fake: FakeDriver) -> None:
    """What was packed for one set of addresses is not taken for another."""
    launcher = Launcher(ARTIFACT)
    launcher.launch((0x1000, 0x2000), STREAM, (0x3000, 0x4000))
    launcher.launch((0x1000, 0x2000), STREAM, (0x5000, 0x6000))
    assert [call[-1] for call in fake.calls if call[0] == "k_0"] == [[0x1000, 0x4000], [0x1000, 0x6000]]


PLAIN = ARTIFACT.model_copy(
    update={
        "scratch": (),
        "launches": tuple(
            launch.model_copy(update={"args": (TensorArg(position=n),)}) for n, launch in enumerate(ARTIFACT.launches)
        ),
    }
)
"""Two launches, the first of the input, the second of the output."""


def test_addresses_that_were_launched_with_before_are_launched_with_again(fake: FakeDriver) -> None:
    fake.artifact = PLAIN
    launcher = Launcher(PLAIN)
    assert not launcher.launch_again((0x1000, 0x2000), STREAM)
    assert fake.calls == []
    launcher.launch((0x1000, 0x2000), STREAM)
    first = list(fake.calls)
    assert launcher.launch_again((0x1000, 0x2000), STREAM)
    assert fake.calls == first * 2
    assert not launcher.launch_again((0x1000, 0x3000), STREAM)


def test_scratch_is_never_launched_with_again(fake: FakeDriver) -> None:
    launcher = Launcher(ARTIFACT)
    launcher.launch((0x1000, 0x2000), STREAM, (0x3000, 0x4000))
    assert not launcher.launch_again((0x1000, 0x2000), STREAM)


@pytest.mark.parametrize(("code", "is_refused"), [(201, False), (400, False), (700, True)])
def test_a_thread_without_a_context_launches_the_long_way(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, code: int, is_refused: bool
) -> None:
    """What a kernel before it has done wrong is told, and not tried again."""
    fake.artifact = PLAIN
    launcher = Launcher(PLAIN)
    launcher.launch((0x1000, 0x2000), STREAM)
    answer = (SimpleNamespace(value=code, name="AN_ERROR"),)
    monkeypatch.setattr(fake, "cuLaunchKernel", lambda *_: answer)
    if is_refused:
        with pytest.raises(LaunchFailed):
            launcher.launch_again((0x1000, 0x2000), STREAM)
    else:
        assert not launcher.launch_again((0x1000, 0x2000), STREAM)


@pytest.mark.parametrize("scratch", [(), (0x3000,), (0x3000, 0x4000, 0x5000)])
def test_every_buffer_is_given(fake: FakeDriver, scratch: tuple[int, ...]) -> None:
    with pytest.raises(WrongArguments, match="expected 2 and 2"):
        Launcher(ARTIFACT).launch((0x1000, 0x2000), STREAM, scratch)
    assert fake.calls == []


def test_a_call_takes_scratch_from_torch_for_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aligned, each large enough, apart from each other, and alive until everything is enqueued."""
    taken: list[torch.Tensor] = []
    launched: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []

    class Recorder:
        def __init__(self, artifact: KernelArtifact, device: int) -> None:
            pass

        def launch(
            self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...], numbers: tuple[int | float, ...]
        ) -> None:
            launched.append((pointers, stream, scratch))

    def checked(kind: str, tensors: Sequence[Any], specs: object, device: object) -> torch.device:
        return torch.device("cpu")

    empty = torch.empty

    def taking(*args: Any, **options: Any) -> torch.Tensor:
        taken.append(empty(*args, **options))
        return taken[-1]

    monkeypatch.setattr(fusetune_torch, "Launcher", Recorder)
    monkeypatch.setattr(fusetune_torch, "_check_all", checked)
    monkeypatch.setattr(fusetune_torch, "_stream_of", lambda index: STREAM)
    monkeypatch.setattr(torch, "empty", taking)
    x, y = torch.zeros(4), torch.zeros(4)
    fusetune_torch.Runner(ARTIFACT)((x,), y)
    ((pointers, stream, scratch),) = launched
    assert (pointers, stream) == ((x.data_ptr(), y.data_ptr()), STREAM)
    assert [address % 256 for address in scratch] == [0, 0]
    for address, spec, memory in zip(scratch, ARTIFACT.scratch, taken, strict=True):
        assert memory.data_ptr() <= address <= memory.data_ptr() + memory.nbytes - spec.bytes
