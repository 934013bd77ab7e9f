"""What a schedule does not say is not in the device pieces of products: each is one instruction, which loops, barriers
and addresses are around."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DEVICE = Path(__file__).parents[3] / "compiler" / "emit" / "device"
LOOP = re.compile(r"\bfor \([^)]*\)\s*(?:\{(?P<block>[^}]*)\}|(?P<line>[^;]*);)")
INSTRUCTION = re.compile(r"\b(?:wgmma|mma|tcgen05)\.[a-z_]+(?:\.[a-z0-9_:]+)*")
WAITS = ("bar.", "barrier", "__sync", "while", "goto", "bra ", "membar", "fence.proxy")
ADDRESSES = ("threadIdx", "blockIdx", "%tid", "%laneid", "cvta")


@pytest.mark.parametrize("name", ["wgmma.cuh", "mma_sync.cuh", "tensor_mma.cuh"])
def test_pieces_of_products_are_single_instructions(name: str) -> None:
    text = re.sub(r"//.*|#include.*", "", (DEVICE / name).read_text(encoding="utf-8"))
    assert [word for word in (*WAITS, *ADDRESSES) if word in text] == []
    for loop in LOOP.finditer(text):
        body = loop["block"] or loop["line"]
        assert set(re.findall(r'asm volatile\("([^"]*)"', body)) == {""}, "a loop keeps registers in place, no more"
    pieces = re.split(r"FT_INLINE", text)[1:]
    assert pieces
    assert {len(INSTRUCTION.findall(piece)) for piece in pieces} <= {0, 1}
    assert sum(len(INSTRUCTION.findall(piece)) for piece in pieces) >= len(pieces) // 2
