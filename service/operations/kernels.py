"""Kernels from the cache: looked up, listed, and given out whole or in part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sqlalchemy.orm import Session

from compiler.errors import UnknownCard
from fusetune.wire.artifact import TIMING_POLICY, KernelArtifact, is_proven_today
from fusetune.wire.problems import InvalidDocument, Problem
from fusetune.wire.service import Accept, KernelLookup, Kernels, KernelView
from fusetune.wire.wanting import Want
from service.db import deletion, kernels, keys
from service.db.kernels import Key
from service.db.models import CardRow, KernelRow
from service.operations.answers import Written
from service.operations.artifacts import Artifact
from service.operations.cards import current, stored_ids
from service.operations.context import Context
from service.operations.errors import Gone, NotFound, OperationRefused, OutdatedKernel
from service.operations.paging import cursor_faults
from service.views import evidence_of, kernel_views

PartName = Literal["source", "ptx", "cubin", "schedule"]
PARTS: tuple[PartName, ...] = get_args(PartName)
LOADABLE: PartName = "cubin"
"""The part that is launched as it is; the others are text to be read."""


@dataclass(frozen=True, slots=True)
class ArtifactPart:
    """A piece of an artifact; `sha256` is the whole artifact's."""

    sha256: str
    content: bytes


def answer(session: Session, keys: Sequence[Key], accept: Accept, want: Want = "best") -> list[KernelView | None]:
    """The kernel for each key whose evidence is accepted; a provisional one only for who wants the first."""
    rows = kernels.current_many(session, list(dict.fromkeys(keys)), provisional=want == "first")
    good = {key: row for key, row in rows.items() if accept.allows(evidence_of(row))}
    views = dict(zip(good, kernel_views(session, list(good.values())), strict=True))
    return [views.get(key) for key in keys]


def lookup(context: Context, body: KernelLookup) -> bytes:
    """The kernels of many keys, from the cache only: `KernelAnswers` as JSON, of views as they were written.

    Raises InvalidDocument for cards that nobody knows.
    """
    with context.db.read() as session:
        found = _cards(session, context, body)
    wanted = [
        None if (card := found[key.card]) is None else (key.fingerprint, key.binding, card.id, TIMING_POLICY)
        for key in body.keys
    ]
    written = _written(context, list(dict.fromkeys(key for key in wanted if key is not None)))
    views = (None if key is None else written.get(key) for key in wanted)
    told = (b"null" if one is None or not one.answers(body.accept, body.want) else one.content for one in views)
    return b'{"kernels":[' + b",".join(told) + b"]}"


def _written(context: Context, keys: Sequence[Key]) -> dict[Key, Written]:
    """The kernels that answer for the keys, provisional ones too; what is not written yet is written now."""
    facts = context.answers.facts(None, keys)
    known = {key: one for key, of in facts.items() if (one := context.answers.written(key, of)) is not None}
    missing = [key for key in facts if key not in known]
    if missing:
        with context.db.read() as session:
            facts = context.answers.facts(session, missing)
            rows = kernels.current_many(session, list(facts), provisional=True)
            for (key, _), view in zip(rows.items(), kernel_views(session, list(rows.values())), strict=True):
                known[key] = context.answers.write(key, facts[key], view)
    return known


def _cards(session: Session, context: Context, body: KernelLookup) -> dict[str | None, CardRow | None]:
    """The card for each word of a lookup, every word resolved once."""
    found: dict[str | None, CardRow | None] = {}
    problems: list[Problem] = []
    for i, key in enumerate(body.keys):
        if key.card in found:
            continue
        try:
            found[key.card] = current(session, context, key.card)
        except UnknownCard as error:
            found[key.card] = None
            problems.append(Problem(f"keys[{i}].card", repr(error.name), f"one of {', '.join(error.known)}", _FIX))
    if problems:
        raise InvalidDocument(tuple(problems))
    return found


_FIX = "Name a card that GET /v1/cards lists, or leave it out."


def page(
    context: Context, after: str | None, limit: int, fingerprint: str | None, binding: str | None, card: str | None
) -> Kernels:
    """Current kernels, the newest first. Raises InvalidDocument for a bad cursor, UnknownCard."""
    with context.db.read() as session, cursor_faults(after):
        ids = None if card is None else stored_ids(session, card)
        found = kernels.page(session, after, limit, fingerprint, binding, ids)
        return Kernels(items=tuple(kernel_views(session, found.rows)), next=found.next)


def info(context: Context, id: str) -> KernelView:
    """A kernel without its code. Raises NotFound, Gone."""
    with context.db.read() as session:
        return kernel_views(session, [_row(session, id)])[0]


def artifact(context: Context, id: str) -> Artifact:
    """The artifact document as stored. Raises NotFound, Gone, DamagedArtifact, PrunedArtifact, OutdatedKernel."""
    found = _stored(context, id)
    if not is_proven_today(found.verifier):
        with context.db.read() as session:
            raise OutdatedKernel(id, found.verifier, _row(session, id).refuted or "")
    return found


def part(context: Context, id: str, name: PartName) -> ArtifactPart:
    """One piece of the artifact.

    Raises NotFound, Gone, DamagedArtifact, PrunedArtifact; OutdatedKernel for the one that is LOADABLE.
    """
    whole = artifact(context, id) if name == LOADABLE else _stored(context, id)
    document = KernelArtifact.model_validate_json(whole.content)
    match name:
        case "source":
            content = document.source.encode()
        case "ptx":
            content = document.ptx.encode()
        case "cubin":
            content = document.cubin
        case "schedule":
            content = json.dumps(document.trace).encode()
    return ArtifactPart(whole.sha256, content)


def _stored(context: Context, id: str) -> Artifact:
    found = context.artifacts.get(context.db, id)
    if found is None:
        with context.db.read() as session:
            raise _not_found(session, id)
    return found


def delete(context: Context, id: str, actor: str) -> None:
    """Take a kernel out for good: no process answers with it once this returns. Raises NotFound, Gone."""
    with context.db.write() as session:
        row = deletion.delete_kernel(session, id)
        if row is None:
            raise _not_found(session, id)
        told = {"fingerprint": row.fingerprint, "binding": row.binding, "card": row.card_id}
        keys.audit(session, actor, "kernel.deleted", id, told)


def _row(session: Session, id: str) -> KernelRow:
    row = kernels.get(session, id)
    if row is None:
        raise _not_found(session, id)
    return row


def _not_found(session: Session, id: str) -> OperationRefused:
    gone = deletion.deleted(session, id)
    return NotFound("kernel", id, "GET /v1/kernels") if gone is None else Gone("kernel", id, gone.deleted_at)
