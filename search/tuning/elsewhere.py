"""Other hosts that work for a search: GPUs of its card's kind that measure, and processors that draft and compile.

Who they are and how they are reached is the caller's (`service.jobs.helpers`). What one of them loses is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from compiler.nvrtc import Compiled
from fusetune.wire.artifact import KernelArtifact
from search.measure.device import MeasuringDevice
from search.tuning.build import Build, Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.failing import Failure


class HostLost(Exception):
    """Who had a candidate in hand does not answer any more, or has left."""


class Elsewhere(Protocol):
    """The hosts beside this one. May be used by many threads."""

    def joined(self) -> Sequence[MeasuringDevice]:
        """Devices that have come since the last call, the search's fusion open on them."""
        ...

    @property
    def room(self) -> int:
        """Candidates that they would take in hand now."""
        ...

    @property
    def hands(self) -> int:
        """Candidates that they can have in hand at a time."""
        ...

    def build(self, candidate: Candidate) -> Future[BuiltElsewhere | Failure]:
        """Drafts and compiles there. The future raises HostLost; whatever else it raises costs no more."""
        ...


class NoWhere:
    """An `Elsewhere` of nobody."""

    room = hands = 0

    def joined(self) -> Sequence[MeasuringDevice]:
        """Nobody."""
        return ()

    def build(self, candidate: Candidate) -> Future[BuiltElsewhere | Failure]:
        """Never called: there is no room."""
        raise AssertionError(f"{candidate} has nowhere to go")


@dataclass
class SharedBuilds:
    """A tuner's `Builds`: this host's builder, and others where it has `at_home` candidates in hand already."""

    home: Builder
    others: Elsewhere
    at_home: int
    _here: list[Build] = field(default_factory=list)

    @property
    def elsewhere(self) -> int:
        """How many other hosts can have in hand at a time."""
        return self.others.hands

    def start(self, number: int, candidate: Candidate) -> Build:
        """Begins to build, here or elsewhere; waits for neither."""
        self._here = [build for build in self._here if not build.is_ready]
        if len(self._here) < self.at_home or self.others.room <= 0:
            build = self.home.start(number, candidate)
            self._here.append(build)
            return build
        return self._sent(number, candidate)

    def finish(self, build: Build) -> KernelArtifact | Failure:
        """The artifact, wherever it was made."""
        return self.home.finish(build)

    def _sent(self, number: int, candidate: Candidate) -> Build:
        ended: Future[Compiled | BuiltElsewhere | Failure] = Future()
        build = Build(number, candidate, compiled=ended)
        sent = self.others.build(candidate)
        ended.add_done_callback(lambda whole: sent.cancel() if whole.cancelled() else None)
        sent.add_done_callback(lambda found: self._settle(build, found, ended))
        return build

    def _settle(
        self, build: Build, found: Future[BuiltElsewhere | Failure], ended: Future[Compiled | BuiltElsewhere | Failure]
    ) -> None:
        """Runs in a thread of the others; what they have lost, or failed over, is made here: a fault that is not theirs
        alone shows here as well."""
        if ended.cancelled():
            return
        try:
            made = found.result()
        except (CancelledError, Exception):  # noqa: BLE001 (whatever ails another host, the search goes on without it)
            self._make_here(build, ended)
        else:
            with suppress(InvalidStateError):  # cancelled in the meantime: nobody waits for it
                ended.set_result(made)

    def _make_here(self, build: Build, ended: Future[Compiled | BuiltElsewhere | Failure]) -> None:
        try:
            again = self.home.start(build.number, build.candidate)
            assert again.compiled is not None
            again.compiled.add_done_callback(lambda compiled: _copy(again, build, compiled, ended))
        except Exception as error:  # noqa: BLE001 (whoever asks for the kernel gets it)
            with suppress(InvalidStateError):
                ended.set_exception(error)


def _copy(
    again: Build,
    build: Build,
    compiled: Future[Compiled | BuiltElsewhere | Failure],
    ended: Future[Compiled | BuiltElsewhere | Failure],
) -> None:
    """What was built at home is what the build has come to."""
    build.generated, build.predicted_us, build.seconds = again.generated, again.predicted_us, again.seconds
    try:
        made = compiled.result()
    except (CancelledError, Exception) as error:  # noqa: BLE001 (whoever asks for the kernel gets it)
        with suppress(InvalidStateError):  # cancelled in the meantime
            ended.set_exception(error)
    else:
        with suppress(InvalidStateError):
            ended.set_result(made)
