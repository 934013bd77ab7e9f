"""The model's rules on parallel types: the nearest legal and the nearest illegal schedule of each."""

import pytest

from compiler.errors import Stage
from compiler.ir.iter_domain import ParallelType as P
from tests.compiler.model import (
    Document,
    Steps,
    breaches,
    copies,
    inline,
    kept,
    merge,
    op,
    rules,
    schedule,
    scheduled,
    split,
    tensor,
    types,
)

ONCE = "block_and_thread_dimensions_are_used_once"
AGREE = "axes_of_one_loop_agree"
WHOLE = "loops_run_as_the_axis_of_one_tensor"
BLOCKS = "values_for_other_blocks_lie_in_global_memory"
THREADS = "values_for_other_threads_lie_in_memory_they_share"
ONE_THREAD = "values_held_by_one_thread_are_not_read_by_many"
BLOCK = "block_has_threads_enough"
GRID = "grid_has_blocks_enough"


def through(memory: str, written: Steps, read: Steps) -> Document:
    """tv0 -> tv1 in `memory` -> tv2."""
    return scheduled(copies((8, 16), f"g {memory} g"), written, read)


ROWS = [
    ("blocks over rows", through("l", types("tv1", "BIDx", "TIDx"), types("tv2", "BIDx", "TIDx")), ()),
    ("another axis", through("s", types("tv1", "-", "TIDx"), types("tv2", "TIDx")), ()),
    ("another axis, in registers", through("l", types("tv1", "-", "TIDx"), types("tv2", "TIDx")), (THREADS,)),
    ("written by threads, read by one", through("l", types("tv1", "TIDx"), []), (THREADS,)),
    ("written by one, read by threads", through("l", [], types("tv2", "TIDx")), ()),
    ("another thread dimension", through("l", types("tv1", "TIDx"), types("tv2", "TIDy")), (THREADS,)),
    ("another block", through("s", types("tv1", "BIDx"), types("tv2", "-", "BIDx")), (BLOCKS,)),
    ("another block, through global memory", through("g", types("tv1", "BIDx"), types("tv2", "-", "BIDx")), ()),
    ("the block says it all", through("l", types("tv1", "BIDx", "TIDx"), types("tv2", "TIDx", "BIDx")), (BLOCKS,)),
    ("another split", through("l", [split("tv1", 1, 4), *types("tv1", "-", "TIDx")],
                              [split("tv2", 1, 8), *types("tv2", "-", "TIDx")]), (THREADS,)),
    ("the other piece of a split", through("l", [split("tv1", 1, 4), *types("tv1", "-", "-", "TIDx")],
                                           [split("tv2", 1, 4), *types("tv2", "-", "TIDx")]), (THREADS,)),
    ("a split by one changes nothing", through("l", [split("tv1", 1, 1), *types("tv1", "-", "TIDx")],
                                               types("tv2", "-", "TIDx")), ()),
    ("one block each", through("s", [split("tv1", 1, 16), *types("tv1", "-", "BIDx", "TIDx")],
                               [split("tv2", 1, 16), *types("tv2", "-", "BIDx", "TIDx")]), ()),
    ("one block of two", through("s", [split("tv1", 1, 16), *types("tv1", "-", "BIDx", "TIDx")],
                                 [split("tv2", 1, 8), *types("tv2", "-", "BIDx", "TIDx")]), (BLOCKS,)),
    ("two types of one loop", scheduled(through("s", types("tv1", "TIDx"), types("tv2", "TIDy")), inline("tv1", 1)),
     (AGREE,)),
    ("one type of one loop", scheduled(through("l", types("tv1", "TIDx"), []), inline("tv1", 1)), ()),
    ("the consumer's type of one loop", scheduled(through("l", [], types("tv2", "TIDx")), inline("tv1", 1)), ()),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_who_reads_what(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def test_a_dimension_is_used_once() -> None:
    once = scheduled(copies((8, 16), "g g"), types("tv1", "TIDx", "TIDy"))
    assert rules(once) == ()
    twice = tuple(breaches(once, tv1={"types": (P.TIDX, P.TIDX)}))
    assert {v.rule for v in twice} == {ONCE}


def expanded_twice(*steps: Document | Steps) -> Document:
    """tv0 [4] -> tv1 [1, 1, 4], expanded along one axis in tv2 [5, 1, 4] and along the other in tv3 [1, 6, 4]."""
    names = {
        "tv0": tensor((4,), "global"),
        "x": tensor((5, 1, 4), "global"),
        "y": tensor((1, 6, 4), "global"),
        "tv1": tensor((1, 1, 4), broadcast_axes=[0, 1]),
        "tv2": tensor((5, 1, 4), "global"),
        "tv3": tensor((1, 6, 4), "global"),
    }
    ops = [op("broadcast", "tv1", "tv0", broadcast_flags=[True, True, False])]
    ops += [op("add", "tv2", "tv1", "x"), op("add", "tv3", "tv1", "y")]
    document = {"name": "e", "tensors": names, "ops": ops, "inputs": ["tv0", "x", "y"], "outputs": ["tv2", "tv3"]}
    return scheduled(document | {"schedule": []}, *steps)


ALL_THREE = [merge(tv) for tv in ("tv1", "tv2", "tv3") for _ in range(2)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (expanded_twice(), ()),
        (expanded_twice(inline("tv1", 3)), ()),
        (expanded_twice(ALL_THREE), ()),
        (expanded_twice(ALL_THREE, inline("tv1", 1)), (WHOLE,)),
        (expanded_twice([merge(tv, 1) for tv in ("tv1", "tv2", "tv3")], inline("tv1", 2)), ()),
        (expanded_twice([merge(tv) for tv in ("tv1", "tv2", "tv3")], inline("tv1", 2)), (WHOLE,)),
    ],
)
def test_a_loop_has_one_tensors_axes(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def read_twice(first: str, *steps: Document | Steps) -> Document:
    """tv1 [8, 1] is expanded in tv2 [8, 16] and copied as it is to tv3, by way of global memory to tv4; `first` is
    the one of the two that is computed first. Their axes are merged and are the blocks."""
    names = {"tv0": tensor((8,), "global"), "x": tensor((8, 16), "global"), "tv2": tensor((8, 16), "global")}
    names |= {
        tv: tensor((8, 1), "local" if tv == "tv1" else "global", broadcast_axes=[1]) for tv in ("tv1", "tv3", "tv4")
    }
    made = {"tv2": op("add", "tv2", "tv1", "x"), "tv3": op("set", "tv3", "tv1")}
    second = "tv3" if first == "tv2" else "tv2"
    ops = [op("broadcast", "tv1", "tv0", broadcast_flags=[False, True]), made[first], made[second]]
    ops.append(op("set", "tv4", "tv3"))
    document = {"name": "r", "tensors": names, "ops": ops, "inputs": ["tv0", "x"], "outputs": ["tv2", "tv4"]}
    blocks = [[merge(tv), *types(tv, "BIDx")] for tv in ("tv1", "tv2", "tv3", "tv4")]
    return scheduled(document | {"schedule": []}, *blocks, *steps)


@pytest.mark.parametrize("first", ["tv2", "tv3"])
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # All run as the loop of tv2, so that each block reads what it wrote.
        ([inline("tv1", 1), inline("tv3", 1)], ()),
        ([inline("tv1", 1)], ()),
        ([inline("tv3", 1)], (BLOCKS,)),
    ],
)
def test_all_of_one_loop_run_as_its_widest_axis(first: str, steps: Steps, expected: tuple[str, ...]) -> None:
    assert rules(read_twice(first, steps)) == expected


def test_loops_that_were_made_otherwise_are_those_that_do_the_same() -> None:
    """Behind a new broadcast axis of the consumer, so that the two are not in the same place."""
    cut = [split("tv1", 0, 4), split("tv1", 0, 1), *types("tv1", "TIDx")]
    other = [split("tv2", 1, 2), split("tv2", 1, 2), split("tv3", 1, 2), split("tv3", 1, 2)]
    names = {"tv0": tensor((8,), "global"), "tv1": tensor((8,)), "tv2": tensor((1, 8), broadcast_axes=[0])}
    names |= {"x": tensor((3, 8), "global"), "tv3": tensor((3, 8), "global")}
    ops = [op("set", "tv1", "tv0"), op("broadcast", "tv2", "tv1", broadcast_flags=[True, False])]
    ops.append(op("add", "tv3", "tv2", "x"))
    fusion = {"name": "o", "tensors": names, "ops": ops, "inputs": ["tv0", "x"], "outputs": ["tv3"], "schedule": []}
    document = scheduled(fusion, cut, other, inline("tv1", 1))
    shared = schedule(document).loops.shared()
    assert {frozenset(members) for members in shared.values()} == {frozenset({("tv1", 0), ("tv2", 1)})}


def broadcast(*steps: Document | Steps, expand: bool = True) -> Document:
    """tv0 [8] -> tv1 -> tv2 [8, 1] -> tv3, which is [8, 16] where tv2 is expanded."""
    wide = (8, 16) if expand else (8, 1)
    names = {
        "tv0": tensor((8,), "global"),
        "tv1": tensor((8,)),
        "tv2": tensor((8, 1), broadcast_axes=[1]),
        "tv3": tensor(wide, "global"),
        "x": tensor(wide, "global"),
    }
    ops = [op("set", "tv1", "tv0"), op("broadcast", "tv2", "tv1", broadcast_flags=[False, True])]
    ops.append(op("add", "tv3", "tv2", "x"))
    document = {"name": "b", "tensors": names, "ops": ops, "inputs": ["tv0", "x"], "outputs": ["tv3"], "schedule": []}
    return scheduled(document, *steps)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (broadcast(types("tv1", "TIDy"), types("tv2", "TIDy", "TIDx"), types("tv3", "TIDy", "TIDx")), ()),
        (broadcast(types("tv2", "-", "TIDx"), types("tv3", "-", "TIDx")), ()),
        # Merged with the broadcast axis, the same index is another element.
        (broadcast(*[s for tv in ("tv2", "tv3") for s in (merge(tv), *types(tv, "TIDx"))]), (THREADS,)),
        # Unless the axis runs as the consumer's, since its other piece is a loop of the consumer.
        (
            broadcast(
                *[s for tv in ("tv2", "tv3") for s in (merge(tv), split(tv, 0, 4), *types(tv, "-", "TIDx"))],
                inline("tv2", 1),
            ),
            (),
        ),
        (
            broadcast(*[s for tv in ("tv2", "tv3") for s in (merge(tv), split(tv, 0, 4), *types(tv, "-", "TIDx"))]),
            (THREADS,),
        ),
        # What feeds it runs over another axis then.
        (
            broadcast(
                split("tv1", 0, 4),
                types("tv1", "-", "TIDx"),
                *[s for tv in ("tv2", "tv3") for s in (merge(tv), split(tv, 0, 4), *types(tv, "-", "TIDx"))],
                inline("tv2", 1),
            ),
            (THREADS,),
        ),
    ],
)
def test_broadcast_axes_need_nothing_by_themselves(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def sums(*steps: Document | Steps, held: str = "local") -> Document:
    """tv0 [8, 16] -> tv1 -> its row sums tv2 [8] -> tv3 [8, 1] -> tv4 [8, 16], times tv0."""
    names = {
        "tv0": tensor((8, 16), "global"),
        "tv1": tensor((8, 16)),
        "tv2": tensor((8, 16), held, reduction_axes=[1]),
        "tv3": tensor((8, 1), broadcast_axes=[1]),
        "tv4": tensor((8, 16), "global"),
        "tv5": tensor((8,), "global"),
    }
    ops = [
        op("set", "tv1", "tv0"),
        op("sum", "tv2", "tv1", axes=[1]),
        op("broadcast", "tv3", "tv2", broadcast_flags=[False, True]),
        op("mul", "tv4", "tv3", "tv0"),
        op("set", "tv5", "tv2"),
    ]
    outputs = ["tv4", "tv5"]
    document = {"name": "s", "tensors": names, "ops": ops, "inputs": ["tv0"], "outputs": outputs, "schedule": []}
    return scheduled(document, *steps)


REDUCED = [*types("tv1", "BIDx", "TIDx"), *types("tv2", "BIDx", "TIDx"), *types("tv5", "BIDx")]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (sums(REDUCED, types("tv3", "BIDx", "TIDx"), types("tv4", "BIDx", "TIDx")), ()),
        (sums(REDUCED, types("tv3", "BIDx"), types("tv4", "BIDx", "TIDx")), (ONE_THREAD,)),
        (sums(REDUCED, types("tv3", "BIDx"), types("tv4", "BIDx")), ()),
        (sums(REDUCED, types("tv3", "BIDx"), types("tv4", "BIDx", "TIDy")), ()),
    ],
)
def test_sums_across_threads_are_spread_by_a_broadcast(document: Document, expected: tuple[str, ...]) -> None:
    assert rules(document) == expected


def over(threads: tuple[int, ...], names: tuple[str, ...], symbolic: bool = False) -> Document:
    return scheduled(copies(threads, "g g", symbolic), types("tv1", *names))


XYZ = ("TIDz", "TIDy", "TIDx")


@pytest.mark.parametrize(
    ("shape", "names", "expected"),
    [
        ((1024,), ("TIDx",), ()),
        ((1025,), ("TIDx",), (BLOCK,)),
        ((64, 2, 8), XYZ, ()),
        ((65, 2, 2), XYZ, (BLOCK,)),
        ((4, 16, 16), XYZ, ()),
        ((4, 16, 17), XYZ, (BLOCK,)),
        ((65535,), ("BIDy",), ()),
        ((65536,), ("BIDy",), (GRID,)),
        ((2**31 - 1,), ("BIDx",), ()),
        ((2**31,), ("BIDx",), (GRID,)),
    ],
)
def test_limits_of_the_launch(shape: tuple[int, ...], names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert rules(over(shape, names)) == expected
    found = breaches(over(shape, names, symbolic=True))
    assert tuple(dict.fromkeys(v.rule for v in found)) == expected
    assert all(v.stage is Stage.RUNTIME for v in found)


def test_unknown_blocks_are_checked_at_every_launch() -> None:
    found = kept(over((8, 4), ("TIDy", "TIDx"), symbolic=True))
    assert found[BLOCK] == (
        "size[0][1] <= 1024",
        "size[0][0] <= 1024",
        "(size[0][1]) * (size[0][0]) * (1) + 0 <= 1024",
    )
