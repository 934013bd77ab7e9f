"""Kernels with witnesses, built in processes of their own: what a GPU then runs."""

from __future__ import annotations

from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule, Unsupported
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.building import Built, InThisProcess, built
from tests.search.random_fusions.proving import kernel_of, kernels
from tests.search.random_fusions.witnesses.winners import winner
from tests.search.random_fusions.witnesses.witnessed import Witnessed, witnessed

CARD = card_or_default("H200")


def build_witnessed(seed: int, limits: str, points: int) -> tuple[Witnessed, list[Built]]:
    """The case of a seed at several points."""
    one = witnessed(seed, limits)
    return one, [built(kernel) for kernel in kernels(one.case, seed, points, InThisProcess())]


def build_winner(name: str, drawn: int, first: int, step: int) -> tuple[str, list[Built]]:
    """Of `drawn` candidates of each scheduler every `step`th from the `first` on, but for those that the whole model
    refuses."""
    case = winner(name)
    plan = Plan.of(case.bound(), CARD)
    found = []
    for candidate in plan.sample(drawn, 0)[:drawn][first::step]:
        try:
            found.append(built(kernel_of(case, 0, plan, candidate, InThisProcess())))
        except (IllegalSchedule, Unsupported):
            continue
    return name, found
