"""What counts as a sum or product that an assembler may contract."""

from __future__ import annotations

import pytest

from tests.compiler.emit.contraction import contractible


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("add.f32 %f1, %f2, %f3;", ["add.f32"]),
        ("sub.ftz.f32 %f1, %f2, %f3;", ["sub.ftz.f32"]),
        ("mul.f64 %fd1, %fd2, %fd3;", ["mul.f64"]),
        ("@%p1 mul.f16x2 %r1, %r2, %r3;", ["mul.f16x2"]),
        ("add.bf16 %h1, %h2, %h3;", ["add.bf16"]),
        ("{add.f32x2 %rd1, %rd2, %rd3;\n}", ["add.f32x2"]),
        ("add.rn.f32 %f1, %f2, %f3;", []),
        ("mul.rz.ftz.f32 %f1, %f2, %f3;", []),
        ("mul.rn.bf16x2 %r1, %r2, %r3;", []),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", []),
        ("add.s32 %r1, %r2, %r3; mul.wide.u32 %rd1, %r1, 4; mul.lo.s32 %r1, %r2, %r3;", []),
        ("red.global.add.f32 [%rd1], %f1;", []),
    ],
)
def test_sums_and_products_without_a_rounding_are_told(line: str, found: list[str]) -> None:
    assert contractible(line) == found
