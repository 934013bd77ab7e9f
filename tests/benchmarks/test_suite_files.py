"""The fusion files of the suite are what an export writes, and each is a valid fusion."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suite import language, products, shapes
from benchmarks.suite.export import FOLDERS, FUSIONS, LANGUAGE, PRODUCTS, SHAPES, SUITE, fusion_files, fusion_of
from fusetune.wire.parse import parse_fusion

VARIED = SUITE.with_name("suite_varied.json")
EXAMPLES = Path(__file__).parents[2] / "examples" / "fusions"


@pytest.mark.parametrize("suite", FOLDERS, ids=lambda path: path.stem)
def test_files_equal_a_fresh_export(suite: Path) -> None:
    on_disk = {path.name: path.read_text() for path in FOLDERS[suite].iterdir() if path.is_file()}
    assert on_disk == fusion_files(suite), "run `python -m benchmarks.suite.export`"


def test_suites_equal_what_their_modules_write() -> None:
    assert LANGUAGE.read_text() == language.to_text(), "run `python -m benchmarks.suite.language`"
    assert PRODUCTS.read_text() == products.to_text(), "run `python -m benchmarks.suite.products`"
    assert SHAPES.read_text() == shapes.to_text(), "run `python -m benchmarks.suite.shapes`"


def test_shapes_are_drawn_by_their_seed_alone() -> None:
    drawn = shapes.drawn()
    assert len({one.name for one in drawn}) == len(drawn) == 30
    assert all(one.is_small for one in drawn)
    assert shapes.drawn() == drawn != shapes.drawn(shapes.SEED + 1)
    assert [sum(one.kind == kind for one in drawn) for kind in shapes.KINDS] == [shapes.EACH] * 5


def test_few_rows_go_through_every_layer() -> None:
    other = {case["id"] for case in json.loads(PRODUCTS.read_text())["cases"]}
    asked = {(one.m, one.n, one.k) for one in shapes.few_rows()}
    asked |= {(m, 8192, 8192) for m in shapes.FEW_ROWS if f"mm_bf16_m{m}_n8192_k8192" in other}
    assert len(asked) == len(shapes.FEW_ROWS) * len(shapes.LAYERS) ** 2


def test_every_timed_case_has_a_file() -> None:
    timed = [case["id"] for case in json.loads(SUITE.read_text())["cases"] if not case.get("compile_only")]
    assert len(timed) == 31
    assert sorted(f"{name}.json" for name in timed) == sorted(fusion_files())


@pytest.mark.parametrize("path", sorted([*FUSIONS.rglob("*.json"), *EXAMPLES.glob("*.json")]), ids=lambda p: p.stem)
def test_the_file_is_a_valid_fusion(path: Path) -> None:
    assert parse_fusion(path.read_text()).outputs


def test_the_varied_suite_shares_no_shape_with_the_public_one() -> None:
    public, varied = (
        {
            (tuple(c["inputs"][0]["shape"]), tuple(op["op"] for op in c["ops"]))
            for c in json.loads(path.read_text())["cases"]
        }
        for path in (SUITE, VARIED)
    )
    assert len(varied) >= 40
    assert not public & varied


@pytest.mark.parametrize("form", [lambda case: case, lambda case: case | case["tiny"]], ids=["full", "tiny"])
@pytest.mark.parametrize("suite", [VARIED, LANGUAGE, PRODUCTS, SHAPES], ids=lambda path: path.stem)
def test_every_other_case_is_a_valid_fusion(suite: Path, form: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for case in json.loads(suite.read_text())["cases"]:
        assert parse_fusion(json.dumps(fusion_of(form(case)))).outputs


def test_only_layouts_that_are_not_dense_are_stated() -> None:
    stated = {
        name: [tensor["strides"] for tensor in json.loads(text)["inputs"] if "strides" in tensor]
        for name, text in fusion_files().items()
    }
    assert {name: strides for name, strides in stated.items() if strides} == {
        "bcast_add4d_f32_discontig.json": [[4194304, 65536, 512, 1]],
        "mul_f32_rowpad_8192x4096.json": [[4097, 1]],
    }
