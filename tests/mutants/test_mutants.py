"""The verifier finds wrong kernels and refuses no right one (docs/verification.md)."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.mutants.choosing import Judged, judged_of, wrong_of
from tests.mutants.fast import NAMES, WIDE
from tests.mutants.fusions import fusions
from tests.mutants.judging import POINTS, Judgement, subject
from tests.mutants.kinds import folds, guards, order
from tests.mutants.kinds.kind import Kind
from tests.mutants.kinds.table import KINDS
from tests.mutants.ordering import ordered_of
from tests.mutants.report import EACH, EACH_OF_ORDER, survivors
from tests.mutants.survivors import SURVIVORS, reason

MOST = 1500
LEAST_SHARE = 0.99
QUICK_ORDER = (order.barrier_left_out, order.other_phase)


def expect_found(mutants: list[Judged]) -> None:
    """Or listed with a reason."""
    unexplained = [f"{one.mutant}: {one.verdict.why}" for one in survivors(mutants) if not reason(one)]
    assert not unexplained, "\n".join(unexplained)


# Right kernels -------------------------------------------------------------------------------------------------------


def refused(name: str) -> dict[str, tuple[str, ...]]:
    """Right kernels that the verifier calls wrong: by point the sets."""
    s = subject(name)
    assert len(s.points) == POINTS
    assert all(not one.fault and not s.unwritten(one) for one in s.right), [one.fault for one in s.right]
    judged = {str(p.candidate): s.refused(r) for p, r in zip(s.points, s.right, strict=True)}
    return {candidate: sets for candidate, sets in judged.items() if sets}


@pytest.mark.parametrize("name", NAMES)
def test_no_right_kernel_is_refused(name: str) -> None:
    assert refused(name) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in fusions() if name not in NAMES])
def test_no_right_kernel_of_the_others_is_refused(name: str) -> None:
    assert refused(name) == {}


# Mutants -------------------------------------------------------------------------------------------------------------


def fixed(kind: Kind) -> int:
    """How many wrong kernels of a kind the ordinary run looks at: a hundred in all, those of order included."""
    extra = 100 - len(KINDS) - len(QUICK_ORDER)
    return 2 if kind in folds.KINDS[:extra] else 1


def test_a_hundred_mutants_are_looked_at() -> None:
    assert sum(map(fixed, KINDS)) + len(QUICK_ORDER) == 100


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_a_wrong_kernel_is_found(kind: Kind) -> None:
    mutants = wrong_of(kind, NAMES, fixed(kind))
    assert len(mutants) == fixed(kind), "the kind makes no kernel wrong"
    expect_found(mutants)


@pytest.mark.parametrize("kind", [folds.not_started_again, guards.fold_guard_one_off], ids=lambda kind: str(kind.name))
def test_a_truth_that_one_element_decides_is_found(kind: Kind) -> None:
    """What no input set let one element decide, until `deciding` did."""
    mutants = wrong_of(kind, ("any_and_all",), 3)
    assert len(mutants) == 3
    assert [str(one.mutant) for one in mutants if one.verdict.judgement is not Judgement.FOUND] == []


@pytest.mark.parametrize("kind", QUICK_ORDER, ids=lambda kind: str(kind.name))
def test_a_wrong_order_is_found_by_the_emulator(kind: Kind) -> None:
    (mutant,) = ordered_of(kind, 1)
    assert mutant.found, mutant


@pytest.mark.long
@pytest.mark.parametrize("kind", order.KINDS, ids=lambda kind: str(kind.name))
def test_wrong_orders_are_found_by_the_emulator(kind: Kind) -> None:
    mutants = list(ordered_of(kind, EACH_OF_ORDER))
    assert mutants
    assert [one for one in mutants if not one.found] == []


@cache
def every() -> tuple[Judged, ...]:
    """The mutants of the long run, right ones among them."""
    names = tuple(fusions())
    return tuple(one for kind in KINDS for one in judged_of(kind, names, EACH))


@pytest.mark.long
def test_survivors_are_listed_with_their_reasons() -> None:
    expect_found(list(every()))
    looked_at = [*every(), *(one for kind in KINDS for one in wrong_of(kind, WIDE, fixed(kind)))]
    left = {(one.mutant.kind, one.mutant.fusion) for one in survivors(looked_at)}
    assert set(SURVIVORS) <= left, "a reason without a survivor"
    wrong = Counter(one.mutant.kind for one in every() if one.verdict.is_wrong)
    assert [kind.name for kind in KINDS if not wrong[kind.name]] == [], "kinds that make no kernel wrong"
    assert len(every()) + EACH_OF_ORDER * len(order.KINDS) <= MOST


@pytest.mark.long
def test_nearly_all_wrong_kernels_are_found() -> None:
    wrong = [one.verdict.judgement for one in every() if one.verdict.is_wrong]
    assert wrong.count(Judgement.FOUND) >= LEAST_SHARE * len(wrong)
