"""The five patterns in the emulator: registers, loops that number them, halves, and lanes of 16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from compiler.analysis.tmem.patterns import SHAPES, Shape
from compiler.errors import IllegalSchedule
from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from tests.compiler.analysis.test_tmem_patterns import arrangements, scheduled
from tests.compiler.tmem.kernels import forms, right


def _every_form() -> Iterator[Any]:
    for shape in SHAPES:
        registers = shape.least_registers
        while registers <= 128:
            few = registers in (shape.least_registers, 8)
            yield pytest.param(
                shape, registers, marks=() if few else pytest.mark.long, id=f"{shape.pattern}-{registers}"
            )
            registers *= 2


@pytest.mark.parametrize(("shape", "registers"), tuple(_every_form()))
def test_a_pattern_is_right_in_every_width(shape: Shape, registers: int, pool: CompilePool) -> None:
    form = f"{shape.pattern} x{registers // shape.least_registers}"
    assert forms(right(scheduled(shape, registers, in_turns=True), pool).ptx) == {f"st {form}", f"ld {form}"}


@pytest.mark.parametrize(
    ("shape", "registers", "vector"),
    [
        pytest.param(SHAPES[2], 2, 0, id="16x128b-serial-lanes"),
        pytest.param(SHAPES[2], 4, 1, id="16x128b-serial-lanes-vector-of-columns"),
        pytest.param(SHAPES[3], 4, 0, id="16x256b-serial"),
        pytest.param(SHAPES[3], 8, 2, id="16x256b-serial-columns"),
    ],
)
def test_turns_of_loops_are_registers_of_one_instruction(
    shape: Shape, registers: int, vector: int, pool: CompilePool
) -> None:
    form = f"{shape.pattern} x{registers // shape.least_registers}"
    assert forms(right(scheduled(shape, registers, vector=vector), pool).ptx) == {f"st {form}", f"ld {form}"}


@pytest.mark.parametrize("half", [4, 16])
def test_halves_are_an_immediate_apart(half: int, pool: CompilePool) -> None:
    ptx = right(scheduled(SHAPES[4], 4, half=half), pool).ptx
    assert f"], {half}, {{" in ptx
    assert f"], {half};" in ptx


@pytest.mark.long
def test_bits_in_any_order_are_right_or_refused(pool: CompilePool) -> None:
    """Patterns with some of their bits exchanged, in types of 16 and 32 bits."""
    found: list[bool] = []

    @settings(max_examples=200, deadline=None)
    @given(arrangements())
    def holds(case: dict[str, Any]) -> None:
        try:
            generate_explicit(case)
        except IllegalSchedule:
            found.append(False)
        else:
            right(case, pool)
            found.append(True)

    holds()
    assert found.count(True) >= 20
