"""Which card a request means, and what is known of cards."""

from __future__ import annotations

from sqlalchemy.orm import Session

from compiler.arch import card_named, card_or_default
from compiler.arch import cards as known_cards
from compiler.errors import UnknownCard
from fusetune.wire.service import Cards
from service.db import cards
from service.db.models import CardRow
from service.operations.context import Context
from service.operations.presence import alive_since
from service.views import card_statuses


def listing(context: Context) -> Cards:
    """All cards that a worker had or a request named, those with a living worker first."""
    with context.db.read() as session:
        return Cards(items=tuple(card_statuses(session, alive_since(context.settings))))


def resolve(session: Session, context: Context, word: str | None) -> CardRow:
    """The card that a request means, stored if it is new: needs a session that writes. Raises UnknownCard.

    A word is an id, a name, or an alias of the table of cards; of several cards with one name, that read off a GPU.
    Without a word, the card of a living worker, one with its GPU first and the fake card last. While none lives: that
    of the worker heard of last, which may only be starting again; the table's default card if there never was one.
    """
    return current(session, context, word) or cards.put(session, card_or_default(word), attached=False)


def current(session: Session, context: Context, word: str | None) -> CardRow | None:
    """As `resolve`, but nothing is stored: None for a card of the table that is not. Raises UnknownCard."""
    if word is None:
        workers = cards.alive(session, alive_since(context.settings)) or cards.last_heard(session)
        served = [worker.card_id for worker in workers]
        # A rehearsal beside real workers must not answer whoever did not ask for it.
        word = min(served, key=lambda id: cards.is_invented(session, id), default=card_or_default(None).name)
    ids = stored_ids(session, word)
    return session.get_one(CardRow, ids[0]) if ids else None


def stored_ids(session: Session, word: str) -> list[str]:
    """Ids of all stored cards that a word means, those read off a GPU first; none for a card of the table that is not
    stored. Raises UnknownCard."""
    if (row := cards.get(session, word)) is not None:
        return [row.id]
    rows = cards.named(session, word)
    if not rows:
        try:
            rows = cards.named(session, card_named(word).name)
        except UnknownCard:
            raise _unknown(session, word) from None
    return [row.id for row in rows]


def _unknown(session: Session, word: str) -> UnknownCard:
    names = [card.name for card in known_cards()] + [row.name for row in cards.every(session)]
    return UnknownCard(word if len(word) <= 80 else f"{word[:77]}...", tuple(dict.fromkeys(names)))
