"""Random torch functions against eager on the CPU, by the compiler's reference."""

from __future__ import annotations

import pytest

from fusetune import CannotConvert
from tests.sdk.graph.against_eager import check
from tests.sdk.graph.random_functions import random_function

FEW, ALL = 60, 300
COMPUTES_NOTHING = "outputs are inputs"


def hold(seed: int) -> bool:
    """Hold one function against eager; False if it computes nothing, and so is no fusion."""
    found = random_function(seed)
    print("\n".join(found.text), found.returned)
    try:
        check(found, *found.inputs, tolerance=4.0)
    except CannotConvert as error:
        if COMPUTES_NOTHING in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("seed", range(FEW))
def test_a_random_function_gives_what_eager_gives(seed: int) -> None:
    hold(seed)


@pytest.mark.long
def test_random_functions_give_what_eager_gives() -> None:
    assert sum(hold(seed) for seed in range(FEW, ALL)) > 0.9 * (ALL - FEW)
