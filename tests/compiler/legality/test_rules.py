"""What holds of every rule: it says why it is there, names itself, and has a schedule that breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compiler.legality.tma as tma
from compiler.dtypes import DType
from compiler.legality.rules import RULES, STRUCTURE, Rule
from tests.compiler.legality import test_bulk, test_launch, test_reads, test_structure, test_tma, test_vectorize
from tests.compiler.schedules import load_by_tma, schedule, unary

ROOT = Path(__file__).parents[3]
EVERY = (*STRUCTURE, *RULES)
TABLES = (test_bulk, test_launch, test_reads, test_structure, test_tma, test_vectorize)
CASES = tuple(case for table in TABLES for case in table.CASES)

INFERRED = {
    "tma_schedule_is_a_box": {
        "tma_box_is_inferred",
        "tma_view_splits_divide",
        "tma_merges_contiguous_axes",
        "tile_axes_are_shared_allocation_axes",
        "tma_store_holes_lie_outside",
    },
    "bulk1d_schedule_is_one_run": {"bulk1d_has_one_bulk_axis", "bulk1d_run_is_contiguous"},
}
"""Rules that hand on what an analysis found, under the analysis's own names."""

BROKEN_BELOW = {"tma_dtype_is_encodable"}
"""No element type that there is breaks it: its test takes one away."""


ANALYSES = {"tma_schedule_is_a_box": "tma.py", "bulk1d_schedule_is_one_run": "bulk.py"}


def names_of(rule: Rule) -> set[str]:
    name = str(getattr(rule, "__name__", rule))
    return INFERRED.get(name, {name})


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.__name__)
def test_every_rule_says_why_it_is_there(rule: Rule) -> None:
    assert re.fullmatch(r"(?s)\S.{20,}\.", (rule.__doc__ or "").strip())


def test_rules_are_registered_once() -> None:
    assert len({getattr(rule, "__name__", rule) for rule in EVERY}) == len(EVERY)


@pytest.mark.parametrize("rule", INFERRED)
def test_every_refusal_of_an_analysis_is_listed(rule: str) -> None:
    source = (ROOT / "compiler" / "analysis" / ANALYSES[rule]).read_text(encoding="utf-8")
    assert set(re.findall(r'(?:Violation|_refuse)\(\s*"(\w+)"', source)) == INFERRED[rule]


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.__name__)
def test_every_rule_has_a_schedule_that_breaks_it_and_names_itself(rule: Rule) -> None:
    asked_for = {breach[0] for case in CASES for breach in case.breaches}
    assert names_of(rule) - BROKEN_BELOW <= asked_for, "add a row: the nearest schedule that the rule refuses"
    first_stage = [c for c in CASES if any(b[0] in names_of(r) for r in STRUCTURE for b in c.breaches)]
    for case in CASES:
        if case in first_stage and rule in RULES:
            continue  # a broken structure has no indices for the others to read
        assert {v.rule for v in rule(case.illegal())} <= names_of(rule)


def test_only_types_that_a_tensor_map_can_name_are_copied_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert frozenset(DType) == tma.ENCODABLE, "now the rule can be broken: give it a row"
    s = schedule(unary((64,)), load_by_tma(16))
    assert list(tma.tma_dtype_is_encodable(s)) == []
    monkeypatch.setattr(tma, "ENCODABLE", tma.ENCODABLE - {DType.F32})
    (found,) = tma.tma_dtype_is_encodable(s)
    assert (found.rule, found.where, found.found) == ("tma_dtype_is_encodable", "i0 and s", "f32")
