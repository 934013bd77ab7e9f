"""Whole products of matrices as people write them: a ring of two stages, tiles of 64 x 64 x 64, bf16 to f32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.emulate.form import EXACT, FormTolerance, InstructionForm
from benchmarks.emulate.forms.elements import drawn
from benchmarks.emulate.forms.frame import form
from compiler.emulate.launch import EmulatedTensorMap

KERNELS = Path(__file__).parents[1] / "kernels"

TILE = 64


@dataclass(frozen=True)
class WholeProduct:
    """A kernel y = a * b of the folder `kernels`: its files, the target it is for, its threads, whether b is [k][n] or
    [n][k], whether tensor copies fill its ring or the threads do."""

    files: tuple[str, ...]
    arch: str
    threads: int
    b_along_n: bool = False
    copies: bool = True

    @property
    def name(self) -> str:
        """The last file, and how b lies."""
        return f"{self.files[-1].removesuffix('.cu')}{' b along n' if self.b_along_n else ''}"

    @property
    def source(self) -> str:
        """CUDA source with the placeholder ENTRY for the kernel's name, to stand behind `compiling.DEVICE`."""
        text = "\n".join((KERNELS / file).read_text(encoding="utf-8") for file in self.files)
        return text.replace("B_ALONG_N", str(int(self.b_along_n)))

    @property
    def dynamic_smem(self) -> int:
        """Bytes of the ring, where it is not static."""
        return 2 * 2 * 2 * TILE * TILE if self.copies else 0

    def args(self, m: int, n: int, k: int) -> tuple[Any, ...]:
        """The arguments of a product: a and b, or tensor maps of them; y; n and k."""
        shapes = {"a": (m, k), "b": (k, n) if self.b_along_n else (n, k)}
        operands = [
            EmulatedTensorMap(name, "bf16", shape[::-1], (2 * shape[1],), (TILE, TILE), (1, 1), swizzle="128B")
            if self.copies
            else name
            for name, shape in shapes.items()
        ]
        return (*operands, "y", n, k)


PRODUCTS = (
    WholeProduct(("gemm_wgmma.cu",), "sm_90a", 256),
    WholeProduct(("gemm_wgmma.cu",), "sm_90a", 256, b_along_n=True),
    WholeProduct(("gemm_mma_sync.cuh", "gemm_mma_sync.cu"), "sm_90a", 160),
    WholeProduct(("gemm_mma_sync.cuh", "gemm_mma_sync.cu"), "sm_90a", 160, b_along_n=True),
    WholeProduct(("gemm_mma_sync.cuh", "gemm_cp_async.cu"), "sm_80", 128, copies=False),
    WholeProduct(("gemm_tcgen05.cu",), "sm_100a", 192),
    WholeProduct(("gemm_tcgen05.cu",), "sm_100a", 192, b_along_n=True),
)

_M, _N, _K = 128, 192, 512


def forms() -> Iterator[InstructionForm]:
    """Those that a card of sm_90a runs."""
    for product in PRODUCTS:
        if product.arch == "sm_100a":
            continue
        for data in ("whole", "any"):
            label = f"{product.name} of {data} numbers"
            tolerance = EXACT if data == "whole" else FormTolerance("f32", absolute=_K * 9.0 * 2.0**-21)
            one_row = form(
                label,
                "product",
                product.source,
                {"a": drawn("bf16", _M * _K // 2, data, label), "b": drawn("bf16", _N * _K // 2, data, label + " b")},
                {"y": 4 * _M * _N},
                args=product.args(_M, _N, _K),
                block=product.threads,
                dynamic_smem=product.dynamic_smem,
                tolerance=tolerance,
            )
            yield replace(one_row, grid=(_N // TILE, _M // TILE, 1))
