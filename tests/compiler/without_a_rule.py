"""A pytest plugin, loaded with `-p`: a run without one rule, for the test that every rule is needed."""

from __future__ import annotations

import os
from typing import Any

from compiler.legality.rules import MODEL
from compiler.schedule.refusals import registry

VARIABLE = "FUSETUNE_TEST_WITHOUT_RULE"
"""Environment variable: the name of the rule."""


def _drop(rules: list[Any], name: str) -> None:
    rules[:] = [rule for rule in rules if rule.__name__ != name]


if name := os.environ.get(VARIABLE):
    _drop(MODEL, name)
    _drop(registry.STEP_RULES, name)
    for rules in registry._REGISTRY.by_kind.values():
        _drop(rules, name)
