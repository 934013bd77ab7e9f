"""Which runs of memory a transposed tile is cut from, and which inputs it takes."""

from __future__ import annotations

import pytest

from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.row_fusions import softmax


def space_of(fusion: Fusion) -> TransposedSpace:
    found = transposed_space(start(fusion))
    assert isinstance(found, TransposedSpace), found
    return found


@pytest.mark.parametrize(
    ("fusion", "extents"),
    [
        pytest.param(permuted((40, 24), (1, 0)), (24, 40), id="a transpose has two runs"),
        pytest.param(permuted((3, 40, 24), (0, 2, 1)), (24, 40), id="a batch stays outside"),
        pytest.param(permuted((40, 24, 1), (2, 1, 0)), (24, 40), id="size 1 joins anything"),
        pytest.param(permuted((20, 31, 16, 64, 24), (4, 3, 2, 1, 0)), (64 * 24, 31 * 20), id="short runs go on"),
        pytest.param(permuted((333, 251, 411), (2, 1, 0)), (411, 251 * 333), id="one of both takes what is between"),
        pytest.param(permuted((411, 251, 333), (2, 1, 0)), (251 * 333, 411), id="it is the shorter"),
        pytest.param(permuted((333, 251, 512), (2, 1, 0)), (512, 251 * 333), id="a long run stays"),
        pytest.param(permuted((128, 251, 64), (2, 1, 0)), (64, 128), id="whole tiles stay"),
        pytest.param(permuted((128, 251, 65), (2, 1, 0)), (65 * 251, 128), id="and one element more does not"),
        pytest.param(added_across((5, 7, 9), (2, 1, 0), pad=1), (5, 63), id="rows apart do not go on"),
    ],
)
def test_runs_are_long_enough_for_tiles(fusion: Fusion, extents: tuple[int, int]) -> None:
    space = space_of(fusion)
    assert (space.extent_in, space.extent_out) == extents
    assert sorted((*space.batch, *space.rows, *space.columns)) == list(range(len(space.groups)))


@pytest.mark.parametrize(
    ("fusion", "sources", "beside"),
    [
        pytest.param(added_across((40, 24), (1, 0)), ["x"], (4,), id="memory alone in another order"),
        pytest.param(added_across((40, 24), (1, 0), also="permute"), ["x", "z"], (4,), id="and a permute beside it"),
        pytest.param(permuted((40, 24), (1, 0)), ["x"], (), id="a permute alone"),
    ],
)
def test_inputs_in_another_order_are_sources(fusion: Fusion, sources: list[str], beside: tuple[int, ...]) -> None:
    space = space_of(fusion)
    assert [fusion.inputs.index(s.name) for s in space.sources] == ["xyz".index(name) for name in sources]
    assert space.operand_bytes == beside


@pytest.mark.parametrize(
    ("fusion", "why"),
    [
        pytest.param(added_across((40, 24), (0, 1)), "no input is transposed", id="the same order"),
        pytest.param(added_across((40, 24), (0, 1), pad=3), "no input is transposed", id="rows apart"),
        pytest.param(softmax((64, 64), (1,), "f32"), "folds dimensions", id="a fold"),
    ],
)
def test_others_are_refused(fusion: Fusion, why: str) -> None:
    found = transposed_space(start(fusion))
    assert isinstance(found, str)
    assert why in found
