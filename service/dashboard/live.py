"""The parts of a tuning's page that change while it runs, as the page has them at first and asks for them again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from markupsafe import Markup

from service.dashboard.pages.tuning import TuningPage
from service.dashboard.templating import render

_PARTS = ("status", "chart_note", "improvements", "trials", "rules", "timeline")
_MARK_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Live:
    """The parts as HTML, and `mark`, a hash of them by which a reader says what it has."""

    status: Markup
    chart_note: Markup
    improvements: Markup
    trials: Markup
    rules: Markup
    timeline: Markup
    mark: str

    @classmethod
    def of(cls, page: TuningPage) -> Live:
        """The parts as they are now."""
        parts = {name: Markup(render(f"tuning_{name}.html", page=page)) for name in _PARTS}
        mark = hashlib.sha256("".join(parts.values()).encode()).hexdigest()[:_MARK_DIGITS]
        return cls(**parts, mark=mark)
