"""Products that are short of tiles are summed in parts by a launch of their own: into how many, and what it gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.arch import card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.launches import product_factors
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.schedulers import schedulers_for
from tests.compiler.products import product

CARD = card_or_default("H200")


@pytest.mark.parametrize(
    ("fusion", "factors"),
    [
        pytest.param(product(64, 128, 1024), (2,), id="two parts of eight stages"),
        pytest.param(product(64, 128, 1016), (), id="fewer elements"),
        pytest.param(product(64, 128, 16 * 1024), (32,), id="no more than 32 parts"),
        pytest.param(product(344, 216, 29344), (7, 14, 28), id="parts that are no whole stages"),
        pytest.param(product(264, 1016, 12424), (), id="no rows of parts that begin at 16 bytes"),
        pytest.param(product(264, 1016, 12416), (2, 4, 8), id="a few elements less"),
        pytest.param(product(4160, 256, 4096), (2, 4), id="fewer tiles of 64 x 128 than multiprocessors"),
        pytest.param(product(4224, 256, 4096), (), id="as many"),
    ],
)
def test_parts_are_as_many_as_tiles_leave_room_for(fusion: Fusion, factors: tuple[int, ...]) -> None:
    assert product_factors(pinned(fusion), CARD) == factors


def test_parts_that_are_no_whole_stages_are_right(pool: CompilePool) -> None:
    """520 elements: the copy engine brings zeros past the end of each part."""
    few = replace(CARD, sm_count=4)
    fusion = product(40, 32, 1040, out="f32")
    one = next(s for s in schedulers_for(fusion, few) if s.name == "launches-sums2-product+column")
    (point,) = one.space(fusion, few.arch).sample(1, 0)
    made = generate(one.trace(fusion, point), few.arch)
    built = artifact(made, pool.submit(made.source, few.arch.name).result())
    assert run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:], races=True).fault == "", point
