"""What rules of given modules say of a document, whatever other rules say."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from compiler.errors import Stage, Violation
from compiler.legality.rules import MODEL
from compiler.verdict import judge_document


def rules_of(*modules: ModuleType) -> set[str]:
    """Names of the model rules that the modules register."""
    names = {m.__name__ for m in modules}
    return {rule.__name__ for rule in MODEL if rule.__module__ in names}


def refused_by(data: dict[str, Any], rules: set[str]) -> dict[str, Stage]:
    """Which of the rules refuse the document, and the first stage of each."""
    verdict = judge_document(data)
    assert verdict.error is None, verdict.error
    assert verdict.stage is not Stage.SCHEDULE, verdict.violations
    found: dict[str, Stage] = {}
    for v in verdict.violations:
        assert isinstance(v, Violation)
        if v.rule in rules:
            found[v.rule] = min(found.get(v.rule, v.stage), v.stage, key=list(Stage).index)
    return found


def kept_by(data: dict[str, Any], rule: str) -> list[str]:
    """Guards of a rule."""
    return [k.expr for k in judge_document(data).kept if k.rule == rule]
