"""One value has one set of bits, whatever was rounded: outputs that say so by themselves, in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.tuning.candidates.plan import Plan
from tests.compiler.emit.contraction import contractible
from tests.search.random_fusions.proving import CARDS, kernel_of
from tests.search.random_fusions.witnesses.running import Asked, all_asked, outputs_of, told
from tests.search.random_fusions.witnesses.winners import columns_of, winner, without_winner
from tests.search.random_fusions.witnesses.witness import Array, Law, Witness, violations
from tests.search.random_fusions.witnesses.witnessed import witnessed

FIRST, EACH = 104, 12
"""Among these seeds is one whose kernel broke the law before bits were settled on the fusion."""

POINTS = 4
"""Of each fusion that chooses: enough that several passes read a row in several ways."""


@pytest.fixture(scope="module")
def dozen(pool: CompilePool) -> list[Asked]:
    return list(all_asked((witnessed(seed, "tiny") for seed in range(FIRST, FIRST + EACH)), FIRST, 1, pool))


def test_witnesses_hold_in_the_emulator(dozen: list[Asked]) -> None:
    assert len(dozen) == EACH
    assert not told(dozen), told(dozen)


def test_no_sum_or_product_of_their_kernels_may_be_contracted(dozen: list[Asked]) -> None:
    assert all(one.ptx for one in dozen)
    bare = {one.kernel.case.name: contractible(one.ptx) for one in dozen}
    assert not {name: found for name, found in bare.items() if found}


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_witnesses_of_many_fusions_hold_in_the_emulator(first: int, pool: CompilePool) -> None:
    found = list(all_asked((witnessed(seed, "tiny") for seed in range(first, first + 20)), first, 1, pool))
    assert len(found) == 20
    assert not told(found), told(found)


@pytest.mark.parametrize(("name", "rows", "columns"), [("moe_bias_routing", 16, 64), ("greedy_token_32k", 8, 256)])
def test_every_row_has_its_winner(name: str, rows: int, columns: int, pool: CompilePool) -> None:
    case = winner(name, rows, columns)
    assert columns_of(case) == columns
    plan = Plan.of(case.bound(), CARDS[0])
    candidates = plan.sample(POINTS, 1)
    made = [kernel_of(case, 1, plan, candidate, pool) for candidate in candidates]
    losing = {}
    for kernel in made:
        assert kernel.made is not None
        assert kernel.compiled is not None
        outputs = outputs_of(kernel.made.trace.fusion, artifact(kernel.made, kernel.compiled.result()))
        if lost := without_winner(case, outputs):
            losing[str(kernel.candidate)] = lost
    assert len(made) >= POINTS
    assert not losing


# What witnesses say ---------------------------------------------------------------------------------------------------


def floats(*values: float) -> Array:
    return np.array([values], np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int32)


NAN = float("nan")


@pytest.mark.parametrize(
    ("law", "outputs", "holds"),
    [
        pytest.param(Law.HIT, [whole(1, 1), whole(0, 0)], True, id="hit"),
        pytest.param(Law.HIT, [whole(1, 0), whole(0, 0)], False, id="no-hit"),
        pytest.param(Law.HIT, [whole(1, 0), whole(0, 1)], True, id="no-hit-among-nan"),
        pytest.param(Law.HIT, [whole(1, 7), whole(0, 0)], False, id="hit-that-is-no-flag"),
        pytest.param(Law.SAME, [whole(0, 0)], True, id="same"),
        pytest.param(Law.SAME, [whole(0, 1)], False, id="not-the-same"),
        pytest.param(Law.TWICE, [floats(1, NAN), floats(1, NAN)], True, id="twice"),
        pytest.param(Law.TWICE, [floats(1, 2), floats(1, np.nextafter(np.float32(2), 3))], False, id="a-bit-apart"),
        pytest.param(Law.TWICE, [floats(0.0), floats(-0.0)], False, id="another-zero"),
        pytest.param(Law.TWICE, [floats(1.0), floats(NAN)], False, id="nan-once"),
        pytest.param(Law.INDEX, [floats(1, 3, 3), whole(1)], True, id="first-of-the-largest"),
        pytest.param(Law.INDEX, [floats(1, 3, 3), whole(2)], False, id="second-of-the-largest"),
        pytest.param(Law.INDEX, [floats(1, 3, 3), whole(3)], False, id="none"),
        pytest.param(Law.INDEX, [floats(1, 3, 3), whole(-1)], False, id="before-the-first"),
        pytest.param(Law.INDEX, [floats(1, NAN, 3), whole(3)], True, id="none-among-nan"),
    ],
)
def test_what_a_witness_says(law: Law, outputs: list[Array], holds: bool) -> None:
    found = violations([Witness(law, "v", tuple(range(len(outputs))), dim=1)], outputs)
    assert [law.value in one for one in found] == ([] if holds else [True])


@pytest.mark.parametrize(("chosen", "lost"), [((0, 255), 0), ((0, 256), 1), ((-1, 300), 2)])
def test_rows_without_a_winner_are_counted(chosen: tuple[int, ...], lost: int) -> None:
    outputs = [floats(0.0), whole(*chosen)]
    assert without_winner(winner("greedy_token_32k", 2, 256), outputs) == lost


def test_every_law_is_drawn_and_a_seed_is_a_case() -> None:
    assert {w.law for seed in range(40) for w in witnessed(seed, "tiny").witnesses} == set(Law)
    assert witnessed(7, "tiny") == witnessed(7, "tiny")
    assert witnessed(7, "tiny") != witnessed(8, "tiny")
