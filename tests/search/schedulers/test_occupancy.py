"""Tiles that cannot live in the registers of a thread are in no space, whatever the fusion."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named
from search.space.groups.occupancy import launchable_registers
from search.space.schedulers.column import Column
from search.space.schedulers.row import Row
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.column_fusions import softmax as softmax_down
from tests.search.schedulers.points import SM_COUNT
from tests.search.schedulers.row_fusions import ROWS, softmax

HOPPER = arch_named("sm_90a")
RULE = "tile_fits_the_registers_of_a_thread"


@pytest.mark.parametrize(
    ("threads", "registers"), [(1024, 64), (992, 64), (640, 96), (512, 128), (256, 255), (32, 255)]
)
def test_a_block_shares_the_register_file(threads: int, registers: int) -> None:
    """65536 registers, in units of eight a thread, and at most 255 of them."""
    assert launchable_registers(HOPPER, threads) == registers


def test_a_column_tile_of_more_registers_than_a_thread_has_is_refused() -> None:
    """1024 threads have 64 registers: eight columns of five rows of 2 bytes, eight sums and eight maxima are 56."""
    fusion = softmax_down((4, 1000, 1024), 1, "bf16")
    space = Column(SM_COUNT).space(fusion, HOPPER)
    point = {k.name: k.values[0] for k in space.knobs} | {"reuse": "inputs", "vector": 8, "threads_x": 8}
    refused = {
        (threads, rows): RULE in [v.rule for v in space.violations(point | {"threads_y": threads // 8, "rows": rows})]
        for threads, rows in ((1024, 4), (1024, 8), (1024, 16), (512, 16), (512, 32), (256, 32))
    }
    assert refused == {
        (1024, 4): False,
        (1024, 8): True,
        (1024, 16): True,
        (512, 16): False,
        (512, 32): True,
        (256, 32): False,
    }


@pytest.mark.parametrize(("columns", "refused"), [(40959, False), (49151, True)])
def test_a_row_tile_of_more_registers_than_a_thread_has_is_refused(columns: int, refused: bool) -> None:
    """1024 threads have 64 registers, of which vectors along shifted rows take 32 (`SHIFTED_REGISTER_BYTES`) and what
    ptxas cannot do without 8: six vectors of eight halves are 24 more, seven are 28."""
    space = Row(SM_COUNT).space(softmax((4096, columns), (1,), "bf16"), HOPPER)
    point = {k.name: k.values[0] for k in space.knobs} | {"rows_begin": "aligned", "vector": 8, "threads": 1024}
    assert (RULE in [v.rule for v in space.violations(point)]) == refused


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_fusion_keeps_a_point(name: str) -> None:
    assert Column(SM_COUNT).space(COLUMNS[name], HOPPER).has_legal


@pytest.mark.parametrize("name", ROWS)
def test_every_row_fusion_keeps_a_point(name: str) -> None:
    scheduler = Row(SM_COUNT)
    if scheduler.refusal(ROWS[name], HOPPER) is None:
        assert scheduler.space(ROWS[name], HOPPER).has_legal
