"""How a figure is known, as a badge that stands beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusetune.wire.artifact import VERIFIER, Evidence, is_proven_today
from fusetune.wire.service import KernelView

FAKE_CARD = "fake"
"""The card of the device without hardware (`search.measure.fake`), whose times are invented."""

Tone = Literal["good", "plain", "caution", "bad"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word, how it is coloured, and what it means."""

    text: str
    tone: Tone
    meaning: str


_FAKE = Badge(
    "fake device, not hardware", "caution", "An invented time on a device for tests. No GPU has run this kernel."
)
_CORRECT = {
    "verified_on_gpu": Badge(
        "verified on GPU", "good", "Its output on the card matched the independent reference on every input set."
    ),
    "verified_emulated": Badge(
        "verified in emulator", "plain", "Its PTX gave the right output in an emulator. It has not run on a GPU."
    ),
    "unverified": Badge("not verified", "bad", "Nothing has shown that its output is right."),
}
_TIME = {
    "measured": Badge("measured", "good", "Timed on the card."),
    "predicted": Badge("predicted, not measured", "caution", "What a model of the card expects. Nothing was timed."),
    "none": Badge("not timed", "plain", "There is neither a measured nor a predicted time."),
}


def is_fake(card: str) -> bool:
    """True if times on this card are invented."""
    return card == FAKE_CARD


def badges(evidence: Evidence, card: str) -> tuple[Badge, ...]:
    """The badges of a result on `card`: how it is known to be right, then how its time is known."""
    if is_fake(card):
        return (_FAKE,)
    return _CORRECT[evidence.correct], _TIME[evidence.time]


def doubt(kernel: KernelView) -> Badge | None:
    """What is to be said of a kernel whose proof does not count today, None for all others."""
    if kernel.refuted:
        return Badge("found wrong", "bad", f"A later verifier has found it wrong: {kernel.refuted}. It is not served.")
    if is_proven_today(kernel.verifier):
        return None
    found = f"Proven by an older verifier (number {kernel.verifier}, today's is {VERIFIER})"
    comes = "is not served" if kernel.superseded else "is proven again before it is served"
    return Badge("older proof", "caution", f"{found}; it {comes}.")


def time_badge(card: str) -> Badge:
    """The badge of a measured time on `card` of a kernel that is not yet right on every input set."""
    return _FAKE if is_fake(card) else _TIME["measured"]
