"""Shapes, schedules, evidence and snippets in words."""

from __future__ import annotations

import itertools
from typing import Any, get_args
from unittest.mock import patch

import pytest
from starlette.testclient import TestClient

import fusetune.client
from fusetune.query import query_of, read_accept
from fusetune.wire.artifact import Correct, Evidence, ScalarSpec, Time
from fusetune.wire.bound import apply_binding
from fusetune.wire.service import KernelView
from service.dashboard.evidence import badges, time_badge
from service.dashboard.schedule_text import TextPart, knobs_by_launch, parts, step_lines, steps_of
from service.dashboard.shapes import shapes
from service.dashboard.snippets import first_request, kernel_call
from tests.service.api.world import ADD, BINDING, artifact_document
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import Seeded

BY = "\N{MULTIPLICATION SIGN}"
NEG: dict[str, Any] = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "i0", "shape": ["s0", 8], "dtype": "f32"}],
    "ops": [{"op": "neg", "in": ["i0"], "out": "v0"}],
    "outputs": [{"name": "v0"}],
}


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        pytest.param({"sizes": {"s0": 4}}, f"4{BY}8 f32 → 4{BY}8 f32", id="dense"),
        pytest.param(
            {"sizes": {"s0": 4}, "inputs": [{"strides": [8, 1], "align": 16}]},
            f"4{BY}8 f32 → 4{BY}8 f32",
            id="spelled-out",
        ),
        pytest.param(
            {"sizes": {"s0": 4}, "inputs": [{"strides": [1, 4], "align": 4}]},
            f"4{BY}8 f32 (strides 1, 4; aligned to 4 B) → 4{BY}8 f32",
            id="layout",
        ),
        pytest.param({"sizes": {"M": 4, "N": 2}}, "M = 4, N = 2", id="other-symbols"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_shapes(binding: dict[str, Any], words: str) -> None:
    assert shapes(NEG, binding) == words


def test_shapes_are_worked_out_once() -> None:
    binding = {"sizes": {"s0": 4096 + 17}}
    with patch("service.dashboard.shapes.apply_binding", wraps=apply_binding) as worked_out:
        told = {shapes(dict(NEG), dict(binding)) for _ in range(3)}
    assert (len(told), worked_out.call_count) == (1, 1)


def split(tv: str, axis: int = 0) -> dict[str, Any]:
    return {"do": "split", "tv": tv, "axis": axis, "factor": 4, "inner": True}


def test_equal_steps_of_neighbours_are_said_once() -> None:
    steps = [
        {"do": "cache_input", "tensor": "i0", "out": "i0_s", "memory": "shared", "via": "plain"},
        split("a"), split("a", 1), split("b"), split("b", 1), split("c"),
        {"do": "parallelize", "tv": "c", "axis": 0, "type": "BIDx"},
        {"do": "reorder", "tv": "c", "moves": [[0, 1], [1, 0]]},
        {"do": "cap_registers", "count": 64},
    ]  # fmt: skip
    assert parts(steps) == (
        TextPart(("i0",), ("cache_input out i0_s, memory shared",)),
        TextPart(("a", "b"), ("split axis 0, factor 4", "split axis 1, factor 4")),
        TextPart(("c",), ("split axis 0, factor 4", "parallelize axis 0, type BIDx", "reorder moves ((0 1) (1 0))")),
        TextPart(("",), ("cap_registers count 64",)),
    )
    assert step_lines(steps)[1] == "a: split axis 0, factor 4"
    assert step_lines(steps)[-1] == "cap_registers count 64"
    assert parts([]) == ()


def test_steps_of_several_launches_stand_below_what_each_reads_and_writes() -> None:
    split = {"do": "split", "tv": "a", "axis": 0, "factor": 4, "inner": True}
    launches = [
        {"reads": ["i0"], "writes": ["s0", "v1"], "steps": [split]},
        {"reads": ["s0"], "writes": ["v2"], "steps": []},
    ]
    assert step_lines(steps_of({"launches": launches})) == (
        "launch 0: launch reads (i0), writes (s0 v1)",
        "a: split axis 0, factor 4",
        "launch 1: launch reads (s0), writes (v2)",
    )
    assert steps_of({"steps": [split]}) == [split]


def test_settings_are_told_launch_by_launch() -> None:
    assert knobs_by_launch({"vector": 4, "stages": 1}) == [("", {"vector": 4, "stages": 1})]
    assert knobs_by_launch({"0.vector": 4, "1.vector": 2, "0.math": "exact"}) == [
        ("launch 0", {"vector": 4, "math": "exact"}),
        ("launch 1", {"vector": 2}),
    ]
    assert knobs_by_launch({}) == []


def test_an_outer_split_and_nested_steps_are_told_apart() -> None:
    outer = split("a") | {"inner": False}
    nested = {"do": "set_allocation_domain", "tv": "a", "axes": [0], "transforms": [split("a")], "strides": [None]}
    assert step_lines([outer]) == ("a: split axis 0, factor 4, inner no",)
    assert step_lines([nested]) == (
        "a: set_allocation_domain axes (0), transforms ([split axis 0, factor 4]), strides (none)",
    )


@pytest.mark.parametrize(("correct", "time"), list(itertools.product(get_args(Correct), get_args(Time))))
def test_every_evidence_has_its_own_words(correct: Correct, time: Time) -> None:
    right, timed = badges(Evidence(correct=correct, time=time), "H200")
    assert (right.tone == "good") is (correct == "verified_on_gpu")
    assert (timed.text == "measured") is (timed.tone == "good") is (time == "measured")
    assert [badge.text for badge in badges(Evidence(correct=correct, time=time), "fake")] == [
        "fake device, not hardware"
    ]


def test_times_of_the_fake_device_are_never_called_measured() -> None:
    assert time_badge("H200").text == "measured"
    assert time_badge("fake").tone == "caution"


class Recorder:
    """Takes a client's place and keeps what it is asked."""

    asked: list[tuple[Any, Any]]
    accepted: list[Any]

    def __init__(self, url: str) -> None:
        assert url == "http://127.0.0.1"

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tune(self, fusion: Any, *, binding: Any, **_: Any) -> None:
        self.asked.append((fusion, binding))

    def kernel(self, fusion: Any, *, binding: Any, card: str, accept: Any = None) -> Any:
        self.asked.append((fusion, binding))
        self.accepted.append(accept)
        return lambda *tensors: tensors


def run(snippet: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.setattr(fusetune.client, "Client", Recorder)
    monkeypatch.setattr(Recorder, "asked", [], raising=False)
    monkeypatch.setattr(Recorder, "accepted", [], raising=False)
    exec(compile(snippet, "snippet", "exec"), {})
    (asked,) = Recorder.asked
    return asked


def test_the_first_request_is_one_that_a_client_takes(monkeypatch: pytest.MonkeyPatch, ids: Seeded) -> None:
    fusion, binding = run(first_request("http://127.0.0.1").python, monkeypatch)
    assert query_of(fusion, None, binding).fingerprint == ids.fusion


def test_the_shells_first_request_is_one_that_the_service_takes(empty: TestClient) -> None:
    body = first_request("http://h").curl.split("-d '")[1].rstrip("'\n")
    response = empty.post("/v1/tunings", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 202, response.text


@pytest.mark.parametrize("which", ["kernel", "emulated_kernel"])
def test_a_kernels_snippet_accepts_its_evidence(
    monkeypatch: pytest.MonkeyPatch, reader: TestClient, ids: Seeded, which: str
) -> None:
    """A request that says nothing accepts neither the emulator's proof nor a prediction."""
    id = getattr(ids, which)
    snippet = "".join(HtmlPage(reader.get(f"/kernels/{id}").text).one("pre", id="call")._texts())
    run(snippet.split("\nx0 = ")[0].replace("import torch\n", ""), monkeypatch)
    (accepted,) = Recorder.accepted
    assert (accepted is None) is (which == "kernel")
    view = KernelView.model_validate_json(reader.get(f"/v1/kernels/{id}/info").content)
    assert read_accept(accepted).allows(view.evidence)


def test_a_snippet_passes_scalars_after_the_tensors() -> None:
    scalars = (ScalarSpec(dtype="f64"), ScalarSpec(dtype="i64"))
    artifact = artifact_document("").model_copy(update={"scalars": scalars})
    assert "y = kernel(x0, x1, 1.0, 1)" in kernel_call("http://here", "card", ADD, BINDING, artifact)


def test_shapes_name_scalars_after_the_tensors() -> None:
    fusion = {**NEG, "scalars": [{"name": "lr", "dtype": "f64"}]}
    assert shapes(fusion, {"sizes": {"s0": 4}}) == f"4{BY}8 f32, f64 by value → 4{BY}8 f32"


def test_a_kernels_snippet_asks_for_that_kernel(
    monkeypatch: pytest.MonkeyPatch, reader: TestClient, ids: Seeded
) -> None:
    snippet = "".join(HtmlPage(reader.get(f"/kernels/{ids.kernel}").text).one("pre", id="call")._texts())
    assert 'torch.ones((8192, 4096), dtype=torch.bfloat16, device="cuda")' in snippet
    before_tensors = snippet.split("\nx0 = ")[0].replace("import torch\n", "")
    fusion, binding = run(before_tensors, monkeypatch)
    view = reader.get(f"/v1/kernels/{ids.kernel}/info").json()
    query = query_of(fusion, None, binding)
    assert (query.fingerprint, query.binding_hash) == (view["fingerprint"], view["binding"])
