"""The parts of a tuning's page that change while it runs, as the page has them at first and asks for them again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from markupsafe import Markup

from service.dashboard.pages.tuning import TuningPage
from service.dashboard.templating import render

_PARTS = ("status", "improvements", "trials", "rules")
_MARK_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Live:
    """The parts as HTML, and `mark`, a hash of them by which a reader says what it has."""

    status: Markup
    improvements: Markup
    trials: Markup
    rules: Markup
    mark: str

    @classmethod
    def of(cls, page: TuningPage) -> Live:
        """The parts as they are now."""
        status, improvements, trials, rules = (Markup(render(f"tuning_{part}.html", page=page)) for part in _PARTS)
        whole = "".join((status, improvements, trials, rules))
        return cls(status, improvements, trials, rules, hashlib.sha256(whole.encode()).hexdigest()[:_MARK_DIGITS])
