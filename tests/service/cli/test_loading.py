"""Commands that take seconds to load say that they began."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from service.cli.app import app

WRONG = "none"


@pytest.mark.parametrize(
    ("before", "arguments"),
    [
        ("", ["--log-format", "json"]),
        ("", ["--log-format", "console", "--log-format=json"]),
        ("json", []),
    ],
)
def test_serve_says_so_in_the_format_of_its_log(
    monkeypatch: pytest.MonkeyPatch, before: str, arguments: list[str]
) -> None:
    monkeypatch.setenv("FUSETUNE_LOG_FORMAT", before)
    told = CliRunner().invoke(app, ["serve", *arguments, "--port", WRONG])
    line = json.loads(told.stderr.splitlines()[0])
    assert (line["event"], line["command"], line["level"]) == ("starting: loading", "serve", "info")
    assert "--port" in told.stderr


def test_a_worker_says_so_for_people() -> None:
    told = CliRunner().invoke(app, ["worker", "--log-format", "console", "--gpu", "none"])
    assert "starting: loading" in told.stderr.splitlines()[0]
    assert "command=worker" in told.stderr.splitlines()[0]


@pytest.mark.parametrize("arguments", [["serve", "--help"], ["keys", "--help"], ["--help"]])
def test_what_only_asks_for_help_is_not_told(arguments: list[str]) -> None:
    told = CliRunner().invoke(app, arguments)
    assert (told.exit_code, told.stderr) == (0, "")
