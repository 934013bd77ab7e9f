"""Every worked example of the documents, outcome and numbers, as `python -m compiler check` answers it."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.verdict import judge_document
from tests.compiler.documents import CASES, DESCRIBED


def test_there_are_68() -> None:
    assert len({case["name"] for case in CASES}) == 68


@pytest.mark.parametrize("case", [*CASES, *DESCRIBED], ids=lambda case: case["name"])
def test_the_outcome_and_the_numbers_are_the_documents(case: dict[str, Any]) -> None:
    """A field that a case does not expect anything of is not looked at; box and tile are innermost first."""
    expected, found = case["expect"], judge_document(case).to_json()
    assert (found["legal"], found["stage"]) == (expected["legal"], expected["stage"]), found["violations"]
    if expected["box"] is not None:
        copies = {copy["tensor"]: copy for copy in found["tma"]}
        first = found["tma"][0]
        assert (first["dims"], list(first["box"])) == (expected["tma_dims"], expected["box"])
        assert list(first["tile"]) == expected.get("tile", expected["box"])
        assert first["swizzle"] == case["swizzle_mode"]
        for name, of in expected.get("tma_per_op", {}).items():
            assert (copies[name]["dims"], list(copies[name]["box"])) == (of["dims"], of["box"])
    else:
        assert found["tma"] == ()
    if expected["tmem"] is not None:
        assert {field: found["tmem"][field] for field in expected["tmem"]} == expected["tmem"]
    else:
        assert found["tmem"] is None
    if "smem_bytes" in expected:
        assert found["smem_bytes"] == expected["smem_bytes"]
