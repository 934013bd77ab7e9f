"""What the emulator says of a ring that is freed with and without a proxy fence is what a card does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.emulate.card import loaded, run
from benchmarks.emulate.compiling import compile_source
from benchmarks.emulate.form import ARCH
from compiler.emulate.launch import EmulatedTensor, Launch, TensorArgument, ValueArgument
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate

RUNS = 60
WORDS, THREADS = 2048, 288
SOURCE = (Path(__file__).parent / "rings.cu").read_text(encoding="utf-8")

fences = pytest.mark.parametrize(
    ("fence", "faults"),
    [
        pytest.param(0, {"proxy_race"}, id="no-fence"),
        pytest.param(1, set(), id="fence-of-the-readers"),
        pytest.param(2, set(), id="fence-of-the-issuer"),
    ],
)


def launch(blocks: int, tiles: int) -> Launch:
    """Copies as many words as the blocks take; the output holds nothing that the input has."""
    count = blocks * tiles * WORDS
    x = np.arange(count, dtype=np.uint32)
    tensors = {
        "x": EmulatedTensor("x", "u32", (count,), x.view(np.uint8), None, align=256),
        "y": EmulatedTensor(
            "y", "u32", (count,), np.full(4 * count, 0xFF, np.uint8), np.zeros(4 * count, np.bool_), align=256
        ),
    }
    arguments = (TensorArgument("x"), TensorArgument("y"), ValueArgument(np.int32(tiles).tobytes()))
    return Launch("ring", ARCH, (blocks, 1, 1), (THREADS, 1, 1), arguments, tensors, (1, 1, 1), 0)


@fences
def test_the_emulator_finds_the_ring_that_lacks_a_fence(fence: int, faults: set[str]) -> None:
    compiled = compile_source(f"#define FENCE {fence}\n{SOURCE}")
    assert {str(f.kind) for f in emulate(parse(compiled.ptx), launch(1, 6)).faults} == faults


@pytest.mark.gpu
@fences
def test_a_ring_is_wrong_on_a_card_where_the_emulator_says_so(fence: int, faults: set[str]) -> None:
    """Without the fence it may be right by chance, so all runs count; `docs/emulator.md` tells how often it was not."""
    compiled = compile_source(f"#define FENCE {fence}\n{SOURCE}")
    whole = launch(264, 64)
    wrong = 0
    with loaded(compiled.cubin) as module:
        for _ in range(RUNS):
            wrong += not np.array_equal(run(module, whole)["y"], whole.tensors["x"].data)
    print(f"\nwrong in {wrong} of {RUNS} runs")
    assert (wrong > 0) == bool(faults)
