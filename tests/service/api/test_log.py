"""Logs hold what happened, and no secret of who asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from service import log

SECRET = "Bearer swordfish"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """`configure` is for a whole process."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield
    root.handlers = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_shows_no_local_variables(
    capsys: pytest.CaptureFixture[str], log_format: Literal["console", "json"]
) -> None:
    log.configure(log_format)

    def fail(authorization: str) -> None:
        raise RuntimeError("it broke")

    try:
        fail(SECRET)
    except RuntimeError:
        structlog.get_logger("service").exception("request failed")
    said = capsys.readouterr().err
    assert "it broke" in said
    assert "in fail" in said
    assert SECRET not in said
    assert "authorization" not in said.replace("def fail(authorization", "")
