"""Who issues a bulk copy, by the shape of the block and the copy's own thread axes."""

from __future__ import annotations

import pytest

from compiler.analysis.tma.issue import Issuer, issue_of
from tests.compiler.analysis.explicit_copies import bulk, document, par, scheduled, split

TILE = [split(0, 4), *bulk(1, 2)]


@pytest.mark.parametrize(
    ("width", "symbolic", "own", "issuer", "threads"),
    [
        (1, False, [], Issuer.ONLY_THREAD, 1),
        (16, False, [], Issuer.FIRST_THREAD, 1),
        (32, False, [], Issuer.ELECTED_LANE, 1),
        (64, False, [], Issuer.ELECTED_LANE_OF_FIRST_WARP, 1),
        (64, True, [], Issuer.ELECTED_LANE_OF_FIRST_WARP, 1),
        (64, False, par("TIDx", 0), Issuer.THREADS_OF_THE_COPY, 2),
    ],
)
def test_the_issuer_of_a_copy(
    width: int, symbolic: bool, own: list[dict[str, object]], issuer: Issuer, threads: int
) -> None:
    axis = par("TIDx", 1) if width > 1 else []
    data = document((8, max(width, 4)), [*TILE, *own], symbolic=symbolic, others=[("out", s) for s in axis])
    sf = scheduled(data)
    issue = issue_of(sf, next(op for op in sf.ops if op.via.is_bulk))
    assert issue.issuer is issuer
    assert issue.threads.value == threads
