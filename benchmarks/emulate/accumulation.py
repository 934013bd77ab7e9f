"""What a card does with the sums of its products: `python -m benchmarks.emulate.accumulation DIR`.

The PTX ISA leaves open in which order products and accumulator are added, how many bits are kept in between, and how
the sum is rounded ("mma", "wgmma.mma_async"). Products of powers of two show it: one that is 2^-n of what cancels is
there or not; sums that lie between two f32 go up or down. `--prepare` compiles the kernels and needs no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.emulate.compiling import entry, prepare_forms, prepared_forms
from benchmarks.emulate.form import InstructionForm
from benchmarks.emulate.forms.elements import BITS, bits_of
from benchmarks.emulate.forms.products import BLOCKS, WarpgroupKernel, warp_form
from compiler.emulate.numeric.products import accumulated
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

Array = npt.NDArray[Any]
Values = npt.NDArray[np.float64]

ROWS, COLUMNS = 16, 8
"""Of the part of a product that is looked at: what one warp has of m16n8, or of m64n8."""

_C = 2.0**12
_HALF = 2.0**-6
"""Half a unit in the last place of the accumulator _C is _HALF squared."""

TYPES = tuple(("f32", kind, kind) for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2"))
LEADING = {"f16": 0, "bf16": 0, "tf32": 0, "e4m3": 8, "e5m2": 0}
"""Exponent of the factors that cancel, so that small ones reach far below."""
_SMALLEST = {"f16": 14, "bf16": 40, "tf32": 40, "e4m3": 6, "e5m2": 14}
"""The smallest normal power of two that is used as a factor is 2 to the minus that."""
_SUBNORMAL = {"f16": 2.0**-24, "bf16": 2.0**-133, "tf32": 2.0**-136, "e4m3": 2.0**-9, "e5m2": 2.0**-16}


@dataclass(frozen=True)
class SumExperiment:
    """A product of 16 x 8 whose results tell something: a (16, k), b (k, 8), c (16, 8)."""

    a: Values
    b: Values
    c: Values


def experiments(kind: str, depth: int) -> tuple[SumExperiment, ...]:
    """Those of a type: what stays of a product beside two that cancel, beside an accumulator that a product cancels;
    how sums are rounded; sums of many small products; subnormal factors and results; sums that overflow on the way."""
    top = 2.0 ** LEADING[kind]
    most = LEADING[kind] + _SMALLEST[kind]
    i, j = np.minimum(np.arange(ROWS), most), np.minimum(2 * np.arange(COLUMNS), most)
    a, b, c = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS)), np.zeros((ROWS, COLUMNS))
    a[:, 0], b[0], a[:, 2], b[2] = top, top, top * 2.0**-i, top * 2.0**-j
    beside_accumulator = SumExperiment(a, b, c - top**2)
    beside_products = SumExperiment(a.copy(), b.copy(), c)
    beside_products.a[:, 1], beside_products.b[1] = -top, top
    return (
        beside_products,
        beside_accumulator,
        _rounding(depth),
        _many(kind, depth),
        _subnormal(kind, depth),
        _overflow(kind, depth),
    )


def _rounding(depth: int) -> SumExperiment:
    """Row m adds m quarters of a unit, column n to one of four accumulators of either sign."""
    a, b = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS))
    for row in range(ROWS):
        quarters = [1.0] * (row % 2) + [2.0] * (row // 2)
        a[row, : len(quarters)] = [_HALF * q / 2 for q in quarters]
    sign = np.where(np.arange(COLUMNS) < 4, 1.0, -1.0)
    b[:] = _HALF * sign
    units = np.arange(COLUMNS) % 4
    return SumExperiment(a, b, np.tile(sign * (_C + units * 2 * _HALF**2), (ROWS, 1)))


def _many(kind: str, depth: int) -> SumExperiment:
    """Row m adds m products (all, in the last), column n of 2^-n units each."""
    a, b = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS))
    for row in range(ROWS):
        a[row, : depth if row == ROWS - 1 else min(row, depth)] = _HALF
    b[:] = 2 * _HALF * 2.0 ** -np.minimum(np.arange(COLUMNS), 4)
    return SumExperiment(a, b, np.full((ROWS, COLUMNS), _C))


def _subnormal(kind: str, depth: int) -> SumExperiment:
    """Row 0: a subnormal factor, of a product that is none; row 1: a product that is subnormal in f32."""
    a, b = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS))
    a[0, 0], b[0] = _SUBNORMAL[kind], 1.0
    if kind in ("bf16", "tf32"):
        b[0] = 2.0**20
        a[1, 1], b[1] = 2.0**-100, 2.0**-40
    return SumExperiment(a, b, np.zeros((ROWS, COLUMNS)))


def _overflow(kind: str, depth: int) -> SumExperiment:
    """Row 0: four products of 2^127, two of either sign."""
    a, b = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS))
    if kind in ("bf16", "tf32"):
        a[0, :4], b[:4] = [2.0**64, 2.0**64, -(2.0**64), -(2.0**64)], 2.0**63
    return SumExperiment(a, b, np.zeros((ROWS, COLUMNS)))


def instructions() -> list[tuple[str, tuple[str, str, str], InstructionForm]]:
    """Name, types and kernel of each instruction, its inputs the experiments of its type, a block each."""
    found = []
    for types in TYPES:
        kind = types[1]
        depth = 256 // BITS[kind]
        made = experiments(kind, depth)
        warp = warp_form(types, depth, "any", "")
        held = [registers_of(kind, experiment) for experiment in made]
        a, b, c = (np.concatenate([_padded(part) for part in parts]) for parts in zip(*held, strict=True))
        found.append((f"mma.sync m16n8k{depth} {kind}", types, replace(warp, inputs={"a": a, "b": b, "c": c})))
        group = WarpgroupKernel(types, COLUMNS, mode="none", registers=True, data="any").form()
        image = np.zeros((BLOCKS, len(group.inputs["image"]) // BLOCKS), np.uint32)
        for block, experiment in enumerate(made):
            image[block, 2048 : 2048 + 64] = _image_of_b(kind, experiment.b)
        inputs = {"image": image.reshape(-1), "a": a, "c": c}
        found.append((f"wgmma m64n8k{depth} {kind}", types, replace(group, inputs=inputs)))
    return found


def registers_of(kind: str, experiment: SumExperiment) -> tuple[Array, Array, Array]:
    """(32, registers) of a, b and c, as mma.sync has them."""
    a = np.ascontiguousarray(bits_of(kind, experiment.a)).view(np.uint32)
    b = np.ascontiguousarray(bits_of(kind, experiment.b.T)).view(np.uint32)
    c = np.ascontiguousarray(bits_of("f32", experiment.c))
    return (
        a.reshape(2, 8, -1, 4).transpose(1, 3, 2, 0).reshape(32, -1),
        b.reshape(8, -1, 4).transpose(0, 2, 1).reshape(32, -1),
        c.reshape(2, 8, 4, 2).transpose(1, 2, 0, 3).reshape(32, 4),
    )


def _padded(registers: Array) -> npt.NDArray[np.uint32]:
    """The registers of a block of 128 threads, zeros but for the first warp's."""
    whole = np.zeros((128, registers.shape[1]), np.uint32)
    whole[:32] = registers
    return whole.reshape(-1)


def _image_of_b(kind: str, b: Values) -> npt.NDArray[np.uint32]:
    """B in shared memory without a swizzle: columns of 16 bytes along k, 8 rows each."""
    rows = np.ascontiguousarray(bits_of(kind, b.T)).view(np.uint8).reshape(COLUMNS, 2, 16)
    return np.ascontiguousarray(rows.transpose(1, 0, 2)).view(np.uint32).reshape(-1)


def results_of(y: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """(experiments, 16, 8) of what the first warps of the blocks stored."""
    registers = y.view(np.float32).reshape(BLOCKS, 128, 4)[:, :32]
    return registers.reshape(BLOCKS, 8, 4, 2, 2).transpose(0, 3, 1, 2, 4).reshape(BLOCKS, ROWS, COLUMNS)


def told(kind: str, found: npt.NDArray[np.float32]) -> tuple[str, ...]:
    """What the results of a type say, a cell of the table each."""
    made = experiments(kind, 256 // BITS[kind])
    return (
        _kept(kind, made[0], found[0]),
        _kept(kind, made[1], found[1]),
        _modes(made[2], found[2]),
        _sums(found[3]),
        _zero(found[4][0, 0]) + (f", {_zero(found[4][1, 0])}" if kind in ("bf16", "tf32") else ""),
        f"{found[5][0, 0]:g}" if kind in ("bf16", "tf32") else "-",
    )


def _kept(kind: str, experiment: SumExperiment, found: npt.NDArray[np.float32]) -> str:
    """The largest n of which 2^-n is kept in every case, and the largest that was tried."""
    exact = experiment.a @ experiment.b + experiment.c
    n = np.rint(-np.log2(exact / 4.0 ** LEADING[kind])).astype(int)
    lost = n[found != exact]
    least = int(lost.min()) - 1 if lost.size else int(n.max())
    return f"2^-{least}{'' if lost.size else ' (all)'}"


def _modes(experiment: SumExperiment, found: npt.NDArray[np.float32]) -> str:
    """The rounding modes that give all results, of the exact sums."""
    exact = experiment.a @ experiment.b + experiment.c
    near = accumulated("f32", exact, None)
    down = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    up = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
    modes = {"nearest even": near, "towards zero": np.where(exact > 0, down, up), "down": down, "up": up}
    fit = [name for name, values in modes.items() if (values == found).all()]
    return ", ".join(fit) or "none of the four"


def _sums(found: npt.NDArray[np.float32]) -> str:
    """Units that all products of an instruction add to the accumulator, of 1, 1/2, 1/4, 1/8, 1/16 of a unit each."""
    unit = 2 * _HALF**2
    return " ".join(f"{(float(x) - _C) / unit:g}" for x in found[-1, :5])


def _zero(value: np.float32) -> str:
    return "flushed" if value == 0 else f"{value:g}"


HEADER = (
    "instruction",
    "kept beside two products that cancel",
    "kept beside an accumulator that a product cancels",
    "sums are rounded",
    "all k products of 1, 1/2, 1/4, 1/8, 1/16 unit add",
    "subnormal factor, subnormal result",
    "sum that overflows on the way",
)


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows as a table of markdown."""
    lines = [HEADER, ("---",) * len(HEADER), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulate.accumulation", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the compiled kernels are")
    parser.add_argument("--prepare", action="store_true", help="compile them there; needs no GPU")
    parser.add_argument("--emulated", action="store_true", help="the emulator in place of the card")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    given = parser.parse_args(argv)
    forms = [form for _, _, form in instructions()]
    if given.prepare:
        prepare_forms(forms, given.folder)
        return 0
    rows: list[tuple[str, ...]] = []
    for compiled, group in prepared_forms(forms, given.folder):
        for k, form in enumerate(group):
            name, types, _ = instructions()[len(rows)]
            launch = form.launch(entry(k))
            if given.emulated:
                emulate(parse(compiled.ptx), launch)
                y = launch.tensors["y"].data
            else:
                y = _on_card(compiled.cubin, launch)
            rows.append((name, *told(types[1], results_of(y))))
    print(table(rows))
    if given.markdown:
        given.markdown.write_text(table(rows), encoding="utf-8")
    return 0


def _on_card(cubin: bytes, launch: Any) -> npt.NDArray[np.uint8]:
    from benchmarks.emulate.card import loaded, run

    with loaded(cubin) as module:
        return run(module, launch)["y"]


if __name__ == "__main__":
    sys.exit(main())
