"""The model's rules on vector accesses: the nearest legal and the nearest illegal schedule of each."""

from typing import Any

import pytest

from compiler.errors import Stage
from compiler.ir.iter_domain import ParallelType as P
from tests.compiler.model import (
    Document,
    breaches,
    copies,
    inline,
    kept,
    merge,
    op,
    order,
    reorder,
    rules,
    schedule,
    scheduled,
    split,
    tensor,
    types,
)

ONE = "one_axis_is_vectorized"
CONSTANT = "unrolled_and_vectorized_extents_are_known"
LOOP = "vectorized_axis_is_not_a_shared_loop"
COPIES = "vectorized_operator_copies"
WIDTH = "words_are_of_a_width_that_exists"
INNER = "words_are_inner_pieces_of_memory"
CONTIGUOUS = "words_are_contiguous"
DIVIDES = "words_divide_what_they_cut"
ADDRESS = "words_start_at_aligned_addresses"
ROWS = "words_start_at_aligned_rows"


def words(
    elements: int, dtype: str = "float32", chain: str = "g l g", total: int = 1 << 14, symbolic: bool = False
) -> Document:
    """tv0 -> tv1 in words of so many elements -> tv2."""
    document = copies((total,), chain, symbolic)
    for t in document["tensors"].values():
        t["dtype"] = dtype
    steps = [split(tv, 0, elements) for tv in ("tv1", "tv2")]
    return scheduled(document, steps, types("tv1", "TIDx", "Vectorize"), types("tv2", "TIDx"), inline("tv1", 1))


@pytest.mark.parametrize(
    ("dtype", "elements", "chain", "arch", "is_refused"),
    [
        ("float32", 1, "g l g", "sm_90a", False),
        ("float32", 2, "g l g", "sm_90a", False),
        ("float32", 3, "g l g", "sm_90a", True),
        ("float32", 4, "g l g", "sm_90a", False),
        ("float32", 8, "g l g", "sm_90a", True),
        ("float32", 8, "g l g", "sm_100a", False),
        ("float32", 8, "g s g", "sm_100a", True),
        ("float32", 16, "g l g", "sm_100a", True),
        ("float16", 8, "g l g", "sm_90a", False),
        ("float64", 2, "g l g", "sm_90a", False),
        ("int8", 1, "g l g", "sm_90a", False),
        ("float4_e2m1", 1, "g l g", "sm_90a", True),
        ("float4_e2m1", 2, "g l g", "sm_90a", False),
        ("float4_e2m1", 32, "g l g", "sm_90a", False),
        ("complex128", 1, "g l g", "sm_90a", False),
    ],
)
def test_words_have_widths(dtype: str, elements: int, chain: str, arch: str, is_refused: bool) -> None:
    document = words(elements, dtype, chain, total=96 * 32 * 4)
    assert (WIDTH in rules(document, arch)) == is_refused


@pytest.mark.parametrize(("elements", "is_refused"), [(1, False), (128, False), (3, True), (256, True)])
def test_words_of_tensor_memory_are_longer(elements: int, is_refused: bool) -> None:
    document = copies((128, 768), "g l t=st_tmem l=ld_tmem g")
    steps = [split(tv, 1, elements) for tv in ("tv2", "tv3")]
    loops = [s for tv in ("tv2", "tv3") for s in types(tv, "TIDx", "-", "Vectorize")]
    refused = [
        r for r in rules(scheduled(document, steps, loops)) if r in (WIDTH, "tmem_access_width_is_a_power_of_two")
    ]
    assert refused == ["tmem_access_width_is_a_power_of_two"] * is_refused, "said once"


def test_one_axis_is_a_word() -> None:
    document = copies((8, 4), "g l g")
    assert ONE in rules(document, tv1={"types": (P.VECTORIZE, P.VECTORIZE)})
    assert rules(document, tv1={"types": (P.SERIAL, P.VECTORIZE)}) == ()


def test_a_word_has_a_known_extent() -> None:
    unknown = copies((8, 4), "g l g", symbolic=True)
    vector = {"types": (P.SERIAL, P.VECTORIZE)}
    assert rules(unknown, tv1=vector) == (CONSTANT,)
    assert rules(copies((8, 4), "g l g"), tv1=vector) == ()


def test_a_shared_loop_is_no_word() -> None:
    document = copies((8, 4), "g l g")
    vector = (P.SERIAL, P.VECTORIZE)
    assert LOOP in rules(document, tv1={"types": vector, "compute_at": 2})
    assert LOOP in rules(document, tv1={"types": vector, "compute_with": 2})
    assert rules(document, tv1={"types": vector, "compute_at": 1}) == ()


def computed(kind: str, *names: str, **more: Any) -> Document:
    document = copies((8, 4), "g l g")
    document["ops"][1] = op(kind, "tv2", "tv1", **more)
    return scheduled(document, types("tv2", *names))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (computed("set", "-", "Vectorize"), ()),
        (computed("exp", "-", "Vectorize"), (COPIES,)),
        (computed("add", "-", "Vectorize", scalar=1.0), (COPIES,)),
        (computed("exp", "-", "Unroll"), ()),
    ],
)
def test_only_copies_take_words(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def along(*steps: Document, contiguity: list[bool] | None = None, chain: str = "g l g", **runtime: Any) -> Document:
    """tv0 [8, 16] -> tv1, one axis of which is a word -> tv2."""
    document = copies((8, 16), chain, tv0={} if contiguity is None else {"contiguity": contiguity})
    if runtime:
        document["runtime_inputs"] = {"tv0": runtime}
    return scheduled(document, *steps)


PERMUTED = {
    "name": "permuted",
    "tensors": {"tv0": tensor((8, 16), "global"), "tv1": tensor((16, 8)), "tv2": tensor((16, 8), "global")},
    "ops": [op("permute", "tv1", "tv0", dims=[1, 0]), op("set", "tv2", "tv1")],
    "inputs": ["tv0"],
    "outputs": ["tv2"],
    "schedule": [],
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (along(split("tv1", 1, 4), *types("tv1", "-", "-", "Vectorize")), ()),
        (along(split("tv1", 1, 4), *types("tv1", "-", "Vectorize")), (INNER,)),
        (along(split("tv1", 1, 4, inner=False), *types("tv1", "-", "-", "Vectorize")), ()),
        (along(split("tv1", 0, 4), *types("tv1", "-", "Vectorize")), (INNER,)),
        (along(split("tv1", 1, 4), reorder("tv1", 2, 0, 1), *types("tv1", "Vectorize")), ()),
        (along(merge("tv1"), split("tv1", 0, 4), *types("tv1", "-", "Vectorize")), ()),
        (along(reorder("tv1", 1, 0), merge("tv1"), split("tv1", 0, 4), *types("tv1", "-", "Vectorize")), (INNER,)),
        # An axis of size one is no axis.
        (along(split("tv1", 1, 4), split("tv1", 1, 1), *types("tv1", "-", "-", "-", "Vectorize")), ()),
        # The memory order of the source counts.
        (along(order("tv0", [1, 0]), split("tv1", 0, 4), *types("tv1", "-", "Vectorize"), strides=[1, 8]), ()),
        (
            along(order("tv0", [1, 0]), split("tv1", 1, 4), *types("tv1", "-", "-", "Vectorize"), strides=[1, 8]),
            (INNER,),
        ),
        (scheduled(PERMUTED, split("tv1", 0, 4), types("tv1", "-", "Vectorize")), ()),
        (scheduled(PERMUTED, split("tv1", 1, 4), types("tv1", "-", "-", "Vectorize")), (INNER,)),
    ],
)
def test_words_are_inner_pieces(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def test_words_pass_no_swizzle() -> None:
    narrow: dict[str, Any] = {t: {"dtype": "float16"} for t in ("tv0", "tv1")}
    steps = [split("tv1", 1, 8), {"do": "swizzle", "tv": "tv1", "axes": [0, 2]}, *types("tv1", "-", "-", "Vectorize")]
    assert rules(scheduled(copies((8, 16), "g l g", **narrow), steps)) == (INNER,)


@pytest.mark.parametrize(
    ("contiguity", "dtype", "elements", "expected"),
    [
        ([True, True], "float32", 4, ()),
        ([False, True], "float32", 4, ()),
        ([True, False], "float32", 4, (CONTIGUOUS,)),
        # Two of these lie in one byte, the least that a stride can step over.
        ([True, False], "float4_e2m1", 2, ()),
        ([True, False], "float4_e2m1", 4, (CONTIGUOUS,)),
    ],
)
def test_words_are_contiguous(contiguity: list[bool], dtype: str, elements: int, expected: tuple[str, ...]) -> None:
    named: dict[str, Any] = {
        "tv0": {"contiguity": contiguity, "dtype": dtype},
        "tv1": {"dtype": dtype},
        "tv2": {"dtype": dtype},
    }
    document = scheduled(copies((8, 16), "g l g", **named), split("tv1", 1, elements))
    assert rules(scheduled(document, types("tv1", "-", "-", "Vectorize"))) == expected


def flat(columns: int, follows: bool, width: int = 4, symbolic: bool = False) -> Document:
    """Rows of so many columns, taken as one run in words; `follows`: each row starts where the last one ends."""
    named: dict[str, Any] = {"tv0": {"contiguity": [follows, True]}}
    steps = [merge("tv1"), split("tv1", 0, width), *types("tv1", "-", "Vectorize")]
    return scheduled(copies((8, columns), "g l g", symbolic, **named), steps)


ONES = [split("tv1", 0, 1), merge("tv1"), split("tv1", 0, 1, inner=False), merge("tv1")]
"""An axis cut into itself and extent one, and merged again, from either side."""


def undone(document: Document) -> Document:
    """The same schedule after such splits and merges of the outer and of the inner axis."""
    rank = len(document["tensors"]["tv1"]["shape"])
    inner = [split("tv1", rank - 1, 1), merge("tv1", rank - 1)]
    return document | {"schedule": [*ONES, *inner, *document["schedule"]]}


@pytest.mark.parametrize(
    ("document", "stages"),
    [
        (words(4, total=4096), []),
        (words(4, total=4098), [Stage.RUNTIME]),
        (words(4, total=4098, symbolic=True), [Stage.RUNTIME]),
        (flat(16, follows=True), []),
        (flat(6, follows=True), []),
        (flat(16, follows=False), []),
        (flat(6, follows=False, width=2), []),
        (flat(6, follows=False), [Stage.RUNTIME]),
        (flat(6, follows=False, symbolic=True), [Stage.RUNTIME]),
        (along(split("tv1", 1, 8), split("tv1", 2, 4), *types("tv1", "-", "-", "-", "Vectorize")), []),
        (along(split("tv1", 1, 6), split("tv1", 2, 4), *types("tv1", "-", "-", "-", "Vectorize")), [Stage.COMPILE]),
        # Splits and merges with extent one change none of these.
        (undone(flat(6, follows=True)), []),
        (undone(flat(6, follows=False)), [Stage.RUNTIME]),
        (undone(words(4, total=4098, symbolic=True)), [Stage.RUNTIME]),
        (
            undone(along(split("tv1", 1, 6), split("tv1", 2, 4), *types("tv1", "-", "-", "-", "Vectorize"))),
            [Stage.COMPILE],
        ),
        (
            along(merge("tv1"), *ONES, split("tv1", 0, 64), split("tv1", 1, 4), *types("tv1", "-", "-", "Vectorize")),
            [],
        ),
    ],
)
def test_words_divide(document: Document, stages: list[Stage]) -> None:
    found = [v for v in breaches(document) if v.rule == DIVIDES]
    assert [v.stage for v in found][:1] == stages
    assert {v.rule for v in breaches(document)} <= {DIVIDES, ROWS, "block_has_threads_enough"}


def test_words_that_may_not_divide_are_checked_at_every_launch() -> None:
    assert kept(words(4, symbolic=True))[DIVIDES] == ("size[0][0] % (4) == 0",)
    assert kept(flat(16, follows=False, symbolic=True))[DIVIDES][-1] == "size[0][1] % (4) == 0"
    assert DIVIDES not in kept(words(4))


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ({"strides": [16, 1]}, ()),
        ({"strides": [20, 1]}, ()),
        ({"strides": [18, 1]}, (ROWS,)),
        ({"strides": [16, 1], "byte_offset": 16}, ()),
        ({"strides": [16, 1], "byte_offset": 8}, (ADDRESS,)),
    ],
)
def test_words_are_aligned_at_launch(runtime: dict[str, Any], expected: tuple[str, ...]) -> None:
    load = [split("tv1", 1, 4), *types("tv1", "-", "-", "Vectorize")]
    document = along(*load, contiguity=[False, True], **runtime)
    found = breaches(document)
    assert tuple(v.rule for v in found) == expected
    assert all(v.stage is Stage.RUNTIME for v in found)
    guards = kept(document)
    assert guards[ADDRESS] == ("ptr[0] % 16 == 0",)
    assert guards[ROWS] == ("stride[0][0] * 32 % 128 == 0",)


@pytest.mark.parametrize(("rows", "expected"), [(20, ()), (18, (ROWS,))])
def test_rows_are_aligned_however_the_allocation_was_made(rows: int, expected: tuple[str, ...]) -> None:
    """An allocation whose axes are the logical ones, cut into themselves and extent one and merged again."""
    made = [split("tv0", 1, 1), merge("tv0", 1), order("tv0", "loop", contiguity=[False, True])]
    load = [split("tv1", 1, 4), *types("tv1", "-", "-", "Vectorize")]
    assert rules(along(*made, *load, strides=[rows, 1])) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({}, ()),
        ({"strides": [16, 1], "byte_offset": 32}, ()),
        ({"byte_offset": 8}, (ADDRESS,)),
        ({"strides": [20, 1]}, ()),
        ({"strides": [18, 1]}, (ROWS,)),
    ],
)
def test_a_launch_may_say_where_an_output_lies(bound: dict[str, Any], expected: tuple[str, ...]) -> None:
    document = along(split("tv2", 1, 4), *types("tv2", "-", "-", "Vectorize"))
    document["tensors"]["tv2"]["contiguity"] = [False, True]
    found = breaches(document | {"runtime_inputs": {"tv2": bound}})
    assert tuple(v.rule for v in found) == expected
    assert all(v.stage is Stage.RUNTIME for v in found)


def test_outputs_are_aligned_too() -> None:
    document = along(split("tv2", 1, 4), *types("tv2", "-", "-", "Vectorize"))
    assert kept(document)[ADDRESS] == ("ptr[1] % 16 == 0",)
    assert rules(document) == ()
    assert schedule(document).vector_accesses[0].output == "tv2"
