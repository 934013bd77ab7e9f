"""How many points there are, as it is told."""

from __future__ import annotations

MOST_COUNTED = 2**63 - 1
"""The most points that are told: what a database's integer holds."""


def told(points: int) -> str:
    """A count for people: `1,234,567`; where it ends at the most that is told, no more than is known."""
    return f"{points:,}" if points < MOST_COUNTED else "over 9.2e18"
