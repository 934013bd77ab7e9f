"""Conditions of constraints as expressions: their text, their values, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.arch import arch_named
from search.space.constraints import Constraint, measured
from search.space.expressions import NotAnExpression, looked_up, traced
from search.space.schedulers import schedulers_for
from tests.cards import H200
from tests.search.schedulers.fusions import suite_fusions

KNOBS = ("threads", "rows", "load")
VALUES = {"threads": np.array([32, 64, 128]), "rows": np.array([1, 2, 3]), "load": np.array(["bulk", "tma", "vector"])}


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        pytest.param(lambda t, r, load: t * r <= 1024, "threads * rows <= 1024", id="product"),
        pytest.param(lambda t, r, load: (t + r) * 2 > t, "(threads + rows) * 2 > threads", id="brackets"),
        pytest.param(lambda t, r, load: t - (r - 1) > 0, "threads - (rows - 1) > 0", id="right-operand"),
        pytest.param(lambda t, r, load: (load != "tma") | (t % 16 == 0), "load != tma | threads % 16 == 0", id="word"),
        pytest.param(lambda t, r, load: ~(load == "tma") & (r > 1), "~(load == tma) & rows > 1", id="not"),
        pytest.param(lambda t, r, load: np.isin(load, ("tma", "bulk")), "load in (tma, bulk)", id="in"),
        pytest.param(lambda t, r, load: np.minimum(t, 64) >= r, "min(threads, 64) >= rows", id="minimum"),
        pytest.param(lambda t, r, load: -(-1000 // t) > r, "ceildiv(1000, threads) > rows", id="rounded-up"),
        pytest.param(
            lambda t, r, load: looked_up("same", int, np.where(load == "tma", t, r)) > 2,
            "same(where(load == tma, threads, rows)) > 2",
            id="where",
        ),
        pytest.param(
            lambda t, r, load: np.select([r == 1, r == 2], [t, 2 * t], 0) > 64,
            "where(rows == 1, threads, where(rows == 2, 2 * threads, 0)) > 64",
            id="select",
        ),
        pytest.param(lambda t, r, load: looked_up("twice", lambda n: 2 * n, r) > 2, "twice(rows) > 2", id="lookup"),
        pytest.param(lambda t, r, load: (t > 3) & np.True_, "threads > 3", id="neutral"),
        pytest.param(lambda t, r, load: (t > 3) | np.True_, "true", id="decided"),
        pytest.param(lambda t, r, load: 1 * (t + 1 + r) > 3, "threads + 1 + rows > 3", id="times-one"),
        pytest.param(lambda t, r, load: 1 * (t > 3) + (r > 1) == 2, "1 * (threads > 3) + (rows > 1) == 2", id="truth"),
    ],
)
def test_a_condition_reads_as_it_computes(condition: Callable[..., Any], text: str) -> None:
    found = traced(condition, KNOBS)
    assert str(found) == text
    arrays = dict(zip(KNOBS, np.meshgrid(*VALUES.values(), indexing="ij", sparse=True), strict=True))
    wanted, got = np.broadcast_arrays(condition(*arrays.values()), found.on(arrays))
    assert (np.asarray(got, np.bool_) == np.asarray(wanted, np.bool_)).all()


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        pytest.param(lambda t: t > 3 and t < 5, "branches on it", id="and"),
        pytest.param(lambda t: max(t), "walks over it", id="walk"),
        pytest.param(lambda t: np.logical_and.reduce([t > 3, t < 5]), "Combine them|branches on it", id="reduce"),
        pytest.param(lambda t: np.sqrt(t) > 2, "np.sqrt of threads. Use one of", id="ufunc"),
        pytest.param(lambda t: np.unique(t), "np.unique of threads. Use one of", id="function"),
    ],
)
def test_what_looks_at_values_is_none_and_says_why(condition: Callable[..., Any], says: str) -> None:
    rule = Constraint("a_rule", ("threads",), condition, "because")
    with pytest.raises(NotAnExpression, match=f"a_rule: .*({says})"):
        rule.condition  # noqa: B018 (a property that raises)


@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.lists(st.integers(0, 9), min_size=1, unique=True))
def test_a_lookup_is_the_function_of_every_combination(a: list[int], b: list[int]) -> None:
    x, y = np.meshgrid(np.array(a), np.array(b), indexing="ij", sparse=True)
    found = looked_up("f", lambda n, m: 10 * n + m, x, y)
    assert found.tolist() == [[10 * n + m for m in b] for n in a]


@pytest.mark.parametrize("name", suite_fusions())
def test_every_condition_of_a_scheduler_is_an_expression_with_the_values_of_its_function(name: str) -> None:
    fusion = suite_fusions()[name]
    for scheduler in schedulers_for(fusion, H200):
        space = scheduler.space(fusion, H200.arch)
        arrays = {knob.name: knob.array for knob in space.knobs}
        for rule in space.constraints:
            values = [arrays[axis] for axis in rule.axes]
            wanted = rule.predicate(*np.meshgrid(*values, indexing="ij", sparse=True))
            assert (rule.on(values) == np.asarray(wanted, np.bool_)).all(), rule.rule
            assert str(rule.condition)


@pytest.mark.parametrize(("arch", "refuses"), [("sm_90a", True), ("sm_80", False), ("sm_100a", False)])
def test_what_was_measured_says_on_which_card_and_is_advice_on_others(arch: str, refuses: bool) -> None:
    slow, large = (
        Constraint(rule, ("t",), lambda t: t < 9, "because") for rule in ("few_vectors", "registers_in_flight")
    )
    law, *told = (c.to_json() for c in (slow, *measured("H200", arch_named(arch), (slow, large))))
    assert (law["measured_on"], law["refuses"]) == (None, True)
    assert [(c["measured_on"], c["refuses"]) for c in told] == [("H200", refuses), (None, True)]
