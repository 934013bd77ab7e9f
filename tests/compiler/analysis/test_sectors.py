import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.sectors import sectors


@pytest.mark.parametrize(
    ("addresses", "width_bytes", "expected"),
    [
        pytest.param([16 * i for i in range(32)], 16, (16, 8, 4), id="512-contiguous-bytes"),
        pytest.param([4 * i for i in range(32)], 4, (4, 2, 1), id="one-line"),
        pytest.param([4 + 4 * i for i in range(32)], 4, (5, 3, 2), id="one-line-shifted-by-a-word"),
        pytest.param([2 * i for i in range(32)], 2, (2, 1, 1), id="one-half-line"),
        pytest.param([128 * i for i in range(32)], 16, (32, 32, 32), id="16-bytes-a-line"),
        pytest.param([64 * (i // 2) + 16 * (i % 2) for i in range(32)], 16, (16, 16, 8), id="a-sector-a-half-line"),
        pytest.param([1024 * (i // 8) + 16 * (i % 8) for i in range(32)], 16, (16, 8, 4), id="4-lines-apart"),
        pytest.param([0] * 32, 4, (1, 1, 1), id="broadcast"),
        pytest.param([32 * i for i in range(32)], 32, (32, 16, 8), id="32-byte-vectors"),
        pytest.param([], 4, (0, 0, 0), id="all-lanes-masked"),
    ],
)
def test_footprint_of_a_warp(addresses: list[int], width_bytes: int, expected: tuple[int, int, int]) -> None:
    assert sectors(addresses, width_bytes) == expected


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 5000), max_size=32))
@settings(derandomize=True, max_examples=100, deadline=None)
def test_pieces_nest(width_bytes: int, units: list[int]) -> None:
    footprint = sectors([unit * width_bytes for unit in units], width_bytes)
    assert footprint.lines <= footprint.half_lines <= 2 * footprint.lines
    assert footprint.half_lines <= footprint.sectors <= 2 * footprint.half_lines
    assert footprint.sectors * 32 >= len(set(units)) * width_bytes


@pytest.mark.parametrize(("addresses", "width_bytes"), [([2], 4), ([0], 3), ([0], 64), ([-4], 4)])
def test_impossible_accesses_are_refused(addresses: list[int], width_bytes: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        sectors(addresses, width_bytes)
