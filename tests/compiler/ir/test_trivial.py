"""Splits and merges with extent one: which axis they leave as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.algebra import forward
from compiler.ir.expr import Expr
from compiler.ir.tensor import TensorView
from compiler.ir.trivial import before_trivial, loop_of, unchanged
from tests.compiler.schedule.documents_of_steps import Json, after, chain, do, merge, split


def tensor_after(*steps: Json, shape: tuple[int, ...] = (4, 8), symbolic: bool = False) -> TensorView:
    return after(chain(shape, *steps, symbolic=symbolic)).tensor("z")


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("steps", "same"),
    [
        pytest.param([split("z", 1, 1)], 1, id="inner-one"),
        pytest.param([split("z", 1, 1, False)], 2, id="outer-one"),
        pytest.param([split("z", 1, 2)], None, id="two"),
        pytest.param([split("z", 1, 16)], None, id="one-and-a-longer-one"),
        pytest.param([split("z", 1, 1), merge("z", 1)], 1, id="merged-again"),
        pytest.param([split("z", 1, 1), merge("z", 2, 1)], 1, id="merged-the-other-way-round"),
        pytest.param([split("z", 0, 1), merge("z", 1)], 1, id="one-of-another-axis"),
        pytest.param([split("z", 1, 2), merge("z", 1)], None, id="a-real-split-merged-again"),
        pytest.param([split("z", 1, 1), do("reorder", "z", map=[0, 2, 1]), merge("z", 0)], 1, id="one-merged-away"),
    ],
)
def test_the_loop_that_an_axis_is(steps: list[Json], same: int | None, symbolic: bool) -> None:
    t = tensor_after(*steps, symbolic=symbolic)
    assert loop_of(t, t.logical[1]) == same
    if same is not None:
        made = {a: e for e in t.exprs for a in e.outputs}
        assert before_trivial(t.loop[same], made) == t.logical[1]


def test_of_two_axes_of_extent_one_the_outer_is_the_source() -> None:
    """The inner one is what is left of a division by 1, and so 0 even past the end of the axis."""
    t = tensor_after(split("z", 1, 1), split("z", 2, 1))
    pair = unchanged(t.exprs[1])
    assert pair is not None
    assert (pair[0], pair[1]) == (t.exprs[1].inputs[0], t.exprs[1].outputs[0])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=6), st.data())
def test_what_is_unchanged_has_the_same_index(moves: list[tuple[bool, int, int, bool]], data: st.DataObject) -> None:
    steps: list[Json] = []
    rank = 2
    for is_merge, axis, factor, is_inner in moves:
        if is_merge and rank > 1:
            steps.append(merge("z", axis % (rank - 1)))
            rank -= 1
        else:
            steps.append(split("z", axis % rank, factor, is_inner))
            rank += 1
    t = tensor_after(*steps, shape=(2, 3))
    at = {a: Expr(const=data.draw(st.integers(0, a.extent - 1))) for a in t.logical}
    index = forward(at, t.exprs)
    for e in t.exprs:
        if (pair := unchanged(e)) is not None:
            assert index[pair[0]] == index[pair[1]]
            assert pair[0].size == pair[1].size
