"""Which sums of products a card gives: `python -m benchmarks.emulate.aligned_sums DIR`, of what `agree` left in DIR.

Two rules are held against every result of random numbers. Nearest: the exact sum of products and accumulator, rounded
to nearest once, as the emulator has it. Aligned: products and accumulator are aligned to the largest exponent among
them (that of a product is the sum of its factors'), cut off some bits below, and added; the sum is cut to an f32, or
rounded to the nearest f16. Needs no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate import on_card
from benchmarks.emulate.forms import chosen
from benchmarks.emulate.forms.products import BLOCKS, WarpgroupKernel, warpgroup_kernels
from compiler.emulate.features.mma.fragments import columns_of_b, rows_of_a, rows_of_d
from compiler.emulate.features.mma.matrices import SharedMatrix, chunks_along_k
from compiler.emulate.features.tma.swizzle import SWIZZLES
from compiler.emulate.numeric.products import ACCUMULATORS, factors

Values = npt.NDArray[np.float64]
Tensors = dict[str, npt.NDArray[np.uint8]]

_BITS = (13, 25)
"""Bits below the largest exponent that are tried."""

_NOTHING = -(1 << 14)
"""In place of the exponent of zero."""


@dataclass(frozen=True)
class RandomSums:
    """What instructions of one form added, and got: a (n, rows, k), b (n, columns, k), c and d (n, rows, columns)."""

    name: str
    a: Values
    b: Values
    c: Values
    d: npt.NDArray[Any]


def sums_in(folder: Path) -> Iterator[RandomSums]:
    """Those of every form of random floats that ran on the card."""
    kernels = {k.label(): k for k in warpgroup_kernels()}
    for number, form in enumerate(chosen(folder / "forms")):
        path = folder / "card" / "forms" / f"{number}.npz"
        if form.family != "product" or not form.name.endswith("of any numbers") or not path.exists():
            continue
        with np.load(path) as found:
            tensors = dict(found)
        if form.name.startswith("mma.sync"):
            name = form.name.split()[0].split(".")
            if name[-1] != "s32":
                yield _of_warps(form.name.split()[0], tensors, (name[-1], name[-3], name[-2]))
        elif form.name in kernels and kernels[form.name].types[0] != "s32":
            yield _of_warpgroups(kernels[form.name], tensors)


def _of_warps(name: str, tensors: Tensors, types: tuple[str, str, str]) -> RandomSums:
    d, a, b = types
    count = 128 * BLOCKS
    held = {k: v.view(np.uint32).reshape(count, -1) for k, v in tensors.items()}
    shape = (count // 32, 16, 8)
    return RandomSums(
        name,
        factors(a, rows_of_a(held["a"])).reshape(count // 32, 16, -1),
        factors(b, columns_of_b(held["b"])),
        rows_of_d(held["c"], ACCUMULATORS[d]).reshape(shape).astype(np.float64),
        rows_of_d(held["y"], ACCUMULATORS[d]).reshape(shape),
    )


def _of_warpgroups(kernel: WarpgroupKernel, tensors: Tensors) -> RandomSums:
    d, a, b = kernel.types
    image = tensors["image"].reshape(BLOCKS, -1)
    shape = (BLOCKS, 64, kernel.columns)

    def rows(start: int, count: int) -> npt.NDArray[np.uint32]:
        place = SharedMatrix(start, 16, 1024, SWIZZLES["128B"])
        data = image[:, chunks_along_k(place, count)[..., None] + np.arange(16)]
        return np.ascontiguousarray(data.reshape(BLOCKS, count, 32)).view(np.uint32)

    registers = tensors["a"].view(np.uint32).reshape(128 * BLOCKS, 4)
    words = rows_of_a(registers).reshape(BLOCKS, 64, 8) if kernel.registers else rows(0, 64)
    held = {k: tensors[k].view(np.uint32).reshape(128 * BLOCKS, -1) for k in ("c", "y")}
    return RandomSums(
        f"{kernel.name} {'registers' if kernel.registers else 'shared'}",
        factors(a, words),
        factors(b, rows(8192, kernel.columns)),
        rows_of_d(held["c"], ACCUMULATORS[d]).reshape(shape).astype(np.float64),
        rows_of_d(held["y"], ACCUMULATORS[d]).reshape(shape),
    )


def aligned(sums: RandomSums, bits: int) -> npt.NDArray[Any]:
    """The results of the rule of aligned sums."""
    products = sums.a[:, :, None, :] * sums.b[:, None, :, :]
    powers = _exponents(sums.a)[:, :, None, :] + _exponents(sums.b)[:, None, :, :]
    unit = np.ldexp(1.0, np.maximum(powers.max(axis=-1), _exponents(sums.c)) - bits)
    total = (np.trunc(products / unit[..., None]).sum(axis=-1) + np.trunc(sums.c / unit)) * unit
    found: npt.NDArray[Any] = total.astype(np.float16)
    if sums.d.dtype != np.float16:
        kept = np.ldexp(1.0, _exponents(total) - min(bits, 23))
        found = (np.trunc(total / kept) * kept).astype(np.float32)
    return found


def _exponents(x: Values) -> npt.NDArray[np.int64]:
    return np.where(x == 0, _NOTHING, np.frexp(x)[1] - 1)


def row(sums: RandomSums) -> tuple[str, ...]:
    """Name, how many results, which share either rule gives, the largest error against the sizes that were added."""
    exact = sums.a @ sums.b.transpose(0, 2, 1) + sums.c
    sizes = np.abs(sums.a) @ np.abs(sums.b).transpose(0, 2, 1) + np.abs(sums.c)
    shares = [np.mean(exact.astype(sums.d.dtype) == sums.d), *(np.mean(aligned(sums, n) == sums.d) for n in _BITS)]
    worst = float((np.abs(exact - sums.d.astype(np.float64)) / sizes).max())
    told = f"2^{np.log2(worst):.1f}" if worst else "0"
    return sums.name, f"{sums.d.size:,}", *(f"{100 * share:.1f} %" for share in shares), told


HEADER = ("instruction", "results", "nearest", *(f"aligned, {n} bits" for n in _BITS), "largest error")


def main(argv: Sequence[str] | None = None) -> int:
    """The command: exit code 2 where nothing ran."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.aligned_sums", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `python -m benchmarks.emulate.agree` was run on")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    given = parser.parse_args(argv)
    rows = [row(sums) for sums in sums_in(given.folder)]
    if not rows:
        parser.error(f"{given.folder}: no product ran on a card. Run `python -m benchmarks.emulate.agree` on it.")
    lines = [HEADER, ("---",) * len(HEADER), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    print(f"{len(rows)} forms, on {on_card.described(given.folder)}\n\n{table}")
    if given.markdown:
        given.markdown.write_text(table, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
