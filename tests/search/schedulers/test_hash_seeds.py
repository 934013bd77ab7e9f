"""Schedules, kernels and predictions are the same in every process: none follows the order of a set of names.

Candidates are drafted in child processes, each of which Python gives another seed for the hashes of strings.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from search.cost.predicting import predictor
from search.space.protocol import Scheduler
from search.space.schedulers import schedulers_for
from tests.cards import card_of
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.fusions import SMALL
from tests.search.schedulers.points import SM_COUNT, point_of, scheduler_named
from tests.search.schedulers.row_fusions import ROWS, rms_norm_of_sum

ROOT = Path(__file__).parents[3]
CARD = card_or_default(None)
PARKED: dict[str, Any] = {"keep": "registers", "parked": 2, "resident": 1024, "threads": 256}
SAMPLED = (
    SMALL["outer_and_inner_bias"],
    SMALL["nchw_to_nhwc"],
    ROWS["oddly_padded_rows"],
    COLUMNS["weight_gradients"],
)


def described() -> str:
    """A line for each of a few points of every scheduler: its schedule, its kernel and its predicted time."""
    lines: list[str] = []
    for scheduler, fusion, point in _points():
        made = generate(scheduler.trace(fusion, point), CARD.arch)
        us = [predictor(CARD)(launch).total_us for launch in made.launches]
        lines.append(f"{scheduler.name} {made.trace.hash} {hashlib.sha256(made.source.encode()).hexdigest()} {us}")
    return "\n".join(lines)


def _points() -> Iterator[tuple[Scheduler, Fusion, dict[str, Any]]]:
    of_two_inputs = rms_norm_of_sum((3, 16_400), "bf16")
    row = scheduler_named("row", of_two_inputs)
    yield row, of_two_inputs, point_of(row, of_two_inputs, **PARKED)
    for fusion in SAMPLED:
        for scheduler in schedulers_for(fusion, card_of(CARD.arch, SM_COUNT))[:2]:
            for point in scheduler.space(fusion, CARD.arch).sample(1, seed=7):
                yield scheduler, fusion, point


def test_what_is_drafted_does_not_depend_on_the_seed_of_hashes() -> None:
    script = "from tests.search.schedulers.test_hash_seeds import described; print(described())"
    paths = os.pathsep.join((str(ROOT), str(ROOT / "sdk")))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, other = (child.communicate(timeout=120)[0].splitlines() for child in children)
    assert len(one) > 5
    assert one == other
