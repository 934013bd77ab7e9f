"""Rewrites that mean nothing: a schedule and the same one said otherwise have one verdict."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView
from compiler.schedule.replay import replay_document
from compiler.verdict import judge_document
from tests.compiler.documents import CASES

Document = dict[str, Any]

ROWS: list[Document] = [
    {k: v for k, v in row.items() if k != "expect"}
    for row in CASES
    # A question about an axis counts the steps before it, so more steps make it another question.
    if all(s["do"] != "check_domain_equivalence" for s in row["schedule"])
]
OWN = ("split", "merge", "reorder", "swizzle", "parallelize", "set_allocation_domain", "tmem_dimsep")
"""Steps that change one tensor and look at no other, as long as nothing is inlined between them."""
TMA = ("dims", "box", "tile", "element_strides", "swizzle", "correctness")
TMEM = ("lanes", "columns", "allocated_columns", "pattern")
OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(document: Document) -> dict[str, Any]:
    """What a verdict says, without the names of tensors and axes."""
    found = judge_document(document).to_json()
    assert "error" not in found, found["error"]
    return {
        "legal": found["legal"],
        "stage": found["stage"],
        "tma": [[t[k] for k in TMA] for t in found["tma"]],
        "tmem": [[t[k] for k in TMEM] for t in found["tmem_all"]],
        "smem_bytes": found["smem_bytes"],
    }


def at(document: Document, position: int, *steps: Document) -> Document:
    schedule = document["schedule"]
    return document | {"schedule": [*schedule[:position], *steps, *schedule[position:]]}


def tensor_after(document: Document, position: int, name: str) -> TensorView:
    """The tensor as the first steps leave it."""
    return replay_document(document | {"schedule": document["schedule"][:position]}).sf.tensor(name)


def is_taken(document: Document, count: int) -> bool:
    """Whether the first steps can be taken: axes in which others are inlined cannot be transformed any more."""
    return not replay_document(document | {"schedule": document["schedule"][:count]}).refused


def there_and_back(t: TensorView, axis: int, is_inner: bool, is_first: bool) -> tuple[Document, ...]:
    """A split of an axis by 1, into itself and extent one, and the merge of the two in either order."""
    pair = {"axis": axis} if is_first else {"axis": axis + 1, "with": axis}
    return (
        {"do": "split", "tv": t.name, "axis": axis, "factor": 1, "inner": is_inner},
        {"do": "merge", "tv": t.name, **pair},
    )


def turned(t: TensorView, order: list[int]) -> tuple[Document, ...]:
    """A reorder and the one that takes it back."""
    back = [order.index(i) for i in range(len(order))]
    return tuple({"do": "reorder", "tv": t.name, "map": list(to)} for to in (order, back))


@OFTEN
@given(st.sampled_from(ROWS), st.data())
def test_an_axis_is_split_by_one_and_merged_again(row: Document, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(row["schedule"])))
    t = tensor_after(row, position, data.draw(st.sampled_from(sorted(row["tensors"]))))
    serial = [i for i, p in enumerate(t.types) if p is ParallelType.SERIAL]
    assume(serial)
    steps = there_and_back(t, data.draw(st.sampled_from(serial)), *(data.draw(st.booleans()) for _ in range(2)))
    said = at(row, position, *steps)
    assume(is_taken(said, position + len(steps)))
    assert outcome(said) == outcome(row)


@OFTEN
@given(st.sampled_from(ROWS), st.data())
def test_axes_are_reordered_and_put_back(row: Document, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(row["schedule"])))
    t = tensor_after(row, position, data.draw(st.sampled_from(sorted(row["tensors"]))))
    steps = turned(t, list(data.draw(st.permutations(range(len(t.loop))))))
    said = at(row, position, *steps)
    assume(is_taken(said, position + len(steps)))
    assert outcome(said) == outcome(row)


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Everything in a document with other names of tensors, but for the names of its fields."""
    if isinstance(value, dict):
        return {names.get(k, k) if isinstance(v, dict) else k: renamed(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_names_say_nothing(row: Document) -> None:
    names = sorted(row["tensors"])
    other = {name: f"x.{i}" for i, name in enumerate(reversed(names))}
    assert outcome(renamed(row, other)) == outcome(row)


def swaps(schedule: list[Document]) -> Iterator[int]:
    """Positions of steps that could as well be taken after the next one."""
    for i in range(len(schedule) - 1):
        one, next_ = schedule[i], schedule[i + 1]
        if one["do"] in OWN and next_["do"] in OWN and one["tv"] != next_["tv"]:
            yield i


@OFTEN
@given(st.sampled_from(ROWS), st.data())
def test_steps_on_different_tensors_come_in_any_order(row: Document, data: st.DataObject) -> None:
    schedule = copy.deepcopy(row["schedule"])
    for _ in range(data.draw(st.integers(1, 2 * len(schedule) + 1))):
        possible = list(swaps(schedule))
        if not possible:
            break
        i = data.draw(st.sampled_from(possible))
        schedule[i : i + 2] = schedule[i + 1], schedule[i]
    assert outcome(row | {"schedule": schedule}) == outcome(row)


def test_what_means_something_is_told_apart() -> None:
    """The comparison is no empty one: each part of an outcome differs between some rows."""
    outcomes = [outcome(row) for row in ROWS]
    for key in outcomes[0]:
        assert len({repr(o[key]) for o in outcomes}) > 1, key
