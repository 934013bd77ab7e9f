from __future__ import annotations

import numpy as np
import pytest
import torch

from search.proof.verify.arrays import Array
from search.proof.verify.zones import GUARD_BYTES, POISONS, buffer, disturbed_bytes, fill_guards, lay_out, poison

ZONES = lay_out((1000, 64, 7), (16, 2, 128))


@pytest.fixture(params=["numpy", "torch"])
def memory(request: pytest.FixtureRequest) -> Array:
    blank: Array = np.zeros(ZONES.total_bytes, np.uint8)
    memory = torch.from_numpy(blank) if request.param == "torch" else blank
    fill_guards(memory, ZONES)
    return memory


def test_buffers_have_the_alignment_asked_for_and_below_128_no_more() -> None:
    assert [start % 256 for start in ZONES.starts] == [16, 2, 0]


def test_a_guard_zone_lies_before_between_and_after_the_buffers() -> None:
    assert [end - start >= GUARD_BYTES for start, end in ZONES.guards] == [True] * 4
    assert sum(end - start for start, end in ZONES.guards) + sum(ZONES.lengths) == ZONES.total_bytes


def test_writes_inside_the_buffers_disturb_nothing(memory: Array) -> None:
    for index in range(3):
        for run in range(2):
            poison(memory, ZONES, index, run)
    assert int(disturbed_bytes(memory, ZONES)) == 0


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("side", ["before", "after", "far after"])
def test_one_byte_outside_is_found(memory: Array, index: int, side: str) -> None:
    start = ZONES.starts[index]
    end = start + ZONES.lengths[index]
    memory[{"before": start - 1, "after": end, "far after": end + GUARD_BYTES - 1}[side]] = 0
    assert int(disturbed_bytes(memory, ZONES)) == 1


def test_poison_fills_one_buffer_and_the_two_runs_differ_in_every_byte(memory: Array) -> None:
    assert POISONS[0] != POISONS[1]
    for run in range(2):
        poison(memory, ZONES, 1, run)
        assert bytes(bytearray(buffer(memory, ZONES, 1))) == bytes([POISONS[run]]) * 64
    assert int(buffer(memory, ZONES, 0).sum()) == 0
