"""The list of tunings."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from fusetune.wire.service import TuningState, TuningView
from service.dashboard.pages.results import binding_words
from service.db import tunings
from service.views import tuning_views

TUNINGS_A_PAGE = 30


@dataclass(frozen=True, slots=True)
class TuningList:
    """A page of tunings. `counts`: all tunings of the service by state, whichever this page shows."""

    tunings: list[TuningView]
    shapes: dict[str, str]
    counts: dict[str, int]
    next: str | None

    @property
    def is_changing(self) -> bool:
        """True if something on this page may soon look different."""
        return any(tuning.state in ("queued", "running") for tuning in self.tunings)


def tuning_list(session: Session, state: TuningState | None, fingerprint: str | None, after: str | None) -> TuningList:
    """Raises BadCursor."""
    page = tunings.page(session, after, TUNINGS_A_PAGE, state, fingerprint)
    views = tuning_views(session, page.rows)
    return TuningList(views, binding_words(session, views), tunings.counts_by_state(session), page.next)
