"""A served kernel's figures: how near to the floor, how much faster than the baseline, for which shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from fusetune.wire.service import BaselineView, KernelView, TuningView
from service.dashboard.evidence import is_fake
from service.dashboard.shapes import shapes
from service.db import overview
from service.db.models import KernelRow
from service.views import kernel_views


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How many times as fast as `baseline` a kernel is, both measured."""

    baseline: BaselineView
    factor: float


@dataclass(frozen=True, slots=True)
class KernelResult:
    """A kernel and what follows from its figures; `roofline` is floor over median.

    That and `speed_ups` are of times measured on hardware only: a share of an invented time would be a claim. The
    fastest baseline comes first: it flatters least.
    """

    kernel: KernelView
    shapes: str
    roofline: float | None
    speed_ups: tuple[SpeedUp, ...]


def results(session: Session, rows: Sequence[KernelRow]) -> list[KernelResult]:
    """The results of kernels, in the order of `rows`."""
    keys = [(row.fingerprint, row.binding) for row in rows]
    bindings = overview.bindings(session, keys)
    documents = overview.documents(session, [row.fingerprint for row in rows])
    return [
        _result(view, shapes(documents[view.fingerprint], bindings[view.fingerprint, view.binding]))
        for view in kernel_views(session, rows)
    ]


def _result(view: KernelView, words: str) -> KernelResult:
    median_us = view.median_us if view.evidence.time == "measured" else None
    if not median_us or is_fake(view.card.name):
        return KernelResult(view, words, None, ())
    fastest_first = sorted(view.baselines, key=lambda baseline: baseline.median_us)
    speed_ups = tuple(SpeedUp(baseline, baseline.median_us / median_us) for baseline in fastest_first)
    return KernelResult(view, words, view.floor_us / median_us if view.floor_us else None, speed_ups)


def binding_words(session: Session, views: Iterable[TuningView]) -> dict[str, str]:
    """The shapes that each tuning is for, by the tuning's id."""
    keys = {view.id: (view.fingerprint, view.binding) for view in views}
    bindings = overview.bindings(session, keys.values())
    documents = overview.documents(session, (fingerprint for fingerprint, _ in keys.values()))
    return {id: shapes(documents[key[0]], bindings[key]) for id, key in keys.items()}
