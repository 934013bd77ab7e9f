"""Tree-structured Parzen estimation by Optuna, over the spaces of all schedulers of a fusion at once.

The study lives in memory and is rebuilt by telling it our trials: the journal is the one truth. Each knob is one
distribution: positions for numbers, whose order means something, categories for the rest. The choice of scheduler is a
category too, and the knobs below it are conditional on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

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


class OptunaSampler:
    """A `Sampler`: what TPE makes of the trials told.

    TPE knows nothing of our constraints, so it may propose a point that is illegal or taken. The nearest unseen legal
    point takes its place, and is the one that the study hears about.
    """

    def __init__(self, spaces: Mapping[str, Space], seed: int) -> None:
        self._unseen = Unseen(spaces)
        self._out: dict[Candidate, optuna.Trial] = {}
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # a line for each study and trial otherwise
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # `group`, since 2.8
            tpe = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)
        self._study = optuna.create_study(sampler=tpe)

    def take(self, candidate: Candidate) -> bool:
        """Opens a trial at a candidate of somebody else's choice; False if it is illegal or was proposed already."""
        if not self._unseen.mark(candidate):
            return False
        self._start(candidate)
        return True

    def ask(self) -> Candidate | None:
        if not any(self._unseen.left(name) for name in self._unseen.spaces):
            return None
        trial = self._study.ask()
        wanted = self._suggested(trial)
        candidate_or_none = self._unseen.claim(wanted)
        if candidate_or_none == wanted:
            self._out[wanted] = trial
            return wanted
        self._study.tell(trial, state=StudyState.FAIL)  # TPE leaves failed trials out: this one never was
        return None if candidate_or_none is None else self._start(candidate_or_none)

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        trial = self._out.pop(candidate, None)
        ending = _ending(value, state)
        if trial is not None:
            if ending is StudyState.PRUNED:
                for name, excess in _FAILED.items():
                    trial.set_constraint(name, excess)
            self._study.tell(trial, values=value, state=ending)
        elif self._unseen.mark(candidate):
            self._study.add_trial(
                create_trial(
                    state=ending,
                    value=value,
                    params=self._parameters(candidate),
                    distributions=self._distributions(candidate.scheduler),
                    constraints=_FAILED if ending is StudyState.PRUNED else None,
                )
            )

    def _start(self, candidate: Candidate) -> Candidate:
        """Open a trial at exactly this candidate, so that TPE sees it under way and spreads out around it."""
        self._study.enqueue_trial(self._parameters(candidate))
        trial = self._study.ask()
        if self._suggested(trial) != candidate:
            raise AssertionError(f"the study changed {candidate}")
        self._out[candidate] = trial
        return candidate

    def _suggested(self, trial: optuna.Trial) -> Candidate:
        scheduler = str(trial.suggest_categorical(_SCHEDULER, list(self._unseen.spaces)))
        point: dict[str, KnobValue] = {}
        for knob in self._unseen.spaces[scheduler].knobs:
            name = f"{scheduler}.{knob.name}"
            if knob.is_numeric:
                point[knob.name] = knob.values[trial.suggest_int(name, 0, len(knob.values) - 1)]
            else:
                point[knob.name] = knob.values[knob.position(trial.suggest_categorical(name, knob.values))]
        return Candidate.of(scheduler, point)

    def _parameters(self, candidate: Candidate) -> dict[str, KnobValue]:
        parameters: dict[str, KnobValue] = {_SCHEDULER: candidate.scheduler}
        for knob in self._unseen.spaces[candidate.scheduler].knobs:
            value = candidate.knobs[knob.name]
            parameters[f"{candidate.scheduler}.{knob.name}"] = knob.position(value) if knob.is_numeric else value
        return parameters

    def _distributions(self, scheduler: str) -> dict[str, BaseDistribution]:
        knobs = self._unseen.spaces[scheduler].knobs
        return {
            _SCHEDULER: CategoricalDistribution(list(self._unseen.spaces)),
            **{f"{scheduler}.{knob.name}": _distribution(knob) for knob in knobs},
        }


def _distribution(knob: Knob) -> BaseDistribution:
    if knob.is_numeric:
        return IntDistribution(0, len(knob.values) - 1)
    return CategoricalDistribution(knob.values)


def _ending(value: float | None, state: TrialState) -> StudyState:
    """COMPLETE with a time, PRUNED (and infeasible) for a candidate at fault, FAIL for what says nothing of it."""
    if value is not None:
        return StudyState.COMPLETE
    return StudyState.PRUNED if state.is_failure else StudyState.FAIL
