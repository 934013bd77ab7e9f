"""The attached GPU, if there is one, and what is assumed of the card where there is none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from compiler.arch import READ_FACTS, Card, card_like, card_named, card_or_default, cards
from search.measure import early
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
    device = CudaDevice(index, child=early.taken(index))
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


_AT_A_TIME = 4
"""GPUs that are looked for together: each look starts a process."""


def others_like(gpu: Attached, at_most: int | None) -> tuple[list[MeasuringDevice], tuple[str, ...]]:
    """Up to so many GPUs of this machine beside number 0 that are cards as `gpu`, all of them if None; what was left
    out is said in words."""
    alike: list[MeasuringDevice] = []
    notes: list[str] = []
    begin, is_over = 1, at_most == 0
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        while not is_over:
            wanted = range(begin, begin + min(_AT_A_TIME, _AT_A_TIME if at_most is None else at_most - len(alike)))
            begin = wanted.stop
            for index, one in zip(wanted, pool.map(partial(find_device, None), wanted), strict=True):
                match one:
                    case Attached() if one.card.key == gpu.card.key:
                        alike.append(one.device)
                    case Attached():
                        one.device.close()
                        notes.append(f"GPU {index} is left out: it is {one.card.key}, not {gpu.card.key}.")
                    case Detached():
                        is_over = True
            is_over = is_over or len(alike) == at_most
    return alike, tuple(notes)


def card_of(facts: CardFacts) -> tuple[Card, tuple[str, ...]]:
    """The card of that name with the facts read from it, and the differences in words.

    A card that the table lacks takes the rates of one of its architecture. Raises Unsupported if there is none.
    """
    known = card_like(facts.name, facts.capability, {})
    card = card_like(facts.name, facts.capability, {name: getattr(facts, name) for name in READ_FACTS})
    notes: list[str] = []
    if known not in cards():
        lender = next(card.name for card in cards() if card.dram is known.dram)
        notes.append(f"{facts.name} is not in cards.json: memory rates are taken from {lender}.")
    for name, (read, expected) in sorted(facts.differences(known).items()):
        notes.append(f"{facts.name}: {name} is {read}, cards.json says {expected}; the card's own word counts.")
    return card, tuple(notes)
