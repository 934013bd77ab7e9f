"""Waiting for a tuning to end: its event stream, and questions now and then where there is none."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pydantic

from fusetune.errors import ServerBroken, ServerRefused, ServiceUnavailable, TuningTimedOut
from fusetune.transport import Transport, checked_seconds
from fusetune.wire.fusion import show
from fusetune.wire.service import ACTIVE, TuningView
from fusetune.wire.wanting import Want

Progress = Callable[[TuningView], object]
"""Called with every new state of a tuning."""

_BARREN_STREAMS = 3
"""Event streams in a row that end without an event, before the tuning is asked for instead."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long, in seconds.

    `silence_s`: an event stream without even a comment for so long counts as cut. `poll_s`: between two questions.
    `patience_s`: how long the service may be away in the middle of a tuning; it may be restarting.
    """

    silence_s: float = 30.0
    poll_s: float = 1.0
    patience_s: float = 60.0


class Deadline:
    """A moment, `after_s` seconds from when it was made; never, if that is None."""

    def __init__(self, after_s: float | None) -> None:
        """Raises InvalidRequest for what is no time to wait for."""
        if after_s is not None:
            checked_seconds(after_s, "Leave it out to wait to the end.")
        self.after_s = after_s
        self._end = math.inf if after_s is None else time.monotonic() + after_s

    def left(self, most: float) -> float:
        """Seconds until then, at most `most`, and never 0 or less: the network takes that for no limit."""
        return max(1e-3, min(most, self._end - time.monotonic()))

    @property
    def is_over(self) -> bool:
        """Whether the moment has come."""
        return time.monotonic() >= self._end


class Follower:
    """Follows one tuning to its end, or to its first kernel. `tell` gets every state that is not as the last one."""

    def __init__(
        self,
        transport: Transport,
        first: TuningView,
        deadline: Deadline,
        tell: Progress | None = None,
        pace: Pace | None = None,
        want: Want = "best",
    ) -> None:
        self.view = first
        self._want = want
        self._transport = transport
        self._path = f"/tunings/{quote(first.id, safe='')}"
        self._deadline = deadline
        self._tell = tell
        self._pace = pace or Pace()
        self._barren = 0
        self._away_since: float | None = None

    def run(self) -> TuningView:
        """The last state of the tuning, or the first in which it has what is wanted.

        Raises TuningTimedOut at the deadline, and ServiceError.
        """
        if self._tell is not None:
            self._tell(self.view)
        while not self._has_ended:
            if self._barren < _BARREN_STREAMS:
                self._stream()
            if not self._has_ended:
                self._ask()
            if not self._has_ended:
                self._in_time()
                time.sleep(self._deadline.left(self._pace.poll_s))
        return self.view

    @property
    def _has_ended(self) -> bool:
        return self.view.state not in ACTIVE or (self._want == "first" and self.view.first is not None)

    def _stream(self) -> None:
        """Takes in one event stream, until the tuning ends or the stream does."""
        self._barren += 1
        try:
            lines = self._transport.lines(
                f"{self._path}/events?changes=true", self._deadline.left(self._pace.silence_s)
            )
            with contextlib.closing(lines):
                for data in events(self._timed(lines)):
                    self._take(self._read(data))
                    self._barren = 0
                    if self._has_ended:
                        return
        except ServerBroken:
            # Something between here and there does not let streams through; the tuning can still be asked for.
            self._barren = _BARREN_STREAMS
        except ServerRefused as error:
            if error.problem.status not in (404, 405, 406, 422):
                raise
            self._barren = _BARREN_STREAMS
        except ServiceUnavailable:
            pass  # cut: `_ask` finds out whether the service is there

    def _ask(self) -> None:
        """Asks for the tuning once. A service that is away is forgiven for `patience_s`."""
        timeout_s = self._deadline.left(self._transport.timeout_s)
        try:
            found = self._transport.get(self._path, TuningView, timeout_s=timeout_s)
        except ServiceUnavailable:
            self._in_time()
            now = time.monotonic()
            self._away_since = now if self._away_since is None else self._away_since
            if now - self._away_since >= self._pace.patience_s:
                raise
        else:
            if self._away_since is not None:
                self._barren = 0  # the streams failed because the service was away, so try them again
            self._take(found)

    def _take(self, view: TuningView) -> None:
        self._away_since = None
        if view != self.view:
            self.view = view
            if self._tell is not None:
                self._tell(view)

    def _read(self, data: str) -> TuningView:
        """The view of an event: a whole one, or what has changed of the one before it. Raises ServerBroken."""
        try:
            found = json.loads(data)
            if isinstance(found, dict) and found and "id" not in found:  # which never changes
                data = json.dumps(json.loads(self.view.model_dump_json()) | found)
        except (ValueError, RecursionError):
            pass  # said below, in the words that any other fault has
        try:
            return TuningView.model_validate_json(data)
        except pydantic.ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]["msg"]
            name, expected = f"GET /v1{self._path}/events", f"events that hold a tuning ({fault})"
            raise ServerBroken(name, self._transport.url, show(data), expected) from None

    def _timed(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, as long as there is time: comments that keep the connection alive must not keep us too."""
        for line in lines:
            self._in_time()
            yield line

    def _in_time(self) -> None:
        if self._deadline.is_over:
            raise TuningTimedOut(f"GET /v1{self._path}", self.view, self._deadline.after_s or 0.0)


def events(lines: Iterable[str]) -> Iterator[str]:
    """The data of each event of a stream (HTML standard, server-sent events); one that was cut off is dropped.

    Names, ids and comments are not needed: an event holds a whole tuning, which says itself whether it has ended, or
    what has changed of it, without its id.
    """
    data: list[str] = []
    for line in lines:
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
