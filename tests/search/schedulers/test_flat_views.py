"""The flat scheduler on views, indices, concatenations and mixed layouts: values in the emulator, and the loads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from fusetune import FusionBuilder
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import SWEPT
from search.space.schedulers import flat_facts
from search.space.schedulers.flat import Flat
from search.space.schedulers.iteration_space import HELD
from tests.bound import dense
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import add, silu_of_sum, tensor
from tests.search.schedulers.points import SM_COUNT, generated
from tests.search.schedulers.view_fusions import VIEWS, broadcast, op, rope
from tests.shares import shared

HOPPER = arch_named("sm_90a")
FLAT = Flat(SM_COUNT)


def wide_and_narrow(name: str) -> list[Generated]:
    """Of a sample, the kernel with the widest words in each view, and one with the narrowest."""
    sample = FLAT.space(VIEWS[name], HOPPER).sample(60, seed=3)
    points = sorted(sample, key=lambda p: (p["row_order"] not in HELD, -int(p["vector"])))
    chosen: list[dict[str, Any]] = [points[-1]]
    for view in ("1d", "2d"):
        chosen += [p for p in points if p["view"] == view][:1]
    return [generate(FLAT.trace(VIEWS[name], point), HOPPER) for point in chosen]


@pytest.mark.parametrize("name", shared(VIEWS, 2))
def test_values(name: str, pool: CompilePool) -> None:
    assert FLAT.refusal(VIEWS[name], HOPPER) is None
    made = wide_and_narrow(name)
    for kernel, compiled in [(m, pool.submit(m.source, HOPPER.name)) for m in made]:
        built = artifact(kernel, compiled.result())
        verdict = run_set(VIEWS[name], built, parse(built.ptx), RANDOM, ORDERS[:1])
        assert not verdict.fault, f"{verdict.fault}\n{kernel.source}"


def loads(made: Generated) -> list[GlobalLoad]:
    return [s for s in walk(made.kernel.body) if isinstance(s, GlobalLoad)]


def test_halves_of_512_bytes_are_stored_apart_and_every_element_loaded_once() -> None:
    fusion = rope(4, 8, 64, 512)
    made = generated("flat", fusion, view="2d", vector=8, threads_x=32, row_order="held_4")
    held = [s for s in loads(made) if s.tensor == "i0"]
    assert {str(s.offset).endswith("+ 256)") for s in held} == {False, True}
    assert len(held) == 2
    assert all(not s.within for s in loads(made))
    (output,) = made.trace.fusion.outputs
    assert [s.tensor for s in walk(made.kernel.body) if isinstance(s, GlobalStore)] == [output] * 2


def test_shorter_halves_are_selected_from_so_that_rows_are_stored_whole() -> None:
    made = generated("flat", rope(4, 8, 64, 496), view="1d", vector=8, threads_x=64)
    assert [bool(s.within) for s in loads(made) if s.tensor == "i0"] == [False, True, True]
    assert len([s for s in walk(made.kernel.body) if isinstance(s, GlobalStore)]) == 1


@pytest.mark.parametrize(
    ("order", "rows", "soon", "later"),
    [
        ("natural", 1, 2, 8),
        ("broadcast_last", 1, 1, 2),
        ("swept_2m", 1, 2, 2),
        ("swept_4m", 1, 2, 4),
        ("swept_4m", 2, 4, 4),
    ],
)
def test_swept_rows_are_used_by_all_before_the_next(
    order: str, rows: int, soon: int, later: int, monkeypatch: pytest.MonkeyPatch, pool: CompilePool
) -> None:
    """A row of the broadcast operand is 1024 elements in 2 tiles, and 9 slabs use it. `soon` and `later`: how many of
    its 8 rows the first 4 blocks have used, and the first quarter of all blocks."""
    monkeypatch.setitem(SWEPT, "swept_2m", 2 * 4096)
    monkeypatch.setitem(SWEPT, "swept_4m", 4 * 4096)
    ops = [broadcast("x", "b", [9, 8, 1024], 1, 2), op("add", "out", "y", "b")]
    y = tensor("y", [9, 8, 1024], "f32", strides=[12000, 1040, 1])
    fusion = from_wire([tensor("x", [8, 1024], "f32"), y], ops, "out")
    point = {"view": "2d", "vector": 4, "threads_x": 128, "threads_y": 1, "rows": rows, "row_order": order}
    made = generate(FLAT.trace(fusion, next_to(fusion, point)), HOPPER)
    (load,) = (s for s in loads(made) if s.tensor == "i0")
    blocks = np.arange(9 * 8 * 2 // rows // 4)
    at = load.offset.evaluate({**{v.name: 0 for v in load.offset.variables}, "bx": blocks}) // (1024 * rows)
    assert len(np.unique(at[:4])) * rows == soon
    assert len(np.unique(at)) * rows == later
    built = artifact(made, pool.submit(made.source, HOPPER.name).result())
    verdict = run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[:1])
    assert not verdict.fault, f"{verdict.fault}\n{made.source}"


@pytest.mark.parametrize(
    ("order", "rows", "load", "store", "part"),
    [
        ("columns_inner", 1, "vector", "vector", 10240),
        ("swept_2m", 1, "vector", "vector", 2560),
        ("swept_4m", 1, "vector", "vector", 5120),
        ("swept_4m", 2, "tma", "bulk", 5120),
    ],
)
def test_swept_parts_of_rows_are_used_by_all_before_the_next(
    order: str, rows: int, load: str, store: str, part: int, monkeypatch: pytest.MonkeyPatch, pool: CompilePool
) -> None:
    """A broadcast operand is as large as each of 9 slabs: `part` elements of it are what the first blocks use."""
    monkeypatch.setitem(SWEPT, "swept_2m", 10 * 1024)
    monkeypatch.setitem(SWEPT, "swept_4m", 20 * 1024)
    monkeypatch.setattr(flat_facts, "KEPT_BYTES", range(1, 1 << 20))
    ops = [broadcast("x", "b", [9, 10, 1024], 1, 2), op("add", "out", "y", "b")]
    fusion = from_wire([tensor("x", [10, 1024], "f32"), tensor("y", [9, 10, 1024], "f32")], ops, "out")
    chosen = {"view": "2d", "vector": 4, "threads_x": 128, "rows": rows, "tile_order": order}
    made = generate(FLAT.trace(fusion, next_to(fusion, {**chosen, "load": load, "store": store})), HOPPER)
    used = next(s for s in loads(made) if s.tensor == "i0").offset
    (all_blocks, _, _), tile = made.kernel.grid, 512
    at = used.evaluate({**{v.name: 0 for v in used.variables}, "bx": np.arange(all_blocks)})
    first = -(-9 // rows) * part // tile
    assert set(at[:first]) == set(range(0, part, tile))
    assert all_blocks == -(-9 // rows) * 10240 // tile
    built = artifact(made, pool.submit(made.source, HOPPER.name).result())
    verdict = run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[:1])
    assert not verdict.fault, f"{verdict.fault}\n{made.source}"


def next_to(fusion: Fusion, wanted: dict[str, Any]) -> dict[str, Any]:
    """A point with these values and the first of every other knob: legal or not, it has a trace."""
    return {k.name: wanted.get(k.name, k.values[0]) for k in FLAT.space(fusion, HOPPER).knobs}


def test_an_operand_that_is_held_is_loaded_outside_of_the_held_steps() -> None:
    made = generated(
        "flat",
        VIEWS["held_operand"],
        view="2d",
        vector=4,
        threads_x=32,
        row_order="held_4",
        cache_load="evict_first",
        cache_store="streaming",
    )
    inside = {
        x.tensor
        for s in walk(made.kernel.body)
        if isinstance(s, Loop)
        for x in walk(s.body)
        if isinstance(x, GlobalLoad)
    }
    assert inside == {"i1"}
    assert {s.tensor: str(s.cache) for s in loads(made)} == {"i0": "default", "i1": "evict_first"}


WIDTHS = [
    pytest.param(VIEWS["odd_columns_and_bias"], "1d", {"i0": 4, "i1": 1}, id="a-run-is-cut-anywhere"),
    pytest.param(add((64, 96), "f32", strides=[98, 1]), "2d", {"i0": 2, "i1": 4}, id="rows-of-half-words"),
    pytest.param(add((64, 96), "f32", strides=[97, 1]), "2d", {"i0": 1, "i1": 4}, id="rows-of-odd-length"),
    pytest.param(add((64, 96), "f32", strides=[200, 2]), "2d", {"i0": 1, "i1": 4}, id="every-second"),
    pytest.param(silu_of_sum((96, 200), (1,), "f32"), "2d", {"i0": 4, "i1": 4}, id="a-row"),
    pytest.param(VIEWS["cat_of_three"], "1d", {"i0": 8, "i1": 8, "i2": 8}, id="parts-of-whole-words"),
]


@pytest.mark.parametrize(("fusion", "view", "widths"), WIDTHS)
def test_each_operand_is_loaded_in_the_widest_words_that_it_takes(fusion: Any, view: str, widths: Any) -> None:
    made = generated("flat", fusion, view=view, vector=max(widths.values()))
    assert {s.tensor: s.width for s in loads(made)} == widths


@pytest.mark.parametrize("strides", [None, (9 * 999, 9)], ids=["dense", "apart"])
def test_many_bytes_that_threads_move_one_by_one_have_points(strides: tuple[int, int] | None) -> None:
    """All threads of an SM together ask for less than it can have on its way."""
    f = FusionBuilder()
    x = f.input("x", (70_000, 999), "u8")
    f.output(f.flip(f.minimum(x, 11), (1,)), strides=strides)
    fusion = dense(f)
    assert FLAT.space(fusion, HOPPER).sample(1, seed=1)
