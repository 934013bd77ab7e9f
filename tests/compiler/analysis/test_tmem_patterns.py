"""The five access patterns: every one is recognised from its formula, its neighbours are not, and counting agrees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tmem.patterns import SHAPES, Shape
from compiler.analysis.tmem.tmem import Pattern, TensorMemoryPlan, plan_tensor_memory
from compiler.ir.expr import Expr
from tests.compiler.analysis.tmem_cases import (
    ALL,
    Step,
    allocate,
    breaches_of,
    dimsep,
    document,
    fusion_of,
    inline,
    judged,
    merge,
    on,
    plan_of,
    reorder,
    split,
    touched_pattern,
    types,
    vectorize,
)

Bit = tuple[str, int]
"""A bit of the lane ("l") or of the column ("c") in a tensor's allocation."""


def bit_document(
    lanes: int,
    columns: int,
    threads: Sequence[Bit],
    warps: Sequence[Bit] = (),
    loops: Sequence[Bit] = (),
    vector: Sequence[Bit] = (),
    dtype: str = "float32",
    *,
    in_turns: bool = False,
) -> dict[str, Any]:
    """A tensor of 2**lanes by 2**columns whose every bit is an axis; bits are given from the lowest on. Loops are
    [warps, threads, loops, vector], each but the loops merged into one axis. `in_turns`: a thread has the registers of
    one turn of the loops at a time."""
    place = {("l", i): lanes - 1 - i for i in range(lanes)}
    place |= {("c", i): lanes + columns - 1 - i for i in range(columns)}
    order = [*reversed(warps), *reversed(threads), *reversed(loops), *reversed(vector)]
    assert sorted(order) == sorted(place)
    steps: list[Step] = [split(0, 2)] * (lanes - 1) + [split(lanes, 2)] * (columns - 1)
    schedule = [*on(ALL, *steps), *on("tv2", allocate(), dimsep(lanes))]
    schedule += on(ALL, reorder({place[bit]: new for new, bit in enumerate(order)}))
    first = 0
    for bits in (warps, threads):
        schedule += on(ALL, *[merge(first)] * (len(bits) - 1))
        first += 1 if bits else 0
    schedule += on(ALL, *types(*(["TIDy"] if warps else []), "TIDx"))
    if vector:
        at = first + len(loops)
        schedule += on(ALL, *[merge(at)] * (len(vector) - 1))
        schedule += on(("tv2", "tv3"), vectorize(at))
    if in_turns:
        schedule += on(("tv1", "tv3"), inline(first + len(loops)))
    return document((1 << lanes, 1 << columns), schedule, dtype)


def bit_of(step: tuple[int, int]) -> Bit:
    lane, column = step
    return ("l", lane.bit_length() - 1) if lane else ("c", column.bit_length() - 1)


def scheduled(
    shape: Shape,
    registers: int,
    *,
    vector: int | None = None,
    warps: int = 2,
    half: int = 0,
    in_turns: bool = False,
) -> dict[str, Any]:
    """The schedule that the formula of a pattern stands for, on a tensor of one more column bit than it needs.

    `vector` counts the register bits that are a vector, the lowest of the others are loops; upper lanes are warps, and
    the halves of a warp's lanes are a loop where a pattern takes 16.
    """
    bits = registers.bit_length() - 1
    own = [bit_of(s) for s in shape.register_steps[:bits]]
    threads = [bit_of(s) for s in shape.thread_steps(half or registers)]
    in_loops = 0 if vector is None else bits - vector
    columns = 2 + max((i for kind, i in (*own, *threads) if kind == "c"), default=0)
    upper = [("l", i) for i in range(5, 5 + warps)]
    every = {("l", i) for i in range(5)} | {("c", i) for i in range(columns)}
    spare = sorted(every - set(own) - set(threads))
    loops = [*own[:in_loops], *spare]
    return bit_document(5 + warps, columns, threads, upper, loops, own[in_loops:], in_turns=in_turns)


def _legal_widths() -> Iterator[Any]:
    for shape in SHAPES:
        registers = shape.least_registers
        while registers <= 128:
            yield pytest.param(shape, registers, id=f"{shape.pattern}-{registers}")
            registers *= 2


@pytest.mark.parametrize(("shape", "registers"), tuple(_legal_widths()))
def test_a_formula_scheduled_is_recognised(shape: Shape, registers: int) -> None:
    memory = plan_of(scheduled(shape, registers))
    assert breaches_of(memory) == set()
    assert [(a.pattern, a.words) for a in memory.accesses] == [(shape.pattern, registers)] * 2


@pytest.mark.parametrize(
    ("shape", "registers", "vector"),
    [
        pytest.param(SHAPES[2], 2, 0, id="16x128b-serial-lanes"),
        pytest.param(SHAPES[2], 4, 1, id="16x128b-serial-lanes-vector-of-columns"),
        pytest.param(SHAPES[3], 4, 0, id="16x256b-serial"),
        pytest.param(SHAPES[3], 8, 2, id="16x256b-serial-columns"),
    ],
)
def test_loops_complete_the_registers_of_wide_patterns(shape: Shape, registers: int, vector: int) -> None:
    memory = plan_of(scheduled(shape, registers, vector=vector))
    assert breaches_of(memory) == set()
    assert [(a.pattern, a.words) for a in memory.accesses] == [(shape.pattern, registers)] * 2


@pytest.mark.parametrize(
    ("inlined", "refused"),
    [
        pytest.param((), (), id="of-their-own"),
        pytest.param(("tv1",), ("tv2",), id="with-what-makes-the-registers"),
        pytest.param(("tv3",), ("tv3",), id="with-what-uses-the-registers"),
    ],
)
def test_loops_shared_with_another_operator_are_no_registers(
    inlined: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    data = scheduled(SHAPES[2], 2, vector=0, warps=0)
    schedule = [*data["schedule"], *on(ALL, reorder({-1: 0})), *on(inlined, inline(1))]
    memory = plan_of({**data, "schedule": schedule})
    assert tuple(a.output for a in memory.accesses if a.pattern is None) == refused


@pytest.mark.parametrize("half", [4, 8, 16])
def test_16x32bx2_takes_any_offset_between_its_halves(half: int) -> None:
    memory = plan_of(scheduled(SHAPES[4], 4, half=half))
    assert breaches_of(memory) == set()
    assert [a.half_offset for a in memory.accesses] == [half, half]


def exchanged(threads: list[Bit], rest: list[Bit]) -> Iterator[tuple[list[Bit], list[Bit]]]:
    """Every arrangement that differs by an exchange of two bits, one of them a thread's."""
    for i, bit in enumerate(threads):
        for other in (*threads[i + 1 :], *rest):
            swap = {bit: other, other: bit}
            yield [swap.get(b, b) for b in threads], [swap.get(b, b) for b in rest]


@pytest.mark.parametrize("shape", SHAPES, ids=[s.pattern for s in SHAPES])
def test_an_exchange_of_two_bits_is_judged_as_counting_judges_it(shape: Shape) -> None:
    registers = max(2, shape.least_registers)
    vector = [bit_of(s) for s in shape.register_steps[: registers.bit_length() - 1]]
    threads = [bit_of(s) for s in shape.thread_steps(registers)]
    columns = 1 + max(i for kind, i in (*vector, *threads) if kind == "c")
    spare = sorted({("l", i) for i in range(5)} - set(vector) - set(threads))
    base = bit_document(5, columns, threads, (), spare, vector)
    assert agreed(base) == {shape.pattern}
    refused = 0
    for moved, rest in exchanged(threads, [*spare, *vector]):
        found = agreed(bit_document(5, columns, moved, (), rest[: len(spare)], rest[len(spare) :]))
        refused += found == {None}
    assert refused >= 10


def agreed(data: dict[str, Any]) -> set[Pattern | None]:
    """What the analysis finds of both copies, checked against counting; None where it refuses."""
    sf = fusion_of(data)
    memory = plan_tensor_memory(sf, id_graph(sf))
    legal = not breaches_of(memory) - {"tmem_vector_is_in_memory_order"}
    found = {a.pattern if legal else None for a in memory.accesses}
    for op in sf.ops:
        if op.output in ("tv2", "tv3"):
            assert {touched_pattern(sf, op, memory)} == found, data["schedule"]
    return found


@st.composite
def arrangements(draw: st.DrawFn) -> dict[str, Any]:
    """A known pattern with some bits exchanged, in a type of 16 or 32 bits."""
    shape = draw(st.sampled_from(SHAPES))
    registers = shape.least_registers << draw(st.integers(0, 2))
    vector = [bit_of(s) for s in shape.register_steps[: registers.bit_length() - 1]]
    threads = [bit_of(s) for s in shape.thread_steps(registers << draw(st.integers(0, 1)))]
    columns = 1 + max((i for kind, i in (*vector, *threads) if kind == "c"), default=0)
    lanes = draw(st.integers(5, 6))
    in_warps = draw(st.integers(0, 3)) > 0
    narrow = draw(st.booleans())
    spare = sorted(({("l", i) for i in range(lanes)} | {("c", i) for i in range(columns)}) - set(vector) - set(threads))
    warps = [b for b in spare if b == ("l", 5) and in_warps]
    loops = [b for b in spare if b not in warps]
    if narrow:

        def up(bits: list[Bit]) -> list[Bit]:
            return [(kind, i + (kind == "c")) for kind, i in bits]

        threads, warps, loops, vector, columns = up(threads), up(warps), up(loops), [("c", 0), *up(vector)], columns + 1
    every = [*threads, *warps, *loops, *vector]
    for _ in range(draw(st.integers(0, 2))):
        i, j = (draw(st.integers(0, len(every) - 1)) for _ in range(2))
        every[i], every[j] = every[j], every[i]
    cuts = (len(threads), len(threads) + len(warps), len(threads) + len(warps) + len(loops))
    parts = (every[: cuts[0]], every[cuts[0] : cuts[1]], every[cuts[1] : cuts[2]], every[cuts[2] :])
    return bit_document(lanes, columns, *parts, dtype="float16" if narrow else "float32")


@settings(max_examples=200)
@given(arrangements())
def test_counting_agrees_on_exchanged_bits(data: dict[str, Any]) -> None:
    agreed(data)


# The formulas themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=[s.pattern for s in SHAPES])
def test_patterns_are_sums_of_the_steps_of_their_bits(shape: Shape) -> None:
    for t in range(32):
        for r in range(128):
            bits = [s for i, s in enumerate(shape.thread_steps()) if t >> i & 1]
            bits += [s for i, s in enumerate(shape.register_steps) if r >> i & 1]
            assert (shape.lane(t, r), shape.column(t, r)) == (sum(a for a, _ in bits), sum(c for _, c in bits))


@pytest.mark.parametrize(
    ("pattern", "registers", "lanes", "columns"),
    [
        pytest.param("32x32b", 8, 32, 8, id="32x32b-x8"),
        pytest.param("16x64b", 8, 16, 16, id="16x64b-x8"),
        pytest.param("16x128b", 16, 16, 32, id="16x128b-x8"),
        pytest.param("16x256b", 32, 16, 64, id="16x256b-x8"),
    ],
)
def test_an_access_covers_its_lanes_and_columns_once(pattern: str, registers: int, lanes: int, columns: int) -> None:
    shape = next(s for s in SHAPES if s.pattern == pattern)
    cells = [(shape.lane(t, r), shape.column(t, r)) for t in range(32) for r in range(registers)]
    assert sorted(cells) == [(a, c) for a in range(lanes) for c in range(columns)]


# Rows ----------------------------------------------------------------------------------------------------------------


def lane_document(shape: Sequence[int], *steps: Step, at: int, dtype: str = "float32") -> dict[str, Any]:
    return document(shape, [*on(ALL, *steps), *on("tv2", allocate(), dimsep(at))], dtype)


def rules_and_pattern(memory: TensorMemoryPlan) -> tuple[set[str], str | None]:
    return breaches_of(memory), memory.pattern_of("tv2")


@pytest.mark.parametrize(
    ("data", "breach", "pattern"),
    [
        pytest.param(lane_document((32, 4), *types("TIDx"), at=1), None, "32x32b", id="one-warp"),
        pytest.param(lane_document((31, 4), *types("TIDx"), at=1), "tmem_access_is_warp_collective", None, id="31"),
        pytest.param(lane_document((96, 4), *types("TIDx"), at=1), None, "32x32b", id="three-warps"),
        pytest.param(lane_document((4, 24, 2), *types("TIDy", "TIDx"), at=2), None, "32x32b", id="rows-of-24"),
        pytest.param(
            lane_document((24, 4, 2), *types("TIDx", "TIDy"), at=2),
            "tmem_access_has_a_hardware_pattern",
            None,
            id="columns-of-24",
        ),
        pytest.param(
            lane_document((32, 4, 2), *types("TIDx", "TIDy"), at=2),
            "tmem_lane_stride_is_one",
            None,
            id="lanes-four-apart",
        ),
        pytest.param(
            lane_document((4, 32, 2), *types(None, "TIDx"), at=2),
            "tmem_warps_stay_in_their_subpartition",
            "32x32b",
            id="one-warp-reaches-for-all-lanes",
        ),
        pytest.param(
            lane_document((4, 32, 2), *types("BIDx", "TIDx"), at=2), None, "32x32b", id="one-warp-in-each-block"
        ),
        pytest.param(
            lane_document((32, 4, 4), *types("TIDx", "TIDy"), at=1),
            "tmem_warps_stay_in_their_subpartition",
            "32x32b",
            id="four-warps-on-columns",
        ),
        pytest.param(
            lane_document((4, 32, 3), *types("TIDy", "TIDx", "TIDz"), at=2),
            None,
            "32x32b",
            id="three-warp-groups-on-columns",
        ),
        pytest.param(
            lane_document((4, 32, 3), *types("TIDz", "TIDx", "TIDy"), at=2),
            "tmem_warps_stay_in_their_subpartition",
            "32x32b",
            id="three-warps-between-subpartitions",
        ),
    ],
)
def test_access_rows(data: dict[str, Any], breach: str | None, pattern: str | None) -> None:
    assert rules_and_pattern(plan_of(data)) == ({breach} if breach else set(), pattern)


@pytest.mark.parametrize(
    ("dtype", "vector", "columns", "words"),
    [
        pytest.param("float32", 4, 8, 4, id="float32-x4"),
        pytest.param("float64", 1, 8, 2, id="float64-is-two-words"),
        pytest.param("complex128", 32, 64, 128, id="complex128-fills-128"),
        pytest.param("float16", 2, 8, 1, id="half2"),
        pytest.param("int8", 4, 8, 1, id="char4"),
        pytest.param("int8", 512, 512, 128, id="512-bytes"),
        pytest.param("float4_e2m1", 8, 16, 1, id="eight-in-a-word"),
    ],
)
def test_words_of_an_access(dtype: str, vector: int, columns: int, words: int) -> None:
    steps = [*types("TIDx"), split(1, vector)]
    data = document(
        (32, columns), [*on(ALL, *steps), *on(("tv2", "tv3"), vectorize(2)), *on("tv2", allocate(), dimsep(1))], dtype
    )
    memory = plan_of(data)
    assert breaches_of(memory) == set()
    assert [(a.pattern, a.words) for a in memory.accesses] == [(Pattern.P32X32B, words)] * 2


def test_wide_elements_are_registers_of_their_own() -> None:
    """Pairs of columns for each thread, two lanes eight apart: 16x256b in elements of 8 bytes."""
    threads: list[Bit] = [("c", 0), ("c", 1), ("l", 0), ("l", 1), ("l", 2)]
    memory = plan_of(bit_document(5, 3, threads, (), [("l", 4), ("c", 2)], [("l", 3)], "float64"))
    assert breaches_of(memory) == set()
    assert [(a.pattern, a.words) for a in memory.accesses] == [(Pattern.P16X256B, 4)] * 2


def test_a_vector_of_lanes_alone_is_no_32x32b() -> None:
    threads: list[Bit] = [("l", i) for i in range(5)]
    stored = plan_of(bit_document(6, 1, threads, (), [("c", 0)], [("l", 5)]))
    assert breaches_of(stored) == {"tmem_access_has_a_hardware_pattern"}


def test_a_vector_of_every_other_column_is_not_filled_up_by_a_loop() -> None:
    """A loop around 32x32b, whose accesses of one register are complete, is a loop."""
    threads: list[Bit] = [("l", i) for i in range(5)]
    assert breaches_of(plan_of(bit_document(5, 2, threads, (), [("c", 1)], [("c", 0)]))) == set()
    refused = plan_of(bit_document(5, 2, threads, (), [("c", 0)], [("c", 1)]))
    assert breaches_of(refused) == {"tmem_access_has_a_hardware_pattern"}


@pytest.mark.parametrize(
    ("stride", "breach"), [pytest.param(4, None, id="whole-words"), pytest.param(3, "words", id="inside-a-word")]
)
@pytest.mark.parametrize("on_threads", [False, True], ids=["loop", "threads"])
def test_half_precision_begins_on_a_word(stride: int, breach: str | None, on_threads: bool) -> None:
    """Two pairs of halves, three or four elements apart, on a loop or on the halves of a warp (16x32bx2)."""
    lanes = 16 if on_threads else 32
    schedule = [*on("tv2", allocate("loop", [1, stride, 1]), dimsep(1))]
    if on_threads:
        schedule += on(ALL, reorder({0: 1, 1: 0}), merge(0), *types("TIDx"))
    else:
        schedule += on(ALL, *types("TIDx"))
    schedule += on(("tv2", "tv3"), vectorize(1 if on_threads else 2))
    memory = plan_of(document((lanes, 2, 2), schedule, "float16"))
    assert breaches_of(memory) == ({"tmem_words_hold_neighbours"} if breach else set())
    if not breach:
        assert [a.half_offset for a in memory.accesses] == [2 if on_threads else None] * 2


def test_32_lanes_begin_where_a_subpartition_does() -> None:
    """Half a subpartition further is right for 16 lanes alone."""
    steps = [*types(None, "TIDx")]
    apart = document((2, 32), [*on(ALL, *steps), *on("tv2", allocate("loop", [16, 1]), dimsep(2))])
    assert "tmem_warps_stay_in_their_subpartition" in breaches_of(plan_of(apart))


def test_an_inlined_axis_is_mapped_as_the_loop_that_it_shares() -> None:
    data = document(
        (32, 4), [*on("tv2", dimsep(1)), *on(("tv3", "tv4"), *types("TIDx")), *on(("tv1", "tv2"), inline(1))]
    )
    memory = plan_of(data)
    assert breaches_of(memory) == set()
    assert memory.tensors[0].lanes == 32


def test_places_are_given_as_expressions() -> None:
    access = plan_of(lane_document((4, 32, 2), *types("TIDy", "TIDx"), at=2)).accesses[0]
    assert isinstance(access.lane, Expr)
    assert isinstance(access.column, Expr)
    names = {"t0": 1, "t1": 0, "t2": 0, "t3": 0, "t4": 1, "w0": 3, "i2": 0, "i2.0": 1}
    assert access.lane.evaluate(names) == 96 + 17
    assert access.column.evaluate(names) == 1


def test_a_swizzled_thread_axis_is_no_pattern() -> None:
    steps: list[Step] = [split(0, 2), {"do": "swizzle", "kind": "xor", "axes": [2, 1]}, merge(0), *types("TIDx")]
    data = document((32, 2), [*on("tv2", allocate(), dimsep(1)), *on(ALL, *steps)])
    assert breaches_of(plan_of(data)) == {"tmem_access_has_a_hardware_pattern"}
    assert "impossible" in str(judged(plan_of(data))[0])


def test_pattern_of_a_tensor_is_none_where_one_copy_has_none() -> None:
    legal = lane_document((32, 32), *types("TIDx"), at=1)
    schedule = [*on(("tv1", "tv2"), *types("TIDx")), *on(("tv3", "tv4"), *types(None, "TIDx"))]
    loaded = {**legal, "schedule": [*schedule, *on("tv2", allocate(), dimsep(1))]}
    assert plan_of(legal).pattern_of("tv2") is Pattern.P32X32B
    assert plan_of(loaded).pattern_of("tv2") is None
