from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.memory.bank_conflicts import ideal_wavefronts, wavefronts

Swizzle = Callable[[int], int]


def plain(address: int) -> int:
    return address


def swizzle_32(address: int) -> int:
    return address ^ (address >> 3 & 0x10)


def swizzle_64(address: int) -> int:
    return address ^ (address >> 3 & 0x30)


def swizzle_128(address: int) -> int:
    return address ^ (address >> 3 & 0x70)


ROWS = [
    (32, plain),
    (32, swizzle_32),
    (64, plain),
    (64, swizzle_64),
    (128, plain),
    (128, swizzle_128),
]


@pytest.mark.parametrize(
    ("row_bytes", "swizzle", "column", "ldmatrix"),
    [
        (row, swizzle, *expected)
        for (row, swizzle), expected in zip(ROWS, [(8, 8), (4, 4), (16, 16), (4, 4), (32, 32), (4, 4)], strict=True)
    ],
)
def test_16_byte_accesses_of_swizzled_rows(row_bytes: int, swizzle: Swizzle, column: int, ldmatrix: int) -> None:
    along_the_row = [swizzle(16 * lane) for lane in range(32)]
    down_a_column = [swizzle(row_bytes * lane) for lane in range(32)]
    # ldmatrix.x4: lanes 8m .. 8m+7 address eight rows of chunk m.
    chunks = row_bytes // 16
    matrices = [
        swizzle((lane % 8 + 8 * (lane // 8 // chunks)) * row_bytes + lane // 8 % chunks * 16) for lane in range(32)
    ]
    assert wavefronts(along_the_row, 16) == 4
    assert wavefronts(down_a_column, 16) == column
    assert wavefronts(matrices, 16) == ldmatrix


@pytest.mark.parametrize(
    ("row_bytes", "swizzle", "ways"),
    [(row, swizzle, ways) for (row, swizzle), ways in zip(ROWS, [8, 4, 16, 4, 32, 4], strict=True)],
)
def test_words_down_a_column_of_swizzled_rows(row_bytes: int, swizzle: Swizzle, ways: int) -> None:
    assert wavefronts([swizzle(row_bytes * lane) for lane in range(32)], 4) == ways


def _transposed_stores(elem_bytes: int, layout: str) -> list[int]:
    """Lane i of 8 along a row holds column i*V of a block transposed in registers, and stores row c of the transposed
    tile: 4 lane groups store 4 neighbouring chunks."""
    v = 16 // elem_bytes
    pitch = 128 + (16 if layout == "pad" else 0)
    addresses = []
    for lane in range(32):
        row, chunk = lane % 8 * v, lane // 8
        if layout == "xor row":
            chunk ^= row & 7
        elif layout == "xor row/V":
            chunk ^= row // v & 7
        addresses.append(row * pitch + chunk * 16)
    return addresses


@pytest.mark.parametrize(
    ("elem_bytes", "layout", "expected"),
    [
        (4, "none", 32),
        (4, "pad", 16),
        (4, "xor row", 16),
        (4, "xor row/V", 4),
        (2, "none", 32),
        (2, "pad", 32),
        (2, "xor row", 32),
        (2, "xor row/V", 4),
        (1, "none", 32),
        (1, "pad", 32),
        (1, "xor row", 32),
        (1, "xor row/V", 4),
    ],
)
def test_stores_of_register_transposed_blocks(elem_bytes: int, layout: str, expected: int) -> None:
    assert wavefronts(_transposed_stores(elem_bytes, layout), 16) == expected


@pytest.mark.parametrize(("elem_bytes", "pitch_elems"), [(4, 33), (2, 66), (1, 132)])
def test_an_odd_word_pitch_frees_scalar_columns(elem_bytes: int, pitch_elems: int) -> None:
    assert wavefronts([lane * pitch_elems * elem_bytes for lane in range(32)], elem_bytes) == 1
    assert wavefronts([lane * (pitch_elems - 4 // elem_bytes) * elem_bytes for lane in range(32)], elem_bytes) == 32


@pytest.mark.parametrize(
    ("addresses", "width_bytes", "expected"),
    [
        pytest.param([0] * 32, 4, 1, id="one-word-is-broadcast"),
        pytest.param([0] * 32, 16, 4, id="one-vector-is-broadcast-to-each-phase"),
        pytest.param(list(range(32)), 1, 1, id="bytes-of-eight-words"),
        pytest.param([2 * lane for lane in range(32)], 2, 1, id="halves-of-sixteen-words"),
        pytest.param([4 * lane for lane in range(32)], 4, 1, id="every-bank-once"),
        pytest.param([16 * lane for lane in range(16)], 16, 2, id="half-a-warp"),
        pytest.param([8 * lane for lane in range(32)], 4, 2, id="every-other-bank-twice"),
        pytest.param([8 * lane for lane in range(32)], 8, 2, id="8-bytes-dense"),
        pytest.param([128 * (lane % 16) + 8 * (lane // 16) for lane in range(32)], 8, 32, id="8-bytes-down-a-column"),
        pytest.param([128 * (lane // 16) + 8 * (lane % 16) for lane in range(32)], 8, 2, id="half-warps-do-not-meet"),
        pytest.param(
            [128 * (lane // 8) + 16 * (lane % 8) for lane in range(32)], 16, 4, id="quarter-warps-do-not-meet"
        ),
    ],
)
def test_phases_and_broadcast(addresses: list[int], width_bytes: int, expected: int) -> None:
    assert wavefronts(addresses, width_bytes) == expected


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 500), min_size=32, max_size=32), st.integers(0, 9))
@settings(derandomize=True, max_examples=150, deadline=None)
def test_laws(width_bytes: int, units: list[int], shift: int) -> None:
    addresses = [unit * width_bytes for unit in units]
    count = wavefronts(addresses, width_bytes)
    assert ideal_wavefronts(width_bytes) <= count <= 32
    assert count == wavefronts([address + 128 * shift for address in addresses], width_bytes)
    lanes = 32 // ideal_wavefronts(width_bytes)
    assert count == wavefronts([*addresses[lanes:], *addresses[:lanes]], width_bytes)


@pytest.mark.parametrize(
    ("addresses", "width_bytes", "message"),
    [
        ([0] * 33, 4, "found 33"),
        ([], 4, "found 0"),
        ([0] * 32, 3, "found 3"),
        ([0] * 31 + [8], 16, r"addresses\[31\]: found 8"),
        ([-4] + [0] * 31, 4, r"addresses\[0\]: found -4"),
    ],
)
def test_impossible_accesses_are_refused(addresses: list[int], width_bytes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wavefronts(addresses, width_bytes)
