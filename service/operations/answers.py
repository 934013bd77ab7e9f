"""Answers that are kept as they were written, each told again only while the database still says what it stands on.

Three things are kept. Which card a word means, while the directory of cards and workers is as it is told beside it. A
question: what a request's very bytes ask for, of which only the card may change. And a kernel's view as JSON, beside
the facts it was made of. Every answer reads directory and facts anew, in one statement, so nothing here is ever old:
once a kernel is published, the facts differ, in every process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

from fusetune.wire.artifact import Evidence
from fusetune.wire.service import Accept, KernelView
from fusetune.wire.wanting import Want
from service.db import answers
from service.db.answers import Facts
from service.db.engine import Database
from service.db.instant import Held
from service.db.kernels import Key, as_parameter
from service.operations.presence import alive_since
from service.settings import Settings

K = TypeVar("K")
V = TypeVar("V")

QUESTIONS = 20_000
"""How many requests are known by their bytes: half a kilobyte each."""

WORDS = 1_000
"""How many words for cards: ids, names and their spellings."""

KEPT_BYTES = 64 * 1024 * 1024
"""How much of kernels' views one process keeps: ten thousand or more."""


@dataclass(frozen=True, slots=True)
class Written:
    """A kernel's view as JSON, and the facts that it was made of."""

    facts: Facts
    evidence: Evidence
    is_provisional: bool
    content: bytes

    def answers(self, accept: Accept, want: Want) -> bool:
        """Whether it may answer a request that wants and accepts this."""
        return accept.allows(self.evidence) and (want == "first" or not self.is_provisional)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory: documents stand in the facts once more."""
        return 2 * len(self.content) + 1000


@dataclass(frozen=True, slots=True)
class Meant:
    """The card that a word means while cards and workers are these. `workers` is None for a word that names a card."""

    card_id: str
    cards: str
    workers: str | None

    def still(self, cards: str, workers: str) -> bool:
        """Whether it is meant where the directory reads so."""
        return cards == self.cards and self.workers in (None, workers)


@dataclass(frozen=True, slots=True)
class Question:
    """What a request asks for, whatever words it uses. `key` has the card that was `meant`."""

    key: Key
    meant: Meant
    accept: Accept
    want: Want


class Recent(Generic[K, V]):
    """Values by key, the least recently asked dropped first."""

    def __init__(self, room: int, size: Callable[[V], int]) -> None:
        self._room, self._size, self._taken = room, size, 0
        self._found: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, None if it is not here."""
        with self._lock:
            if (value := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value in place of the one before."""
        with self._lock:
            if (before := self._found.pop(key, None)) is not None:
                self._taken -= self._size(before)
            self._found[key] = value
            self._taken += self._size(value)
            while self._taken > self._room:
                self._taken -= self._size(self._found.popitem(last=False)[1])


class Answers:
    """What one process keeps."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db, self._settings = db, settings
        self._questions: Recent[bytes, Question] = Recent(QUESTIONS, lambda _: 1)
        self._meant: Recent[str | None, Meant] = Recent(WORDS, lambda _: 1)
        self._written: Recent[Key, Written] = Recent(KEPT_BYTES, lambda one: one.size_bytes)

    def question(self, body_sha256: bytes) -> Question | None:
        """What the bytes of a request ask for, None if they have not come before."""
        return self._questions.get(body_sha256)

    async def again(self, question: Question, idempotency_key: str | None) -> bytes | None:
        """The answer to a question that was answered before, None where it has to be worked out."""
        written = self._written.get(question.key)
        if written is None or not written.answers(question.accept, question.want):
            return None
        fingerprint, binding, card_id, policy = question.key
        asked = {
            "fingerprint": fingerprint, "binding": binding, "card_id": card_id, "policy": policy,
            "since": alive_since(self._settings),
        }  # fmt: skip
        try:
            if idempotency_key is not None and await self._is_known(idempotency_key):
                return None  # what it opened is the answer, whatever the cache has
            rows = await self._db.instant.rows(answers.ONE, asked)
        except Held:
            return None
        if len(rows) != 1:
            return None
        cards, workers, *facts = rows[0]
        is_same = question.meant.still(cards, workers) and tuple(facts) == written.facts
        return written.content if is_same else None

    async def _is_known(self, idempotency_key: str) -> bool:
        return bool(await self._db.instant.rows(answers.SENT_BEFORE, {"key": idempotency_key}))

    def directory(self, session: Session) -> tuple[str, str]:
        """Cards and workers as a session sees them now."""
        asked = {"since": alive_since(self._settings)}
        [(cards, workers)] = self._db.instant.rows_in(session.connection(), answers.DIRECTORY, asked)
        return cards, workers

    def mean(self, word: str | None, meant: Meant) -> None:
        """A request that says this of its card, or nothing, means that card."""
        self._meant.put(word, meant)

    def meant(self, word: str | None) -> Meant | None:
        """The card that this word meant the last time, None if it has not come before."""
        return self._meant.get(word)

    def note(self, body_sha256: bytes, question: Question) -> None:
        """The bytes of a request ask for this. Its answer was written by `write`."""
        self._questions.put(body_sha256, question)

    def facts(self, session: Session | None, keys: Sequence[Key]) -> dict[Key, Facts]:
        """The facts of each key that a kernel answers for: as the session sees them, or as they are now."""
        dialect, instant = self._db.engine.dialect.name, self._db.instant
        statement, asked = answers.MANY[dialect], {"keys": as_parameter(dialect, keys)}
        if session is None:
            rows = instant.rows_now(statement, asked)
        else:
            rows = instant.rows_in(session.connection(), statement, asked)
        return {answers.key_of(row): row for row in rows}

    def written(self, key: Key, facts: Facts) -> Written | None:
        """What was written of these very facts."""
        found = self._written.get(key)
        return found if found is not None and found.facts == facts else None

    def write(self, key: Key, facts: Facts, view: KernelView) -> Written:
        """Keep a view that was made in the transaction that has the facts."""
        content = view.model_dump_json().encode()
        written = Written(facts, view.evidence, view.provisional is not None, content)
        self._written.put(key, written)
        return written
