"""Every question, by name."""

from __future__ import annotations

from functools import cache

from benchmarks.blackwell import beside, fragments, matrices
from benchmarks.blackwell.question import HardwareQuestion


@cache
def catalogue() -> tuple[HardwareQuestion, ...]:
    """All questions, those of one kind together."""
    return (*fragments.questions(), *beside.questions(), *matrices.questions())


def question_named(name: str) -> HardwareQuestion:
    """The question of that name. Raises KeyError."""
    return {question.name: question for question in catalogue()}[name]
