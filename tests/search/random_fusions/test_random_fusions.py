"""Random fusions, compiled at random points of their schedulers' spaces, are right in the emulator.

A failure prints the fusion, the point and a command that does it again. What is not supported fails as what is wrong
does: every operator of the wire format has to compile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from compiler.nvrtc import CompilePool
from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import live_ops
from fusetune.wire.fusion import FORMAT, MODEL_OF_OP
from tests.search.proof.emulated.kernels import Spoiling, body
from tests.search.random_fusions.cases import Case, cases, random_case
from tests.search.random_fusions.known import DTYPES, FP8
from tests.search.random_fusions.moves import REDUCE
from tests.search.random_fusions.proving import Outcome, outcomes
from tests.shares import shared

FOUND = json.loads(Path(__file__).with_name("found.json").read_text())

EACH = 10
"""Cases of one test: enough that the compiler works on some while others run."""


def expect_right(found: Iterator[Outcome], least: int) -> None:
    every = list(found)
    wrong = [str(outcome) for outcome in every if outcome.fault or outcome.unsupported]
    assert not wrong, f"{len(wrong)} of {len(every)}\n\n" + "\n\n".join(wrong[:3])
    assert len(every) >= least


@pytest.mark.parametrize("first", shared(range(0, 40, EACH), 4))
def test_random_fusions_are_right_in_the_emulator(first: int, pool: CompilePool) -> None:
    drawn = (random_case(seed, "tiny") for seed in range(first, first + EACH))
    expect_right(outcomes(drawn, first, 1, pool), EACH)


def test_random_fusions_over_lists_are_right_in_the_emulator(pool: CompilePool) -> None:
    """Some tensors of a list, of several lengths, in one launch."""
    expect_right(outcomes((random_case(seed, "lists") for seed in range(3)), 0, 1, pool), 3)


def test_random_products_are_right_in_the_emulator(pool: CompilePool) -> None:
    """Matrix products with what surrounds them."""
    drawn = (*(random_case(seed, "products") for seed in range(2)), random_case(1, "products_in_tf32"))
    expect_right(outcomes(iter(drawn), 0, 1, pool), 3)


@pytest.mark.parametrize("name", FOUND)
def test_what_once_was_wrong_or_had_no_kernel_is_right(name: str, pool: CompilePool) -> None:
    """Random fusions that showed a fault, as they were drawn then."""
    case = Case(name, FOUND[name]["document"], FOUND[name]["binding"])
    expect_right(outcomes(iter([case]), 30_000, 1, pool), 1)


@pytest.mark.long
@pytest.mark.parametrize("first", [40, *range(10_000, 11_000, 50)])
def test_many_random_fusions_are_right_in_the_emulator(first: int, pool: CompilePool) -> None:
    """Half of them tiny and at several points, half with rows of several warps, and some over lists."""
    tiny = (random_case(seed, "tiny") for seed in range(first, first + 25))
    small = (random_case(seed, "small") for seed in range(first, first + 25))
    lists = (random_case(seed, "lists") for seed in range(first, first + 10))
    expect_right(outcomes(tiny, first, 2, pool), 25)
    expect_right(outcomes(small, first, 1, pool), 25)
    expect_right(outcomes(lists, first, 1, pool), 10)


@pytest.mark.long
@pytest.mark.parametrize("first", [0, *range(100, 200, 20)])
def test_a_hundred_random_products_are_right_in_the_emulator(first: int, pool: CompilePool) -> None:
    expect_right(outcomes((random_case(seed, "products") for seed in range(first, first + 20)), first, 1, pool), 20)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_products_in_tf32_are_right_in_the_emulator(first: int, pool: CompilePool) -> None:
    drawn = (random_case(seed, "products_in_tf32") for seed in range(first, first + 20))
    expect_right(outcomes(drawn, first, 1, pool), 20)


@pytest.mark.long
def test_drawn_fusions_are_right_in_the_emulator(pool: CompilePool) -> None:
    """The same, shrunk to the smallest fusion that fails."""

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases("tiny"))
    def check(case: Case) -> None:
        expect_right(outcomes(iter([case]), 0, 1, pool), 1)

    check()


def case_of_a_sum() -> Case:
    inputs = [{"name": name, "shape": [5, 33], "dtype": "f32"} for name in ("x", "y")]
    ops = [
        {"op": "add", "in": ["x", "y"], "out": "t"},
        {"op": "sum", "in": ["t"], "out": "z", "dims": [1], "keepdim": False},
    ]
    document = {"format": FORMAT, "inputs": inputs, "ops": ops, "outputs": [{"name": "z"}]}
    return Case("tiny:0", document, {"sizes": {}, "inputs": [{}, {}]})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param(r"ft_add\(", "ft_sub(", "elements are wrong", id="operator"),
        pytest.param(r"< 5u", "< 4u", "never written", id="guard"),
    ],
)
def test_a_wrong_kernel_is_reported_with_what_shows_it_again(old: str, new: str, says: str, pool: CompilePool) -> None:
    spoiling = Spoiling(pool, body(lambda source: re.sub(old, new, source)))
    found = list(outcomes(iter([case_of_a_sum()]), 3, 1, spoiling))
    assert [says in one.fault for one in found] == [True]
    text = str(found[0])
    assert "python -m tests.search.random_fusions.again 'tiny:0' --seed 3 --candidate '{" in text
    assert '{"op": "add", "in": ["x", "y"], "out": "t"}' in text


# What is drawn -------------------------------------------------------------------------------------------------------


def test_everything_that_a_fusion_may_have_is_drawn() -> None:
    """By what is left of each after operators without use are gone."""
    met: set[object] = set()
    for seed in range(600):
        case = random_case(seed, "tiny")
        fusion, binding = parse_fusion(case.document), parse_binding(case.binding)
        bound = apply_binding(fusion, binding)
        folded: set[tuple[int, ...]] = set()
        for number in live_ops(fusion):
            op = fusion.ops[number]
            shape = bound.types[op.out].shape
            met |= {op.op, ("rank", len(shape)), ("dtype", bound.types[op.out].dtype)}
            met |= {("size", "one" if n.constant == 1 else "odd" if int(str(n)) % 2 else "even") for n in shape}
            if op.op in REDUCE:
                document = case.document["ops"][number]
                met.add(("reduced", bound.types[document["in"][0]].dtype))
                folded.add(tuple(document["dims"]))
        met |= {("input", tensor.dtype) for tensor in fusion.inputs}
        met.add(("outputs", min(3, len(fusion.outputs))))
        met |= {("output", "in an input") for one in fusion.outputs if one.alias is not None}
        met |= {("output", "laid out") for one in binding.outputs if one.strides is not None}
        met |= {("output", "of rank 0") for one in fusion.outputs if not bound.types[one.name].shape}
        met.add(("reductions", "over other dims" if len(folded) > 1 else "alike"))
        for tensor, layout in zip(fusion.inputs, bound.inputs, strict=True):
            sizes = [int(n) for n in tensor.shape]
            steps = [stride for n, stride in zip(sizes, layout.strides, strict=True) if n > 1]
            met.add(("align", layout.align))
            met |= {("layout", name) for name, has in _LAYOUTS.items() if has(steps)}
    wanted = {*(MODEL_OF_OP.keys() - {"matmul"}), *(("rank", n) for n in range(7))}
    wanted |= {("dtype", dtype) for dtype in DTYPES} | {("input", dtype) for dtype in DTYPES}
    wanted |= {("size", n) for n in ("one", "odd", "even")} | {("outputs", n) for n in (1, 2, 3)}
    wanted |= {("reduced", dtype) for dtype in DTYPES if dtype not in FP8} | {
        ("output", "of rank 0"),
        ("output", "in an input"),
        ("output", "laid out"),
        ("reductions", "over other dims"),
    }
    wanted |= {("align", n) for n in (1, 2, 4, 8, 16)} | {("layout", name) for name in _LAYOUTS}
    assert wanted <= met, sorted(map(str, wanted - met))


_LAYOUTS: dict[str, Callable[[list[int]], bool]] = {
    "repeated": lambda steps: 0 in steps,
    "odd pitch": lambda steps: len(steps) > 1 and steps[-1] == 1 and steps[-2] % 2 == 1,
    "every other": lambda steps: bool(steps) and min(steps) > 1,
    "transposed": lambda steps: steps != sorted(steps, reverse=True) and 0 not in steps,
}


def test_lists_are_drawn_with_all_that_they_may_have() -> None:
    met: set[object] = set()
    for seed in range(150):
        case = random_case(seed, "lists")
        fusion = parse_fusion(case.document)
        met |= {op.op for op in fusion.ops} | {("lists", min(3, sum(x.list is True for x in fusion.inputs)))}
        met |= {("in place", sum(x.alias is not None for x in fusion.outputs) > 1), ("scalars", bool(fusion.scalars))}
        met |= {"an element" for x in fusion.inputs if not x.shape}
    wanted = {("lists", 1), ("lists", 3), ("in place", True), ("scalars", True), "an element"}
    wanted |= {"cast", "where", "fma", "pow", "remainder", "lt", "bitwise_xor", "broadcast_to"}
    assert wanted <= met, sorted(map(str, wanted - met))


def test_a_seed_is_a_case() -> None:
    assert random_case(7, "tiny") == random_case(7, "tiny")
    assert random_case(7, "tiny") != random_case(8, "tiny")


@pytest.mark.parametrize("limits", ["tiny", "small"])
def test_cases_are_valid_and_of_their_size(limits: str) -> None:
    most = {"tiny": 600, "small": 6000}[limits]
    for seed in range(200, 300):
        case = random_case(seed, limits)
        bound = apply_binding(parse_fusion(case.document), parse_binding(case.binding))
        for found in bound.types.values():
            total = 1
            for extent in found.shape:
                total *= int(str(extent))
            assert total <= most, case
