"""A known kernel that is proven again ends a search only if all who wait for it take that."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fusetune.wire.service import Accept
from search.measure.fake import FACTS
from search.tuning.attached import Attached
from service.db import tunings
from service.db.models import KernelRow, TuningRow
from service.jobs.tuning import TuningJobs
from tests.service.jobs.sites import FAKE_CARD, Site
from tests.service.jobs.test_reproving import Bench, Device, bench, known, right, served

__all__ = ["bench", "known"]

GPU = Accept()
EMULATED = Accept(correct=("verified_emulated",), time=("predicted",))
EITHER = Accept(correct=("verified_on_gpu", "verified_emulated"), time=("measured", "predicted"))


def join(site: Site, id: str, accept: Accept = GPU, refresh: bool = False) -> None:
    with site.db.write() as session:
        assert tunings.extend(session, id, 1.0, None, refresh, accept=accept)


class Joined(Device):
    """A GPU; somebody joins the tuning while it proves the kernel again."""

    def then(self, call: Any) -> Device:
        self.call = call
        return self

    def measure(self, *args: Any, **kwargs: Any) -> Any:
        self.call()
        return super().measure(*args, **kwargs)


def run(bench: Bench, device: Device, id: str) -> TuningRow:
    gpu = Attached(device, FACTS, FAKE_CARD, ())
    TuningJobs(bench.site.db, gpu, "w0", threading.Event()).run(id)
    return bench.site.tuning(id)


@pytest.mark.parametrize(
    ("accept", "refresh", "searched"),
    [
        pytest.param(GPU, False, 0, id="the-same"),
        pytest.param(EITHER, False, 0, id="more"),
        pytest.param(EMULATED, False, 1, id="other-evidence"),
        pytest.param(GPU, True, 1, id="a-search"),
    ],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before-it-runs", "while-it-is-proven"])
def test_it_ends_the_search_if_it_is_enough_for_all(
    bench: Bench, known: KernelRow, accept: Accept, refresh: bool, searched: int, is_late: bool
) -> None:
    id = bench.site.post(hand_over=False)
    device = Joined(right(9.0)).then(lambda: join(bench.site, id, accept, refresh) if is_late else None)
    if not is_late:
        join(bench.site, id, accept, refresh)
    row = run(bench, device, id)
    assert (row.state, row.ended, bench.searched) == ("done", "budget" if searched else "proven_again", searched)
    if is_late:  # its fresh proof is kept, also where the search went on: it is faster than what that found
        assert served(bench.site, row, GPU) == row.kernel_id
        assert served(bench.site, row, GPU) is not None
