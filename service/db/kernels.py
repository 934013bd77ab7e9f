"""Artifacts, the kernels that are served, and the baselines beside them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ARRAY, JSON, ColumnElement, FromClause, Select, Text, and_, cast, func, literal, select, update
from sqlalchemy.orm import Session, defer
from sqlalchemy.types import TypeEngine

from fusetune.wire.artifact import VERIFIER, is_proven_today
from service.db import trials
from service.db.models import ArtifactRow, BaselineRow, BindingRow, DeletedKernelRow, FusionRow, KernelRow, TuningRow
from service.db.once import find_or_add
from service.db.pages import Page, after, cursor_of
from service.db.types import now

R = TypeVar("R")

Key = tuple[str, str, str, str]
"""Fingerprint, binding, card id, policy."""


class DamagedArtifact(Exception):
    """Stored bytes are not what their name says: the disk or somebody changed them."""

    def __init__(self, sha256: str, found: str) -> None:
        super().__init__(sha256, found)
        self.sha256 = sha256
        self.found = found

    def __str__(self) -> str:
        return f"artifact {self.sha256} is damaged: its content has the hash {self.found}. Tune its fusion again."


class PrunedArtifact(Exception):
    """The bytes are not kept any more: no kernel that answers needs them."""

    def __init__(self, sha256: str, pruned_at: datetime) -> None:
        super().__init__(sha256, pruned_at)
        self.sha256 = sha256
        self.pruned_at = pruned_at

    def __str__(self) -> str:
        day = f"{self.pruned_at:%Y-%m-%d}"
        return f"artifact {self.sha256} was pruned on {day}, with the code of kernels that another one has replaced."


class DeletedKernel(Exception):
    """A kernel of this `id` was deleted: it is not published again."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return f"kernel {self.id} was deleted, and is not served again."


def put_artifact(session: Session, content: bytes) -> str:
    """Keep `content` under its SHA-256, which is returned; what is there already is not written again."""
    sha256 = hashlib.sha256(content).hexdigest()
    find_or_add(
        session,
        lambda: session.get(ArtifactRow, sha256, options=[defer(ArtifactRow.content)]),
        lambda: ArtifactRow(sha256=sha256, content=zlib.compress(content), size_bytes=len(content)),
    )
    return sha256


def artifact(session: Session, sha256: str) -> bytes:
    """The bytes of that hash, checked. Raises DamagedArtifact, PrunedArtifact, and NoResultFound if there are none."""
    row = session.get_one(ArtifactRow, sha256)
    if row.pruned_at is not None:
        raise PrunedArtifact(sha256, row.pruned_at)
    try:
        content = zlib.decompress(row.content)
    except zlib.error:
        raise DamagedArtifact(sha256, "nothing: it cannot be unpacked") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DamagedArtifact(sha256, found)
    return content


def kernel_id(sha256: str) -> str:
    """The id of the kernel with that artifact."""
    return sha256[:32]


ANSWERING = and_(KernelRow.superseded_at.is_(None), KernelRow.verifier >= VERIFIER)
"""Kernels that answer for their keys: what an older verifier has proven waits to be proven again."""

SERVED = and_(ANSWERING, KernelRow.provisional.is_(None))
"""Those of them that a search has ended with: the others answer only who takes the first kernel that there is."""

_PROOFS = ("unverified", "verified_emulated", "verified_on_gpu")
_TIMES = ("none", "predicted", "measured")


def publish(session: Session, row: KernelRow, *, replace_slower_only: bool = True) -> KernelRow:
    """Keep a kernel and return the one that now answers for its key.

    That is the new one, unless the one before is better proven, or is of the same conditions, equally proven and
    faster, or, of two that were not timed, predicted to be: a search without a GPU or a short one must not spoil the
    result of a long one. One that an older verifier proved always gives way, and a provisional one to one that is not,
    but never the other way round. Without `replace_slower_only` speed does not count. Publishing the same kernel again
    changes nothing, but that it is no longer provisional once a search has ended with it.

    Raises ValueError for an unverified kernel, NoResultFound if its binding was never posted, DeletedKernel for one
    that was deleted: it comes back only where somebody has asked for a search after that, which found it again.
    """
    if row.correct == "unverified":
        raise ValueError(f"kernel {row.id} is unverified. Verify it first: it would be served.")
    key = (row.fingerprint, row.binding, row.card_id, row.policy)
    take_turn(session, key)
    gone = session.get(DeletedKernelRow, row.id)
    if gone is not None:
        if not _is_asked_for_since(session, row, gone.deleted_at):
            raise DeletedKernel(row.id)
        session.delete(gone)
    before = current(session, key)
    known = session.get(KernelRow, row.id)
    if known is not None:
        if row.provisional is None:
            known.provisional = None
        return before or known
    if before is not None:
        if _evidence(before) > _evidence(row) or (replace_slower_only and _is_kept(session, before, row)):
            row.superseded_at = now()
        else:
            before.superseded_at = now()
            session.flush()  # first, or the index over current keys would see two
    session.add(row)
    session.flush()
    return row if row.superseded_at is None or before is None else before


def _is_asked_for_since(session: Session, row: KernelRow, moment: datetime) -> bool:
    """Whether the search that found the kernel was asked for after that moment."""
    tuning = None if row.tuning_id is None else session.get(TuningRow, row.tuning_id)
    return tuning is not None and tuning.created_at > moment


def found_by(session: Session, id: str, tuning_id: str) -> None:
    """The search that found a kernel is known, if it was not when the kernel was published."""
    row = session.get_one(KernelRow, id)
    row.tuning_id = row.tuning_id or tuning_id


def take_turn(session: Session, key: Key) -> None:
    """Until this transaction ends nobody else publishes or deletes a kernel of the key's binding.

    Raises NoResultFound if the binding was never posted.
    """
    session.get_one(BindingRow, key[:2], with_for_update={"key_share": True}, populate_existing=True)


def proven_again(row: KernelRow, **columns: Any) -> KernelRow:
    """The row of the kernel that `row` is of, once it has been proven again: `columns` are those that differ."""
    kept = (column.key for column in KernelRow.__table__.columns if column.key not in _OF_ONE_PROOF)
    return KernelRow(**{name: getattr(row, name) for name in kept} | columns)


_OF_ONE_PROOF = frozenset({"id", "artifact_sha256", "correct", "time", "verifier", "created_at", "superseded_at"})


def refute(session: Session, id: str, why: str) -> None:
    """A later verifier has found the kernel wrong, in the words of `why`: it answers for no key any more."""
    row = session.get_one(KernelRow, id, with_for_update=True, populate_existing=True)
    row.refuted = why
    row.superseded_at = row.superseded_at or now()


def _evidence(row: KernelRow) -> tuple[bool, int, int, bool]:
    """Right before fast: a proof on a GPU stands over one by emulation, whatever is known of the time."""
    proof, time = _PROOFS.index(row.correct), _TIMES.index(row.time)
    return is_proven_today(row.verifier), proof, time, row.provisional is None


def _is_kept(session: Session, before: KernelRow, new: KernelRow) -> bool:
    same = (_evidence(before), before.generator, before.driver, before.nvrtc)
    if same != (_evidence(new), new.generator, new.driver, new.nvrtc):
        return False
    if before.time == "predicted":
        was_us, is_us = _predicted_us(session, before), _predicted_us(session, new)
    else:
        was_us, is_us = before.median_us, new.median_us
    return was_us is not None and (is_us is None or was_us < is_us)


def _predicted_us(session: Session, row: KernelRow) -> float | None:
    """What the model expected of the trial that the kernel is of; None where that is not known."""
    trial = trials.get(session, row.tuning_id, row.trial_number)
    return None if trial is None else trial.predicted_us


def get(session: Session, id: str) -> KernelRow | None:
    """The kernel with this id, superseded or not."""
    return session.get(KernelRow, id)


def current(session: Session, key: Key) -> KernelRow | None:
    """The kernel that answers for a key, or did before there was another verifier."""
    fingerprint, binding, card_id, policy = key
    query = select(KernelRow).where(
        KernelRow.fingerprint == fingerprint,
        KernelRow.binding == binding,
        KernelRow.card_id == card_id,
        KernelRow.policy == policy,
        KernelRow.superseded_at.is_(None),
    )
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def at_other_sizes(session: Session, key: Key, alike: str, at_most: int) -> Sequence[KernelRow]:
    """Kernels that were measured on a key's card, of fusions that are `alike` but for sizes, and answer there, the
    newest first."""
    is_own = and_(KernelRow.fingerprint == key[0], KernelRow.binding == key[1])
    return _measured(session, key, at_most, KernelRow.alike == alike, KernelRow.card_id == key[2], ~is_own)


def on_other_cards(session: Session, key: Key, alike: str, at_most: int) -> Sequence[KernelRow]:
    """Those that were measured on other cards, at any sizes."""
    return _measured(session, key, at_most, KernelRow.alike == alike, KernelRow.card_id != key[2])


def of_structure(session: Session, key: Key, alike: str, structure: str, at_most: int) -> Sequence[KernelRow]:
    """Those on the key's card of fusions that are not alike, but of the same structure."""
    is_other = and_(KernelRow.structure == structure, KernelRow.alike != alike)
    return _measured(session, key, at_most, is_other, KernelRow.card_id == key[2])


def _measured(session: Session, key: Key, at_most: int, *which: ColumnElement[bool]) -> Sequence[KernelRow]:
    query = select(KernelRow).where(
        *which,
        KernelRow.policy == key[3],
        KernelRow.time == "measured",
        KernelRow.superseded_at.is_(None),
    )
    return session.scalars(query.order_by(KernelRow.created_at.desc(), KernelRow.id).limit(at_most)).all()


@dataclass(frozen=True, slots=True)
class WithoutKin:
    """A kernel of which it is not known what it is of kin with: its fingerprint and binding, and their documents."""

    id: str
    key: tuple[str, str]
    fusion: dict[str, Any]
    bound: dict[str, Any]


def without_kin(session: Session, at_most: int) -> list[WithoutKin]:
    """The newest of these that answer."""
    of_binding = and_(BindingRow.fingerprint == KernelRow.fingerprint, BindingRow.hash == KernelRow.binding)
    query = (
        select(KernelRow.id, KernelRow.fingerprint, KernelRow.binding, FusionRow.document, BindingRow.document)
        .join(FusionRow, FusionRow.fingerprint == KernelRow.fingerprint)
        .join(BindingRow, of_binding)
        .where(KernelRow.alike.is_(None), KernelRow.superseded_at.is_(None))
        .order_by(KernelRow.created_at.desc(), KernelRow.id)
        .limit(at_most)
    )
    return [
        WithoutKin(id, (fingerprint, binding), fusion, bound)
        for id, fingerprint, binding, fusion, bound in session.execute(query)
    ]


def set_kin(session: Session, id: str, kin: Mapping[str, Any]) -> None:
    """What a kernel is of kin with, in the columns `alike`, `structure` and `sizes`; nothing if it is gone."""
    session.execute(update(KernelRow).where(KernelRow.id == id).values(**kin))


def not_measured(session: Session, card_ids: Sequence[str]) -> Sequence[KernelRow]:
    """Kernels that answer on these cards and that nobody has timed on a GPU, the oldest first."""
    query = select(KernelRow).where(KernelRow.card_id.in_(card_ids), KernelRow.time != "measured", SERVED)
    return session.scalars(query.order_by(KernelRow.created_at, KernelRow.id)).all()


def give_way(session: Session, measured: KernelRow, card_ids: Sequence[str]) -> list[KernelRow]:
    """What was not timed of the same fusion and binding on `card_ids` answers no more: `measured` does. Returns it."""
    alike = (measured.fingerprint, measured.binding)
    before = [row for row in not_measured(session, card_ids) if (row.fingerprint, row.binding) == alike]
    for row in before:
        row.superseded_at = now()
    return before


def current_many(session: Session, keys: Sequence[Key], *, provisional: bool = False) -> dict[Key, KernelRow]:
    """The kernels that answer for `keys`, those that there are; `provisional` ones only if they are asked for."""
    if not keys:
        return {}
    query = _having(session, select(KernelRow), KernelRow, keys).where(ANSWERING if provisional else SERVED)
    rows = session.scalars(query)
    return {(row.fingerprint, row.binding, row.card_id, row.policy): row for row in rows}


def wanted(dialect: str, keys: ColumnElement[Any]) -> tuple[FromClause, tuple[ColumnElement[str], ...]]:
    """A table of keys, and its four columns, of the one parameter that holds them all (`as_parameter`).

    So a statement is the same for any number of keys: SQL with a parameter for each part of each key would have to be
    compiled anew.
    """
    if dialect == "sqlite":
        each = func.json_each(keys).table_valued("value", name="wanted")
        return each, tuple(func.json_extract(each.c.value, f"$[{n}]") for n in range(_KEY_PARTS))
    # PostgreSQL counts what an array has before it plans, which it does not of JSON.
    each = func.unnest(cast(keys, ARRAY(Text))).table_valued("value", name="wanted").render_derived()
    return each, tuple(cast(each.c.value, JSON).op("->>")(n) for n in range(_KEY_PARTS))


def as_parameter(dialect: str, keys: Sequence[Key]) -> str | list[str]:
    """Keys as `wanted` takes them, each once."""
    distinct = list(dict.fromkeys(keys))
    return json.dumps(distinct) if dialect == "sqlite" else [json.dumps(key) for key in distinct]


def parameter_type(dialect: str) -> TypeEngine[Any]:
    """The type of such a parameter."""
    return Text() if dialect == "sqlite" else ARRAY(Text)


_KEY_PARTS = 4


def _having(session: Session, query: Select[R], row: type[KernelRow | BaselineRow], keys: Sequence[Key]) -> Select[R]:
    """`query` joined with a table of `keys`: after IN, SQLite would read all rows instead of looking each key up."""
    columns = (row.fingerprint, row.binding, row.card_id, row.policy)
    if len(keys) == 1:
        return query.where(*(one == value for one, value in zip(columns, keys[0], strict=True)))
    dialect = session.get_bind().dialect.name
    table, parts = wanted(dialect, literal(as_parameter(dialect, keys), parameter_type(dialect)))
    return query.join(table, and_(*(one == part for one, part in zip(columns, parts, strict=True))))


def page(
    session: Session,
    cursor: str | None,
    limit: int,
    fingerprint: str | None = None,
    binding: str | None = None,
    card_ids: Sequence[str] | None = None,
    *,
    outdated: bool = False,
) -> Page[KernelRow]:
    """Current kernels, the newest first; with `outdated` also those of an older verifier. Raises BadCursor."""
    query = after(select(KernelRow), KernelRow.created_at, KernelRow.id, cursor)
    query = query.where(KernelRow.superseded_at.is_(None) if outdated else SERVED)
    if fingerprint is not None:
        query = query.where(KernelRow.fingerprint == fingerprint)
    if binding is not None:
        query = query.where(KernelRow.binding == binding)
    if card_ids is not None:
        query = query.where(KernelRow.card_id.in_(card_ids))
    rows = session.scalars(query.limit(limit + 1)).all()
    return Page.of(rows, limit, lambda row: cursor_of(row.created_at, row.id))


def put_baseline(
    session: Session,
    key: Key,
    name: str,
    median_us: float,
    samples_us: Sequence[float],
    conditions: Mapping[str, Any],
) -> None:
    """Record a measured time of the same work without fusetune; a newer one replaces the older."""
    fingerprint, binding, card_id, policy = key
    measured = {"median_us": median_us, "samples_us": list(samples_us), "conditions": dict(conditions)}
    row, is_new = find_or_add(
        session,
        lambda: session.get(BaselineRow, (*key, name)),
        lambda: BaselineRow(
            fingerprint=fingerprint, binding=binding, card_id=card_id, policy=policy, name=name, **measured
        ),
    )
    if not is_new:
        row.recorded_at = now()
        for column, value in measured.items():
            setattr(row, column, value)


def baselines(session: Session, keys: Sequence[Key]) -> dict[Key, list[BaselineRow]]:
    """Recorded baselines of each key, by name."""
    found: dict[Key, list[BaselineRow]] = {k: [] for k in keys}
    if not keys:
        return found
    for row in session.scalars(_having(session, select(BaselineRow), BaselineRow, keys).order_by(BaselineRow.name)):
        found[row.fingerprint, row.binding, row.card_id, row.policy].append(row)
    return found
