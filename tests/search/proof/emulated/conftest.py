from __future__ import annotations

import pytest

from compiler.nvrtc import CompilePool


@pytest.fixture(scope="session")
def pool(ptx_pool: CompilePool) -> CompilePool:
    """Kernels are emulated here, for which PTX will do."""
    return ptx_pool
