"""Instruction descriptors of tcgen05.mma: worked values, and the nearest that are none."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.binder import UnknownForm
from compiler.emulate.features.tmem.product_form import tensor_form
from tests.emulate.features.small_kernels import allocated, run

BF16 = 0x08200490


@pytest.mark.parametrize(
    ("bits", "kind", "is_pair", "expected"),
    [
        (BF16, "f16", False, (128, 128, "f32", "bf16", "bf16", False)),
        (0x08400490, "f16", False, (128, 256, "f32", "bf16", "bf16", False)),
        (0x08410490, "f16", False, (128, 256, "f32", "bf16", "bf16", True)),
        (0x10400490, "f16", True, (256, 256, "f32", "bf16", "bf16", False)),
        (0x08400010, "f16", False, (128, 256, "f32", "f16", "f16", False)),
        (0x04100000, "f16", False, (64, 64, "f16", "f16", "f16", False)),
        (0x08200910, "tf32", False, (128, 128, "f32", "tf32", "tf32", False)),
        (0x082004A0, "i8", False, (128, 128, "s32", "s8", "s8", False)),
        (0x08200410, "f8f6f4", False, (128, 128, "f32", "e4m3", "e5m2", False)),
    ],
)
def test_worked_values(bits: int, kind: str, is_pair: bool, expected: tuple[int, int, str, str, str, bool]) -> None:
    form = tensor_form(bits, kind, is_pair)
    assert (form.rows, form.columns, form.d, form.a, form.b, form.transposes_b) == expected


def shape(rows: int, columns: int, more: int = 0x490) -> int:
    """Bits of a shape; of bf16 unless told otherwise."""
    return rows >> 4 << 24 | columns >> 3 << 17 | more


@pytest.mark.parametrize(
    ("bits", "kind", "is_pair", "problem"),
    [
        (BF16 | 1, "f16", False, "bits 1:0"),
        (BF16 | 1 << 6, "f16", False, "bits 6:6"),
        (BF16 | 1 << 23, "f16", False, "bits 23:23"),
        (BF16 | 1 << 30, "f16", False, "bits 31:29"),
        (BF16 | 1 << 3, "f16", False, "bit 3 saturates"),
        (BF16, "tf32", False, "the type of A"),
        (BF16 & ~(7 << 10), "f16", False, "A is bf16 and B is f16"),
        (BF16 & ~(3 << 4), "f16", False, "D of bf16"),
        (0x082004A0 | 1 << 13, "i8", False, "negate"),
        (0x082004A0 & ~(3 << 4) | 1 << 4, "i8", False, "the type of D"),
        (shape(64, 8), "f16", False, None),
        (shape(64, 12 * 8 + 8), "f16", False, None),
        (shape(128, 16), "f16", False, None),
        (shape(128, 24), "f16", False, "multiple of 16"),
        (shape(128, 0), "f16", False, "N in bits"),
        (shape(128, 264), "f16", False, "multiple of 16"),
        (shape(96, 64), "f16", False, "M in bits"),
        (shape(64, 64), "f16", True, "M in bits"),
        (shape(256, 24), "f16", True, "multiple of 16"),
        (shape(64, 24, 0x4A0), "i8", False, None),
        (shape(64, 40, 0x4A0), "i8", False, "multiple of 16"),
        (shape(128, 48, 0x4A0), "i8", True, "multiple of 32"),
        (shape(64, 24, 0x4A0 | 1 << 16), "i8", False, "MN-major B of 8 bits"),
        (shape(64, 32, 0x4A0 | 1 << 16), "i8", False, None),
    ],
)
def test_the_nearest_illegal_ones(bits: int, kind: str, is_pair: bool, problem: str | None) -> None:
    if problem is None:
        tensor_form(bits, kind, is_pair)
        return
    with pytest.raises(ValueError, match=problem):
        tensor_form(bits, kind, is_pair)


@pytest.mark.parametrize(("bits", "kind"), [(BF16 | 4, "f16"), (0x08200410 | 3 << 7, "f8f6f4")])
def test_what_is_not_known(bits: int, kind: str) -> None:
    with pytest.raises(UnknownForm):
        tensor_form(bits, kind, False)


@pytest.mark.parametrize(
    "name",
    [
        "tcgen05.mma.ws.cta_group::1.kind::f16",
        "tcgen05.mma.sp.cta_group::1.kind::f16",
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
        "tcgen05.mma.cta_group::1.kind::f16.ashift",
    ],
)
def test_forms_that_are_not_known_are_refused_by_name(name: str) -> None:
    body = f"  mov.u64 %rd20, 0;\n  mov.u32 %r16, 0;\n  @%p2 {name} [%r5], %rd20, %rd20, %r16, 1;\n"
    ran = run(allocated(body, 32), np.zeros(4, np.uint32), 1)
    assert [f for f in ran.faults if f[0] == "unsupported_instruction"] == [("unsupported_instruction", name)]
