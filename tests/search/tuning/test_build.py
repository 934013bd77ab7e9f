"""A build that is cancelled stops where it is: nothing of it begins any more."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft
from search.tuning.failing import Failure
from search.tuning.trial import TrialState

CANDIDATE = Candidate.of("any", {"n": 1})
DRAFT = Draft(SimpleNamespace(source="text"), 2.0, 0.5)  # type: ignore[arg-type]  # a stand-in


class Later:
    """A drafter and a compiler whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def submit(self, *what: object) -> Future[Any]:
        self.asked.append(Future())
        return self.asked[-1]

    finish = submit


def compiled(log: str = "") -> Any:
    return SimpleNamespace(seconds=0.25, cpu_seconds=0.2, log=log)


def under_way() -> tuple[Builder, Later, Later]:
    drafter, compiler = Later(), Later()
    return (
        Builder(drafter, compiler, "sm_90a", artifact=lambda generated, compiled: cast("Any", compiled)),
        drafter,
        compiler,
    )


def test_a_build_that_waits_for_its_draft_takes_it_back() -> None:
    builder, drafter, compiler = under_way()
    build = builder.start(0, CANDIDATE)
    build.cancel()
    assert drafter.asked[0].cancelled()
    assert compiler.asked == []


def test_a_draft_that_ends_after_its_build_was_cancelled_is_not_compiled() -> None:
    builder, drafter, compiler = under_way()
    build = builder.start(0, CANDIDATE)
    drafter.asked[0].set_running_or_notify_cancel()  # too late to take it back
    build.cancel()
    drafter.asked[0].set_result(DRAFT)
    assert compiler.asked == []


def test_a_build_that_waits_for_the_compiler_takes_its_compile_back() -> None:
    builder, drafter, compiler = under_way()
    build = builder.start(0, CANDIDATE)
    drafter.asked[0].set_result(DRAFT)
    build.cancel()
    assert compiler.asked[0].cancelled()


@pytest.mark.parametrize("is_drafted", [False, True], ids=["draft", "compile"])
def test_what_was_not_cancelled_is_finished(*, is_drafted: bool) -> None:
    builder, drafter, compiler = under_way()
    build = builder.start(0, CANDIDATE)
    failure = Failure(TrialState.UNSUPPORTED, "that")
    drafter.asked[0].set_result(DRAFT if is_drafted else failure)
    assert build.is_ready is not is_drafted
    if is_drafted:
        compiler.asked[0].set_result(compiled())
        assert builder.finish(build) is compiler.asked[0].result()
        assert (build.predicted_us, build.seconds) == (2.0, {"generate": 0.5, "compile": 0.25})
    else:
        assert builder.finish(build) is failure
        assert compiler.asked == []


SERIAL = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function 'fusetune_kernel'"
)


@pytest.mark.parametrize(
    ("log", "why"), [("ptxas info    : Used 168 registers", ""), (f"ptxas info\n{SERIAL}\n{SERIAL}", SERIAL)]
)
def test_products_that_wait_for_one_another_are_a_kernel_that_failed(log: str, why: str) -> None:
    builder, drafter, compiler = under_way()
    build = builder.start(0, CANDIDATE)
    drafter.asked[0].set_result(DRAFT)
    compiler.asked[0].set_result(compiled(log))
    built = builder.finish(build)
    assert isinstance(built, Failure) == bool(why)
    if isinstance(built, Failure):
        assert built.state is TrialState.COMPILE_FAILED
        assert built.reason.count(why) == 1
