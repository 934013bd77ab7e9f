from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from service.ci.junit import junit_xml
from service.ci.lock import CiLock
from service.ci.summary import markdown_summary, text_summary
from service.ci.verdict import EXIT_CODES, CiReport, CiVerdict, Status, worst

ALL = tuple(CiVerdict(f"f{i}", status, f"<{status}> & \x00", ("a\nb",)) for i, status in enumerate(Status))


def report_of(*verdicts: CiVerdict, asks_for_gpu: bool = True) -> CiReport:
    return CiReport(
        verdicts, "fake, driver none", asks_for_gpu, notes=("a note",), seconds=1.5, started_at="2026-01-31T10:20:30"
    )


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 4], 4),
        ([4, 3], 3),
        ([3, 1, 4], 1),
        ([1, 2, 3, 4, 0], 2),
    ],
)
def test_the_worst_is_said(codes: list[int], said: int) -> None:
    assert worst(codes) == said


def test_every_end_has_an_exit_code() -> None:
    assert EXIT_CODES.keys() == set(Status)
    for status in Status:
        assert report_of(CiVerdict("a", Status.OK), CiVerdict("b", status)).exit_code == EXIT_CODES[status]


def test_a_rebuild_is_enough_where_no_gpu_was_asked_for() -> None:
    rebuilt, untuned = CiVerdict("a", Status.REBUILT), CiVerdict("b", Status.UNTUNED)
    assert report_of(rebuilt).exit_code == 4
    assert report_of(rebuilt, asks_for_gpu=False).exit_code == 0
    assert report_of(rebuilt, untuned, asks_for_gpu=False).exit_code == 4


# What Ant's and Jenkins's (junit-10) schemas both allow: attributes of each element, its children in order.
ATTRIBUTES = {
    "testsuites": set(),
    "testsuite": {
        "name", "package", "id", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname",
    },
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message", "type"},
    "system-out": set(),
    "system-err": set(),
}  # fmt: skip
CHILDREN = {
    "testsuites": "testsuite ",
    "testsuite": "properties (testcase )*system-out system-err ",
    "properties": "(property )*",
    "testcase": "((failure|error|skipped) )?",
}


def test_junit_keeps_to_what_all_schemas_allow() -> None:
    root = ET.fromstring(junit_xml(report_of(*ALL)))
    assert root.tag == "testsuites"
    for element in root.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
        children = "".join(f"{child.tag} " for child in element)
        assert re.fullmatch(CHILDREN.get(element.tag, ""), children), (element.tag, children)
    suite = root[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    cases = suite.findall("testcase")
    assert [case.attrib["name"] for case in cases] == [verdict.name for verdict in ALL]
    for kind in ("failure", "error", "skipped"):
        counted = suite.attrib["skipped" if kind == "skipped" else f"{kind}s"]
        assert int(counted) == len(suite.findall(f"testcase/{kind}"))
    assert int(suite.attrib["tests"]) == len(ALL)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.OK, None),
        (Status.TUNED, None),
        (Status.WRONG, "failure"),
        (Status.CHANGED, "failure"),
        (Status.SLOWER, "failure"),
        (Status.MISS, "failure"),
        (Status.NO_KERNEL, "failure"),
        (Status.NOT_BUILT, "error"),
        (Status.GPU_LOST, "error"),
        (Status.UNUSABLE, "error"),
        (Status.REBUILT, "skipped"),
        (Status.UNTUNED, "skipped"),
    ],
)
def test_a_verdict_is_a_failure_an_error_or_skipped(status: Status, kind: str | None) -> None:
    case = ET.fromstring(junit_xml(report_of(CiVerdict("a", status, "why", ("more",)))))[0].find("testcase")
    assert case is not None
    assert [child.tag for child in case] == ([] if kind is None else [kind])
    if kind is not None:
        assert case[0].attrib["message"] == f"{status}: why"
        assert case[0].text == "why\nmore"


def test_junit_has_times_as_properties(lock: CiLock) -> None:
    entry = lock.fusions["add"]
    verdict = CiVerdict("add", Status.OK, "", (), entry, locked_us=10.0, measured_us=10.25, seconds=0.5)
    root = ET.fromstring(junit_xml(report_of(verdict)))
    found = {p.attrib["name"]: p.attrib["value"] for p in root.iter("property")}
    assert found["add.measured_us"] == "10.250"
    assert found["add.locked_us"] == "10.000"
    assert found["add.floor_us"] == f"{entry.floor_us:.3f}"
    assert found["exit_code"] == "0"
    assert root[0].find("testcase[@time='0.500']") is not None


def test_what_was_not_run_has_no_property_and_no_figure() -> None:
    untimed = report_of(CiVerdict("add", Status.REBUILT, "same", locked_us=10.0))
    assert "add.measured_us" not in junit_xml(untimed)
    assert re.search(r"^add +rebuilt, not run here +- +10\.00 +-$", text_summary(untimed), re.MULTILINE)


def test_the_text_says_it_all() -> None:
    text = text_summary(report_of(*ALL))
    for verdict in ALL:
        assert f"{verdict.name}: {verdict.status}: {verdict.message}" in text
    assert "a note" in text
    assert text.endswith("Exit code 2: a file cannot be used.")


def test_markdown_shows_names_as_they_are() -> None:
    page = markdown_summary(report_of(CiVerdict("a|b_<i>", Status.WRONG, "`x`\n[y](z)")))
    assert "| a\\|b\\_&lt;i&gt; | wrong | - | - | - |" in page
    assert "wrong: \\`x\\` \\[y\\](z)" in page
    assert page.startswith("### fusetune: a kernel is wrong")
