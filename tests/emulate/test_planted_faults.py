"""Every planted fault is reported with its kind and line; without it nothing is, and the values are right."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler.emulate.launch import Completion, EmulatedOutcome, Options
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulate.spec import Spec, fit, read_spec
from tests.emulate.kernels import of_copies, of_products, of_threads
from tests.emulate.kernels.case import Array, Case, Marks, marks
from tests.emulate.kernels.compiled import compile_families
from tests.shares import inside

CASES = (*of_threads.CASES, *of_copies.CASES, *of_products.CASES)

EAGER, LAZY = Options(), Options(Completion.LAZY)
ORDERS = {
    "eager": EAGER,
    "lazy": LAZY,
    "random 1": Options(Completion.RANDOM, seed=1),
    "random 2": Options(Completion.RANDOM, seed=2),
}

by_name = pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.family} {c.entry}") for c in CASES])


@cache
def compiled() -> Mapping[tuple[str, bool], str]:
    return compile_families({(c.family, c.arch) for c in CASES})


@cache
def module(family: str, is_faulty: bool) -> Module:
    return parse(compiled()[family, is_faulty])


@cache
def marked(family: str) -> Mapping[str, Marks]:
    return marks(family)


def run(case: Case, is_faulty: bool, options: Options) -> tuple[Spec, Mapping[str, Array], EmulatedOutcome]:
    """The spec as it stands after the run, the tensors before it, the outcome."""
    ptx = module(case.family, is_faulty)
    spec = read_spec(case.spec, Path())
    before = {name: layout.dense(spec.tensors[name].data) for name, layout in spec.layouts.items()}
    return spec, before, emulate(ptx, fit(spec.launches[0], ptx), options)


@inside("order", ("eager", "lazy"))
@by_name
def test_the_fault_is_reported_at_its_line(case: Case, order: str) -> None:
    expected = marked(case.family)[case.entry]
    assert expected.faults, "no line is marked"
    *_, outcome = run(case, True, ORDERS[order])
    told = "\n".join(f"{f.kind} at line {f.source_line}: {f.message}" for f in outcome.faults) or "nothing"
    assert any(f.kind in expected.faults.get(f.source_line or 0, ()) for f in outcome.faults), told
    allowed = expected.also.union(*expected.faults.values())
    assert {str(f.kind) for f in outcome.faults} <= allowed, told


@inside("order", ORDERS)
@by_name
def test_the_clean_twin_is_clean_and_right(case: Case, order: str) -> None:
    spec, before, outcome = run(case, False, ORDERS[order])
    told = "\n".join(f"{f.kind} at line {f.source_line}: {f.message}" for f in outcome.faults)
    assert not outcome.faults, told
    for name, values in case.expected(before).items():
        np.testing.assert_array_equal(spec.layouts[name].dense(spec.tensors[name].data), values)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("box", [15, 16]),  # 60 bytes, no multiple of 16
        ("box", [16, 257]),
        ("box", [0, 16]),
        ("strides_bytes", [132]),
        ("strides_bytes", [1 << 40]),
        ("dims", [0, 32]),
        ("element_strides", [1, 9]),
        ("swizzle", "32B"),  # of rows of 64 bytes
        ("offset_bytes", 8),
        ("oob_fill", "nan"),  # of integers
    ],
)
def test_a_tensor_map_that_breaks_a_rule_is_reported_where_it_is_used(field: str, value: object) -> None:
    case = next(c for c in CASES if c.entry == "tile_misaligned")
    (line,) = marked(case.family)[case.entry].faults
    document = case.spec
    document["args"][0] = {"tensor_map": {**document["args"][0]["tensor_map"], field: value}}
    ptx = module(case.family, False)
    spec = read_spec(document, Path())
    faults = emulate(ptx, fit(spec.launches[0], ptx)).faults
    assert ("invalid_operand", line) in {(f.kind, f.source_line) for f in faults}, faults


def test_every_kernel_has_a_case() -> None:
    for family in {c.family for c in CASES}:
        assert set(marked(family)) == {c.entry for c in CASES if c.family == family}
