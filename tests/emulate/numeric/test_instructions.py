"""Floating-point and conversion instructions as they are written in PTX: operand forms, modifiers and packing."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import compiler.emulate.features  # noqa: F401 - registers the instructions
from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.ptx.parser import parse
from compiler.emulate.registry import build

TYPES = {"b": "b8", "h": "b16", "r": "b32", "f": "f32", "l": "b64", "d": "f64", "p": "pred"}
LANES = 3


def execute(text: str, values: tuple[int, ...]) -> int:
    """Runs `opcode d, a, b` whose operands are letters of TYPES; `values` are the bits of the sources."""
    opcode, operands = text.split()
    names = [x if x[0].isdigit() else f"%{x}{i + 1}" for i, x in enumerate(operands.split(","))]
    registers = "".join(f".reg .{kind} %{letter}<9>;\n" for letter, kind in TYPES.items())
    module = parse(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n"
        f"{registers}{opcode} {', '.join(names)};\nret;\n}}\n"
    )
    function = module.functions["k"]
    insn = function.instructions[0]
    run: Any = build(insn, Binder(function, {}, frozenset(), module.target))
    index = {r.name: r.index for r in function.registers}
    dtype = {r.name: np.dtype(bool if r.type == "pred" else f"u{r.nbits // 8}") for r in function.registers}
    state: list[Any] = [None] * (max(index.values()) + 1)
    state[index[names[0]]] = np.zeros(LANES, dtype[names[0]])
    for name, bits in zip([n for n in names[1:] if n in index], values, strict=True):
        state[index[name]] = np.full(LANES, bits, dtype[name])
    machine: Any = SimpleNamespace(registers=state, threads=SimpleNamespace(lanes=LANES))
    run(Active(machine, np.arange(LANES)))
    results = state[index[names[0]]].tolist()
    assert len(set(results)) == 1
    return int(results[0])


ONE, TWO, HALF, THREE = 0x3F800000, 0x40000000, 0x3F000000, 0x40400000
NAN = 0x7FC00000
INF = 0x7F800000
D1, D2, D3 = 0x3FF0000000000000, 0x4000000000000000, 0x4008000000000000


# The smallest normal number and what follows it; numbers just below one, by steps of 2^-24.
LEAST, ABOVE_LEAST, BELOW_ONE = 0x00800000, 0x00800001, 0x3F7FFFFF
TWO_BELOW_ONE, FOUR_BELOW_ONE = 0x3F7FFFFE, 0x3F7FFFFC


@pytest.mark.parametrize(
    ("text", "values", "zero_in"),
    [
        # 2^-126 (1 - 2^-24): holds 24 digits, so no rounding brings it up.
        ("mul.{}.ftz.f32 f,f,f", (LEAST, BELOW_ONE), "rn rz rm rp"),
        ("fma.{}.ftz.f32 f,f,f,f", (LEAST, BELOW_ONE, 0), "rn rz rm rp"),
        ("fma.{}.ftz.f32 f,f,f,f", (0x33800000, 0x80800000, LEAST), "rn rz rm rp"),
        # 2^-126 (1 - 2^-46): to 24 digits it is 2^-126, but for modes that go down.
        ("mul.{}.ftz.f32 f,f,f", (ABOVE_LEAST, TWO_BELOW_ONE), "rz rm"),
        ("mul.{}.ftz.f32 f,f,f", (0x80800001, TWO_BELOW_ONE), "rz rp"),
        ("fma.{}.ftz.f32 f,f,f,f", (ABOVE_LEAST, TWO_BELOW_ONE, 0), "rz rm"),
        # 2^-126 (1 + 2^-23)(1 - 2^-22) and 2^-126 (1 - 2^-23 + ...): short of it by more than half a step of 24 digits.
        ("mul.{}.ftz.f32 f,f,f", (ABOVE_LEAST, FOUR_BELOW_ONE), "rn rz rm rp"),
        ("div.{}.ftz.f32 f,f,f", (LEAST, 0x3F800001), "rn rz rm rp"),
        ("rcp.{}.ftz.f32 f,f", (0x7E800001,), "rn rz rm rp"),
        ("mul.{}.ftz.f32 f,f,f", (LEAST, ONE), ""),
        ("mul.{}.ftz.f32 f,f,f", (ABOVE_LEAST, BELOW_ONE), ""),
        ("div.{}.ftz.f32 f,f,f", (LEAST, ONE), ""),
        ("rcp.{}.ftz.f32 f,f", (0x7E800000,), ""),
        ("cvt.{}.ftz.f32.f64 f,d", (0x380FFFFFE0000000,), "rn rz rm rp"),
        ("cvt.{}.ftz.f32.f64 f,d", (0x380FFFFFF0000000,), "rz rm"),
        ("cvt.{}.ftz.f32.f64 f,d", (0x380FFFFFEFFFFFFF,), "rn rz rm"),
        ("cvt.{}.ftz.f32.f64 f,d", (0xB80FFFFFFFFFFFFF,), "rz rp"),
        ("mul.{}.ftz.f16 h,h,h", (0x0400, 0x3BFF), "rn"),
        ("mul.{}.ftz.f16 h,h,h", (0x0401, 0x3BFE), ""),
        ("fma.{}.ftz.f16 h,h,h,h", (0x8400, 0x3BFF, 0), "rn"),
        ("fma.{}.ftz.f16 h,h,h,h", (0x8401, 0x3BFE, 0), ""),
    ],
)
def test_results_are_flushed_that_are_tiny_when_rounded_to_full_precision(
    text: str, values: tuple[int, ...], zero_in: str
) -> None:
    width = 16 if "f16" in text else 32
    for mode in ("rn",) if width == 16 else ("rn", "rz", "rm", "rp"):
        found = execute(text.format(mode), values)
        assert (found & (1 << width - 1) - 1 == 0) == (mode in zero_in.split()), (mode, hex(found))
        unflushed = execute(text.format(mode).replace(".ftz", ""), values)
        assert found == unflushed or found == unflushed & 1 << width - 1, "flushing keeps a result or its sign"


# NaNs of f64: quiet and signalling ones of either sign, and the one that an instruction makes by itself.
QA, SB, QC = 0x7FF8000000000001, 0xFFF0000000000002, 0x7FF800000000000C
QB, MADE = 0xFFF8000000000002, 0xFFF8000000000000
DINF = 0x7FF0000000000000


@pytest.mark.parametrize(
    ("text", "values", "want"),
    [
        *(
            (f"{op}.{mode}.f64 d,d,d", (QA, SB), QB)
            for op in ("add", "sub", "mul")
            for mode in ("rn", "rz", "rm", "rp")
        ),
        *((f"fma.{mode}.f64 d,d,d,d", (QA, SB, QC), QB) for mode in ("rn", "rz", "rm", "rp")),
        ("fma.rn.f64 d,d,d,d", (QA, D1, QC), QC),
        ("fma.rz.f64 d,d,d,d", (QA, D1, D2), QA),
        ("fma.rn.f64 d,d,d,d", (DINF, 0, D1), MADE),
        ("sub.rn.f64 d,d,d", (D1, SB), QB),
        ("add.rp.f64 d,d,d", (DINF, DINF | 1 << 63), MADE),
        ("div.rn.f64 d,d,d", (QA, SB), QA),
        ("div.rz.f64 d,d,d", (0, 0), MADE),
        ("sqrt.rn.f64 d,d", (D1 | 1 << 63,), MADE),
        ("abs.f64 d,d", (SB,), QB),
        ("neg.f64 d,d", (QA,), QA),
        ("min.f64 d,d,d", (QA, SB), QB),
        ("max.f64 d,d,d", (QA, D1), D1),
        ("cvt.rn.f32.f64 f,d", (0xFFF0000020000000,), 0xFFC00001),
        ("cvt.ftz.f64.f32 d,f", (0x7F800001,), 0x7FFFFFFFE0000000),
        ("cvt.f64.f32 d,f", (0x7F800001,), 0x7FF8000020000000),
    ],
)
def test_nan_of_f64(text: str, values: tuple[int, ...], want: int) -> None:
    assert execute(text, values) == want


@pytest.mark.parametrize(
    ("text", "values", "want"),
    [
        ("add.f32 f,f,f", (ONE, TWO), THREE),
        ("add.f32 f,f,0f40000000", (ONE,), THREE),
        ("add.rn.ftz.f32 f,f,f", (0x00400000, 0x00400000), 0),
        ("add.sat.f32 f,f,f", (ONE, TWO), ONE),
        ("add.f32 f,f,f", (INF, 0xFF800000), 0x7FFFFFFF),
        ("add.rp.f32 f,f,f", (ONE, 1), 0x3F800001),
        ("sub.rn.f32 f,f,f", (ONE, TWO), 0xBF800000),
        ("sub.rm.f32 f,f,f", (ONE, ONE), 0x80000000),
        ("mul.ftz.f32 f,f,f", (0x00800000, HALF), 0),
        ("mul.f32 f,f,f", (0x00800000, HALF), 0x00400000),
        ("mul.rz.f64 d,d,d", (D3, D2), 0x4018000000000000),
        ("fma.rn.f32 f,f,f,f", (TWO, THREE, ONE), 0x40E00000),
        ("fma.rn.ftz.sat.f32 f,f,f,f", (NAN, THREE, ONE), 0),
        ("fma.rn.f64 d,d,d,d", (D2, D3, D1), 0x401C000000000000),
        ("mad.rn.f32 f,f,f,f", (TWO, THREE, ONE), 0x40E00000),
        ("div.rn.f32 f,f,f", (ONE, THREE), 0x3EAAAAAB),
        ("div.rz.ftz.f32 f,f,f", (ONE, THREE), 0x3EAAAAAA),
        ("div.approx.ftz.f32 f,f,f", (ONE, 0x7F000001), 0),
        ("div.full.f32 f,f,f", (ONE, TWO), HALF),
        ("div.rn.f64 d,d,d", (D1, D2), 0x3FE0000000000000),
        ("neg.f32 f,f", (ONE,), 0xBF800000),
        ("neg.ftz.f32 f,f", (1,), 0x80000000),
        ("abs.f32 f,f", (0xFFC00000,), 0x7FFFFFFF),
        ("abs.f64 d,d", (D1 | 1 << 63,), D1),
        ("min.f32 f,f,f", (NAN, TWO), TWO),
        ("min.NaN.f32 f,f,f", (NAN, TWO), 0x7FFFFFFF),
        ("max.f32 f,f,f", (0, 0x80000000), 0),
        ("max.ftz.f32 f,f,f", (1, 0x80000000), 0),
        ("max.xorsign.abs.f32 f,f,f", (0xC0400000, TWO), 0xC0400000),
        ("min.f32 f,f,f,f", (THREE, ONE, TWO), ONE),
        ("max.NaN.abs.f32 f,f,f,f", (0xC0400000, ONE, TWO), THREE),
        ("max.f64 d,d,d", (D1, D2), D2),
        ("rcp.rn.f32 f,f", (THREE,), 0x3EAAAAAB),
        ("rcp.rz.ftz.f32 f,f", (THREE,), 0x3EAAAAAA),
        ("rcp.rn.f64 d,d", (D2,), 0x3FE0000000000000),
        ("rcp.approx.ftz.f32 f,f", (TWO,), HALF),
        ("rcp.approx.ftz.f64 d,d", (D2,), 0x3FE0000000000000),
        ("sqrt.rn.f32 f,f", (0x40800000,), TWO),
        ("sqrt.approx.ftz.f32 f,f", (0x40800000,), TWO),
        ("sqrt.rp.f64 d,d", (D2,), 0x3FF6A09E667F3BCD),
        ("rsqrt.approx.f32 f,f", (0x40800000,), HALF),
        ("rsqrt.approx.f64 d,d", (0x4010000000000000,), 0x3FE0000000000000),
        ("rsqrt.approx.ftz.f64 d,d", (0x4010000000000000,), 0x3FE0000000000000),
        ("ex2.approx.ftz.f32 f,f", (ONE,), TWO),
        ("lg2.approx.f32 f,f", (0x41000000,), THREE),
        ("sin.approx.f32 f,f", (0,), 0),
        ("cos.approx.ftz.f32 f,f", (0,), ONE),
        ("tanh.approx.f32 f,f", (INF,), ONE),
        ("copysign.f32 f,f,f", (0x80000000, TWO), 0xC0000000),
        ("testp.subnormal.f32 p,f", (1,), 1),
        ("testp.notanumber.f64 p,d", (D1,), 0),
        ("fma.rn.f32x2 l,l,l,l", (TWO << 32 | ONE, THREE << 32 | TWO, ONE << 32), 0x40E00000 << 32 | TWO),
        ("add.rz.ftz.f32x2 l,l,l", (ONE << 32 | 1, TWO << 32), THREE << 32),
        ("add.f32.f16 f,h,f", (0x3C00, TWO), THREE),
        ("sub.rn.f32.bf16 f,h,f", (0x3F80, TWO), 0xBF800000),
        ("fma.rn.f32.f16 f,h,h,f", (0x4000, 0x4200, ONE), 0x40E00000),
    ],
)
def test_floating(text: str, values: tuple[int, ...], want: int) -> None:
    assert execute(text, values) == want


@pytest.mark.parametrize(
    ("text", "values", "want"),
    [
        ("add.f16 h,h,h", (0x3C00, 0x4000), 0x4200),
        ("add.rn.bf16 h,h,h", (0x3F80, 0x4000), 0x4040),
        ("add.ftz.f16 h,h,h", (0x0001, 0x0001), 0),
        ("sub.f16x2 r,r,r", (0x42003C00, 0x40003C00), 0x3C000000),
        ("mul.sat.f16x2 r,r,r", (0x4000BC00, 0x3C003C00), 0x3C000000),
        ("mul.bf16x2 r,r,r", (0x40003F80, 0x40403F80), 0x40C03F80),
        ("fma.rn.relu.f16x2 r,r,r,r", (0xC0003C00, 0x3C003C00, 0x3C003C00), 0x00004000),
        ("fma.rn.bf16x2 r,r,r,r", (0x3F803F80, 0x3F803F80, 0x00003F80), 0x3F804000),
        ("fma.rn.oob.f16 h,h,h,h", (0x7FF7, 0x3C00, 0x3C00), 0),
        ("min.bf16x2 r,r,r", (0x7FC0BF80, 0x3F803F80), 0x3F80BF80),
        ("max.NaN.f16x2 r,r,r", (0x7E003C00, 0x3C004000), 0x7FFF4000),
        ("max.xorsign.abs.bf16 h,h,h", (0xC000, 0x3F80), 0xC000),
        ("neg.f16x2 r,r", (0x3C00BC00,), 0xBC003C00),
        ("abs.bf16x2 r,r", (0xBF803F80,), 0x3F803F80),
        ("ex2.approx.f16x2 r,r", (0x3C000000,), 0x40003C00),
        ("ex2.approx.ftz.bf16 h,h", (0x3F80,), 0x4000),
        ("tanh.approx.bf16x2 r,r", (0x7F80FF80,), 0x3F80BF80),
        ("tanh.approx.f16 h,h", (0x8000,), 0x8000),
    ],
)
def test_half(text: str, values: tuple[int, ...], want: int) -> None:
    assert execute(text, values) == want


@pytest.mark.parametrize(
    ("text", "values", "want"),
    [
        ("cvt.rn.f32.s32 f,r", (0xFFFFFFFF,), 0xBF800000),
        ("cvt.rz.f32.u64 f,l", (2**64 - 1,), 0x5F7FFFFF),
        ("cvt.rn.f64.s32 d,r", (3,), D3),
        ("cvt.rn.f32.u16 f,h", (3,), THREE),
        ("cvt.rn.f32.s8 f,r", (0xFF,), 0xBF800000),
        ("cvt.rzi.s32.f32 r,f", (0xC0200000,), 0xFFFFFFFE),
        ("cvt.rni.s32.f32 r,f", (NAN,), 0),
        ("cvt.rni.s64.f32 l,f", (NAN,), 1 << 63),
        ("cvt.rzi.u32.f64 r,d", (0xFFF8000000000000,), 1 << 31),
        ("cvt.rzi.u8.f32 r,f", (0x43FA0000,), 255),
        ("cvt.rzi.s8.f32 r,f", (0xC3FA0000,), 0xFFFFFF80),
        ("cvt.rpi.ftz.s32.f32 r,f", (1,), 0),
        ("cvt.rpi.s32.f32 r,f", (1,), 1),
        ("cvt.rmi.f32.f32 f,f", (0xC0200000,), 0xC0400000),
        ("cvt.rni.f16.f16 h,h", (0x4100,), 0x4000),
        ("cvt.rzi.bf16.bf16 h,h", (0x4020,), 0x4000),
        ("cvt.f64.f32 d,f", (ONE,), D1),
        ("cvt.rn.f32.f64 f,d", (D1 + 1,), ONE),
        ("cvt.rp.f32.f64 f,d", (D1 + 1,), ONE + 1),
        ("cvt.rn.ftz.f32.f64 f,d", (0x37D0000000000000,), 0),
        ("cvt.sat.f32.f32 f,f", (TWO,), ONE),
        ("cvt.ftz.f32.f32 f,f", (0x80000001,), 0x80000000),
        ("cvt.f32.f16 f,h", (0x3C00,), ONE),
        ("cvt.f32.bf16 f,h", (0xBF80,), 0xBF800000),
        ("cvt.rn.f16.f32 h,f", (ONE,), 0x3C00),
        ("cvt.rn.relu.f16.f32 h,f", (0xBF800000,), 0),
        ("cvt.rn.satfinite.f16.f32 h,f", (INF,), 0x7BFF),
        ("cvt.sat.rn.f16.f32 h,f", (TWO,), 0x3C00),
        ("cvt.rz.bf16.f32 h,f", (0x3F80FFFF,), 0x3F80),
        ("cvt.rn.bf16.f32 h,f", (0x3F80FFFF,), 0x3F81),
        ("cvt.rn.f16x2.f32 r,f,f", (ONE, TWO), 0x3C004000),
        ("cvt.rz.relu.bf16x2.f32 r,f,f", (ONE, 0xC0000000), 0x3F800000),
        ("cvt.rna.tf32.f32 r,f", (0x3F801000,), 0x3F802000),
        ("cvt.rn.relu.tf32.f32 r,f", (0xBF801000,), 0),
        ("cvt.rn.satfinite.e4m3x2.f32 h,f,f", (ONE, 0xC0000000), 0x38C0),
        ("cvt.rn.satfinite.relu.e5m2x2.f32 h,f,f", (INF, 0xC0000000), 0x7B00),
        ("cvt.rn.satfinite.e4m3x2.f16x2 h,r", (0x3C00C000,), 0x38C0),
        ("cvt.rn.f16x2.e4m3x2 r,h", (0x38C0,), 0x3C00C000),
        ("cvt.rn.relu.f16x2.e5m2x2 r,h", (0x3CC0,), 0x3C000000),
        ("cvt.rn.satfinite.e2m1x2.f32 b,f,f", (ONE, 0xC0000000), 0x2C),
        ("cvt.rn.f16x2.e2m1x2 r,b", (0x2C,), 0x3C00C000),
        ("cvt.rn.satfinite.e2m3x2.f32 h,f,f", (ONE, 0xC0000000), 0x0830),
        ("cvt.rn.satfinite.e3m2x2.f32 h,f,f", (ONE, 0xC0000000), 0x0C30),
        ("cvt.rn.f16x2.e3m2x2 r,h", (0x0C30,), 0x3C00C000),
        ("cvt.rp.satfinite.ue8m0x2.f32 h,f,f", (ONE, THREE), 0x7F81),
        ("cvt.rz.ue8m0x2.bf16x2 h,r", (0x3F804040,), 0x7F80),
        ("cvt.rn.bf16x2.ue8m0x2 r,h", (0x7F80,), 0x3F804000),
        ("cvt.s64.s32 l,r", (0xFFFFFFFF,), 2**64 - 1),
        ("cvt.u64.u32 l,r", (0xFFFFFFFF,), 2**32 - 1),
        ("cvt.u32.u64 r,l", (2**33 + 5,), 5),
        ("cvt.u16.u32 h,r", (0x12345,), 0x2345),
        ("cvt.s32.s8 r,r", (0x1FF,), 0xFFFFFFFF),
        ("cvt.s32.s8 r,h", (0x1FF,), 0xFFFFFFFF),
        ("cvt.s8.s32 r,r", (0xFF,), 0xFFFFFFFF),
        ("cvt.u8.u32 h,r", (0x1FF,), 0xFF),
        ("cvt.sat.u8.s32 r,r", (0xFFFFFFFF,), 0),
        ("cvt.sat.s16.s32 r,r", (70000,), 0x7FFF),
        ("cvt.u64.s16 l,h", (0xFFFF,), 2**64 - 1),
        ("cvt.pack.sat.u16.s32 r,r,r", (70000, 7), 0xFFFF0007),
        ("cvt.pack.sat.s8.s32.b32 r,r,r,r", (200, 7, 0xABCD), 0xABCD7F07),
    ],
)
def test_convert(text: str, values: tuple[int, ...], want: int) -> None:
    assert execute(text, values) == want


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("add.sat.f64 d,d,d", 2),
        ("add.relu.f32 f,f,f", 2),
        ("fma.rn.sat.bf16 h,h,h,h", 3),
        ("ex2.approx.f64 d,d", 1),
        ("ex2.approx.bf16 h,h", 1),
        ("tanh.approx.ftz.f32 f,f", 1),
        ("mul.rn.f32.f16 f,h,f", 2),
        ("cvt.rs.f16x2.f32 r,f,f,r", 3),
        ("cvt.rn.relu.f32.f64 f,d", 1),
        ("cvt.rn.satfinite.e4m3x2.f64 h,d", 1),
        ("cvt.pack.sat.u32.s32 r,r,r", 2),
    ],
)
def test_forms_that_are_not_known(text: str, sources: int) -> None:
    with pytest.raises(UnknownForm, match=re.escape(text.split()[0])):
        execute(text, (0,) * sources)
