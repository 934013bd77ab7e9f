"""Kernels with tensor memory as text. `pytest tests/compiler/tmem/test_golden.py --update-golden` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.emit.cuda import kernel_only
from compiler.explicit.generate import generate_explicit
from tests.compiler.tmem.kernels import STRIDED_LANES, Document, shifted, tiles, transposed_in_turns

FOLDER = Path(__file__).with_name("golden")
GOLDEN: dict[str, Document] = {"transposed_in_turns": transposed_in_turns(3), "strided_lanes": STRIDED_LANES}
GOLDEN |= {"tiles": tiles(8), "shifted": shifted(8)}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_kernel_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    text = kernel_only(generate_explicit(GOLDEN[name]).source)
    path = FOLDER / f"{name}.cu"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "if the change is meant: --update-golden"


def test_every_golden_file_has_its_kernel() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.cu" for name in GOLDEN}
