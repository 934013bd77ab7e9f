"""What the counters say of single instructions, against the models they follow."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.counters import Counters, wavefronts_of
from compiler.emulate.ptx.module import StateSpace
from compiler.emulate.threads import Lanes
from tests.emulate.order.happens_before import instruction, region

WARP = np.arange(32)


def _swizzled(chunk: int, row: int, row_bytes: int) -> int:
    """The place of a 16-byte chunk of a row in the matching swizzle: chunk bits XOR the bits of the 128-byte line."""
    address = row * row_bytes + chunk * 16
    bits = {32: 1, 64: 2, 128: 3}[row_bytes]
    return address ^ (((address >> 7) & ((1 << bits) - 1)) << 4)


@pytest.mark.parametrize(
    ("offsets", "nbytes", "wavefronts", "ideal"),
    [
        (WARP * 4, 4, 1, 1),
        (WARP * 0, 4, 1, 1),
        (WARP * 8, 4, 2, 1),
        (WARP * 12, 4, 1, 1),
        (WARP * 128, 4, 32, 1),
        (WARP * 132, 4, 1, 1),
        (WARP % 2 * 128, 4, 2, 1),
        (WARP * 2, 2, 1, 1),
        (WARP, 1, 1, 1),
        (WARP * 64, 2, 16, 1),
        (WARP * 8, 8, 2, 2),
        (WARP * 16, 8, 4, 2),
        (WARP % 16 * 8 + WARP // 16 * 4096, 8, 2, 2),
        (WARP * 16, 16, 4, 4),
        (WARP * 32, 16, 8, 4),
        (WARP * 64, 16, 16, 4),
        (WARP * 128, 16, 32, 4),
        (WARP * 144, 16, 4, 4),
    ],
)
def test_wavefronts(offsets: np.ndarray, nbytes: int, wavefronts: int, ideal: int) -> None:
    assert wavefronts_of(offsets, nbytes, WARP) == (wavefronts, ideal)


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_a_swizzle_makes_a_column_of_chunks_free_of_conflicts(row_bytes: int) -> None:
    plain = np.array([row * row_bytes for row in range(32)])
    swizzled = np.array([_swizzled(0, row, row_bytes) for row in range(32)])
    assert wavefronts_of(plain, 16, WARP) == (row_bytes // 4, 4)
    assert wavefronts_of(swizzled, 16, WARP) == (4, 4)
    # Single words of a column still meet: in four banks of a chunk's worth each.
    assert wavefronts_of(swizzled, 4, WARP) == (4, 1)


def test_wavefronts_are_those_of_each_warp_by_itself() -> None:
    one = np.concatenate([WARP * 128, WARP * 4])
    assert wavefronts_of(one, 4, np.arange(64)) == (33, 2)
    some = np.array([0, 1, 40])  # lanes of two warps
    assert wavefronts_of(some * 128, 4, some) == (3, 2)


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 16])
def test_wavefronts_are_those_of_a_count_by_hand(nbytes: int) -> None:
    draw = np.random.default_rng(nbytes)
    for _ in range(50):
        lanes = np.sort(draw.choice(96, draw.integers(1, 96), replace=False))
        offsets = draw.integers(0, 64, len(lanes)) * nbytes
        passes: dict[int, set[int]] = {}
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            group = lane // {8: 16, 16: 8}.get(nbytes, 32)
            passes.setdefault(group, set()).update(range(offset // 4, (offset + nbytes - 1) // 4 + 1))
        expected = sum(max(sum(w % 32 == bank for w in words) for bank in range(32)) for words in passes.values())
        assert wavefronts_of(offsets, nbytes, lanes) == (expected, len(passes))


def test_shared_memory_is_counted_by_line() -> None:
    counters = Counters()
    for line, stride in ((1, 4), (2, 128)):
        counters.shared_access(WARP, WARP * stride, 4, line == 2, instruction(line))
    counters.shared_access(WARP, WARP * 4, 4, True)
    shared = counters.as_dict()["shared"]
    free = {"requests": 1, "wavefronts": 1, "ideal_wavefronts": 1, "bank_conflicts": 0}
    none = dict.fromkeys(free, 0)
    crowded = {"requests": 1, "wavefronts": 32, "ideal_wavefronts": 1, "bank_conflicts": 31}
    assert shared["by_line"] == {"101": {"load": free, "store": none}, "102": {"load": none, "store": crowded}}
    assert shared["load"] == free
    assert shared["store"] == {"requests": 2, "wavefronts": 33, "ideal_wavefronts": 2, "bank_conflicts": 31}


@pytest.mark.parametrize(
    ("lanes", "offsets", "nbytes", "requests", "sectors"),
    [
        (WARP, WARP * 4, 4, 1, 4),
        (WARP, WARP * 4 + 4, 4, 1, 5),
        (WARP, WARP * 0, 4, 1, 1),
        (WARP, WARP * 32, 4, 1, 32),
        (WARP, WARP[::-1] * 4, 4, 1, 4),
        (WARP, WARP * 16, 16, 1, 16),
        (WARP, WARP * 32, 32, 1, 32),
        (WARP[:3], WARP[:3] * 8, 8, 1, 1),
        (np.arange(64), np.arange(64) * 4, 4, 2, 8),
        (np.arange(64), np.zeros(64, np.int64), 4, 2, 2),
        (WARP[:1], WARP[:1] + 16, 64, 1, 3),
    ],
)
def test_global_memory(lanes: Lanes, offsets: np.ndarray, nbytes: int, requests: int, sectors: int) -> None:
    counters, x = Counters(), region("x", 64)
    counters.global_access(lanes, x, offsets, nbytes, False)
    counters.global_access(lanes, x, offsets, nbytes, True, is_atomic=True)
    expected = {"requests": requests, "sectors": sectors, "bytes": len(lanes) * nbytes}
    none = dict.fromkeys(expected, 0)
    assert counters.as_dict()["global"] == {"x": {"load": expected, "store": none, "atomic": expected}}


def test_instructions_and_copies() -> None:
    counters = Counters()
    counters.instructions("float", 4, 100, 1)
    counters.instructions("float", 2, 64)
    counters.instructions("branch", 1, 3, 1)
    counters.bulk("tensor_load", "x", 1, 4096)
    counters.bulk("tensor_load", "x", 2, 100)
    counts = counters.as_dict()
    assert counts["instructions"] == {
        "warp": 7,
        "thread": 167,
        "divergent": 2,
        "by_class": {
            "branch": {"warp": 1, "thread": 3, "divergent": 1},
            "float": {"warp": 6, "thread": 164, "divergent": 1},
        },
    }
    assert counts["bulk"] == {"tensor_load": {"x": {"boxes": 3, "bytes": 4196}}}


def test_counters_that_are_off_count_nothing() -> None:
    counters = Counters(is_on=False)
    counters.instructions("float", 1, 32)
    counters.global_access(WARP, region("x", 64, StateSpace.GLOBAL), WARP, 1, False)
    counters.shared_access(WARP, WARP, 1, False)
    counters.bulk("tensor_load", "x", 1, 4096)
    assert counters.as_dict() == Counters().as_dict()
