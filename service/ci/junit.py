"""The report as JUnit XML: one test case a fusion.

The schemas in use differ (Ant's, Jenkins's junit-10, what GitLab reads). This is the part that all of them take: one
suite with every count, date and host; properties and output on the suite, since only some allow them on a case; in a
case at most one of failure, error and skipped.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from service.ci.verdict import GOOD, NEEDS_GPU, CiReport, CiVerdict, Status

_SUITE = "fusetune"
_CLASS = "fusetune.ci"
_ERRORS = frozenset({Status.NOT_BUILT, Status.GPU_LOST, Status.UNUSABLE})
"""Ends in which there was nothing to judge; other bad ends are failures."""

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 (section 2.2, Char) cannot hold, escaped or not."""


def junit_xml(report: CiReport) -> str:
    """The document. Times of test cases are wall seconds; kernel times are properties of the suite, in microseconds."""
    kinds = [_kind(report, verdict) for verdict in report.verdicts]
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_SUITE,
        package=_SUITE,
        id="0",
        tests=str(len(kinds)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{report.seconds:.3f}",
        timestamp=report.started_at,
        hostname=_clean(socket.gethostname()),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for verdict, kind in zip(report.verdicts, kinds, strict=True):
        case = ET.SubElement(
            suite, "testcase", classname=_CLASS, name=_clean(verdict.name), time=f"{verdict.seconds:.3f}"
        )
        if kind is not None:
            message = _clean(f"{verdict.status}: {verdict.message}")
            outcome = ET.SubElement(case, kind, message=message, type=_type(verdict.status))
            outcome.text = _clean("\n".join((verdict.message, *verdict.details)))
    ET.SubElement(suite, "system-out").text = _clean("\n".join(_lines(report)))
    ET.SubElement(suite, "system-err")
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _kind(report: CiReport, verdict: CiVerdict) -> str | None:
    """The element that a verdict becomes inside its test case; None for a passed one."""
    code = report.exit_code_of(verdict)
    if code in (GOOD, NEEDS_GPU):
        return None if code == GOOD else "skipped"
    return "error" if verdict.status in _ERRORS else "failure"


def _type(status: Status) -> str:
    return f"fusetune.{status.name.lower()}"


def _properties(report: CiReport) -> Iterator[tuple[str, str]]:
    yield "device", report.device
    yield "exit_code", str(report.exit_code)
    for verdict in report.verdicts:
        yield f"{verdict.name}.status", verdict.status.value
        for name, value in (
            ("measured_us", verdict.measured_us),
            ("locked_us", verdict.locked_us),
            ("floor_us", verdict.floor_us),
        ):
            if value is not None:
                yield f"{verdict.name}.{name}", f"{value:.3f}"


def _lines(report: CiReport) -> Iterator[str]:
    for verdict in report.verdicts:
        yield f"{verdict.name}: {verdict.status}: {verdict.message}"
    yield from report.notes


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
