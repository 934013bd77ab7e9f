"""`make docs`: writes docs/rules.md, the page of legality rules, from the rules' own docstrings."""

from __future__ import annotations

import inspect
import sys
from itertools import groupby
from pathlib import Path

from compiler.legality import rules

PAGE = Path(__file__).with_name("rules.md")

HEAD = """\
# Legality rules

What refuses a schedule, by subject: one function a rule in `compiler/legality`, this page is made from their docstrings
(`make docs`). `python -m compiler show` prints the rules that refuse a schedule, with what was found, what is allowed
and the fix; `python -m search space` counts the points of a space that each refuses.

The first stage, marked *structure*, must hold before indices can be computed: where it is broken, nothing else is
looked at. Brackets name a rule's source; [sources.md](sources.md) says which document each name stands for. Limits of
an architecture are numbers in `compiler/arch.py`.
"""


def rules_page() -> str:
    """The page as it should stand in docs/rules.md: rules in the order in which `check` runs them, by module."""
    found = [(rule, True) for rule in rules.STRUCTURE] + [(rule, False) for rule in rules.RULES]
    parts = [HEAD]
    for module, group in groupby(found, key=lambda one: one[0].__module__):
        parts.append(f"## {module.rpartition('.')[2]}\n\n{inspect.getdoc(sys.modules[module])}\n")
        parts += [_entry(rule, is_structure) for rule, is_structure in group]
    return "\n".join(parts)


def _entry(rule: rules.Rule, is_structure: bool) -> str:
    """One rule: its name as a heading, so that a message can link to it, and its docstring."""
    stage = "*structure* · " if is_structure else ""
    return f"### `{rule.__name__}`\n\n{stage}{inspect.getdoc(rule)}\n"


if __name__ == "__main__":
    PAGE.write_text(rules_page(), encoding="utf-8")
