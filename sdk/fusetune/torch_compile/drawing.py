"""What a region's random numbers start from: torch's seed, and a count that is kept on the device.

A captured call reads and advances the count wherever it is replayed, so no two replays draw the same.
"""

from __future__ import annotations

import torch


class Draws:
    """Seeds and offsets, a pair for each device. A new seed of torch's starts anew."""

    def __init__(self) -> None:
        self._seed = torch.initial_seed()
        self._pairs: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def next(self, device: torch.device, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Seed and offset of `count` draws, i64 tensors without dimensions on the device."""
        if torch.initial_seed() != self._seed:
            self._seed = torch.initial_seed()
            self._pairs.clear()
        if device not in self._pairs:
            seed = torch.full((), self._seed & (1 << 63) - 1, dtype=torch.int64, device=device)
            self._pairs[device] = seed, torch.zeros((), dtype=torch.int64, device=device)
        seed, offset = self._pairs[device]
        now = offset.clone()
        offset.add_(count)
        return seed, now
