"""The list of fusions with their kernels, and the page of one fusion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from fusetune.wire.service import CardView, FusionView, TuningView
from service.dashboard.faults import not_found
from service.dashboard.pages.results import KernelResult, binding_words, results
from service.db import cards, fusions, kernels, overview, tunings
from service.views import card_view, fusion_views, tuning_views

FUSIONS_A_PAGE = 20
KERNELS_EACH = 6
"""Kernels that the list shows of one fusion; its own page has all."""

_KERNELS_A_PAGE = 200
_TUNINGS_A_PAGE = 20


@dataclass(frozen=True, slots=True)
class FusionEntry:
    """A fusion of the list: `kernels` of all its `total`, or the `newest` tuning where there is none."""

    fusion: FusionView
    kernels: list[KernelResult]
    total: int
    newest: TuningView | None


@dataclass(frozen=True, slots=True)
class FusionList:
    """The start page. `is_new`: nothing was ever posted here."""

    entries: list[FusionEntry]
    next: str | None
    cards: list[CardView]
    is_new: bool
    active: dict[str, int]
    workers: int


def fusion_list(session: Session, words: str, card: str | None, after: str | None, since: datetime) -> FusionList:
    """A page of fusions, filtered; workers heard of after `since` count as alive. Raises BadCursor."""
    page = overview.fusion_page(session, after, FUSIONS_A_PAGE, words, card)
    keys = [row.fingerprint for row in page.rows]
    by_fusion = overview.newest_kernels(session, keys, KERNELS_EACH, card)
    totals = overview.kernel_counts(session, keys, card)
    shown = results(session, [row for key in keys for row in by_fusion[key]])
    latest = overview.newest_tunings(session, [key for key in keys if not by_fusion[key]], card)
    newest = {view.fingerprint: view for view in tuning_views(session, list(latest.values()))}
    entries = [
        FusionEntry(
            fusion=view,
            kernels=[one for one in shown if one.kernel.fingerprint == view.fingerprint],
            total=totals.get(view.fingerprint, 0),
            newest=newest.get(view.fingerprint),
        )
        for view in fusion_views(session, page.rows)
    ]
    counts = tunings.counts_by_state(session)
    return FusionList(
        entries=entries,
        next=page.next,
        cards=[card_view(row) for row in overview.used_cards(session)],
        is_new=not entries and after is None and not words and card is None,
        active={state: counts.get(state, 0) for state in ("running", "queued")},
        workers=len(cards.alive(session, since)),
    )


@dataclass(frozen=True, slots=True)
class FusionPage:
    """One fusion; `document` is its canonical form as JSON."""

    fusion: FusionView
    document: str
    kernels: list[KernelResult]
    tunings: list[TuningView]
    shapes: dict[str, str]
    has_more_kernels: bool
    has_more_tunings: bool


def fusion_page(session: Session, fingerprint: str) -> FusionPage:
    """Raises PageFault if it was never posted."""
    row = fusions.get(session, fingerprint)
    if row is None:
        raise not_found("fusion", fingerprint)
    served = kernels.page(session, None, _KERNELS_A_PAGE, fingerprint=fingerprint, outdated=True)
    tried = tunings.page(session, None, _TUNINGS_A_PAGE, fingerprint=fingerprint)
    views = tuning_views(session, tried.rows)
    return FusionPage(
        fusion=fusion_views(session, [row])[0],
        document=json.dumps(row.document, indent=2),
        kernels=results(session, served.rows),
        tunings=views,
        shapes=binding_words(session, views),
        has_more_kernels=served.next is not None,
        has_more_tunings=tried.next is not None,
    )
