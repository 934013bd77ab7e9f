"""Checking kernels that write into their inputs: these are as they were before every run, and so are their holes."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import OpKind
from search.measure.cuda_check import CheckBench
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import ALL_SETS
from tests.search.measure.kernels import add_fusion, fusion_of, value
from tests.search.measure.test_check_bench import ELEMS, HostLauncher

IN_PLACE = replace(add_fusion(ELEMS), aliases=(("v0", "i0"),))


def add(t: list[np.ndarray], run: int, left: int = 0, spoil: int | None = None) -> None:
    """Writes the sum over the first operand, all but the last `left` elements; or another tensor as well."""
    a, b, out = (x[8:-8] for x in t)
    assert a.ctypes.data == out.ctypes.data
    with np.errstate(all="ignore"):
        out[: ELEMS - left] = (a + b)[: ELEMS - left]
    if spoil is not None:
        t[spoil][8] += 1.0


def test_every_run_starts_from_the_same_inputs() -> None:
    bench = CheckBench(IN_PLACE, TorchArrays("cpu"))
    launcher = HostLauncher(add)
    assert [bench.check(launcher, name).fault for name in ("random", *ALL_SETS, "random")] == [""] * (len(ALL_SETS) + 2)


def test_what_a_kernel_leaves_out_or_spoils_is_found() -> None:
    bench = CheckBench(IN_PLACE, TorchArrays("cpu"))
    left, spoiled = functools.partial(add, left=3), functools.partial(add, spoil=1)
    faults = [bench.check(HostLauncher(body), "random").fault for body in (left, spoiled)]
    assert "output 0: 3 of 1024 elements are wrong" in faults[0]
    assert "1 elements of the inputs were overwritten" in faults[1]
    assert bench.check(HostLauncher(add), "random").fault == ""


def _strided() -> Fusion:
    shape, strides = (8, 6), (10, 1)
    tensors = (value("i0", shape, strides=strides),), (value("v0", shape, strides=strides),)
    return replace(fusion_of(*tensors, (Op(OpKind.NEG, ("i0",), "v0"),), "v0"), aliases=(("v0", "i0"),))


def test_what_lies_between_the_elements_stays_as_it_was() -> None:
    def negate(t: list[np.ndarray], run: int, beside: bool = False) -> None:
        x = np.lib.stride_tricks.as_strided(t[0][8:], (8, 6), (40, 4))
        x[...] = -x
        if beside:
            t[0][8 + 7] += 1.0

    bench = CheckBench(_strided(), TorchArrays("cpu"))
    elems = (7 * 10 + 6,) * 2
    assert bench.check(HostLauncher(negate, elems=elems), "random").fault == ""
    fault = bench.check(HostLauncher(functools.partial(negate, beside=True), elems=elems), "random").fault
    assert "bytes between its elements were written" in fault
