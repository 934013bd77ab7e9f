"""The model's rules on tiles in shared memory, each in a verdict of its own; and every figure of the documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler.errors import Stage
from compiler.verdict import Verdict, judge_document

CASES = json.loads((Path(__file__).parents[2] / "data" / "document_cases.json").read_text())
FIGURES = [c for c in CASES if c["family"] == "tma_doc_smem_layout"]
CODES = {
    "SMEM_TILE_NOT_CONTIGUOUS": ("tile_is_contiguous_in_shared_memory",),
    "SMEM_NOT_WHOLE_TILES": ("shared_allocation_is_whole_tiles",),
    None: (),
}


def rules(verdict: Verdict) -> tuple[str, ...]:
    assert verdict.error is None, verdict.error
    return tuple(v.rule for v in verdict.violations)


@pytest.mark.parametrize("case", FIGURES, ids=lambda c: c["name"])
def test_the_documents_figures(case: dict[str, Any]) -> None:
    verdict = judge_document(case)
    assert rules(verdict) == CODES[case["expect"]["code"]]
    assert verdict.stage == case["expect"]["stage"]


def document(shape: Sequence[int], dtype: str, load: bool, *schedule: dict[str, Any]) -> dict[str, Any]:
    """g -> s -> v, loaded or stored by a tensor map."""
    first, second = ({"via": "tma"}, {}) if load else ({}, {"via": "tma"})
    tensors = {
        name: {"shape": list(shape), "dtype": dtype, "memory": memory}
        for name, memory in (("g", "global"), ("s", "shared"), ("v", "global"))
    }
    tensors["g"] |= {"contiguity": [True] * len(shape)}
    return {
        "name": "case",
        "tensors": tensors,
        "ops": [{"op": "set", "in": ["g"], "out": "s"} | first, {"op": "set", "in": ["s"], "out": "v"} | second],
        "inputs": ["g"],
        "outputs": ["v"],
        "schedule": list(schedule),
    }


def split(tv: str, axis: int, factor: int) -> dict[str, Any]:
    return {"tv": tv, "do": "split", "axis": axis, "factor": factor, "inner": True}


def merge(tv: str, axis: int) -> dict[str, Any]:
    return {"tv": tv, "do": "merge", "axis": axis}


def bulk(tv: str, *axes: int) -> list[dict[str, Any]]:
    return [{"tv": tv, "do": "parallelize", "axis": a, "type": "Bulk"} for a in axes]


def swizzle(x: int, y: int) -> dict[str, Any]:
    return {"do": "swizzle", "kind": "xor", "axes": [x, y]}


def allocate(*transforms: dict[str, Any]) -> dict[str, Any]:
    own = [{k: v for k, v in t.items() if k != "tv"} for t in transforms]
    return {"tv": "s", "do": "set_allocation_domain", "axes": "loop", "contiguity": True, "transforms": own}


def cut(at: int, unit: int, phase: int, chunks: int) -> list[dict[str, Any]]:
    """[rows, columns] at `at`, viewed as [-1, chunks, phase, chunks, unit] and swizzled."""
    return [
        split("s", at + 1, unit),
        split("s", at, phase),
        split("s", at, chunks),
        swizzle(at + 1, at + 3),
    ]


def box(columns: int, *transforms: dict[str, Any], rows: int = 16) -> dict[str, Any]:
    """A load of one box of 4-byte elements."""
    return document((rows, columns), "float32", True, *bulk("s", 0, 1), allocate(*transforms))


def stored_rows(rows: int, *own: dict[str, Any]) -> dict[str, Any]:
    """A store of tiles of so many swizzled rows of 128 bytes out of s."""
    return document((48, 32), "float32", False, *own, split("v", 0, rows), *bulk("v", 1, 2))


TABLE = [
    pytest.param(
        document((16, 64), "float32", True, split("s", 1, 32), *bulk("s", 2)),
        document((16, 64), "float32", True, split("s", 1, 32), *bulk("s", 0, 2)),
        "tile_is_contiguous_in_shared_memory",
        Stage.COMPILE,
        id="contiguous",
    ),
    pytest.param(
        document((16, 12), "float32", False, merge("s", 0), split("s", 0, 8), *bulk("v", 1)),
        document((15, 12), "float32", False, merge("s", 0), split("s", 0, 8), *bulk("v", 1)),
        "shared_allocation_is_whole_tiles",
        Stage.COMPILE,
        id="whole tiles",
    ),
    pytest.param(
        box(16, *cut(0, 4, 2, 4)),
        box(16, *cut(0, 4, 1, 4)),
        "swizzled_layout_is_a_hardware_mode",
        Stage.COMPILE,
        id="mode",
    ),
    pytest.param(
        box(32, *cut(0, 4, 1, 8)),
        box(32, split("s", 1, 16), split("s", 2, 2), split("s", 0, 8), swizzle(1, 3)),
        "swizzle_moves_chunks_of_16_bytes",
        Stage.COMPILE,
        id="chunks",
    ),
    pytest.param(
        stored_rows(8, allocate(*cut(0, 4, 1, 8))),
        stored_rows(4, allocate(*cut(0, 4, 1, 8))),
        "swizzled_tile_starts_on_the_pattern",
        Stage.COMPILE,
        id="pattern",
    ),
]


@pytest.mark.parametrize(("legal", "illegal", "rule", "stage"), TABLE)
def test_each_rule_alone(legal: dict[str, Any], illegal: dict[str, Any], rule: str, stage: Stage) -> None:
    assert rules(judge_document(legal)) == ()
    verdict = judge_document(illegal)
    assert rules(verdict) == (rule,)
    assert verdict.stage is stage
    assert all(v.fix.endswith(".") and v.message for v in verdict.violations)


def test_what_is_not_recognised() -> None:
    """Every tile lies otherwise, and there are more than are looked at."""
    wide = {"tv": "s", "do": "set_allocation_domain", "axes": "loop", "contiguity": True, "strides": [5, 1]}
    case = document((1 << 18, 8), "float32", False, merge("s", 0), split("s", 0, 3), wide, *bulk("v", 1))
    verdict = judge_document(case)
    assert "tile_is_found_in_shared_memory" in rules(verdict)


def test_rows_that_do_not_fill_the_span_are_the_tensor_map_s_breach() -> None:
    """It is found when the map is encoded, so no breach here may come before it."""
    wide = box(64, split("s", 1, 32), split("s", 2, 4), split("s", 0, 8), swizzle(1, 3))
    verdict = judge_document(wide)
    assert {v.rule for v in verdict.violations} == {"tensor_map_inner_box_fills_the_swizzle"}
