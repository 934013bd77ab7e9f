"""What a timeline keeps of spans, and how long it says that the GPU waited."""

from __future__ import annotations

import json

import pytest

from compiler.child import StartUp
from fusetune.wire.timeline import TimelineView
from search.tuning.timeline import GPU, MAIN, SearchStage, Span, Timeline, taken


def timeline(*spans: tuple[SearchStage, str, float, float, float]) -> Timeline:
    """One that began at second 100."""
    told = Timeline(100.0)
    told.add(*(Span(stage, process, 100.0 + begun, 100.0 + ended, cpu) for stage, process, begun, ended, cpu in spans))
    return told


def test_spans_of_one_stage_and_process_add_up_in_the_order_of_stages() -> None:
    told = timeline(
        (SearchStage.DRAFTING, "draft-1", 3.0, 3.5, 0.4),
        (SearchStage.DRAFTING, "draft-0", 2.0, 3.0, 0.5),
        (SearchStage.IMPORTS, MAIN, 0.0, 1.0, 0.9),
        (SearchStage.DRAFTING, "draft-0", 1.0, 2.0, 0.25),
    ).record()
    assert [(one.stage, one.process, one.spans) for one in told.spent] == [
        (SearchStage.IMPORTS, MAIN, 1),
        (SearchStage.DRAFTING, "draft-0", 2),
        (SearchStage.DRAFTING, "draft-1", 1),
    ]
    drafts = told.spent[1]
    assert (drafts.begun_s, drafts.ended_s, drafts.wall_s, drafts.cpu_s) == (1.0, 3.0, 2.0, 0.75)


def test_what_ended_before_it_began_is_left_out() -> None:
    told = timeline((SearchStage.IMPORTS, GPU, -9.0, -1.0, 3.0), (SearchStage.LIMITS, GPU, -1.0, 1.0, 0.5))
    assert [one.stage for one in told.record().spent] == [SearchStage.LIMITS]


@pytest.mark.parametrize(
    ("cubin", "busy", "idle"),
    [
        pytest.param(None, [(5.0, 6.0)], None, id="nothing-compiled"),
        pytest.param(4.0, [], None, id="nothing-measured"),
        pytest.param(4.0, [(5.0, 6.0), (7.0, 8.0)], 0.5, id="half"),
        pytest.param(4.0, [(3.0, 5.0), (5.0, 8.0)], 0.0, id="what-was-before-the-first-cubin-does-not-count"),
    ],
)
def test_idle_is_what_is_left_of_the_time_from_the_first_cubin(
    cubin: float | None, busy: list[tuple[float, float]], idle: float | None
) -> None:
    told = timeline(*([] if cubin is None else [(SearchStage.COMPILING, "compilers", cubin - 1, cubin, 1.0)]))
    for begun, ended in busy:
        told.measured(0, 100.0 + begun, 100.0 + ended)
    assert told.record().gpu_idle == idle


@pytest.mark.parametrize(
    ("second", "idle"),
    [
        pytest.param((None, None, []), 0.0, id="alone"),
        pytest.param((None, None, [(6.0, 8.0)]), 0.25, id="there-from-the-beginning"),
        pytest.param((6.0, None, [(6.0, 8.0)]), 0.0, id="joined-and-busy-since"),
        pytest.param((6.0, None, []), 2 / 6, id="joined-and-never-busy"),
        pytest.param((4.0, 6.0, [(4.0, 6.0)]), 0.0, id="left"),
        pytest.param((4.0, 6.0, [(5.0, 9.0)]), 1 / 6, id="what-ends-after-it-left-does-not-count"),
        pytest.param((9.0, None, []), 0.0, id="joined-after-the-last-measurement"),
    ],
)
def test_idle_counts_every_gpu_while_it_takes_part(
    second: tuple[float | None, float | None, list[tuple[float, float]]], idle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = timeline((SearchStage.COMPILING, "compilers", 3.0, 4.0, 1.0))
    told.measured(0, 104.0, 108.0)
    joined, left, busy = second
    for at, tell in ((joined, told.joined), (left, told.left)):
        if at is not None:
            monkeypatch.setattr("time.monotonic", lambda at=at: 100.0 + at)
            tell(1)
    for begun, ended in busy:
        told.measured(1, 100.0 + begun, 100.0 + ended)
    assert told.record().gpu_idle == pytest.approx(idle)


def test_a_gpu_that_is_needed_again_was_not_there_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    told = timeline((SearchStage.COMPILING, "compilers", 3.0, 4.0, 1.0))
    told.measured(0, 104.0, 106.0)
    for at, tell in ((4.0, told.joined), (5.0, told.left), (7.0, told.joined)):
        monkeypatch.setattr("time.monotonic", lambda at=at: 100.0 + at)
        tell(1)
    monkeypatch.setattr("time.monotonic", lambda: 106.0)
    told.left(0)
    told.measured(1, 104.0, 105.0)
    told.measured(1, 107.0, 108.5)
    assert told.record().gpu_idle == pytest.approx(0.0)


def test_spans_are_taken_here_in_threads_and_in_children() -> None:
    told = Timeline()
    with told.span(SearchStage.RANKING), told.measuring():
        pass
    spans: list[Span] = []
    with pytest.raises(ValueError, match="kernel"), taken(SearchStage.VERIFYING, spans):
        raise ValueError("kernel")
    told.add(*spans, Span.of_start("draft-0", StartUp(told.began_s, told.began_s + 1.0, 0.5)))
    found = {one.stage: one.process for one in told.record().spent}
    assert found == {SearchStage.IMPORTS: "draft-0", SearchStage.RANKING: MAIN, SearchStage.VERIFYING: GPU}


def test_the_record_is_what_the_service_answers_and_a_table() -> None:
    told = timeline((SearchStage.COMPILING, "compilers", 1.0, 2.0, 0.98765), (SearchStage.TIMING, GPU, 2.0, 3.0, 0.1))
    told.measured(0, 102.0, 103.0)
    record = told.record()
    view = TimelineView.model_validate_json(json.dumps(record.to_json()))
    assert [one.stage for one in view.stages] == ["compiling", "timing"]
    assert (view.first_cubin_s, view.gpu_idle) == (2.0, 0.0)
    titles, *rows, whole = record.table()
    assert titles == ("stage", "process", "times", "from s", "to s", "wall s", "cpu s")
    assert rows[0] == ("compiling", "compilers", "1", "1.00", "2.00", "1.00", "0.99")
    assert (whole[0], whole[-1]) == ("all", "1.09")
    assert record.words == "From the first cubin on, GPUs had nothing to measure for 0% of their time."


def test_the_first_kernel_and_what_was_begun_from_are_told_once() -> None:
    told = Timeline()
    assert TimelineView.model_validate_json(json.dumps(told.record().to_json())).first_kernel_s is None
    told.begun_from = "Begun from 2 of other sizes."
    told.first_kernel()
    first = told.record().first_kernel_s
    told.first_kernel()
    view = TimelineView.model_validate_json(json.dumps(told.record().to_json()))
    assert first is not None
    assert view.first_kernel_s == round(first, 3)
    assert view.begun_from == "Begun from 2 of other sizes."
