"""The flat scheduler on views, indices, concatenations and mixed layouts: values in the emulator, and the loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from search.emulation.running import ORDERS, run_set
from search.space.schedulers.flat import Flat
from search.space.schedulers.iteration_space import HELD
from search.verify.inputs import RANDOM
from tests.search.schedulers.fusions import add, silu_of_sum
from tests.search.schedulers.points import SM_COUNT, generated
from tests.search.schedulers.view_fusions import VIEWS, rope

HOPPER = arch_named("sm_90a")
FLAT = Flat(SM_COUNT)


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=2) as pool:
        yield pool


def wide_and_narrow(name: str) -> list[Generated]:
    """Of a sample, the kernel with the widest words in each view, and one with the narrowest."""
    sample = FLAT.space(VIEWS[name], HOPPER).sample(60, seed=3)
    points = sorted(sample, key=lambda p: (p["row_order"] not in HELD, -int(p["vector"])))
    chosen: list[dict[str, Any]] = [points[-1]]
    for view in ("1d", "2d"):
        chosen += [p for p in points if p["view"] == view][:1]
    return [generate(FLAT.trace(VIEWS[name], point), HOPPER) for point in chosen]


@pytest.mark.parametrize("name", VIEWS)
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
    assert [s.tensor for s in walk(made.kernel.body) if isinstance(s, GlobalStore)] == [fusion.outputs[0]] * 2


def test_shorter_halves_are_selected_from_so_that_rows_are_stored_whole() -> None:
    made = generated("flat", rope(4, 8, 64, 496), view="1d", vector=8, threads_x=64)
    assert [bool(s.within) for s in loads(made) if s.tensor == "i0"] == [False, True, True]
    assert len([s for s in walk(made.kernel.body) if isinstance(s, GlobalStore)]) == 1


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
    pytest.param(add((64, 96), "f32", strides=[1, 64]), "2d", {"i0": 1, "i1": 4}, id="columns"),
    pytest.param(silu_of_sum((96, 200), (1,), "f32"), "2d", {"i0": 4, "i1": 4}, id="a-row"),
    pytest.param(VIEWS["cat_of_three"], "1d", {"i0": 8, "i1": 8, "i2": 8}, id="parts-of-whole-words"),
]


@pytest.mark.parametrize(("fusion", "view", "widths"), WIDTHS)
def test_each_operand_is_loaded_in_the_widest_words_that_it_takes(fusion: Any, view: str, widths: Any) -> None:
    made = generated("flat", fusion, view=view, vector=max(widths.values()))
    assert {s.tensor: s.width for s in loads(made)} == widths
