"""The load path by cp.async: which fusions have it, and that its kernels are right under all checks of the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.lower.kernel_ir import CopyAsync, Loop
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import load_path, staging
from search.space.groups.load_path import copies_by
from tests.search.schedulers.fusions import add, permute, silu_of_sum
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated, scheduler_named
from tests.search.schedulers.row_fusions import layer_norm, softmax


@pytest.mark.parametrize(
    ("sizes", "legal"),
    [((1,), [4, 8, 16]), ((2,), [2, 4, 8]), ((4,), [1, 2, 4]), ((8,), [1, 2]), ((2, 4), [2, 4]), ((1, 8), [])],
)
def test_words_of_4_8_or_16_bytes_are_copied(sizes: tuple[int, ...], legal: list[int]) -> None:
    words = np.array([1, 2, 3, 4, 6, 8, 16, 32])
    assert list(words[copies_by(words, sizes)]) == legal


@pytest.mark.parametrize(
    ("scheduler", "fusion", "is_offered"),
    [
        pytest.param("tile2d", permute((64, 128), (1, 0), "bf16"), True, id="tile-of-halves"),
        pytest.param("tile2d", permute((64, 129), (1, 0), "bf16"), True, id="tile-of-halves-at-odd-pitch"),
        pytest.param("tile2d", permute((64, 31), (1, 0), "bf16"), False, id="short-rows-of-halves-at-odd-pitch"),
        pytest.param("tile2d", permute((64, 130), (1, 0), "bf16"), True, id="tile-of-pairs-of-halves"),
        pytest.param("tile2d", permute((64, 129), (1, 0), "f32"), True, id="tile-of-words-at-odd-pitch"),
        pytest.param("tile2d", permute((64, 130), (1, 0), "i8"), True, id="tile-of-pairs-of-bytes"),
        pytest.param("tile2d", permute((64, 132), (1, 0), "i8"), True, id="tile-of-four-bytes"),
        pytest.param("row", softmax((64, 515), (1,), "f32"), True, id="odd-rows-of-words"),
        pytest.param("row", softmax((64, 515), (1,), "bf16"), False, id="odd-rows-of-halves"),
        pytest.param("row", layer_norm((64, 514), (1,), "bf16"), True, id="rows-of-pairs-of-halves"),
        pytest.param("flat", add((64, 515), "f32"), True, id="words"),
        pytest.param("flat", add((513, 515), "bf16", strides=[517, 1]), False, id="padded-halves"),
        pytest.param("flat", silu_of_sum((64, 512), (1,), "bf16"), True, id="a-broadcast-beside"),
    ],
)
def test_it_is_offered_where_words_of_4_bytes_lie_in_memory(scheduler: str, fusion: Fusion, is_offered: bool) -> None:
    space = scheduler_named(scheduler, fusion).space(fusion, arch_named("sm_90a"))
    assert ("cp_async" in next(k for k in space.knobs if k.name == "load").values) == is_offered


RING: dict[str, Any] = {"load": "cp_async", "blocks_per_sm": 1, "stages": 3, "sm_count": 2}
ROW: dict[str, Any] = {"keep": "shared", "load": "cp_async"}
KERNELS: dict[str, tuple[str, Fusion, dict[str, Any]]] = {
    # 1003 elements: the last copy of a ring brings a part of a tile, and of a word.
    "flat ring": ("flat", add((17, 59), "f32"), RING | {"vector": 4, "threads_x": 32}),
    "flat ring, stored by the copy engine": (
        "flat",
        silu_of_sum((16, 256), (1,), "bf16"),
        RING | {"view": "2d", "vector": 8, "threads_x": 32, "threads_y": 2, "store": "tma"},
    ),
    # Five rows of 133 in blocks of two rows and 160 places: what is beside them is filled with zeros.
    "odd rows": ("row", softmax((5, 133), (1,), "f32"), ROW | {"threads": 32, "rows": 2, "unroll": 1}),
    "ring of rows": (
        "row",
        layer_norm((7, 512), (1,), "bf16"),
        RING | ROW | {"vector": 4, "threads": 64, "unroll": 1, "stages": 2},
    ),
    # Threads of equal numbers, cut from the tile in two ways: each reads what another one has copied.
    "one step of 256 threads": (
        "tile2d",
        permute((32, 16), (1, 0), "f64"),
        {"load": "cp_async", "tile_in": 16, "tile_out": 32, "vector_out": 2, "lanes_out": 16, "threads": 256},
    ),
    "transpose at an odd pitch": (
        "tile2d",
        permute((67, 45), (1, 0), "f32"),
        RING | {"tile_in": 32, "tile_out": 32, "threads": 128, "lanes_out": 32, "layout": "pad", "shift_load": True},
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_right(name: str, pool: CompilePool) -> None:
    scheduler, fusion, knobs = KERNELS[name]
    made = generated(scheduler, fusion, **knobs)
    assert any(isinstance(s, CopyAsync) for s in walk(made.kernel.body))
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:], races=True)
    assert not verdict.fault


def test_threads_that_use_what_they_copied_meet_nowhere() -> None:
    scheduler, fusion, knobs = KERNELS["flat ring"]
    body = generated(scheduler, fusion, **knobs).kernel.body
    assert any(isinstance(s, Loop) and not s.unroll for s in walk(body))
    assert not any(isinstance(s, Sync) for s in walk(body))


@pytest.mark.parametrize(
    ("scheduler", "fusion"),
    [
        pytest.param("flat", add((64, 512), "f32"), id="flat"),
        pytest.param("row", softmax((64, 512), (1,), "f32"), id="row"),
        pytest.param("tile2d", permute((64, 128), (1, 0), "f32"), id="tile2d"),
        pytest.param("chunks", permuted((4096, 7, 9), (0, 2, 1)), id="chunks"),
    ],
)
def test_a_word_that_joins_the_group_is_had_by_every_scheduler(
    scheduler: str, fusion: Fusion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_path, "LOAD_PATHS", {**load_path.LOAD_PATHS, "planted": CopyVia.CP_ASYNC})
    monkeypatch.setattr(staging, "LOAD_PATHS", load_path.LOAD_PATHS)
    found = scheduler_named(scheduler, fusion)
    space = found.space(fusion, arch_named("sm_90a"))
    points = [p for p in space.sample(1000, 0) if p["load"] == "cp_async"]
    assert points
    for point in points[:5]:
        planted = {**point, "load": "planted"}
        assert space.is_legal(planted)
        assert found.trace(fusion, planted) == found.trace(fusion, point)
