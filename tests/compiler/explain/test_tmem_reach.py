"""Which warp reaches what: the tutorial's tables, and copies that reach where they must not."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.explain.case import explain_case
from compiler.explain.tmem_picture import tensor_memory_picture
from compiler.explain.tmem_reach import Patch, reached_by
from tests.compiler.documents import CASES


def reached(name: str, output: str) -> Any:
    schedule = explain_case(next(c for c in CASES if c["name"] == name)).schedule
    assert schedule is not None
    plan = schedule.tensor_memory
    access = next(a for a in plan.accesses if a.output == output)
    found = reached_by(schedule.sf, schedule.graph, access)
    assert found is not None
    tensor = next(t for t in plan.tensors if t.tensor == access.tensor)
    return tensor, access, found


@pytest.mark.parametrize(
    ("name", "patches"),
    [
        pytest.param("WarpXYZ", [(0, 32, 0, 2, (0,))], id="one-warp"),
        pytest.param("WarpGroupXYZ", [(32 * w, 32, 0, 2, (w,)) for w in range(4)], id="one-warp-group"),
        pytest.param(
            "WarpGroupXColYZ",
            [(32 * w, 32, column, 1, (4 * group + w,)) for w in range(4) for column, group in enumerate((0, 2, 1, 3))],
            id="warp-groups-on-columns",
        ),
        pytest.param(
            "WarpGroupXYColZ",
            [(32 * w, 32, column, 1, (4 * column + w,)) for w in range(4) for column in range(8)],
            id="eight-warp-groups",
        ),
    ],
)
def test_valid_kernels_of_the_tutorial(name: str, patches: list[tuple[Any, ...]]) -> None:
    _, _, found = reached(f"TMemTutorialR.{name}", "tv3")
    assert (found.patches, found.is_whole) == (tuple(Patch(*one) for one in patches), True)


@pytest.mark.parametrize(
    ("name", "patches", "note"),
    [
        pytest.param("WrongSubpartition", [(0, 64, 0, 2, (0,)), (64, 64, 0, 2, (1,))], "cannot reach", id="2-each"),
        pytest.param("WrongSubpartition2", [(0, 32, 0, 1, (0,)), (0, 32, 1, 1, (1,))], "cannot reach", id="both-in-0"),
    ],
)
def test_invalid_kernels_of_the_tutorial_are_marked(name: str, patches: list[tuple[Any, ...]], note: str) -> None:
    tensor, access, found = reached(f"TMemTutorialC.{name}", "tv3")
    assert found.patches == tuple(Patch(*one) for one in patches)
    assert note in tensor_memory_picture(tensor, access, found, "title")


def test_a_valid_kernel_is_not_marked() -> None:
    tensor, access, found = reached("TMemTutorialR.WarpGroupXYZ", "tv3")
    svg = tensor_memory_picture(tensor, access, found, "title")
    assert "cannot reach" not in svg
    for words in ("warp 0", "warp 3", "32-63", "subpartition 2:", "32 allocated"):
        assert words in svg


def test_narrow_elements_share_a_column() -> None:
    tensor, _, found = reached("TMemTutorialR.VectorizeMultipleOf4Bytes/int8_x4", "tv2")
    assert (tensor.columns, {p.columns for p in found.patches}) == (1, {1})
