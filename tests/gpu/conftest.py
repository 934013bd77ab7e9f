from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from compiler.nvrtc import CompilePool


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    """As many compilers as a machine with a card keeps busy: its tests ask for many kernels at once."""
    with CompilePool(min(8, os.cpu_count() or 1)) as pool:
        yield pool
