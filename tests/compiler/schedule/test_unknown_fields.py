"""The reader of explicit schedules takes every field that documents have, and refuses others by their place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from compiler.schedule.explicit import MalformedCase, read_case
from compiler.schedule.explicit_steps import _STEPS, CHECK, FIELDS
from compiler.verdict import replay

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    ROOT / "tests/data/explicit_schedules.json",
    ROOT / "tests/data/document_cases.json",
    ROOT / "docs/concepts/cases.json",
]

CASE: dict[str, Any] = {
    "name": "copy",
    "note": "for people",
    "tensors": {
        "tv0": {"shape": [64, 32], "dtype": "float32", "memory": "global", "contiguity": [True, True]},
        "tv1": {"shape": [64, 32], "dtype": "float32", "memory": "shared", "comment": "for people"},
        "tv2": {"shape": [64, 32], "dtype": "float32", "memory": "global"},
    },
    "ops": [{"op": "set", "in": ["tv0"], "out": "tv1"}, {"op": "set", "in": ["tv1"], "out": "tv2"}],
    "inputs": ["tv0"],
    "outputs": ["tv2"],
    "runtime_inputs": {"tv0": {"shape": [64, 32], "strides": [32, 1], "byte_offset": 0}},
    "scalars": {"n": {"value": 4}},
    "managed": {"tmem_regions": []},
    "schedule": [
        {"tv": "tv1", "do": "split", "axis": 0, "factor": {"scalar": "n"}, "inner": True},
        {"tv": "tv1", "do": "set_allocation_domain", "axes": "loop", "transforms": [
            {"do": "split", "axis": 2, "factor": 8},
        ]},
        {"tv": "tv1", "do": "check_domain_equivalence", "ids": [0, 1, 2]},
    ],
}  # fmt: skip


def documents() -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}-{case['name']}")
        for path in DOCUMENTS
        for case in json.loads(path.read_text())
    ]


@pytest.mark.parametrize("case", documents())
def test_documents_are_read_whole(case: dict[str, Any]) -> None:
    replay(read_case(case))


def test_the_case_is_read() -> None:
    assert not replay(read_case(CASE))[1]


@pytest.mark.parametrize(
    ("path", "field", "like"),
    [
        pytest.param([], "schedul", "schedule", id="case"),
        pytest.param(["tensors", "tv0"], "contiguty", "contiguity", id="input"),
        pytest.param(["tensors", "tv1"], "symbolc", "symbolic", id="result"),
        pytest.param(["ops", 0], "axis", "axes", id="operator"),
        pytest.param(["runtime_inputs", "tv0"], "stride", "strides", id="launch"),
        pytest.param(["scalars", "n"], "values", "value", id="scalar"),
        pytest.param(["managed"], "tmem_region", "tmem_regions", id="managed"),
        pytest.param(["schedule", 0], "iner", "inner", id="step"),
        pytest.param(["schedule", 1], "stride", "strides", id="allocation"),
        pytest.param(["schedule", 1, "transforms", 0], "iner", "inner", id="transform"),
        pytest.param(["schedule", 2], "id", "ids", id="question"),
    ],
)
def test_an_unknown_field_is_refused_with_the_one_it_is_like(path: list[Any], field: str, like: str) -> None:
    case = copy.deepcopy(CASE)
    place: Any = case
    for step in path:
        place = place[step]
    place[field] = 1
    with pytest.raises(MalformedCase) as caught:
        replay(read_case(case))
    assert caught.value.where.endswith(f".{field}")
    assert caught.value.found == "an unknown field"
    assert f"did you mean {like}" in caught.value.expected


@pytest.mark.parametrize(
    ("place", "field", "value", "like"),
    [
        pytest.param("tensors", "dtype", "float23", "float32", id="dtype"),
        pytest.param("schedule", "do", "spilt", "split", id="step"),
    ],
)
def test_an_unknown_word_is_refused_with_the_one_it_is_like(place: str, field: str, value: str, like: str) -> None:
    case = copy.deepcopy(CASE)
    (case["schedule"][0] if place == "schedule" else case["tensors"]["tv0"])[field] = value
    with pytest.raises(MalformedCase, match=f"did you mean {like}"):
        replay(read_case(case))


def test_every_step_says_what_fields_it_has() -> None:
    assert FIELDS.keys() == {*_STEPS, CHECK}
