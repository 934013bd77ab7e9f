"""What is left to propose where advice leaves legal points out."""

from __future__ import annotations

import pytest

from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.unseen import Unseen


@pytest.mark.parametrize(
    ("refuses", "taken", "left"),
    [
        pytest.param(False, [], 2, id="advised"),
        pytest.param(False, [1], 1, id="one-that-is-counted"),
        pytest.param(False, [4], 2, id="one-that-is-not"),
        pytest.param(False, [1, 2, 4], 0, id="all-that-are-counted"),
        pytest.param(True, [4], 2, id="refused"),
    ],
)
def test_legal_points_that_a_space_does_not_count_use_none_up(refuses: bool, taken: list[int], left: int) -> None:
    advice = Constraint("slow", ("n",), lambda n: n < 4, "slower", measured_on="H200", refuses=refuses)
    unseen = Unseen({"one": Space("one", (Knob("n", (1, 2, 4, 8)),), (advice,))})
    marked = [unseen.mark(Candidate.of("one", {"n": n})) for n in taken]
    assert marked == [not refuses] * len(taken)
    assert unseen.left("one") == left
