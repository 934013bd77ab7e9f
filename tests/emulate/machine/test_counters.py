"""Sectors, wavefronts and bank conflicts, counted as the hardware's rules have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.counters import Counters
from compiler.emulate.memory.region import MemoryRegion
from compiler.emulate.ptx.module import PtxInstruction, SourceLine, StateSpace
from tests.emulate.machine.kernels import run

INSN = PtxInstruction(("ld",), (), 7, "ld", source=SourceLine("k.cu", 3))
Ints = npt.NDArray[np.int64]
LANE = np.arange(32)


def wavefronts(lanes: Ints, offsets: Ints, nbytes: int) -> tuple[int, int]:
    """(wavefronts, conflicts) of one load."""
    counters = Counters()
    counters.shared_access(np.asarray(lanes), np.asarray(offsets, np.int64), nbytes, False, INSN)
    found = counters.as_dict()["shared"]["load"]
    assert found["requests"] == len({lane // 32 for lane in lanes.tolist()})
    return found["wavefronts"], found["bank_conflicts"]


def swizzled_128(row: Ints, chunk: Ints) -> Ints:
    return row * 128 + 16 * (chunk ^ (row & 7))


CASES = [
    pytest.param(LANE * 4, 4, (1, 0), id="a word each, in a row"),
    pytest.param(LANE * 0, 4, (1, 0), id="one word for all"),
    pytest.param(LANE * 8, 4, (2, 1), id="every other word"),
    pytest.param(LANE * 128, 4, (32, 31), id="a column of 128-byte rows"),
    pytest.param(LANE * 132, 4, (1, 0), id="a column of padded rows"),
    pytest.param(swizzled_128(LANE, LANE * 0), 4, (4, 3), id="a column of words, swizzled"),
    pytest.param(LANE * 2, 2, (1, 0), id="two lanes a word"),
    pytest.param(LANE * 8, 8, (2, 0), id="8 bytes in a row"),
    pytest.param(LANE * 16, 8, (4, 2), id="8 bytes, every other"),
    pytest.param(LANE * 16, 16, (4, 0), id="16 bytes in a row"),
    pytest.param(LANE * 32, 16, (8, 4), id="chunk 0 of 32-byte rows"),
    pytest.param(LANE * 64, 16, (16, 12), id="chunk 0 of 64-byte rows"),
    pytest.param(LANE * 128, 16, (32, 28), id="chunk 0 of 128-byte rows"),
    pytest.param(swizzled_128(LANE, LANE * 0), 16, (4, 0), id="chunk 0 of 128-byte rows, swizzled"),
]
"""The figures of 16-byte accesses are those of CUDA's guide for quarter warps."""


@pytest.mark.parametrize(("offsets", "nbytes", "expected"), CASES)
def test_a_warp(offsets: Ints, nbytes: int, expected: tuple[int, int]) -> None:
    assert wavefronts(LANE, offsets, nbytes) == expected


@pytest.mark.parametrize(("offsets", "nbytes", "expected"), CASES)
def test_lanes_count_by_warp_and_by_who_takes_part(offsets: Ints, nbytes: int, expected: tuple[int, int]) -> None:
    twice = np.concatenate([offsets, offsets])
    assert wavefronts(np.arange(64), twice, nbytes) == (2 * expected[0], 2 * expected[1])
    apart = np.concatenate([LANE + 32, LANE + 128])
    assert wavefronts(apart, twice, nbytes) == (2 * expected[0], 2 * expected[1])
    assert wavefronts(LANE[:1] + 40, offsets[:1], nbytes) == (1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_any_lanes_against_a_count_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nbytes = int(rng.choice([1, 2, 4, 8, 16]))
    lanes = np.flatnonzero(rng.random(96) < rng.choice([0.1, 0.5, 1.0]))
    if not len(lanes):
        lanes = np.array([5])
    offsets = rng.integers(0, 64, len(lanes)) * nbytes
    width = 32 // max(1, nbytes // 4)
    total = parts = 0
    for part in sorted({lane // width for lane in lanes.tolist()}):
        words = {o // 4 + i for o in offsets[lanes // width == part].tolist() for i in range(max(1, nbytes // 4))}
        total += max(sum(w % 32 == bank for w in words) for bank in range(32))
        parts += 1
    assert wavefronts(lanes, offsets, nbytes) == (total, total - parts)


@pytest.mark.parametrize(
    ("offset_of", "nbytes", "sectors"),
    [
        (lambda lane: lane * 4, 4, 4),
        (lambda lane: lane * 16, 16, 16),
        (lambda lane: lane * 32, 4, 32),
        (lambda lane: lane * 0, 4, 1),
        (lambda lane: lane * 4 + 16, 4, 5),
        (lambda lane: lane * 64 + 24, 16, 64),
    ],
)
def test_sectors(offset_of: Callable[[Ints], Ints], nbytes: int, sectors: int) -> None:
    region = MemoryRegion("x", StateSpace.GLOBAL, 0, 4096, np.zeros(4096, np.uint8), 0)
    counters = Counters()
    counters.global_access(LANE, region, offset_of(LANE), nbytes, False)
    assert counters.as_dict()["global"]["x"]["load"] == {"requests": 1, "sectors": sectors, "bytes": 32 * nbytes}


def test_conflicts_of_a_kernel() -> None:
    shared = ".shared .align 128 .b8 tile[4096];"
    at = "mov.u32 %r10, tile;\nmad.lo.u32 %r10, %r1, {pitch}, %r10;\nst.shared.u32 [%r10], %r1;\nret;"
    for pitch, wavefronts_taken in ((4, 1), (128, 32)):
        counted = run(at.format(pitch=pitch), variables=shared).outcome.counters["shared"]["store"]
        assert counted == {
            "requests": 1,
            "wavefronts": wavefronts_taken,
            "ideal_wavefronts": 1,
            "bank_conflicts": wavefronts_taken - 1,
        }


def test_atomics_have_a_name_of_their_own() -> None:
    ran = run("red.global.add.u32 [%rd2], 1;\nret;", poison=False)
    counted = ran.outcome.counters["global"]["y"]
    assert counted["atomic"] == {"requests": 1, "sectors": 1, "bytes": 128}
    assert counted["load"]["requests"] == counted["store"]["requests"] == 0
