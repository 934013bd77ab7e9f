"""The service's end of the job queue. `service.jobs.dbos_queue` is the real one; tests have their own."""

from __future__ import annotations

from typing import Protocol


class QueueUnavailable(Exception):
    """The job queue's database does not answer; `reason` says why. The tuning is kept and handed over later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the job queue cannot be reached: {self.reason}"


class JobQueue(Protocol):
    """Hands tunings to workers. A tuning's job has the tuning's id, so handing one over twice does nothing."""

    def enqueue(self, tuning_id: str, queue: str, priority: int) -> None:
        """Hand a tuning over; of those that wait, 1 comes before 9. Raises QueueUnavailable."""
        ...

    def cancel(self, tuning_id: str) -> None:
        """Drop the job of a tuning that no worker has begun. Raises QueueUnavailable."""
        ...

    def close(self) -> None:
        """Give connections back."""
        ...


OTHER_CARDS = "prepare-other-cards"
"""The queue of tunings for cards that no worker has ever had: any worker compiles for them, and proves in the
emulator."""


def queue_name(card_id: str, *, attached: bool) -> str:
    """The queue of workers that have the card, or of those that only compile for it."""
    return f"{'tune' if attached else 'prepare'}-{card_id}"


def help_queue(worker: str) -> str:
    """The queue of what others ask of one worker."""
    return f"help-{worker}"
