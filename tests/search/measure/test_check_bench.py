"""What the check of a kernel finds, with kernels that are Python functions writing to host memory."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import OpKind
from fusetune.launch.params import Numbers
from fusetune.wire.artifact import KernelArtifact, Scratch
from search.measure.cuda_check import CheckBench
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import ALL_SETS
from tests.search.measure.kernels import add_fusion, artifact_of, fusion_of, value

ELEMS = 1024
Body = Callable[[list[np.ndarray], int], None]


class HostLauncher:
    """Gives `body` the tensors of a call as f32 arrays, 8 elements longer on either side, and the run's number."""

    def __init__(
        self, body: Body, artifact: KernelArtifact | None = None, elems: tuple[int, ...] = (ELEMS,) * 3
    ) -> None:
        self.artifact = artifact or artifact_of("")
        self.body = body
        self.elems = elems
        self.runs = 0
        self.scratch: list[bytes] = []
        self.numbers: list[Numbers] = []

    def launch(
        self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...] = (), numbers: Numbers = ()
    ) -> None:
        views = []
        for pointer, elems in zip(pointers, self.elems, strict=True):
            raw = (ctypes.c_float * (elems + 16)).from_address(pointer - 8 * 4)
            views.append(np.ctypeslib.as_array(raw))
        self.numbers.append(numbers)
        self.scratch += [ctypes.string_at(address, 4) for address in scratch]
        self.body(views, self.runs)
        self.runs += 1


def right(t: list[np.ndarray], run: int) -> None:
    a, b, out = (x[8:-8] for x in t)
    with np.errstate(all="ignore"):
        out[:] = a + b


def wrong(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    t[2][8 + 77] += 1.0


def unwritten(t: list[np.ndarray], run: int) -> None:
    kept = t[2][8 + 5 : 8 + 8].copy()
    right(t, run)
    t[2][8 + 5 : 8 + 8] = kept


def before(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    t[2][7] = 1.0


def after(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    t[2][-8] = 1.0


def beside_an_input(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    t[0][-8] = 1.0


def overwrites(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    t[1][8] += 1.0


def unstable(t: list[np.ndarray], run: int) -> None:
    right(t, run)
    if run:  # the other zero: equal, and another bit
        t[2][8 + int(np.flatnonzero(t[2][8 : 8 + ELEMS] == 0)[0])] *= -1.0


@pytest.fixture(scope="module")
def bench() -> CheckBench:
    return CheckBench(add_fusion(ELEMS), TorchArrays("cpu"))


@pytest.mark.parametrize("name", ALL_SETS)
def test_a_right_kernel_passes_every_set(bench: CheckBench, name: str) -> None:
    verdict = bench.check(HostLauncher(right), name)
    assert verdict.fault == ""
    assert verdict.deterministic
    assert 0 <= verdict.max_error < verdict.tolerance == 2.0**-13


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (wrong, r"output 0: 1 of 1024 elements are wrong; element \[77\] is"),
        (unwritten, "output 0: 3 of 1024 elements were never written"),
        (before, "4 bytes outside the buffers were written"),
        (after, "4 bytes outside the buffers were written"),
        (beside_an_input, "4 bytes outside the buffers were written"),
        (overwrites, "1 elements of the inputs were overwritten"),
        (unstable, "output 0: 1 elements differ between two runs"),
    ],
)
def test_a_fault_is_found_and_the_next_kernel_starts_clean(bench: CheckBench, body: Body, fault: str) -> None:
    name = "zeros" if body is unstable else "random"
    verdict = bench.check(HostLauncher(body), name)
    assert re.match(f"{name} inputs: {fault}", verdict.fault), verdict.fault
    assert bench.check(HostLauncher(right), name).fault == ""


def test_sets_are_made_once_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = CheckBench(add_fusion(ELEMS), TorchArrays("cpu"))
    assert not bench.prepare(), "nothing is kept that was given no room"
    bench.keep_within(1 << 20)
    assert [bench.prepare() for _ in ALL_SETS] == [*[True] * (len(ALL_SETS) - 1), False]
    monkeypatch.setattr("search.measure.cuda_check.make_inputs", None)
    for name in ALL_SETS:
        assert bench.check(HostLauncher(wrong), name).fault
        assert bench.check(HostLauncher(right), name).fault == ""


def test_sets_that_have_no_room_come_and_go() -> None:
    bench = CheckBench(add_fusion(ELEMS), TorchArrays("cpu"))
    two = 2 * 5 * 4 * ELEMS + 64  # two inputs, an output with two ends, and what lies around strided inputs
    bench.keep_within(two)
    for name in ALL_SETS:
        assert bench.check(HostLauncher(right), name).fault == ""
    assert 0 < bench.kept_bytes <= two
    bench.keep_within(0)
    assert bench.kept_bytes == 0
    assert bench.check(HostLauncher(right), "large").fault == ""


def test_buffers_have_only_the_alignment_that_the_binding_promises(bench: CheckBench) -> None:
    seen: list[int] = []

    class Spy(HostLauncher):
        def launch(
            self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...] = (), numbers: Numbers = ()
        ) -> None:
            seen.extend(pointer % 32 for pointer in pointers)
            super().launch(pointers, stream, scratch, numbers)

    bench.check(Spy(right), "random")
    assert seen == [16] * 6


def test_scratch_holds_a_poison_that_changes_between_runs(bench: CheckBench) -> None:
    artifact = artifact_of("").model_copy(update={"scratch": (Scratch(bytes=64, align=16),)})
    launcher = HostLauncher(right, artifact)
    assert bench.check(launcher, "random").fault == ""
    assert len(set(launcher.scratch)) == 2


def test_scratch_is_guarded(bench: CheckBench) -> None:
    """A byte past the end of a scratch buffer, where another's may lie, is a fault of the kernel."""
    artifact = artifact_of("").model_copy(
        update={"scratch": (Scratch(bytes=60, align=256), Scratch(bytes=4, align=256))}
    )

    class Overruns(HostLauncher):
        def launch(
            self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...] = (), numbers: Numbers = ()
        ) -> None:
            assert (scratch[1] - scratch[0]) % 256 == 0
            ctypes.memset(scratch[0] + 60 - self.inside, 0, 1)
            super().launch(pointers, stream, scratch, numbers)

        inside = 0

    class StaysInside(Overruns):
        inside = 1

    assert bench.check(StaysInside(right, artifact), "random").fault == ""
    fault = bench.check(Overruns(right, artifact), "random").fault
    assert fault == "random inputs: 1 bytes outside the buffers were written"


def test_every_output_is_checked() -> None:
    shape = (8, 16)
    ops = (Op(OpKind.NEG, ("i0",), "v0"), Op(OpKind.PERMUTE, ("i0",), "v1", dims=(1, 0)))
    fusion: Fusion = fusion_of(
        (value("i0", shape, DType.F32, strides=(20, 1)),), (value("v0", shape), value("v1", (16, 8))), ops, "v0", "v1"
    )

    def kernel(t: list[np.ndarray], run: int, spoil: int | None = None) -> None:
        x = np.lib.stride_tricks.as_strided(t[0][8:], shape, (80, 4))
        t[1][8:-8] = -x.reshape(-1)
        t[2][8:-8] = x.T.reshape(-1)
        if spoil is not None:
            t[spoil][8] += 1.0

    bench = CheckBench(fusion, TorchArrays("cpu"))
    elems = (7 * 20 + 16, 128, 128)
    assert bench.check(HostLauncher(kernel, elems=elems), "random").fault == ""
    for spoil in (1, 2):
        verdict = bench.check(HostLauncher(functools.partial(kernel, spoil=spoil), elems=elems), "random")
        assert f"output {spoil - 1}: 1 of 128 elements are wrong" in verdict.fault


def test_what_lies_between_the_elements_of_an_output_is_left_alone() -> None:
    shape, strides = (8, 6), (1, 10)
    fusion = fusion_of(
        (value("i0", shape),), (value("v0", shape, strides=strides),), (Op(OpKind.NEG, ("i0",), "v0"),), "v0"
    )
    elems = (48, 5 * 10 + 8)

    def kernel(t: list[np.ndarray], run: int, written: int = 6, past: int = 0) -> None:
        x, out = t[0][8:-8].reshape(shape), np.lib.stride_tricks.as_strided(t[1][8:], shape, (4, 40))
        out[:, :written] = -x[:, :written]
        if past:
            t[1][8 + 8] = 0.0

    bench = CheckBench(fusion, TorchArrays("cpu"))

    def fault(written: int = 6, past: int = 0) -> str:
        launcher = HostLauncher(functools.partial(kernel, written=written, past=past), elems=elems)
        return bench.check(launcher, "random").fault

    assert fault() == ""
    assert "4 bytes between its elements were written" in fault(past=1)
    assert "8 of 48 elements were never written" in fault(written=5)
