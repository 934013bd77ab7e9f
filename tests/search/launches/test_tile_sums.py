"""Rows, and columns, of a product are folded in its own kernel: what each thread has of them, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ScheduleTrace
from search.launches import in_tiles, part_of, tile_widths
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.schedulers import refusals, schedulers_for
from search.space.schedulers.product import Product
from tests.compiler.schedules import from_wire
from tests.search.schedulers.product_traces import FEW_SMS, changed, without_instructions
from tests.search.schedulers.test_product_traces import fault_of, outcome

CARD = card_or_default("H200")

SQUARES: tuple[Mapping[str, Any], ...] = (
    {"op": "mul", "in": ["y", "y"], "out": "q"},
    {"op": "sum", "in": ["q"], "out": "s", "dims": [1]},
)


def behind(m: int, n: int, k: int, ops: Sequence[Mapping[str, Any]], *outputs: str, stored: bool = True) -> Fusion:
    """y = x @ w.T in f32, its elements in bf16 where they are `stored`, and `ops` behind it; `b` is a bias in bf16."""
    made: list[Mapping[str, Any]] = [
        {"op": "permute", "in": ["w"], "out": "t", "dims": [1, 0]},
        {"op": "matmul", "in": ["x", "t"], "out": "y", "dtype": "f32"},
    ]
    made += [{"op": "cast", "in": ["y"], "out": "o", "dtype": "bf16"}] if stored else []
    inputs = [{"name": name, "shape": shape, "dtype": "bf16"} for name, shape in (("x", [m, k]), ("w", [n, k]))]
    inputs += [{"name": "b", "shape": [n], "dtype": "bf16"}] if any("b" in op["in"] for op in ops) else []
    return from_wire(inputs, [*made, *ops], *(["o"] if stored else []), *outputs)


def folded(kind: str, dim: int, of: str = "y", out: str = "s") -> Mapping[str, Any]:
    return {"op": kind, "in": [of], "out": out, "dims": [dim]}


def biased(n: int, m: int) -> list[Mapping[str, Any]]:
    """relu(y + b), absolute: `a`."""
    return [
        {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["bf"], "out": "bb", "shape": [m, n], "dims": [1]},
        {"op": "add", "in": ["y", "bb"], "out": "z"},
        {"op": "abs", "in": ["z"], "out": "a"},
    ]


NORMED: tuple[Mapping[str, Any], ...] = (
    *SQUARES,
    {"op": "broadcast_to", "in": ["s"], "out": "sb", "shape": [64, 128], "dims": [0]},
    {"op": "mul", "in": ["y", "sb"], "out": "z"},
)


@pytest.mark.parametrize(
    ("fusion", "widths"),
    [
        pytest.param(behind(64, 512, 64, SQUARES, "s"), (256, 128), id="some tiles of a row"),
        pytest.param(behind(64, 192, 64, SQUARES, "s"), (192, 64), id="a row in one tile"),
        pytest.param(behind(64, 40, 64, SQUARES, "s"), (40,), id="a short row"),
        pytest.param(behind(64, 44, 64, SQUARES, "s"), (), id="no eights of columns"),
        pytest.param(behind(64, 264, 64, SQUARES, "s"), (), id="eights, and no whole tiles"),
        pytest.param(behind(128, 40, 64, [folded("amax", 0)], "s"), (128, 64), id="columns"),
        pytest.param(
            behind(128, 64, 64, [folded("amax", 0), folded("sum", 1, out="r")], "s", "r"), (), id="rows and columns"
        ),
        pytest.param(
            behind(128, 64, 64, [folded("amax", 1), folded("mean", 1, out="r")], "s", "r"), (64,), id="two of rows"
        ),
        pytest.param(behind(64, 128, 64, NORMED, "z"), (), id="every element needs it"),
        pytest.param(behind(64, 128, 64, [folded("sum", 1, of="x")], "s"), (), id="of an operand"),
    ],
)
def test_tiles_are_as_wide_as_rows_allow(fusion: Fusion, widths: tuple[int, ...]) -> None:
    assert tile_widths(pinned(fusion)) == widths
    names = [s.name for s in schedulers_for(fusion, CARD)]
    for width in widths:
        assert any(name.startswith(f"launches-tiles{width}-product") for name in names), names


def first_launch(fusion: Fusion, width: int) -> Fusion:
    """The launch that multiplies: it stores the elements, if they are asked for, and parts of the folds."""
    made = in_tiles(pinned(fusion), width)
    folds = [op.output for op in made.ops if len(op.dims) == 2 and op.dims[1] == op.dims[0] + 2]
    return part_of(made, (*(x for x in made.outputs if len(made.value(x).shape) == 2), *folds), ()).fusion


def test_four_lanes_have_a_part_each_of_a_row_of_a_tile() -> None:
    made = first_launch(behind(64, 512, 64, SQUARES, "s"), 256)
    assert [made.value(name).shape for name in made.outputs] == [(64, 512), (64, 2, 4)]


@pytest.mark.parametrize(
    ("pieces", "dims", "is_taken"),
    [
        pytest.param([2, 16, 4, 2], (2, 4), True, id="eights and pairs"),
        pytest.param([16, 4, 2], (1, 3), True, id="of one tile"),
        pytest.param([2, 16, 2, 4], (2, 4), False, id="two lanes of four"),
        pytest.param([2, 16, 8, 1], (2, 4), False, id="eight lanes"),
        pytest.param([2, 16, 4, 2], (2, 3), False, id="lanes, and not pairs"),
        pytest.param([2, 16, 4, 2], (2, 3, 4), False, id="lanes too"),
        pytest.param([256], (1,), False, id="whole rows"),
    ],
)
def test_a_thread_folds_what_it_holds(pieces: list[int], dims: tuple[int, ...], is_taken: bool) -> None:
    n = 1
    for piece in pieces:
        n *= piece
    ops = [
        {"op": "reshape", "in": ["y"], "out": "c", "shape": [64, *pieces]},
        {"op": "sum", "in": ["c"], "out": "s", "dims": list(dims)},
    ]
    why = refusals(behind(64, n, 64, ops, "s"), CARD).get("product")
    assert (why is None) is is_taken, why
    assert is_taken or "no thread has whole parts" in str(why)


@pytest.mark.parametrize(("n", "is_taken"), [(64, True), (40, False)])
def test_rows_that_lie_side_by_side_come_in_whole_lines(n: int, is_taken: bool) -> None:
    """A tile of 40 columns has no whole lines of 128 bytes of w, [k, n] in memory."""
    inputs = [{"name": name, "shape": shape, "dtype": "bf16"} for name, shape in (("x", [64, 64]), ("w", [64, n]))]
    fusion = from_wire(inputs, [{"op": "matmul", "in": ["x", "w"], "out": "y", "dtype": "f32"}, *SQUARES], "s")
    assert tile_widths(pinned(fusion)) == (n,)
    assert any(s.name.startswith("launches-tiles") for s in schedulers_for(fusion, CARD)) is is_taken


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(1) as pool:
        pool.start()
        yield pool


WHOLE = {
    "squares": behind(72, 128, 72, SQUARES, "s"),
    "columns": behind(128, 72, 72, [folded("amax", 0)], "s"),
    "behind a bias": behind(65, 128, 64, [*biased(128, 65), folded("amax", 1, of="a")], "s"),
    "narrow": behind(64, 16, 64, [folded("amin", 1)], "s"),
    "not stored": behind(64, 128, 64, [*biased(128, 64), folded("amax", 1, of="a")], "s", stored=False),
}


@pytest.mark.parametrize("name", WHOLE)
def test_folds_are_right_in_the_emulator(name: str, pool: CompilePool) -> None:
    fusion = WHOLE[name]
    one = next(s for s in schedulers_for(fusion, FEW_SMS) if s.name.startswith("launches-tiles"))
    (point,) = one.space(fusion, FEW_SMS.arch).sample(1, len(name))
    made = generate(one.trace(fusion, point), CARD.arch)
    built = artifact(made, pool.submit(made.source, CARD.arch.name).result())
    assert run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[-2:], races=True).fault == "", point


EXACT = tuple(name for name in WHOLE if name != "squares")
"""Folds that round nothing: to the last bit."""


def traces(seed: int, names: Sequence[str]) -> Iterator[tuple[str, ScheduleTrace]]:
    """Schedules of the launch that multiplies, at random points."""
    random, one = Random(seed), Product(FEW_SMS.sm_count)
    for name in names:
        part = first_launch(WHOLE[name], tile_widths(pinned(WHOLE[name]))[0])
        (point,) = one.space(part, FEW_SMS.arch).sample(1, random.randrange(1 << 30))
        yield f"{name} {point}", one.trace(part, point)


@pytest.mark.long
def test_folds_give_the_same_integers_without_instructions(pool: CompilePool) -> None:
    for name, trace in traces(0, ["narrow"] * 10):
        assert fault_of(without_instructions(trace), pool) == "", name


def with_one_step_changed(seed: int, count: int, pool: CompilePool) -> None:
    random = Random(seed)
    for name, trace in traces(seed, random.choices(EXACT, k=count)):
        what, other = changed(trace, random)
        found = outcome(other, pool, CARD.arch)
        assert found in ("right", "refused"), f"{name}\n{what}\n{found}"


def test_with_one_step_changed_folds_are_right_or_refused(pool: CompilePool) -> None:
    with_one_step_changed(1, 2, pool)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_hundred_folds_with_one_step_changed_are_right_or_refused(seed: int, pool: CompilePool) -> None:
    with_one_step_changed(seed, 10, pool)
