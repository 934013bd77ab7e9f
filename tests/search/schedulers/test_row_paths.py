"""Ways by which rows come and go: words that straddle aligned ones, and bulk copies of stored rows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import BulkStore, GlobalLoad, GlobalStore
from compiler.lower.sync_ir import WaitStores
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from compiler.schedule.start import start
from search.proof.emulated.running import ORDERS, run_set
from search.space.groups import ALIGNED, AS_THEY_ARE, BULK, IN_WORDS, VECTOR
from search.space.knobs import KnobValue
from search.space.schedulers.row import Row
from search.space.schedulers.row_shape import RowShape, row_shape
from search.space.schedulers.row_words import in_words, straddles
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import fold, layer_norm, masked_softmax, rms_norm_of_sum, softmax
from tests.shares import shared

HOPPER = arch_named("sm_90a")
SM_COUNT = 4

ROW = Row(SM_COUNT)


SENT: Mapping[str, KnobValue] = {"store": BULK, "vector": 4}


def padded(rows: int, columns: int, pitch: int, dtype: str) -> Fusion:
    """A softmax whose input has another pitch than its output."""
    return softmax((rows, columns), (1,), dtype, strides=[pitch, 1])


def made(fusion: Fusion, **knobs: KnobValue) -> Generated:
    return generated("row", fusion, "sm_90a", SM_COUNT, **knobs)


def values(fusion: Fusion, knob: str) -> tuple[KnobValue, ...]:
    return next(k.values for k in ROW.space(fusion, HOPPER).knobs if k.name == knob)


# Words that straddle aligned ones ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fusion", "begins"),
    [
        pytest.param(padded(8, 264, 264, "bf16"), (AS_THEY_ARE,), id="all-aligned"),
        pytest.param(padded(8, 263, 263, "bf16"), (AS_THEY_ARE, ALIGNED), id="all-of-one-phase"),
        pytest.param(padded(8, 264, 265, "bf16"), (AS_THEY_ARE, IN_WORDS), id="an-input-of-odd-pitch"),
        pytest.param(padded(8, 264, 265, "f32"), (AS_THEY_ARE, IN_WORDS), id="words-of-four"),
        pytest.param(padded(8, 264, 265, "f64"), (AS_THEY_ARE,), id="words-of-two-are-as-many-loads"),
        pytest.param(layer_norm((8, 263), (1,), "bf16"), (AS_THEY_ARE, ALIGNED, IN_WORDS), id="weights-of-odd-rows"),
        pytest.param(masked_softmax(2, 25), (AS_THEY_ARE, ALIGNED), id="nothing-else-is-loaded"),
    ],
)
def test_words_straddle_where_something_begins_at_another_phase(fusion: Fusion, begins: tuple[KnobValue, ...]) -> None:
    assert values(fusion, "rows_begin") == begins


@pytest.mark.parametrize(
    ("columns", "pitch", "elems", "names"),
    [
        pytest.param(264, 265, 8, {"i0"}, id="odd-pitch"),
        pytest.param(264, 268, 8, {"i0"}, id="half-a-vector"),
        pytest.param(264, 268, 4, set(), id="whole-vectors"),
        pytest.param(264, 265, 2, set(), id="too-narrow"),
        pytest.param(263, 265, 8, {"i0"}, id="beside-shifted-rows"),
    ],
)
def test_what_lies_beside_aligned_vectors_comes_in_words(columns: int, pitch: int, elems: int, names: set[str]) -> None:
    rows = row_shape(start(padded(6, columns, pitch, "bf16")))
    assert isinstance(rows, RowShape)
    found = in_words(rows, elems)
    assert (found is not None) == bool(names)
    if found is not None:
        assert {o.name for o in found.operands if straddles(found, o, elems)} == names


def test_stores_of_rows_in_words_are_whole_vectors() -> None:
    g = made(padded(8, 264, 265, "bf16"), rows_begin=IN_WORDS, vector=8, threads=32, rows=2)
    loads = [s for s in walk(g.kernel.body) if isinstance(s, GlobalLoad)]
    assert {s.width for s in loads if s.straddles} == {8}
    assert {s.width for s in walk(g.kernel.body) if isinstance(s, GlobalStore)} == {8}


# Stores --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fusion", "stores"),
    [
        pytest.param(softmax((6, 104), (1,), "bf16"), (VECTOR, BULK), id="rows-of-16-bytes"),
        pytest.param(softmax((6, 100), (1,), "bf16"), (VECTOR,), id="rows-of-8"),
        pytest.param(softmax((6, 16_384), (1,), "bf16"), (VECTOR, BULK), id="32-KiB"),
        pytest.param(softmax((6, 16_392), (1,), "bf16"), (VECTOR,), id="more"),
        pytest.param(fold("sum", (6, 104), (1,), "bf16"), (VECTOR,), id="no-rows-are-stored"),
    ],
)
def test_bulk_copies_store_whole_rows_of_16_bytes(fusion: Fusion, stores: tuple[KnobValue, ...]) -> None:
    assert values(fusion, "store") == stores


def test_a_row_is_stored_by_one_copy_that_has_read_it_when_the_block_ends() -> None:
    body = list(walk(made(softmax((6, 520), (1,), "bf16"), **SENT, threads=32).kernel.body))
    assert [s.nbytes for s in body if isinstance(s, BulkStore)] == [1040]
    assert not any(isinstance(s, GlobalStore) for s in body)
    assert isinstance(body[-1], WaitStores)


# Kernels -------------------------------------------------------------------------------------------------------------

RUNS: Mapping[str, tuple[Fusion, Mapping[str, KnobValue]]] = {
    "words": (padded(7, 264, 265, "bf16"), {"rows_begin": IN_WORDS, "vector": 8, "threads": 16}),
    "words_of_shifted_rows": (padded(7, 263, 265, "f32"), {"rows_begin": IN_WORDS, "vector": 4, "threads": 32}),
    "words_of_weights": (layer_norm((6, 263), (1,), "bf16"), {"rows_begin": IN_WORDS, "vector": 8, "threads": 16}),
    "sent": (softmax((7, 520), (1,), "bf16"), {**SENT, "threads": 32, "rows": 2}),
    "sent_from_shared": (layer_norm((6, 520), (1,), "f32"), {**SENT, "keep": "shared", "load": BULK, "threads": 64}),
    "two_are_sent": (rms_norm_of_sum((6, 520), "bf16"), {**SENT, "threads": 64}),
}


@pytest.mark.parametrize("name", shared(RUNS, 2))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    fusion, knobs = RUNS[name]
    g = made(fusion, **knobs)
    stored = artifact(g, pool.submit(g.source, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1], races=True).fault == ""


def test_a_row_that_is_sent_before_it_is_there_is_found(pool: CompilePool) -> None:
    """What the kernels are held against tells a missing fence between the stores of threads and those of the engine."""
    fusion, knobs = RUNS["sent"]
    g = made(fusion, **knobs)
    source = _without(g.source, "ft_fence_async_shared")
    stored = artifact(g, pool.submit(source, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS[:1], races=True).fault != ""


def _without(source: str, call: str) -> str:
    lines = source.splitlines()
    kept = [line for line in lines if not line.strip().startswith(f"{call}(")]
    assert len(kept) < len(lines), f"the kernel calls {call}"
    return "\n".join(kept)
