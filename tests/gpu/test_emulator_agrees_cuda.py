"""The emulator and the card agree, on the PTX of the same cubin: single instructions, and kernels of random fusions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.emulate import on_card
from benchmarks.emulate.agree import AgreementRow, compare_forms, compare_fusions
from benchmarks.emulate.compiling import prepare_forms
from benchmarks.emulate.forms import all_forms
from benchmarks.emulate.fusions import prepare_fusions

pytestmark = pytest.mark.gpu

FUSIONS = 200
PROCESSES = 8


def told(rows: Iterable[AgreementRow]) -> str:
    return "\n".join(f"{r.name}: {r.failure or r.first} ({r.mismatches} of {r.cases})" for r in rows if not r.agrees)


def test_single_instructions_agree(tmp_path: Path) -> None:
    prepare_forms(all_forms(), tmp_path / "forms", PROCESSES)
    rows = compare_forms(tmp_path, on_card.results(tmp_path, "forms"), PROCESSES)
    assert len(rows) == len(all_forms())
    assert all(r.agrees for r in rows), told(rows)


def test_kernels_of_random_fusions_agree(tmp_path: Path) -> None:
    count = prepare_fusions(tmp_path / "fusions", FUSIONS, seed=0, workers=PROCESSES)
    rows = compare_fusions(tmp_path, on_card.results(tmp_path, "fusions"), PROCESSES)
    assert len(rows) == count >= FUSIONS
    assert {r.family for r in rows} == {"fusion flat", "fusion tile2d", "fusion chunks"}
    assert all(r.agrees for r in rows), told(rows)
