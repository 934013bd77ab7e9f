"""What was measured of device functions over all f32 is within the rows of operators, and of every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bounds import ENTRY, PATTERNS, SLACK, forms, source
from compiler.arch import arch_named
from compiler.ir.ops import MathGrade, OpKind
from compiler.nvrtc import CompilePool

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "bounds-h100.json"


def test_every_form_was_measured_and_keeps_its_bound() -> None:
    report = json.loads(RESULTS.read_text())
    assert report["operands"] == PATTERNS
    measured = {(one["operator"], one["grade"]): one for one in report["forms"]}
    have = {(kind.value, grade.value) for kind, grade, _ in forms()}
    assert set(measured) == have
    assert {key: one["share"] for key, one in measured.items() if one["share"] > 1 + SLACK or one["disagree"]} == {}


@pytest.mark.parametrize(("kind", "grade"), [(OpKind.SILU, MathGrade.COARSE), (OpKind.SQRT, MathGrade.EXACT)])
def test_the_kernel_that_measures_compiles(kind: OpKind, grade: MathGrade, pool: CompilePool) -> None:
    assert ENTRY.encode() in pool.submit(source(kind, grade), arch_named("sm_90a").name).result().cubin
