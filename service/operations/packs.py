"""Packs: kernels that are served, written into one file; and taken in from one, as if they had been found here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from compiler.arch import READ_FACTS, card_like
from compiler.errors import Unsupported
from fusetune.errors import Untrusted
from fusetune.signing import Trust
from fusetune.wire.artifact import KernelArtifact, is_proven_today
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint
from fusetune.wire.pack import (
    PackedKernel,
    PackFile,
    PackWriter,
    UnusablePack,
    fusion_member,
    history_member,
    kernel_member,
    pack_bytes,
)  # fmt: skip
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.printing import fusion_text
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.service import PackTaken
from service.db import cards, fusions, kernels, keys, overview, signatures, tunings
from service.db.kernels import DeletedKernel, Key
from service.db.models import KernelRow
from service.operations import pack_history
from service.operations.errors import NothingServed, OverLimit, UntrustedPack
from service.views import kernel_views

MOST_KERNELS = 5_000
"""Of one pack: some hundred MB in memory while it is written."""


def written(
    session: Session, fingerprints: Sequence[str] = (), card_ids: Sequence[str] | None = None, *, history: bool = False
) -> PackWriter:
    """A pack of the kernels that are served: of these fusions, or all; on these cards, or all.

    `history`: with the searches that found them and all their trials. Raises NothingServed,
    OverLimit, DamagedArtifact.
    """
    rows: list[KernelRow] = []
    for one in dict.fromkeys(fingerprints) if fingerprints else (None,):
        rows += kernels.page(session, None, MOST_KERNELS + 1, one, None, card_ids).rows
    if not rows:
        raise NothingServed(fingerprints)
    if len(rows) > MOST_KERNELS:
        raise OverLimit(f"More than {MOST_KERNELS} kernels would be packed.", "Name fusions, or a card.")
    bound = overview.bindings(session, [(row.fingerprint, row.binding) for row in rows])
    pack = PackWriter()
    for row, view in zip(rows, kernel_views(session, rows), strict=True):
        binding = parse_binding(bound[row.fingerprint, row.binding])
        pack.add(view, kernels.artifact(session, row.artifact_sha256), binding)
    for name, document in overview.documents(session, [row.fingerprint for row in rows]).items():
        pack.add_document(fusion_member(name), document)
    if history:
        pack_history.write(session, pack, rows)
    return pack


def ensure_trusted(pack: PackFile, trust: Trust | None) -> None:
    """Raises UntrustedPack unless one of the keys has signed the pack, or nobody said whom to trust.

    Signatures of kernels do not do: what an import believes, cards and floors and trials among it, is the manifest's.
    """
    if trust is None:
        return
    try:
        trust.check("pack", pack_bytes(pack.sha256), pack.signatures)
    except Untrusted as error:
        raise UntrustedPack(pack.sha256, error.reason) from None


def take_in(session: Session, pack: PackFile, actor: str, trust: Trust | None) -> PackTaken:
    """Publish the kernels of a pack: one that answers already and is better stays, as after a search.

    Evidence is taken for what the pack says, so whoever calls knows whose pack it is, or says by `trust` who must have
    signed it. One that was deleted here is left out and named; so is one that an older verifier proved. Searches of its
    history are kept once, also of kernels that were left out: what they tried is proven anew before it is served.
    Raises UntrustedPack, and UnusablePack for what is damaged or contradicts itself, with nothing taken.
    """
    ensure_trusted(pack, trust)
    pack.check()
    try:
        return _taken(session, pack, actor)
    except DataError:  # PostgreSQL alone holds texts against their lengths
        raise UnusablePack("it has a text or a number that is too long to be kept") from None


def _taken(session: Session, pack: PackFile, actor: str) -> PackTaken:
    searches, left = pack_history.read(pack)
    keys_of_searches = {pack_history.key_of(one) for one in searches}
    placed: set[Key] = set()
    taken, known, found_by = 0, 0, {}
    for packed in pack.manifest.kernels:
        view = packed.view
        why, key = _refused(packed), (view.fingerprint, view.binding, view.card.id, view.policy)
        artifact = None if why else _checked(pack, packed)
        if artifact is not None or key in keys_of_searches:
            _place(session, pack, packed)
            placed.add(key)
        if artifact is None:
            left.append(f"{view.id}: {why}")
            continue
        try:
            with session.begin_nested():
                row = _row(session, pack, packed, artifact)
                is_known = kernels.get(session, row.id) is not None
                if not is_known:
                    kernels.publish(session, row)
                    keys.audit(session, actor, "kernel.imported", row.id, {"pack": pack.sha256})
                found_by[row.id] = view.tuning
                for one in view.signatures:
                    signatures.put(session, row.artifact_sha256, one.key, one.value)
        except DeletedKernel:
            left.append(f"{view.id}: it was deleted here")
            continue
        known += is_known
        taken += not is_known
    learned = 0
    for search in searches:
        if pack_history.key_of(search) not in placed:
            raise UnusablePack(f"{history_member(search.id)}: it is of no kernel of the pack")
        learned += pack_history.take_in(session, search)
    for (
        id,
        tuning,
    ) in found_by.items():  # last: whether a deleted kernel comes back is no matter of another service's search
        if tuning is not None and tunings.get(session, tuning) is not None:
            kernels.found_by(session, id, tuning)
    keys.audit(session, actor, "pack.imported", pack.sha256, {"kernels": taken, "trials": learned})
    return PackTaken(sha256=pack.sha256, kernels=taken, known=known, trials=learned, left=tuple(left))


def _refused(packed: PackedKernel) -> str:
    view = packed.view
    if view.refuted:
        return f"it was found wrong: {view.refuted}"
    if not is_proven_today(view.verifier):
        return f"verifier {view.verifier} proved it, which could pass a wrong one"
    return "it is provisional" if view.provisional is not None else ""


def _checked(pack: PackFile, packed: PackedKernel) -> KernelArtifact:
    """The artifact of a kernel, which is what its view says. Raises UnusablePack."""
    view = packed.view
    member = kernel_member(view.artifact_sha256)
    content = pack.member(member)
    try:
        found = KernelArtifact.model_validate_json(content)
    except ValueError:
        raise UnusablePack(f"{member}: it is no fusetune.kernel/1 document") from None
    for name, said, has in _claims(packed, found):
        if said != has:
            raise UnusablePack(f"{member}: {name}: found {has}, expected {said} as the manifest says")
    if not _are_steps(found.trace.get("steps", [])) or not all(
        map(_is_launch, _listed(found.trace.get("launches", [])))
    ):
        raise UnusablePack(f"{member}: trace: found something else, expected steps, and launches with theirs")
    return found


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _are_steps(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_launch(value: object) -> bool:
    return isinstance(value, dict) and {"reads", "writes", "steps"} <= value.keys() and _are_steps(value["steps"])


def _claims(packed: PackedKernel, found: KernelArtifact) -> Iterator[tuple[str, object, object]]:
    view, proof, timing = packed.view, found.verification, found.timing
    yield "fingerprint", view.fingerprint, found.fingerprint
    yield "binding", view.binding, found.binding
    yield "arch", view.arch, found.arch
    yield "evidence", view.evidence, found.evidence
    yield "verification", view.verifier, None if proof is None else proof.verifier
    if view.evidence.correct == "unverified":
        yield "evidence", "a verified kernel", "an unverified one"
    if view.evidence.time == "measured":
        yield "timing", view.median_us, None if timing is None else timing.median_us
    yield "id", kernels.kernel_id(view.artifact_sha256), view.id


def _place(session: Session, pack: PackFile, packed: PackedKernel) -> None:
    """Keep the fusion, the binding and the card of a kernel. Raises UnusablePack."""
    view = packed.view
    name = fusion_member(view.fingerprint)
    if name not in pack.manifest.members or packed.binding is None:
        raise UnusablePack(f"kernel {view.id}: its fusion and binding are not packed, so nobody could ask for it here")
    try:
        fusion = parse_fusion(pack.member(name))
        hashes = fingerprint(fusion), binding_hash(fusion, packed.binding)
        facts = {fact: getattr(view.card, fact) for fact in READ_FACTS}
        card = card_like(view.card.name, (view.card.capability[0], view.card.capability[1]), facts)
    except (InvalidDocument, Unsupported, IndexError) as error:
        raise UnusablePack(f"kernel {view.id}: {error}") from None
    if hashes != (view.fingerprint, view.binding):
        raise UnusablePack(f"kernel {view.id}: {name} and its binding have other hashes than it says")
    if cards.card_id(card) != view.card.id:
        raise UnusablePack(f"kernel {view.id}: its card has the id {cards.card_id(card)}, expected {view.card.id}")
    document = canonicalize(fusion).model_dump(mode="json", by_alias=True, exclude_none=True)
    fusions.put(session, view.fingerprint, document, fusion_text(canonicalize(fusion)), view.name)
    binding: Binding = packed.binding
    fusions.put_binding(session, view.fingerprint, view.binding, binding.model_dump(mode="json", exclude_none=True))
    cards.put(session, card, attached=False)


def _row(session: Session, pack: PackFile, packed: PackedKernel, artifact: KernelArtifact) -> KernelRow:
    """The kernel's row, with its artifact stored."""
    from search.space.renamed import point_today  # `service.later`

    view = packed.view
    sha256 = kernels.put_artifact(session, pack.member(kernel_member(view.artifact_sha256)))
    timing = artifact.timing
    timed = {} if timing is None else {"median_us": timing.median_us, "p10_us": timing.p10_us, "p90_us": timing.p90_us}
    return KernelRow(
        id=kernels.kernel_id(sha256),
        artifact_sha256=sha256,
        fingerprint=view.fingerprint,
        binding=view.binding,
        card_id=view.card.id,
        policy=view.policy,
        arch=view.arch,
        correct=view.evidence.correct,
        time=view.evidence.time,
        verifier=view.verifier,
        floor_us=view.floor_us,
        scheduler=view.candidate.scheduler,
        point=point_today(view.candidate.point),
        resources=artifact.resources.model_dump(mode="json"),
        generator=artifact.conditions.generator,
        nvrtc=artifact.conditions.nvrtc,
        driver=artifact.conditions.driver or view.driver,
        **timed,
    )
