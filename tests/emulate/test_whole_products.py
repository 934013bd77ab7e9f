"""Whole products of matrices as people write them run without a fault in every order, and are right."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.emulate.compiling import DEVICE
from benchmarks.emulate.form import argument
from benchmarks.emulate.forms.whole_products import KERNELS, PRODUCTS, TILE, WholeProduct
from compiler.emulate.launch import (
    Completion,
    EmulatedOutcome,
    EmulatedTensor,
    EmulatedTensorMap,
    Launch,
    Options,
    TensorArgument,
)
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from tests.emulate.features.mma.values import ENCODE
from tests.emulate.kernels.compiled import compile_text

Array = npt.NDArray[Any]

ORDERS = {
    "eager": Options(),
    "lazy": Options(Completion.LAZY),
    "random": Options(Completion.RANDOM, seed=1),
}


WGMMA, _, MMA_SYNC, _, CP_ASYNC, TCGEN05, _ = PRODUCTS

every_product = pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p.name)


def text_of(product: WholeProduct) -> str:
    """The source of a kernel k."""
    return DEVICE + product.source.replace("ENTRY", "k")


@cache
def module(product: WholeProduct) -> Module:
    return parse(compile_text(text_of(product), product.arch.replace("sm_", "compute_"))[0])


def multiplied(product: WholeProduct, a: Array, b: Array, options: Options) -> tuple[EmulatedOutcome, Array]:
    """The outcome, and y of a (m, k) and b (n, k)."""
    (m, k), n = a.shape, len(b)
    y = np.zeros((m, n), np.float32)
    data = {
        name: np.ascontiguousarray(ENCODE["bf16"](x)).view(np.uint8).reshape(-1)
        for name, x in (("a", a), ("b", b.T if product.b_along_n else b))
    }
    tensors = {name: EmulatedTensor(name, "u8", x.shape, x) for name, x in data.items()}
    tensors["y"] = EmulatedTensor("y", "f32", y.shape, y.view(np.uint8).reshape(-1), np.zeros(y.nbytes, np.bool_))
    launch = Launch(
        "k",
        product.arch,
        (n // TILE, m // TILE, 1),
        (product.threads, 1, 1),
        tuple(argument(a) for a in product.args(m, n, k)),
        tensors,
        dynamic_smem=product.dynamic_smem,
    )
    return emulate(module(product), launch, options), y


def check(product: WholeProduct, shape: tuple[int, int, int], options: Options) -> EmulatedOutcome:
    rng = np.random.default_rng(0)
    m, n, k = shape
    a, b = (rng.integers(-4, 5, (size, k)).astype(np.float64) for size in (m, n))
    outcome, y = multiplied(product, a, b, options)
    assert not outcome.faults, [(f.kind, f.source_line, f.message) for f in outcome.faults]
    np.testing.assert_array_equal(y, a @ b.T)
    return outcome


@pytest.mark.parametrize("order", ORDERS)
@every_product
def test_small_integers_are_exact(product: WholeProduct, order: str) -> None:
    check(product, (64, 128, 256), ORDERS[order])


@pytest.mark.parametrize("product", [WGMMA, MMA_SYNC, CP_ASYNC, TCGEN05], ids=lambda p: p.name)
def test_random_values_are_rounded_once_an_instruction(product: WholeProduct) -> None:
    rng = np.random.default_rng(1)
    words = ENCODE["bf16"](rng.standard_normal((128, 128)))
    values = (words.astype(np.uint32) << 16).view(np.float32)
    outcome, y = multiplied(product, values[:64], values[64:], ORDERS["eager"])
    assert not outcome.faults
    exact = values[:64].astype(np.float64) @ values[64:].astype(np.float64).T
    sizes = np.abs(values[:64]).astype(np.float64) @ np.abs(values[64:]).astype(np.float64).T
    assert (np.abs(y - exact) <= 8 * 2.0**-24 * sizes).all()
    assert (y != exact.astype(np.float32)).any()  # rounded after each of eight instructions, not at the end


@pytest.mark.parametrize("order", ["eager", "random"])
def test_two_products_chained_through_registers(order: str) -> None:
    tiles, rng = 5, np.random.default_rng(2)
    text = DEVICE + (KERNELS / "chained_wgmma.cu").read_text(encoding="utf-8").replace("ENTRY", "k")
    shapes = {"q": (64, 64), "k": (64 * tiles, 64), "v": (64 * tiles, 64)}
    q, k, v = (rng.integers(-2, 3, shape).astype(np.float64) for shape in shapes.values())
    tensors = {
        name: EmulatedTensor(name, "u8", x.shape, np.ascontiguousarray(ENCODE["bf16"](x)).view(np.uint8).reshape(-1))
        for name, x in (("q", q), ("k", k), ("v", v))
    }
    y = np.zeros((64, 64), np.float32)
    tensors["y"] = EmulatedTensor("y", "f32", y.shape, y.view(np.uint8).reshape(-1), np.zeros(y.nbytes, np.bool_))
    maps = (EmulatedTensorMap(n, "bf16", s[::-1], (128,), (64, 64), (1, 1), swizzle="128B") for n, s in shapes.items())
    args = (*maps, TensorArgument("y"), argument(tiles))
    launch = Launch("k", "sm_90a", (1, 1, 1), (160, 1, 1), args, tensors, dynamic_smem=5 * 8192)
    outcome = emulate(parse(compile_text(text, "compute_90a")[0]), launch, ORDERS[order])
    assert not outcome.faults, outcome.faults
    scores = q @ k.T / 4
    assert (np.abs(scores) < 64).all()  # quarters below 64 are bf16
    np.testing.assert_array_equal(y, scores @ v)


def test_ldmatrix_has_no_bank_conflicts_with_this_swizzle() -> None:
    outcome = check(MMA_SYNC, (64, 64, 64), ORDERS["eager"])
    assert outcome.counters["shared"]["load"]["bank_conflicts"] == 0
    assert outcome.counters["products"]["mma.sync"]["m16n8k16.f32.bf16.bf16"]["instructions"] == 4 * 4 * 8


@pytest.mark.parametrize("product", [WGMMA, MMA_SYNC, CP_ASYNC, TCGEN05], ids=lambda p: p.name)
def test_the_assembler_takes_them_and_serialises_no_products(product: WholeProduct) -> None:
    assert "(C75" not in compile_text(text_of(product), product.arch)[1]


@pytest.mark.long
@every_product
def test_larger_ones(product: WholeProduct) -> None:
    for order in ORDERS.values():
        check(product, (192, 256, 1024), order)
