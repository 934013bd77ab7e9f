from __future__ import annotations

from collections.abc import Iterator

import pytest

from compiler.nvrtc import CompilePool


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    with CompilePool(1) as pool:
        pool.start()
        yield pool
