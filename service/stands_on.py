"""What the end of a tuning stands on. While none of it has changed, the same search would end the same way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from compiler.generator import GENERATOR
from fusetune.wire.artifact import VERIFIER
from fusetune.wire.version import VERSION


@dataclass(frozen=True, slots=True)
class StandsOn:
    """`on_gpu`: whether a worker has the card; `driver` is that of the card, None without one."""

    on_gpu: bool
    driver: str | None = None
    generator: str = GENERATOR
    verifier: int = VERIFIER
    version: str = VERSION

    def to_json(self) -> dict[str, Any]:
        """As it is kept beside a tuning."""
        return asdict(self)

    def still_holds(self, found: dict[str, Any] | None) -> bool:
        """Whether what a tuning stood on is no less than `self`, that of today. A GPU that is away takes nothing from
        what was found on it; a GPU that has come, or a driver that it runs under, may give more.
        """
        if found is None:
            return False
        if found.get("on_gpu") and not self.on_gpu:
            return {**found, "driver": None} == {**self.to_json(), "on_gpu": True, "driver": None}
        return found == self.to_json()
