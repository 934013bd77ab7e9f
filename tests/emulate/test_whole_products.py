"""Whole products of matrices as people write them run without a fault in every order, and are right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import (
    Completion,
    EmulatedOutcome,
    EmulatedTensor,
    EmulatedTensorMap,
    Launch,
    Options,
    TensorArgument,
    ValueArgument,
)
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from tests.emulate.features.mma.values import ENCODE
from tests.emulate.kernels.compiled import accepted, compile_clean

Array = npt.NDArray[Any]

TILE = 64

ORDERS = {
    "eager": Options(),
    "lazy": Options(Completion.LAZY),
    "random": Options(Completion.RANDOM, seed=1),
}


@dataclass(frozen=True)
class WholeProduct:
    """A kernel: where it stands, for what, its threads, whether B is [k, n], whether tensor copies fill its ring."""

    family: str
    entry: str
    arch: str
    threads: int
    b_along_n: bool = False
    copies: bool = True

    def __str__(self) -> str:
        return f"{self.family} {self.entry} {self.arch}"


KERNELS = [
    WholeProduct("gemm_wgmma", "both_along_k", "sm_90a", 256),
    WholeProduct("gemm_wgmma", "b_along_n", "sm_90a", 256, b_along_n=True),
    WholeProduct("gemm_mma_sync", "both_along_k", "sm_90a", 160),
    WholeProduct("gemm_mma_sync", "b_along_n", "sm_90a", 160, b_along_n=True),
    WholeProduct("gemm_mma_sync", "filled_by_threads", "sm_80", 128, copies=False),
]


@cache
def module(family: str, arch: str) -> Module:
    return parse(compile_clean(family, arch))


def multiplied(kernel: WholeProduct, a: Array, b: Array, options: Options) -> tuple[EmulatedOutcome, Array]:
    """The outcome, and y of a (m, k) and b (n, k)."""
    m, k = a.shape
    n = len(b)
    y = np.zeros((m, n), np.float32)
    operands = {"a": a, "b": b.T if kernel.b_along_n else b}
    data = {name: np.ascontiguousarray(ENCODE["bf16"](x)).view(np.uint8).reshape(-1) for name, x in operands.items()}
    tensors = {name: EmulatedTensor(name, "bf16", x.shape, data[name]) for name, x in operands.items()}
    tensors["y"] = EmulatedTensor("y", "f32", y.shape, y.view(np.uint8).reshape(-1), np.zeros(y.nbytes, np.bool_))
    maps = tuple(
        EmulatedTensorMap(name, "bf16", x.shape[::-1], (2 * x.shape[1],), (TILE, TILE), (1, 1), swizzle="128B")
        if kernel.copies
        else TensorArgument(name)
        for name, x in operands.items()
    )
    sizes = (ValueArgument(n.to_bytes(4, "little")), ValueArgument(k.to_bytes(4, "little")))
    launch = Launch(
        kernel.entry,
        kernel.arch,
        (n // TILE, m // TILE, 1),
        (kernel.threads, 1, 1),
        (*maps, TensorArgument("y"), *sizes),
        tensors,
        dynamic_smem=4 * 2 * TILE * TILE if kernel.copies else 0,
    )
    return emulate(module(kernel.family, kernel.arch), launch, options), y


def check(kernel: WholeProduct, shape: tuple[int, int, int], options: Options) -> EmulatedOutcome:
    rng = np.random.default_rng(0)
    m, n, k = shape
    a, b = (rng.integers(-4, 5, (size, k)).astype(np.float64) for size in (m, n))
    outcome, y = multiplied(kernel, a, b, options)
    assert not outcome.faults, [(f.kind, f.source_line, f.message) for f in outcome.faults]
    np.testing.assert_array_equal(y, a @ b.T)
    return outcome


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_small_integers_are_exact(kernel: WholeProduct, order: str) -> None:
    check(kernel, (64, 128, 320), ORDERS[order])


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_random_values_are_rounded_once_an_instruction(kernel: WholeProduct) -> None:
    rng = np.random.default_rng(1)
    words = ENCODE["bf16"](rng.standard_normal((128, 128)))
    values = (words.astype(np.uint32) << 16).view(np.float32)
    outcome, y = multiplied(kernel, values[:64], values[64:], ORDERS["eager"])
    assert not outcome.faults
    exact = values[:64].astype(np.float64) @ values[64:].astype(np.float64).T
    sizes = np.abs(values[:64]).astype(np.float64) @ np.abs(values[64:]).astype(np.float64).T
    assert (np.abs(y - exact) <= 8 * 2.0**-24 * sizes).all()
    assert (y != exact.astype(np.float32)).any()  # rounded after each of eight instructions, not at the end


def test_ldmatrix_has_no_bank_conflicts_with_this_swizzle() -> None:
    outcome = check(KERNELS[2], (64, 64, 64), ORDERS["eager"])
    assert outcome.counters["shared"]["load"]["bank_conflicts"] == 0
    assert outcome.counters["products"]["mma.sync"]["m16n8k16.f32.bf16.bf16"]["instructions"] == 4 * 4 * 8


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not k.b_along_n], ids=str)
def test_the_assembler_takes_them(kernel: WholeProduct) -> None:
    assert "(C75" not in accepted(kernel.family, kernel.arch)  # products serialised


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_larger_ones(kernel: WholeProduct) -> None:
    for order in ORDERS.values():
        check(kernel, (192, 256, 1024), order)
