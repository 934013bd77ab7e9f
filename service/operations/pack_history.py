"""The searches that found the kernels of a pack: written into it with all their trials, and taken in from it once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from fusetune.wire.history import HISTORY_FORMAT, PackedCandidate, PackedTrial, PackedTuning
from fusetune.wire.pack import PackFile, PackWriter, UnusablePack, history_member, is_history, strict_json
from fusetune.wire.service import ACTIVE
from service.db import trials, tunings
from service.db.kernels import Key
from service.db.models import KernelRow, TuningRow
from service.db.types import now

_MOST_TUNINGS = 1_000

_PLAIN = (
    "fingerprint", "binding", "policy", "name", "state", "budget_s", "spent_s", "trials_limit", "points", "legal",
    "refused", "reasons", "floor_us", "ended", "note", "error", "generator", "created_at", "started_at", "ended_at",
)  # fmt: skip
"""Columns of a tuning that travel as they are."""


def write(session: Session, pack: PackWriter, rows: Sequence[KernelRow]) -> None:
    """Add the searches that found these kernels; one that goes on is left out, as its trials are not all there."""
    found = list(dict.fromkeys(row.tuning_id for row in rows if row.tuning_id is not None))
    for id in found[:_MOST_TUNINGS]:
        tuning = tunings.get(session, id)
        if tuning is not None and tuning.state not in ACTIVE:
            document = _document(tuning, trials.every(session, id))
            pack.add_document(history_member(id), document.model_dump(mode="json", exclude_none=True))


def _document(row: TuningRow, found: Iterable[dict[str, Any]]) -> PackedTuning:
    told = {name: getattr(row, name) for name in _PLAIN}
    accept = tunings.accepts_of(row)[0]
    return PackedTuning(id=row.id, card=row.card_id, accept=accept, trials=tuple(map(_trial, found)), **told)


def _trial(data: dict[str, Any]) -> PackedTrial:
    """A trial as `trials.as_json` has it, its samples left out."""
    fields = {name: value for name, value in data.items() if name in PackedTrial.model_fields}
    candidate = PackedCandidate(scheduler=data["scheduler"], point=data["point"])
    return PackedTrial.model_validate({**fields, "candidate": candidate}, strict=False)


def read(pack: PackFile) -> tuple[list[PackedTuning], list[str]]:
    """The searches in a pack, and those that cannot be taken in, each with the reason. Raises UnusablePack."""
    found: list[PackedTuning] = []
    left: list[str] = []
    for name in sorted(filter(is_history, pack.manifest.members)):
        content = pack.member(name)
        document = strict_json(name, content)
        if not isinstance(document, dict) or document.get("format") != HISTORY_FORMAT:
            left.append(f"{name}: it is no {HISTORY_FORMAT}, so its trials are not taken in")
            continue
        try:
            one = PackedTuning.model_validate_json(content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            raise UnusablePack(f"{name}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
        numbers = [trial.number for trial in one.trials]
        if name != history_member(one.id) or len(set(numbers)) != len(numbers):
            raise UnusablePack(f"{name}: it is of another tuning, or has two trials of one number")
        found.append(one)
    return found, left


def key_of(one: PackedTuning) -> Key:
    """What it searched for."""
    return one.fingerprint, one.binding, one.card, one.policy


def take_in(session: Session, one: PackedTuning) -> int:
    """Keep a search whose fusion, binding and card are there; returns how many trials are new.

    Its id is its own wherever it goes, so one that is here already is left as it is. It is no answer to who asks: it
    stands on another service's workers.
    """
    if tunings.get(session, one.id) is not None:
        return 0
    told = {name: getattr(one, name) for name in _PLAIN}
    today = now()
    moments = {name: min(at, today) for name in ("created_at", "started_at", "ended_at") if (at := told[name])}
    session.add(
        TuningRow(
            id=one.id,
            card_id=one.card,
            queue="",
            phase="",
            accept=one.accept.model_dump(mode="json"),
            request_sha256="",
            **{**told, **moments},
        )
    )
    session.flush()
    trials.add_all(session, one.id, [_row(trial) for trial in one.trials])
    return len(one.trials)


def _row(trial: PackedTrial) -> dict[str, Any]:
    from search.space.renamed import point_today  # `service.later`

    data = trial.model_dump(mode="json", exclude={"candidate"})
    return {**data, "scheduler": trial.candidate.scheduler, "point": point_today(trial.candidate.point)}
