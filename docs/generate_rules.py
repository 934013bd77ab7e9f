"""`make docs`: writes docs/rules.md, the page of legality rules, from the rules' own docstrings."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from compiler.legality import rules
from compiler.schedule.refusals import STEP_RULES

_Tagged = tuple[Callable[..., object], str]
PAGE = Path(__file__).with_name("rules.md")

_HOMES = ("compiler.legality.", "compiler.schedule.refusals.")

HEAD = """\
# Legality rules

What refuses a schedule, by subject: one function a rule in `compiler/schedule/refusals` and `compiler/legality`; this
page is made from their docstrings (`make docs`). `python -m compiler check` and `show` print the rules that refuse a
schedule, with what was found, what is allowed and the fix; `python -m search space` counts the points of a space that
each refuses.

There are three sets. *Steps* refuse a schedule step itself, at the moment it is taken. The *model* says what the
scheduling model and the hardware allow of the schedule that the steps made: `python -m compiler check` runs these two
sets, on any explicit schedule. A step rule marked *model* is asked again of the finished schedule, whose types and
memories are the last ones. The *lowering* says what this compiler can turn into a kernel: the search runs these too. Of
the last, rules marked *structure* must hold before indices can be computed: where one is broken, nothing else is looked
at. Brackets name a rule's source; [sources.md](sources.md) says which document each name stands for. Limits of an
architecture are numbers in `compiler/arch.py`.
"""


def rules_page() -> str:
    """The page as it should stand in docs/rules.md: rules in the order in which `check` runs them, by module."""
    asked = {rule.__name__ for rule in STEP_RULES}
    again = asked & {rule.__name__ for rule in rules.MODEL}
    steps: list[_Tagged] = [(rule, "schedule, model" if rule.__name__ in again else "schedule") for rule in STEP_RULES]
    model: list[_Tagged] = [(rule, "") for rule in rules.MODEL if rule.__name__ not in again]
    lowering: list[_Tagged] = [(rule, "structure") for rule in rules.STRUCTURE]
    lowering += [(rule, "") for rule in rules.RULES]
    parts = [HEAD]
    for title, found in (("steps", steps), ("model", model), ("lowering", lowering)):
        for module, group in groupby(found, key=lambda one: one[0].__module__):
            parts.append(f"## {title}: {_subject(module)}\n\n{inspect.getdoc(sys.modules[module])}\n")
            parts += [_entry(rule, tag) for rule, tag in group]
    return "\n".join(parts)


def _subject(module: str) -> str:
    """The module below the package of rules, as a heading names it."""
    return next(module.removeprefix(home) for home in _HOMES if module.startswith(home)).replace(".", ": ")


def _entry(rule: Callable[..., object], tag: str) -> str:
    """One rule: its name as a heading, so that a message can link to it, and its docstring."""
    stage = f"*{tag}* · " if tag else ""
    return f"### `{rule.__name__}`\n\n{stage}{inspect.getdoc(rule)}\n"


if __name__ == "__main__":
    PAGE.write_text(rules_page(), encoding="utf-8")
