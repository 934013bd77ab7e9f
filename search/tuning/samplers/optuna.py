"""Tree-structured Parzen estimation by Optuna, over the spaces of all schedulers of a fusion at once.

The study lives in memory and is rebuilt by telling it our trials: the journal is the one truth. Each knob is one
distribution: positions for numbers, whose order means something, categories for the rest. The choice of scheduler is a
category too, and the knobs below it are conditional on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState as StudyState
from optuna.trial import create_trial

from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.unseen import Unseen
from search.tuning.trial import TrialState

_SCHEDULER = "scheduler"
_FAILED = {"failed": 1.0}
"""Constraint of candidates that cannot run: above zero is infeasible, which TPE models apart from slow."""


class _Number(IntDistribution):
    """Nobody changes one: a copy is itself. Optuna copies all of a trial's distributions whenever it takes one in."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Number:
        return self


class _Word(CategoricalDistribution):
    """As `_Number`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Word:
        return self


class Proposals(Protocol):
    """Who proposes points of which nobody knows yet whether they are legal or new: `TpeStudy`, or one ahead of it."""

    def propose(self, *, waits: bool) -> Candidate | None:
        """One, of what was told; None only where `waits` is false and none is at hand."""
        ...

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        """As `Sampler.tell`, each candidate once."""
        ...


class TpeStudy:
    """TPE over the knobs of all schedulers. It knows nothing of our constraints. Reads `Knob`s, by scheduler."""

    def __init__(self, knobs: Mapping[str, Sequence[Knob]], seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # a line for each study and trial otherwise
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # `group`, since 2.8
            tpe = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)
        self._study = optuna.create_study(sampler=tpe)
        self._schedulers = _Word(list(knobs))
        self._knobs = {
            name: [(f"{name}.{knob.name}", knob, _distribution(knob)) for knob in every]
            for name, every in knobs.items()
        }
        self._distributions: dict[str, dict[str, BaseDistribution]] = {
            name: {_SCHEDULER: self._schedulers, **{parameter: one for parameter, _, one in knobs}}
            for name, knobs in self._knobs.items()
        }

    def propose(self, *, waits: bool = True) -> Candidate:
        trial = self._study.ask()
        wanted = self._suggested(trial)
        self._study.tell(trial, state=StudyState.FAIL)  # TPE leaves it out: what is told is a trial of its own
        return wanted

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        ending = _ending(value, state)
        if ending is StudyState.FAIL:
            return
        self._study.add_trial(
            create_trial(
                state=ending,
                value=value,
                params=self._parameters(candidate),
                distributions=self._distributions[candidate.scheduler],
                constraints=_FAILED if ending is StudyState.PRUNED else None,
            )
        )

    def _suggested(self, trial: optuna.Trial) -> Candidate:
        sampled = trial.relative_params

        def suggested(name: str, one: CategoricalDistribution | IntDistribution) -> Any:
            if name in sampled:
                return sampled[name]
            if isinstance(one, IntDistribution):
                return one.low if one.single() else trial.suggest_int(name, one.low, one.high)
            return one.choices[0] if one.single() else trial.suggest_categorical(name, one.choices)

        scheduler = str(suggested(_SCHEDULER, self._schedulers))
        point: dict[str, KnobValue] = {}
        for name, knob, one in self._knobs[scheduler]:
            found = suggested(name, one)
            point[knob.name] = knob.values[found if knob.is_numeric else knob.position(found)]
        return Candidate.of(scheduler, point)

    def _parameters(self, candidate: Candidate) -> dict[str, KnobValue]:
        parameters: dict[str, KnobValue] = {_SCHEDULER: candidate.scheduler}
        knobs = candidate.knobs
        for name, knob, _ in self._knobs[candidate.scheduler]:
            value = knobs[knob.name]
            parameters[name] = knob.position(value) if knob.is_numeric else value
        return parameters


class OptunaSampler:
    """A `Sampler`: what TPE makes of the trials told.

    TPE may propose a point that is illegal or taken. The nearest unseen legal point takes its place, and is the one
    that the study hears about, once it is told: of what is under way TPE reads nothing. `proposals`: of these spaces'
    knobs, by a study of its own unless given.
    """

    def __init__(self, spaces: Mapping[str, Space], seed: int, proposals: Proposals | None = None) -> None:
        self._unseen = Unseen(spaces)
        self._out: set[Candidate] = set()
        self._proposals = proposals or TpeStudy({name: space.knobs for name, space in spaces.items()}, seed)

    def take(self, candidate: Candidate) -> bool:
        """Notes a candidate of somebody else's choice; False if it is illegal or was proposed already."""
        if not self._unseen.mark(candidate):
            return False
        self._out.add(candidate)
        return True

    def ask(self, *, waits: bool = True) -> Candidate | None:
        """As `Sampler.ask`; None too where `waits` is false and nothing is proposed yet."""
        if not any(self._unseen.left(name) for name in self._unseen.spaces):
            return None
        wanted = self._proposals.propose(waits=waits)
        claimed = None if wanted is None else self._unseen.claim(wanted)
        if claimed is not None:
            self._out.add(claimed)
        return claimed

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        if candidate in self._out:
            self._out.remove(candidate)
        elif not self._unseen.mark(candidate):
            return
        self._proposals.tell(candidate, value, state)


def _distribution(knob: Knob) -> _Number | _Word:
    if knob.is_numeric:
        return _Number(0, len(knob.values) - 1)
    return _Word(knob.values)


def _ending(value: float | None, state: TrialState) -> StudyState:
    """COMPLETE with a time, PRUNED (and infeasible) for a candidate at fault, FAIL for what says nothing of it."""
    if value is not None:
        return StudyState.COMPLETE
    return StudyState.PRUNED if state.is_failure else StudyState.FAIL
