"""What a worker works for: the GPU that it has, or the card that it only compiles for."""

from __future__ import annotations

from compiler.arch import card_or_default
from search.measure.fake import FakeDevice
from search.tuning.attached import Attached, Detached, card_of, find_device
from service.settings import Settings


def find_target(settings: Settings) -> Attached | Detached:
    """As `settings.device` says. Raises UnknownCard, or Unsupported for a GPU that this version cannot compile for."""
    match settings.device:
        case "auto":
            return find_device(settings.card, settings.gpu)
        case "none":
            return Detached(card_or_default(settings.card), "this worker was started without a GPU (device none)")
        case "fake":
            device = FakeDevice()
            facts = device.facts()
            return Attached(device, facts, card_of(facts)[0], ("Nothing is really run: times are invented.",))
