"""Options of the test suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("fusetune", settings(), deadline=None)
settings.load_profile("fusetune")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is generated now")
