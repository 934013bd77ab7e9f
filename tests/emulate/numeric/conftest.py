"""The arithmetic of the emulator runs with NumPy's floating-point warnings off, as the machine runs it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def without_floating_point_warnings() -> Iterator[None]:
    """Overflow, invalid operations and the like are results here, not mistakes."""
    with np.errstate(all="ignore"):
        yield
