"""A wrong index of an extreme element is found: of the last of equal ones, of what is no NaN, one off, or of a tile."""

from __future__ import annotations

import pytest

from tests.mutants.choosing import wrong_of
from tests.mutants.kinds import folds, indices
from tests.mutants.kinds.kind import Kind

NAMES = ("argmax_of_rows", "argmin_of_columns", "argmax_of_all")
EACH = 3
KINDS = (
    folds.tie_broken_the_other_way,
    folds.nan_is_no_place,
    folds.nan_lost_in_a_fold,
    indices.position_one_off,
    indices.position_within_the_block,
    indices.position_of_the_vector,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_a_wrong_place_is_found(kind: Kind) -> None:
    """All of them, and not nearly all: no reason excuses one."""
    mutants = wrong_of(kind, NAMES, EACH)
    assert mutants, "the kind makes no kernel wrong"
    assert [str(one.mutant) for one in mutants if one.verdict.judgement.name != "FOUND"] == []
