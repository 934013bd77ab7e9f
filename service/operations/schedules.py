"""Verdicts on explicit schedules: the same objects that `python -m compiler check --json` prints."""

from __future__ import annotations

from typing import Any

from compiler.judging import judge_all
from fusetune.wire.verdicts import ArchName, ScheduleCases
from service.operations.context import Context
from service.operations.errors import Busy


def check(context: Context, cases: ScheduleCases, arch: ArchName | None) -> list[dict[str, Any]]:
    """A verdict for each case, in order. Raises Busy while as many requests are judged as may be at once."""
    if not context.judging.acquire(blocking=False):
        raise Busy("Other schedules are being judged.")
    try:
        return [verdict.to_json() for verdict in judge_all(cases.root, arch)]
    finally:
        context.judging.release()
