"""The fusion files of the suite are what an export writes, and each is a valid fusion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.suite.export import FUSIONS, SUITE, fusion_files
from fusetune.wire.parse import parse_fusion

EXAMPLES = Path(__file__).parents[2] / "examples" / "fusions"


def test_files_equal_a_fresh_export() -> None:
    on_disk = {path.name: path.read_text() for path in FUSIONS.iterdir()}
    assert on_disk == fusion_files(), "run `python -m benchmarks.suite.export`"


def test_every_timed_case_has_a_file() -> None:
    timed = [case["id"] for case in json.loads(SUITE.read_text())["cases"] if not case.get("compile_only")]
    assert len(timed) == 31
    assert sorted(f"{name}.json" for name in timed) == sorted(fusion_files())


@pytest.mark.parametrize("path", sorted([*FUSIONS.glob("*.json"), *EXAMPLES.glob("*.json")]), ids=lambda p: p.stem)
def test_the_file_is_a_valid_fusion(path: Path) -> None:
    assert parse_fusion(path.read_text()).outputs


def test_only_layouts_that_are_not_dense_are_stated() -> None:
    stated = {
        name: [tensor["strides"] for tensor in json.loads(text)["inputs"] if "strides" in tensor]
        for name, text in fusion_files().items()
    }
    assert {name: strides for name, strides in stated.items() if strides} == {
        "bcast_add4d_f32_discontig.json": [[4194304, 65536, 512, 1]],
        "mul_f32_rowpad_8192x4096.json": [[4097, 1]],
    }
