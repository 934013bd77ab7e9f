"""TPE in a process of its own: what it proposes, what happens while it has nothing yet, and when it dies."""

from __future__ import annotations

import pytest

from search.space.knobs import Knob
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.ahead import AHEAD, ProposalsAhead, propose_handler
from search.tuning.samplers.guided import TURNS, WARM_START, GuidedSampler
from search.tuning.samplers.optuna import TpeStudy
from search.tuning.trial import TrialState

pytestmark = pytest.mark.usefixtures("forked")

SPACE = Space(
    "tiled",
    (
        Knob("vector", (1, 2, 4, 8)),
        Knob("threads", (32, 64, 128, 256)),
        Knob("load", ("vector", "bulk", "tma")),
        Knob("unroll", (1, 2, 4, 8)),
    ),
)
KNOBS = {"tiled": SPACE.knobs}


def told(count: int) -> list[tuple[Candidate, float | None, TrialState]]:
    """Trials of a study that nobody keeps."""
    study = TpeStudy(KNOBS, seed=1)
    return [(study.propose(), 10.0 + number, TrialState.MEASURED) for number in range(count)]


def test_proposals_are_those_of_a_study_that_was_told_the_same() -> None:
    study, trials = TpeStudy(KNOBS, seed=0), told(12)
    for one in trials:
        study.tell(*one)
    assert propose_handler((KNOBS, 0))(trials) == [study.propose() for _ in range(AHEAD)]


def test_a_child_proposes_and_is_told_of_each_trial_once() -> None:
    study, trials = TpeStudy(KNOBS, seed=0), told(12)
    with ProposalsAhead(KNOBS, seed=0) as ahead:
        for part in (trials[:7], trials[7:]):
            for one in part:
                ahead.tell(*one)
                study.tell(*one)
            assert ahead.propose(waits=True) == study.propose()
            for _ in range(AHEAD - 2):  # the last one would have the next ones begun
                assert ahead.propose(waits=False) == study.propose()
            ahead._ready.clear()
            study.propose()


def test_while_it_has_nothing_nobody_waits_for_it() -> None:
    with ProposalsAhead(KNOBS, seed=0) as ahead:
        assert ahead.propose(waits=False) is None
        assert ahead.propose(waits=True) is not None


def test_a_child_that_died_is_replaced_by_a_study_of_all_trials() -> None:
    study, trials = TpeStudy(KNOBS, seed=0), told(12)
    with ProposalsAhead(KNOBS, seed=0) as ahead:
        for one in trials:
            ahead.tell(*one)
            study.tell(*one)
        ahead._child.kill()
        found = [ahead.propose(waits=True) for _ in range(3)]
        assert found == [study.propose() for _ in range(3)]


def test_a_child_that_died_between_requests_leaves_no_other_behind() -> None:
    with ProposalsAhead(KNOBS, seed=0) as ahead:
        ahead.propose(waits=True)
        ahead._ready.clear()
        first = ahead._child._process
        assert first is not None
        first.kill()
        first._popen.wait()
        assert ahead.propose(waits=True) is not None
        second = ahead._child._process
        assert second is None or second._popen.wait(20) is not None


def test_a_child_that_cannot_be_asked_is_replaced_by_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no process more")

    with ProposalsAhead(KNOBS, seed=0) as ahead:
        monkeypatch.setattr(ahead._child, "request", refused)
        assert ahead.propose(waits=True) == TpeStudy(KNOBS, seed=0).propose()


class _Late:
    """Proposals of which there are none unless they are waited for."""

    def propose(self, *, waits: bool) -> Candidate | None:
        assert not waits, "there are others"
        return None

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        return


def test_a_turn_without_a_proposal_is_the_rankings() -> None:
    ranked = [Candidate.of("tiled", point) for point in SPACE.sample(WARM_START + 20, seed=3)]
    sampler = GuidedSampler({"tiled": SPACE}, 0, ranked, proposals=_Late())
    found = []
    for number in range(WARM_START + 2 * len(TURNS)):
        one = sampler.ask()
        assert one is not None
        found.append(one)
        sampler.tell(one, 10.0 + number, TrialState.MEASURED)
    assert len(set(found)) == len(found)
