"""Products of tensor cores, an instruction at a time: mma.sync and wgmma of all types, shapes and layouts.

Elements are drawn at random, so that any register, or any byte of an image of shared memory, may hold any of them:
where the card and the emulator take an element from is compared along with what they compute. Integers, and floats that
are small whole numbers, have to agree bit for bit; of other floats the sums may differ by the roundings of the card
(`accumulation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.emulate.form import EXACT, FormTolerance, InstructionForm
from benchmarks.emulate.forms.elements import BITS, drawn
from benchmarks.emulate.forms.frame import form, kernel

FAMILY = "product"

BLOCKS = 6

_FLOATS = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
_MINIFLOATS = [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
_INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
TYPES = (*_FLOATS, *_MINIFLOATS, *_INTEGERS)
"""Types of D, A and B."""

_DEPTHS = {16: (8, 16), 32: (4, 8), 8: (16, 32)}
"""k of m16n8k… by the bits of an element."""

_DATA = ("whole", "any")
"""Small whole numbers, or any; integers of one kind only, any."""


def forms() -> Iterator[InstructionForm]:
    """All of this module."""
    for types in TYPES:
        for depth in _DEPTHS[BITS[types[1]]]:
            for more in ("", ".satfinite") if types[0] == "s32" else ("",):
                for data in _DATA[1:] if types[0] == "s32" else _DATA:
                    yield warp_form(types, depth, data, more)
    for group in warpgroup_kernels():
        yield group.form()


def warpgroup_kernels() -> Iterator[WarpgroupKernel]:
    """Those of wgmma."""
    for types in TYPES:
        for registers in (False, True):
            for data in _DATA[1:] if types[0] == "s32" else _DATA:
                yield WarpgroupKernel(types, 32, registers=registers, data=data)
    half, word, byte = ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"), ("s32", "s8", "u8")
    for mode in MODES:
        for transposed in ((0, 1), (1, 0), (1, 1)):
            yield WarpgroupKernel(half, 64, mode=mode, transposed=transposed)
        for types in (half, word, byte, ("f32", "e4m3", "e4m3")):
            yield WarpgroupKernel(types, 64, mode=mode)
    yield WarpgroupKernel(("f32", "f16", "f16"), 128, transposed=(0, 1), registers=True)
    for columns in (8, 24, 136, 192, 256):
        yield WarpgroupKernel(half, columns)
    for columns in (8, 16, 24, 208, 224, 240, 256):
        yield WarpgroupKernel(byte, columns)
    for signs in ((1, -1), (-1, 1), (-1, -1)):
        yield WarpgroupKernel(half, 16, signs=signs)
        yield WarpgroupKernel(("f32", "e5m2", "e4m3"), 16, signs=signs)
    yield WarpgroupKernel(half, 16, adds=False)
    yield WarpgroupKernel(byte, 16, more=".satfinite")
    for mode, base in (("128B", 1), ("128B", 2), ("128B", 4), ("64B", 1), ("64B", 2), ("32B", 1)):
        yield WarpgroupKernel(half, 64, mode=mode, base=base)


def tolerance(types: tuple[str, str, str], data: str, depth: int) -> FormTolerance:
    """How far two results may lie apart: not at all, or in proportion to the sizes of all that is added.

    Sums of fp8 keep few bits on Hopper; f16 accumulators are rounded to their ten.
    """
    if data == "whole" or types[0] == "s32":
        return EXACT
    total = depth * 9.0 + 9.0
    bits = 9 if types[0] == "f16" else 12 if BITS[types[1]] == 8 else 21
    return FormTolerance(types[0], absolute=total * 2.0**-bits)


def warp_form(types: tuple[str, str, str], depth: int, data: str, more: str) -> InstructionForm:
    """One mma.sync a warp, of registers that each hold what they are given."""
    d, a, b = types
    name = f"mma.sync.aligned.m16n8k{depth}.row.col{more}.{d}.{a}.{b}.{d}"
    counts = [16 * depth * BITS[a] // 1024, 8 * depth * BITS[b] // 1024, 16 * 8 * (16 if d == "f16" else 32) // 1024]
    label = f"{name} of {data} numbers"
    threads = 128 * BLOCKS
    inputs = {
        which: drawn(kind, count * threads, data, f"{label} {which}")
        for which, kind, count in zip("abc", (a, b, d), counts, strict=True)
    }
    register = "float" if d == "f32" else "u32"
    letter = "f" if d == "f32" else "r"
    held = [f"%{i}" for i in range(counts[2])]
    places = [f"%{counts[2] + i}" for i in range(counts[0] + counts[1])]
    left, right = places[: counts[0]], places[counts[0] :]
    operands = [f'"r"(a[{counts[0]} * i + {k}])' for k in range(counts[0])]
    operands += [f'"r"(b[{counts[1]} * i + {k}])' for k in range(counts[1])]
    text = (
        f"  {register} d[{counts[2]}];\n"
        f"  for (u32 k = 0; k < {counts[2]}; ++k) d[k] = (({register}*)c)[{counts[2]} * i + k];\n"
        f'  asm volatile("{name} {{{", ".join(held)}}}, {{{", ".join(left)}}}, {{{", ".join(right)}}}, '
        f'{{{", ".join(held)}}};" : {", ".join(f"{chr(34)}+{letter}{chr(34)}(d[{k}])" for k in range(counts[2]))} : '
        f"{', '.join(operands)});\n"
        f"  for (u32 k = 0; k < {counts[2]}; ++k) (({register}*)y)[{counts[2]} * i + k] = d[k];"
    )
    source = kernel("const u32* a, const u32* b, const u32* c, u32* y", text)
    outputs = {"y": 4 * counts[2] * threads}
    return form(label, FAMILY, source, inputs, outputs, grid=BLOCKS, tolerance=tolerance(types, data, depth))


MODES = {"none": (0, 16), "32B": (3, 32), "64B": (2, 64), "128B": (1, 128)}
"""Codes of the swizzle in descriptors of wgmma, and bytes of its lines."""


@dataclass(frozen=True)
class WarpgroupKernel:
    """Some wgmma.mma_async in a row, on an image of shared memory of random elements."""

    types: tuple[str, str, str]
    columns: int
    mode: str = "128B"
    transposed: tuple[int, int] = (0, 0)
    registers: bool = False
    data: str = "whole"
    signs: tuple[int, int] = (1, 1)
    adds: bool = True
    more: str = ""
    base: int = 0
    """The base offset of A, whose pattern begins as many times 128 bytes further on."""

    @property
    def depth(self) -> int:
        """Elements along k of an instruction."""
        return 256 // BITS[self.types[1]]

    @property
    def steps(self) -> int:
        """Instructions: one where roundings are looked at, else as many as a line of 128 bytes has."""
        return 1 if self.data == "any" and self.types[0] != "s32" else 4

    @property
    def name(self) -> str:
        """The instruction."""
        return f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{self.depth}{self.more}.{'.'.join(self.types)}"

    def label(self) -> str:
        """The instruction and what is special about it."""
        ways = "".join("MN" if t else "K" for t in self.transposed)
        where = "registers" if self.registers else "shared"
        return (
            f"{self.name} {where} {self.mode} {ways} {self.signs[0]}{self.signs[1]}{'' if self.adds else ' no d'}"
            f"{f' base {self.base}' if self.base else ''} "
            f"of {self.data} numbers"
        )

    def part(self, rows: int, transposed: int, step: int) -> tuple[int, int, int]:
        """Of an operand: bytes from its start to those of a step, and the two steps of its descriptor."""
        _, width = MODES[self.mode]
        depth = self.depth * 4
        if transposed:
            k = step * self.depth
            if self.mode == "none":
                return 16 * k, 128, 16 * depth
            return k * width, depth * width, 8 * width
        if self.mode == "none":
            return 2 * step * rows * 16, rows * 16, 128
        box, within = divmod(32 * step, width)
        return box * rows * width + within, 16, 8 * width

    def form(self) -> InstructionForm:
        """The kernel: BLOCKS warpgroups."""
        d, a, b = self.types
        count = self.columns // (4 if d == "f16" else 2)
        bytes_a = 64 * 128
        image = bytes_a + -(-self.columns * 128 // 1024) * 1024
        label, threads = self.label(), 128 * BLOCKS
        halves = [
            np.stack([drawn(kind, size // 4, self.data, f"{label} {kind} {n}") for n in range(BLOCKS)])
            for kind, size in ((a, bytes_a), (b, image - bytes_a))
        ]
        inputs = {
            "image": np.concatenate(halves, axis=1).reshape(-1),
            "a": drawn(a, 4 * self.steps * threads, self.data, f"{label} registers"),
            "c": drawn(d, count * threads, self.data, f"{label} c"),
        }
        text = self._text(count, image, bytes_a)
        source = kernel("const uint4* image, const u32* a, const u32* c, u32* y", text)
        return form(
            label,
            FAMILY,
            source,
            inputs,
            {"y": 4 * count * threads},
            grid=BLOCKS,
            dynamic_smem=image,
            tolerance=tolerance(self.types, self.data, self.depth),
        )

    def _text(self, count: int, image: int, bytes_a: int) -> str:
        register, letter = ("float", "f") if self.types[0] == "f32" else ("u32", "r")
        steps = [
            f"  extern __shared__ __align__(1024) uint4 operands[];\n  {register} d[{count}];\n",
            f"  for (u32 k = t; k < {image // 16}; k += 128) operands[k] = image[{image // 16} * blockIdx.x + k];\n",
            f"  for (u32 k = 0; k < {count}; ++k) d[k] = (({register}*)c)[{count} * i + k];\n",
            self._factors() if self.registers else "",
            "  FENCE_ASYNC();\n  __syncthreads();\n",
            '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n',
            *(self._step(step, count, bytes_a, letter) for step in range(self.steps)),
            '  asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");\n',
            f"  for (u32 k = 0; k < {count}; ++k) (({register}*)y)[{count} * i + k] = d[k];",
        ]
        return "".join(steps)

    def _factors(self) -> str:
        """Loads A, before the fence."""
        count = 4 * self.steps
        return f"  u32 r[{count}];\n  for (u32 k = 0; k < {count}; ++k) r[k] = a[{count} * i + k];\n"

    def _step(self, step: int, count: int, bytes_a: int, letter: str) -> str:
        element = BITS[self.types[1]] // 8
        code = MODES[self.mode][0]

        def descriptor(first: int, rows: int, transposed: int, base: int = 0) -> str:
            start, leading, stride = self.part(rows, transposed, step)
            start += 128 * base
            bits = leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | code << 62
            return f'"l"((u64)((SMEM(operands) + {first + start}) >> 4) | {bits:#x}ull)'

        held = ", ".join(f"%{k}" for k in range(count))
        given = [f'"r"(r[{4 * step + k}])' for k in range(4)]
        operands = given if self.registers else [descriptor(0, 64, self.transposed[0], self.base)]
        operands.append(descriptor(bytes_a, self.columns, self.transposed[1]))
        places = [f"%{count + k}" for k in range(len(operands))]
        left = "{" + ", ".join(places[:4]) + "}" if self.registers else places[0]
        tail = "" if self.types[0] == "s32" else f", {self.signs[0]}, {self.signs[1]}"
        if element == 2:
            tail += ", " + ", ".join(map(str, self.transposed[1:] if self.registers else self.transposed))
        outs = ", ".join(f'"+{letter}"(d[{k}])' for k in range(count))
        adds = int(self.adds or step > 0)
        return (
            f'  asm volatile("{self.name} {{{held}}}, {left}, {places[-1]}, {adds}{tail};" : {outs} : '
            f"{', '.join(operands)});\n"
        )
