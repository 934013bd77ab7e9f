"""The attached GPU, if there is one, and what is assumed of the card where there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.arch import Card, arch_named, arch_names, card_named, card_or_default, cards
from compiler.errors import UnknownCard, Unsupported
from search.measure.cuda import CudaDevice
from search.measure.device import CardFacts, DeviceLost, MeasuringDevice


@dataclass(frozen=True, slots=True)
class Attached:
    """A GPU that answers. `card` holds its own facts where they differ from the table; `notes` says where."""

    device: MeasuringDevice
    facts: CardFacts
    card: Card
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Detached:
    """No GPU to time on: the card to predict for, and `why`."""

    card: Card
    why: str


def find_device(wanted: str | None, index: int = 0) -> Attached | Detached:
    """GPU `index` if it is the card `wanted` (any, if None). Raises UnknownCard or Unsupported."""
    asked = card_named(wanted) if wanted else None
    device = CudaDevice(index)
    try:
        facts = device.facts()
    except DeviceLost as error:
        device.close()
        return Detached(card_or_default(wanted), error.reason.splitlines()[0].rstrip("."))
    card, notes = card_of(facts)
    if asked is not None and asked.name != card.name:
        device.close()
        return Detached(asked, f"the attached GPU is {facts.name}, not {asked.name}")
    return Attached(device, facts, card, notes)


def card_of(facts: CardFacts) -> tuple[Card, tuple[str, ...]]:
    """The card of that name with the facts read from it, and the differences in words.

    A card that the table lacks takes the rates of one of its architecture. Raises Unsupported if there is none.
    """
    notes: list[str] = []
    try:
        card = card_named(facts.name)
    except UnknownCard:
        alike = [card for card in cards() if card.arch.capability == facts.capability]
        archs = [arch for arch in map(arch_named, arch_names()) if arch.capability == facts.capability]
        if not alike or not archs:
            major, minor = facts.capability
            raise Unsupported(f"{facts.name} (compute capability {major}.{minor})", "Name a known --card.") from None
        card = replace(alike[0], name=facts.name, aliases=())
        notes.append(f"{facts.name} is not in cards.json: memory rates are taken from {alike[0].name}.")
    for name, (read, known) in sorted(facts.differences(card).items()):
        notes.append(f"{facts.name}: {name} is {read}, cards.json says {known}; the card's own word counts.")
    read_facts = ("sm_count", "max_sm_clock_mhz", "max_memory_clock_mhz", "memory_bytes", "l2_bytes", "power_w")
    return replace(card, **{name: getattr(facts, name) for name in read_facts}), tuple(notes)
