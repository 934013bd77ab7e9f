"""Pads, flips, strided slices and constants on the card, as torch on the card computes them."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.gpu

POINTS = 4
