"""Ctrl-C before a command has begun: while its modules are loaded, which takes seconds where there is torch."""

from __future__ import annotations

import runpy
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

LOADED = {"search": "search.cli.app", "service": "service.cli.app", "compiler": "compiler.cli"}


class Interrupting(MetaPathFinder):
    """Stands for the user, who presses Ctrl-C when `name` is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, *_: Any) -> None:
        if name == self.name:
            raise KeyboardInterrupt


@pytest.mark.parametrize("package", LOADED)
def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    name = LOADED[package]
    monkeypatch.setattr(sys, "meta_path", [Interrupting(name), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", [package, "--help"])
    for known in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, known)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(package, run_name="__main__")
    assert ended.value.code == 130
