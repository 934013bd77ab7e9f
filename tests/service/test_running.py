"""The environment that tests give the processes of a service."""

from __future__ import annotations

import os

import pytest

from tests.nursery import ROOT, python_path

TREE = [str(ROOT), str(ROOT / "sdk")]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param(None, [], id="none"),
        pytest.param("", [], id="empty"),
        pytest.param(os.pathsep.join(["/packages", "/more"]), ["/packages", "/more"], id="two-folders"),
    ],
)
def test_the_callers_path_comes_after_the_tree(
    given: str | None, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONPATH", given)
    assert python_path().split(os.pathsep) == TREE + added
