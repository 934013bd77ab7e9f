"""Why an operation refuses; `service.problems` says each over HTTP.

Beside these, operations raise what lies below them: InvalidDocument, UnknownCard, Unsupported, DamagedArtifact,
PrunedArtifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fusetune.wire.artifact import VERIFIER


class OperationRefused(Exception):
    """Base of what an operation refuses on purpose. `detail` is for people, `fix` says what to do."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail, fix)
        self.detail = detail
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.detail} {self.fix}"


class UntrustedPack(OperationRefused):
    """This service was told whom to trust, and none of these has signed the pack; nothing was taken."""

    def __init__(self, pack_sha256: str, reason: str) -> None:
        detail = f"Pack {pack_sha256}: {reason}, expected a signature of a key that is trusted here. Nothing was taken."
        fix = "Have it signed with such a key (python -m service pack sign), or add its signer's to FUSETUNE_TRUST."
        super().__init__(detail, fix)
        self.args = (pack_sha256, reason)


class NotFound(OperationRefused):
    """Nothing has that id."""

    def __init__(self, kind: str, id: str, where_to_look: str) -> None:
        shown = id if len(id) <= 80 else f"{id[:77]}..."
        super().__init__(f"No {kind} has the id {shown!r}.", f"Ids are listed by {where_to_look}.")


class NothingServed(NotFound):
    """There is no kernel to pack, of these fusions or of any."""

    def __init__(self, fingerprints: Sequence[str]) -> None:
        of = f"of {', '.join(one[:16] for one in fingerprints[:5])}" if fingerprints else "of any fusion"
        OperationRefused.__init__(self, f"No kernel {of} is served here.", "GET /v1/kernels lists what is.")
        self.args = (fingerprints,)


class Gone(OperationRefused):
    """What has that id was deleted."""

    def __init__(self, kind: str, id: str, when: datetime) -> None:
        super().__init__(
            f"The {kind} {id} was deleted on {when:%Y-%m-%d %H:%M} UTC.", "Post its fusion: another is searched for."
        )


class FusionInUse(OperationRefused):
    """Tunings of a fusion that is to be deleted have not ended."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "Cancel them, or wait for their end, then delete it.")


class OverLimit(OperationRefused):
    """The request asks for more than this service gives."""


class IdempotencyConflict(OperationRefused):
    """The Idempotency-Key was used for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The Idempotency-Key {key!r} belongs to a request with another body.", "Use a new key for a new request."
        )


class OutdatedKernel(OperationRefused):
    """The kernel was proven by an older verifier, or found wrong by a later one: its code is not given out."""

    def __init__(self, id: str, verifier: int, refuted: str) -> None:
        proven = f"Kernel {id} was proven by verifier {verifier}, today's is {VERIFIER}"
        why = f" and found it wrong: {refuted}." if refuted else ": the older could pass a wrong one."
        super().__init__(proven + why, "Post its fusion again: a kernel is proven or searched for, and then served.")


class Busy(OperationRefused):
    """Too much of this is asked for at once. `retry_after_s`: when to ask again."""

    retry_after_s = 2

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "Ask again later.")


class QuotaSpent(Busy):
    """The key has had searched what it may within a day."""

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class QueueFull(Busy):
    """As many tunings wait as may."""

    retry_after_s = 30

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} tunings wait already, no more are taken.")
