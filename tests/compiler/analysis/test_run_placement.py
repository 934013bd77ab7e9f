"""Where the run of a 1-D bulk copy lies in shared memory: one run there too, of whatever size it is."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.verdict import Verdict, judge_document
from tests.compiler.analysis.explicit_copies import Step, bulk, document, par, split, swizzle

SHARED_RULES = ("tile_is_contiguous_in_shared_memory", "shared_allocation_is_whole_tiles")


def judged(shape: tuple[int, ...], steps: list[Step], **more: Any) -> Verdict:
    found = judge_document(document(shape, steps, via="bulk1d", **more))
    assert found.error is None, found.error
    return found


def allocated(*transforms: Step) -> Step:
    return {"do": "set_allocation_domain", "axes": "loop", "contiguity": True, "transforms": list(transforms)}


@pytest.mark.parametrize("steps", [[*par("BIDx", 0), *bulk(1)], [*bulk(1)]], ids=["a row a block", "all rows"])
@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "unknown"])
def test_the_innermost_axis_is_a_run_of_any_size(steps: list[Step], symbolic: bool) -> None:
    found = judged((6, 64), steps, symbolic=symbolic)
    assert not [v for v in found.violations if v.rule in SHARED_RULES]
    assert not [k for k in found.kept if k.rule in SHARED_RULES]


@pytest.mark.parametrize(
    ("steps", "rules"),
    [
        pytest.param([allocated(split(1, 4)), *bulk(1)], [], id="cut-where-it-stands"),
        pytest.param([allocated(split(1, 4), swizzle(0, 1)), *bulk(1)], [SHARED_RULES[0]], id="shuffled"),
    ],
)
def test_what_shuffles_a_run_is_refused(steps: list[Step], rules: list[str]) -> None:
    assert [v.rule for v in judged((16, 64), steps).violations] == rules
