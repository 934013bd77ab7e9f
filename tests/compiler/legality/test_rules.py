"""What holds of every rule: it says why it is there, names itself, and has a schedule that breaks it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from compiler.legality.rules import (
    BEYOND,
    MODEL,
    RULES,
    STOOD_FOR,
    STRUCTURE,
    ModelRule,
    Rule,
    Schedule,
    check,
    check_model,
)
from tests.compiler.legality import (
    test_aliases,
    test_bulk,
    test_choices,
    test_deals,
    test_ends,
    test_grid_sums,
    test_launch,
    test_lists,
    test_matrix,
    test_memory,
    test_mma,
    test_model_multicast,
    test_online,
    test_parked,
    test_reads,
    test_reductions,
    test_scans,
    test_structure,
    test_tensor_products,
    test_tma,
    test_tmem,
    test_vectorize,
)
from tests.compiler.legality.cases import Case

EVERY = (*STRUCTURE, *RULES)
TABLES = (
    test_aliases,
    test_bulk,
    test_choices,
    test_deals,
    test_ends,
    test_grid_sums,
    test_launch,
    test_lists,
    test_matrix,
    test_memory,
    test_mma,
    test_model_multicast,
    test_online,
    test_parked,
    test_reads,
    test_reductions,
    test_scans,
    test_structure,
    test_tensor_products,
    test_tma,
    test_tmem,
    test_vectorize,
)
CASES = tuple(case for table in TABLES for case in table.CASES)


@cache
def illegal() -> tuple[Schedule, ...]:
    """The schedules of all cases: what rules ask of them is worked out once."""
    return tuple(case.illegal() for case in CASES)


def name_of(rule: Rule | ModelRule) -> str:
    return str(getattr(rule, "__name__", rule))


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.__name__)
def test_every_rule_says_why_it_is_there(rule: Rule) -> None:
    assert re.fullmatch(r"(?s)\S.{20,}\.", (rule.__doc__ or "").strip())


def test_rules_are_registered_once() -> None:
    assert len({name_of(rule) for rule in (*EVERY, *MODEL)}) == len(EVERY) + len(MODEL)


def test_exceptions_to_the_model_name_its_rules_and_those_of_the_lowering() -> None:
    """A name that is misspelt would except nothing."""
    assert STOOD_FOR.keys().isdisjoint(BEYOND)
    assert STOOD_FOR.keys() | BEYOND.keys() <= {name_of(rule) for rule in MODEL}
    assert set(STOOD_FOR.values()) <= {name_of(rule) for rule in RULES}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_where_a_rule_stands_for_one_of_the_model_it_refuses_what_that_refuses(case: Case) -> None:
    s = case.illegal()
    found = {v.rule for v in check(s)}
    if found & {name_of(rule) for rule in STRUCTURE}:
        return  # nothing else is looked at
    violations, _ = check_model(s)
    assert {STOOD_FOR.get(v.rule, v.rule) for v in violations} - BEYOND.keys() <= found


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.__name__)
def test_every_rule_has_a_schedule_that_breaks_it_and_names_itself(rule: Rule) -> None:
    asked_for = {breach[0] for case in CASES for breach in case.breaches}
    assert name_of(rule) in asked_for, "add a row: the nearest schedule that the rule refuses"
    of_structure = {name_of(r) for r in STRUCTURE}
    for case, s in zip(CASES, illegal(), strict=True):
        if rule in RULES and any(breach[0] in of_structure for breach in case.breaches):
            continue  # a broken structure has no indices for the others to read
        assert {v.rule for v in rule(s)} <= {name_of(rule)}
