"""Rules on 1-D bulk copies: each with a schedule that it alone refuses, and the nearest legal one."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.errors import Stage
from compiler.legality import bulk_copy
from compiler.legality.tensor_map import inference
from compiler.verdict import judge_document
from tests.compiler.analysis.explicit_copies import Document, Step, bulk, document, merge, par, reorder, split
from tests.compiler.legality.model_rules import kept_by, refused_by, rules_of

RULES = rules_of(bulk_copy, inference)
OWN = {rule for rule in RULES if rule.startswith("bulk1d_")}
COMPILE, RUNTIME = Stage.COMPILE, Stage.RUNTIME


def run(shape: tuple[int, ...], steps: list[Step], **more: Any) -> Document:
    return document(shape, steps, via="bulk1d", **more)


PADDED = {"contiguity": [False, True]}
ROWS: list[tuple[str, Stage, Document, Document]] = [
    ("bulk1d_has_one_bulk_axis", COMPILE, run((8, 64), bulk(0, 1)), run((8, 64), [merge(0), *bulk(0)])),
    ("bulk1d_has_one_bulk_axis", COMPILE, run((8, 64), []), run((8, 64), bulk(1))),
    (
        "bulk1d_splits_divide",
        COMPILE,
        run((2, 1020), [merge(0), split(0, 512), *bulk(1)]),
        run((2, 1024), [merge(0), split(0, 512), *bulk(1)]),
    ),
    (
        "bulk1d_splits_divide",
        RUNTIME,
        run((2, 1020), [merge(0), split(0, 512), *bulk(1)], symbolic=True),
        run((2, 1024), [merge(0), split(0, 512), *bulk(1)], symbolic=True),
    ),
    ("bulk1d_run_is_contiguous", COMPILE, run((8, 64), bulk(0)), run((8, 64), bulk(1))),
    (
        "bulk1d_run_is_contiguous",
        COMPILE,
        run((8, 64), [split(1, 8), *bulk(1)]),
        run((8, 64), [split(1, 8), *bulk(2)]),
    ),
    (
        "bulk1d_run_is_contiguous",
        COMPILE,
        run((64, 8), [split(0, 8), split(1, 2), reorder(0, 2, 1, 3), merge(2), *bulk(2)]),
        run((64, 8), [split(0, 8), split(1, 2), reorder(0, 1, 2, 3), merge(2), *bulk(2)]),
    ),
    (
        "tma_merges_contiguous_axes",
        COMPILE,
        run((8, 64), [merge(0), split(0, 16), *bulk(1)], strides=[68, 1], **PADDED),
        run((8, 64), [split(1, 16), *bulk(2)], strides=[68, 1], **PADDED),
    ),
    (
        "bulk1d_moves_multiples_of_16_bytes",
        RUNTIME,
        run((33,), bulk(0), symbolic=True),
        run((36,), bulk(0), symbolic=True),
    ),
    ("bulk1d_moves_multiples_of_16_bytes", COMPILE, run((33,), bulk(0)), run((36,), bulk(0))),
    ("bulk1d_runs_start_on_16_bytes", RUNTIME, run((64,), bulk(0), byte_offset=4), run((64,), bulk(0), byte_offset=16)),
    (
        "bulk1d_runs_start_on_16_bytes",
        RUNTIME,
        run((8, 64), bulk(1), strides=[66, 1], **PADDED),
        run((8, 64), bulk(1), strides=[68, 1], **PADDED),
    ),
]


@pytest.mark.parametrize(("rule", "stage", "illegal", "legal"), ROWS, ids=[f"{r[0]}-{i}" for i, r in enumerate(ROWS)])
def test_one_rule_refuses_and_the_nearest_schedule_passes(
    rule: str, stage: Stage, illegal: Document, legal: Document
) -> None:
    assert refused_by(illegal, RULES) == {rule: stage}
    assert refused_by(legal, RULES) == {}


def test_every_rule_has_a_row() -> None:
    assert {rule for rule, *_ in ROWS} >= OWN


def test_the_two_copies_of_a_store_obey_the_same_rules() -> None:
    assert refused_by(run((8, 64), bulk(0), store=True), RULES) == {"bulk1d_run_is_contiguous": COMPILE}
    assert refused_by(run((8, 64), bulk(1), store=True), RULES) == {}


def test_loops_that_choose_the_run_may_leave_holes() -> None:
    """They are guarded copy by copy; the run itself never passes the end."""
    steps = [split(0, 2), split(0, 137), reorder(1, 0, 2, 3), *par("BIDx", 0), *par("Unroll", 2), *bulk(3)]
    data = run((1023, 512), steps)
    assert refused_by(data, RULES) == {}
    (report,) = judge_document(data).tma
    assert (report.dims, report.box, report.tile, report.element_strides) == (1, (512,), (512,), (1,))
    assert (report.swizzle, report.correctness) == ("none", "strong_with_predicate")


def test_a_run_has_no_limit_of_256() -> None:
    (report,) = judge_document(run((16, 1024), [merge(0), split(0, 4096), *bulk(1)])).tma
    assert report.box == (4096,)
    assert report.correctness == "strong"


def test_nothing_is_reported_of_a_run_that_is_none() -> None:
    (report,) = judge_document(run((8, 64), [])).tma
    assert report.dims is None


def test_what_a_launch_decides_is_kept() -> None:
    data = run((36,), bulk(0), symbolic=True)
    assert kept_by(data, "bulk1d_moves_multiples_of_16_bytes") == ["4 * size[0][0] % (16) == 0"]
    assert kept_by(data, "bulk1d_runs_start_on_16_bytes") == ["ptr[0] % 16 == 0"]
