"""Options of the test suite, and how its processes collect garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from compiler.nvrtc import CompilePool
from tests.compilers import SharedPool

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("fusetune", settings(), deadline=None)
settings.load_profile("fusetune")

YOUNG = 20_000
"""Objects made before young ones are collected: at Python's 700 a fifth of the suite's time is spent collecting."""

gc.disable()  # what is imported and collected here stays: going through it again and again finds nothing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is generated now")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    """A compiler process, started by the first who asks for a kernel."""
    with SharedPool() as shared:
        yield shared
