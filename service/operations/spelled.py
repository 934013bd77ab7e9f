"""What a request asks for whose bytes have not come before, if others have asked for the same in other words.

Its fusion may have other names, or its fields another order. All that is worked out is what it is called: whether that
is answered from what is kept is decided as for bytes that are known (`Answers.again`).
"""

from __future__ import annotations

from fusetune.wire.artifact import TIMING_POLICY
from fusetune.wire.parse import decode, read
from fusetune.wire.problems import InvalidDocument
from fusetune.wire.service import TuningRequest
from service.operations.answers import Answers, Question
from service.operations.errors import OverLimit
from service.operations.reading import identify
from service.settings import Settings

_ROOT = "body"


def question_of(content: bytes, answers: Answers, settings: Settings) -> Question | None:
    """None for a request that the cache may not answer, is not valid, or means a card that nobody has asked for yet:
    its route says what comes of it."""
    try:
        request = read(TuningRequest, decode(content, _ROOT), _ROOT)
        meant = answers.meant(request.card)
        if meant is None or request.refresh or request.budget_s > settings.max_budget_s:
            return None
        identity = identify(request.fusion, request.binding, settings.max_ops)
    except (InvalidDocument, OverLimit):
        return None
    key = identity.fingerprint, identity.binding_hash, meant.card_id, TIMING_POLICY
    return Question(key, meant, request.accept, request.want)
