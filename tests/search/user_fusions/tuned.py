"""A user's fusion as far as it goes without a GPU: a few candidates searched, compiled in this process."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import CompileError, IllegalSchedule, Unsupported
from compiler.pipeline import Generated, artifact
from search.cost.predicting import predictor
from search.tuning.candidates.plan import Plan
from tests.cards import H200
from tests.search.random_fusions.building import InThisProcess
from tests.search.user_fusions.posted import LARGE
from tests.search.user_fusions.table import POSTED

DRAWN = 6
"""Points of each scheduler, of which the fastest by prediction are compiled."""


@dataclass(frozen=True)
class Candidates:
    """Artifacts as JSON, the most promising first, or why there is none."""

    name: str
    artifacts: tuple[str, ...] = ()
    why: str = ""


def candidates(name: str, count: int, seed: int) -> Candidates:
    """What a short tuning of a fusion at its large sizes would measure."""
    try:
        return _candidates(name, count, seed)
    except (Unsupported, IllegalSchedule, CompileError) as error:
        return Candidates(name, why=f"{type(error).__name__}: {error}")


def _candidates(name: str, count: int, seed: int) -> Candidates:
    plan = Plan.of(POSTED[name].bound(LARGE), H200)
    subject, predict = plan.subject(H200), predictor(H200)
    drafted: list[tuple[float, int, Generated]] = []
    for candidate in plan.sample(DRAWN, seed):
        try:
            made = subject.generated(candidate)
        except (IllegalSchedule, Unsupported):
            continue
        drafted.append((sum(predict(launch).total_us for launch in made.launches), len(drafted), made))
    best = [made for _, _, made in sorted(drafted)[:count]]
    compiler = InThisProcess()
    compiled = [(made, compiler.submit(made.source, made.arch.name).result()) for made in best]
    found = tuple(artifact(made, one).model_dump_json() for made, one in compiled)
    return Candidates(name, found, "" if found else "every point drawn is refused")
